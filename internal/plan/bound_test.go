package plan_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/barnabas-webhooks/barnabas/internal/plan"
	"github.com/barnabas-webhooks/barnabas/internal/testkit/peak"
	"github.com/barnabas-webhooks/barnabas/processor"
	"github.com/barnabas-webhooks/barnabas/processor/breaker"
	"github.com/barnabas-webhooks/barnabas/processor/deliver"
	"github.com/barnabas-webhooks/barnabas/processor/egress"
	"github.com/barnabas-webhooks/barnabas/processor/settle"
	"github.com/barnabas-webhooks/barnabas/processor/unit"
	"github.com/barnabas-webhooks/barnabas/retry"
	"github.com/barnabas-webhooks/barnabas/schemas"
	"github.com/barnabas-webhooks/barnabas/topics"
)

var start = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

// receiver is an endpoint that does nothing but fail.
type receiver struct {
	class  func() retry.Class
	answer func() time.Duration
	jitter func() float64
}

type request struct {
	done    time.Time
	ticket  breaker.Ticket
	opening int // after how many openings it was started
}

// drive sends to a failing receiver as fast as its breaker lets a sender whose deliveries never run
// out, for as long as told, and returns when each request was started. The brute force that the plan is held against.
func drive(cfg breaker.Config, limit int, r receiver, length time.Duration) (started []time.Time, openings int) {
	b := breaker.New(cfg)
	var inFlight []request // by the time of the answer
	for now := start; !now.After(start.Add(length)); {
		wake := start.Add(length + 1)
		current := 0 // what was started in the state of today; late ones do not hold a probe back
		for _, q := range inFlight {
			if q.opening == openings {
				current++
			}
		}
		for current < b.Width(limit) {
			adm, ticket := b.Admit(now)
			if !adm.OK {
				if !adm.Until.IsZero() {
					wake = adm.Until
				}
				break
			}
			started = append(started, now)
			q := request{done: now.Add(r.answer()), ticket: ticket, opening: openings}
			at, _ := slices.BinarySearchFunc(inFlight, q, func(a, b request) int {
				if a.done.After(b.done) {
					return 1
				}
				return -1 // behind those of the same time
			})
			inFlight = slices.Insert(inFlight, at, q)
			current++
		}
		if len(inFlight) == 0 || inFlight[0].done.After(wake) {
			now = wake
			continue
		}
		q := inFlight[0]
		inFlight = inFlight[1:]
		now = q.done
		if tr, changed := b.Record(now, q.ticket, r.class(), r.jitter()); changed {
			if tr.To != breaker.Open {
				panic("a receiver that only fails has closed a breaker")
			}
			openings++
		}
	}
	return started, openings
}

// input is an installation of defaults with the volume of defaults.
func input() plan.Input {
	in := plan.Input{Volume: plan.DefaultVolume()}
	in.Installation = plan.Installation{
		Policy: retry.DefaultPolicy(), Breaker: breaker.DefaultConfig(), Unit: unit.DefaultConfig(), Group: processor.DefaultConfig(),
		Settle: settle.DefaultConfig(), Deliver: deliver.DefaultConfig(), Egress: egress.DefaultConfig(), Topics: topics.DefaultCatalogue(),
		API:         plan.API{MaxConcurrent: 1024, MaxBody: 1200 << 10, VerdictWait: 500 * time.Millisecond, RotationOverlap: 24 * time.Hour},
		SoftMemory:  func(records, live int64) int64 { return max(records+160<<20, live+live/4) },
		Descriptors: 3328,
	}
	return in
}

// parallel lets the endpoints of a plan have so many requests in flight.
func parallel(in plan.Input, limit int) plan.Input {
	in.Order, in.InFlight = schemas.OrderParallel, limit
	return in
}

func impatient() breaker.Config {
	cfg := breaker.DefaultConfig()
	cfg.ConsecutiveHard, cfg.ConsecutiveAny = 3, 7
	cfg.OpenFor, cfg.OpenMax, cfg.Jitter = 2*time.Second, 37*time.Second, 0.9
	return cfg
}

func steady() breaker.Config {
	cfg := breaker.DefaultConfig()
	cfg.OpenFor, cfg.OpenMax, cfg.Jitter = time.Minute, time.Minute, 0
	return cfg
}

// DESIGN invariant 8: however the receiver fails, however long it takes, whatever is drawn, in every
// window of a virtual day.
func TestBound_HoldsAtFullSpeed(t *testing.T) {
	t.Parallel()
	hard := []retry.Class{retry.DNS, retry.Connect, retry.TLS, retry.Timeout, retry.Reset, retry.HTTP5xx, retry.HTTP429}
	mixed := append([]retry.Class{retry.HTTP3xx, retry.HTTP4xx, retry.HTTP4xx, retry.HTTP4xx, retry.InvalidResponse}, hard[5:]...)
	soft := []retry.Class{retry.HTTP4xx}
	for name, cfg := range map[string]breaker.Config{"default": breaker.DefaultConfig(), "impatient": impatient(), "steady": steady()} {
		for _, limit := range []int{1, 4, 50} {
			t.Run(fmt.Sprintf("%s, %d in flight", name, limit), func(t *testing.T) {
				t.Parallel()
				in := parallel(input(), limit)
				in.Breaker, in.Ladders = cfg, 1
				p, err := plan.Make(in)
				require.NoError(t, err)
				for seed := range uint64(24) {
					rnd := rand.New(rand.NewPCG(seed, 5))
					classes := [][]retry.Class{hard, mixed, soft}[seed%3]
					slowest := []time.Duration{1, 20 * time.Millisecond, time.Second, 30 * time.Second}[seed/3%4]
					jitter := rnd.Float64
					if seed%2 == 0 {
						jitter = func() float64 { return 0 } // the worst that can be drawn, each time
					}
					started, openings := drive(cfg, limit, receiver{
						class:  func() retry.Class { return classes[rnd.IntN(len(classes))] },
						answer: func() time.Duration { return time.Duration(rnd.Int64N(int64(slowest))) },
						jitter: jitter,
					}, 24*time.Hour)
					require.Greater(t, openings, len(p.Openings), "it must have come to the longest opening")
					for _, w := range p.Bound.Windows {
						window := time.Duration(w.Seconds) * time.Second
						bound := w.RequestsAny
						if seed%3 == 0 {
							bound = w.RequestsHard
						}
						require.LessOrEqual(t, peak.Within(started, window), bound, "seed %d: a %s", seed, w.Name)
						late := started[len(started)-openings+len(p.Openings):] // the probes of the longest openings
						require.LessOrEqual(t, peak.Within(late, window), w.LongDown, "seed %d: a later %s", seed, w.Name)
					}
				}
			})
		}
	}
}

// The bound is not a guess from afar: a receiver that refuses at once reaches it.
func TestBound_IsReached(t *testing.T) {
	t.Parallel()
	for name, cfg := range map[string]breaker.Config{"default": breaker.DefaultConfig(), "impatient": impatient(), "steady": steady()} {
		for _, limit := range []int{1, 4, 50} {
			for _, class := range []retry.Class{retry.Connect, retry.HTTP4xx} {
				t.Run(fmt.Sprintf("%s, %d in flight, %s", name, limit, class), func(t *testing.T) {
					t.Parallel()
					in := parallel(input(), limit)
					in.Breaker, in.Ladders = cfg, 1
					p, err := plan.Make(in)
					require.NoError(t, err)
					started, _ := drive(cfg, limit, receiver{
						class:  func() retry.Class { return class },
						answer: func() time.Duration { return 0 },
						jitter: func() float64 { return 0 },
					}, 48*time.Hour)
					for _, w := range p.Bound.Windows {
						want := w.RequestsAny
						if class == retry.Connect {
							want = w.RequestsHard
						}
						require.Equal(t, want, peak.Within(started, time.Duration(w.Seconds)*time.Second), w.Name)
					}
				})
			}
		}
	}
}

// A delivery that waits behind a dead endpoint is written once per opening at most, with any spread of the holds.
func TestBound_RewritesOfAHeldDelivery(t *testing.T) {
	t.Parallel()
	p := retry.DefaultPolicy()
	p.Lifetime = retry.MaxLifetime
	made, err := plan.Make(input())
	require.NoError(t, err)
	var worst [3]int
	for seed := range uint64(200) {
		rnd := rand.New(rand.NewPCG(seed, 6))
		spread := time.Duration(rnd.Int64N(int64(10 * time.Minute)))
		if seed%3 == 0 {
			spread = 1 // each comes back at once
		}
		cfg := breaker.DefaultConfig()
		b := breaker.New(cfg)
		var until time.Time // the end of the opening of now
		fail := func(at time.Time) {
			_, ticket := b.Admit(at)
			if tr, changed := b.Record(at, ticket, retry.Connect, float64(seed%2)*rnd.Float64()*0.01); changed {
				until = tr.OpenUntil
			}
		}
		for range cfg.ConsecutiveHard {
			fail(start)
		}
		var written []time.Time
		// It arrives at any time: for some just before the first opening is over, so that the window sees its end only.
		arrival := start.Add(time.Duration(rnd.Int64N(int64(25 * time.Second))))
		if seed%2 == 0 {
			arrival = until.Add(-1)
		}
		for now := arrival; now.Before(start.Add(24 * time.Hour)); {
			for !until.After(now) {
				fail(until) // others probe the moment they may, so that this one meets an open breaker each time
			}
			d := p.HoldUntil(now, retry.Spent{RunStartedAt: start}, until, spread, "breaker_open", rnd.Float64())
			require.Equal(t, retry.Hold, d.Kind)
			written = append(written, now)
			now = d.Due
		}
		require.Greater(t, len(written), 40)
		for i, w := range made.Bound.Windows {
			worst[i] = max(worst[i], peak.Within(written, time.Duration(w.Seconds)*time.Second))
			require.LessOrEqual(t, peak.Within(written, time.Duration(w.Seconds)*time.Second), w.Rewrites, "seed %d: a %s", seed, w.Name)
		}
	}
	require.Equal(t, made.Bound.Windows[0].Rewrites, worst[0], "and it is reached")
	require.Equal(t, made.Bound.Windows[1].Rewrites, worst[1])
}
