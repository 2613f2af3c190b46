package sim_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/http"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/barnabas-webhooks/barnabas/dlq"
	"github.com/barnabas-webhooks/barnabas/internal/app"
	"github.com/barnabas-webhooks/barnabas/internal/config"
	"github.com/barnabas-webhooks/barnabas/internal/plan"
	"github.com/barnabas-webhooks/barnabas/internal/testkit/peak"
	"github.com/barnabas-webhooks/barnabas/processor/metrics"
	"github.com/barnabas-webhooks/barnabas/schemas"
)

// Outage is a time in which every endpoint does nothing but fail: what `barnabas plan` bounds. Half of the endpoints are
// ordered, half parallel.
type Outage struct {
	Endpoints int
	// Events come at Rate per second and endpoint for Full, and then one for each endpoint every Later (0: none),
	// until Length is over. Full and Later are how days are scaled down: 200 events/s for a day are 17 million, and all
	// would be written four times an hour. What counts is that something waits for each endpoint all the time.
	Rate   float64
	Full   time.Duration
	Later  time.Duration
	Length time.Duration
	// Failure is how they fail.
	Failure   mode
	Configure func(*config.Config)
}

// outageRun is an outage under way.
type outageRun struct {
	*World
	o        Outage
	ledger   *Ledger
	subs     []*Sub
	events   int
	from, to time.Time
	process  *Process
	spills   int // holds for want of room or turn in a lane
}

// unavailable is the mode of a receiver that is up and does not work.
func unavailable() mode {
	return mode{name: "answers 503", fail: hard, do: func(*rand.Rand, *Post) (int, time.Duration) { return http.StatusServiceUnavailable, 0 }}
}

// hanging is the mode of one that takes connections and never answers.
func hanging() mode {
	return mode{name: "hangs", fail: hard, do: func(*rand.Rand, *Post) (int, time.Duration) { return http.StatusNoContent, Never }}
}

// recovered is the mode of one that works again, and takes its time: long where several may be in flight.
func recovered(width int) mode {
	took := 50 * time.Millisecond
	if width > 1 {
		took = 3 * time.Second
	}
	return mode{name: "answers 204", do: func(*rand.Rand, *Post) (int, time.Duration) { return http.StatusNoContent, took }}
}

// Play lets everything fail for the length of the outage.
func (o Outage) Play(t *testing.T) *outageRun {
	t.Helper()
	r := &outageRun{o: o, ledger: &Ledger{}}
	r.World = NewWorldOf(t, Setting{Brokers: 1, FetchWait: 30 * time.Second, Configure: func(c *config.Config) {
		c.Processor.Beat = 5 * time.Second // the longest there may be: a day has few of them, and due times are exact all the same
		c.Processor.SessionTimeout, c.Processor.HeartbeatInterval = 45*time.Second, 15*time.Second
		if o.Configure != nil {
			o.Configure(c)
		}
	}})
	r.process = r.Start()
	for i := range o.Endpoints {
		s := &Sub{id: fmt.Sprintf("ep%d", i), width: 1, receiver: r.Receiver(Answers(http.StatusNoContent))}
		s.spec = fmt.Sprintf(`{"url":%q}`, s.receiver.URL)
		if i%2 == 1 {
			s.width = r.cfg.Limits.EndpointInFlight
			s.spec = fmt.Sprintf(`{"url":%q,"order":"parallel"}`, s.receiver.URL)
		}
		s.behave(o.Failure, 0)
		r.subs = append(r.subs, s)
		r.PutEndpoint(s.id, s.spec)
	}
	r.from = time.Now()
	for began := r.from; time.Since(began) < o.Full; {
		r.everybody(time.Duration(float64(time.Second) / o.Rate))
	}
	for o.Later > 0 && time.Since(r.from)+o.Later <= o.Length {
		r.everybody(o.Later)
	}
	time.Sleep(o.Length - time.Since(r.from))
	r.to = time.Now()
	return r
}

// everybody sends each endpoint one event within a length of time, one after the other.
func (r *outageRun) everybody(length time.Duration) {
	r.t.Helper()
	for _, s := range r.subs {
		r.events++
		record := r.plain(s.id, "", fmt.Sprintf(`{"n":%d}`, r.events))
		sent := r.ledger.Sends(&Sent{At: r.now(), Endpoint: s.id, Payload: string(record.Value)})
		r.client.Produce(context.WithoutCancel(r.ctx), record, func(rec *kgo.Record, err error) {
			r.ledger.Answered(func() {
				if sent.Acked = err == nil; sent.Acked {
					sent.Where = schemas.Coordinates{Topic: rec.Topic, Partition: rec.Partition, Offset: rec.Offset}
				}
			})
		})
		time.Sleep(length / time.Duration(len(r.subs)))
	}
}

// document is what `barnabas plan` prints for so many endpoints of an order: the volume is that of its defaults, since it
// does not enter.
func (r *outageRun) document(order schemas.Order, endpoints int) plan.Plan {
	r.t.Helper()
	in := plan.Input{Installation: app.Installation(&r.cfg), Volume: plan.DefaultVolume(), Seed: 1}
	in.Order, in.Endpoints, in.Processes = order, endpoints, 1
	p, err := plan.Make(in)
	require.NoError(r.t, err)
	return p
}

// requireBounded holds the requests of each endpoint, and of all together, to what the document says.
func (r *outageRun) requireBounded() {
	r.t.Helper()
	var all []time.Time
	plans := map[bool]plan.Plan{
		false: r.document(schemas.OrderOrdered, (len(r.subs)+1)/2), true: r.document(schemas.OrderParallel, len(r.subs)/2),
	}
	least, most := 1<<30, 0
	for _, s := range r.subs {
		var at []time.Time
		for _, p := range s.receiver.Posts() {
			if p.Arrived.Before(r.to) {
				at = append(at, p.Arrived)
			}
		}
		for _, w := range plans[s.width > 1].Bound.Windows {
			require.LessOrEqual(r.t, peak.Within(at, time.Duration(w.Seconds)*time.Second), w.RequestsHard, "%s, in a %s", s.id, w.Name)
		}
		least, most = min(least, len(at)), max(most, len(at))
		all = append(all, at...)
	}
	slices.SortFunc(all, time.Time.Compare)
	for i, w := range plans[false].Outage.Windows {
		window := time.Duration(w.Seconds) * time.Second
		n, bound := peak.Within(all, window), w.ByBreakersHard+plans[true].Outage.Windows[i].ByBreakersHard
		require.LessOrEqual(r.t, n, bound, "all endpoints, in a %s", w.Name)
		if window <= r.o.Length {
			r.t.Logf("%d endpoints, %d events: %d requests in the worst %s, the plan says at most %d", len(r.subs), r.events, n, w.Name, bound)
		}
	}
	r.t.Logf("%d requests in %s, between %d and %d to each", len(all), r.o.Length, least, most)
}

// holds are the times at which each delivery was written to a tier without an attempt.
func (r *outageRun) holds() (of map[string][]time.Time, overflows int) {
	r.t.Helper()
	of = map[string][]time.Time{}
	for _, topic := range r.Catalogue().TierTopics() {
		for _, rec := range r.Topic(topic) {
			id, reason := "", ""
			for _, h := range rec.Headers {
				switch h.Key {
				case "delivery-id":
					id = string(h.Value)
				case "reason":
					reason = string(h.Value)
				}
			}
			switch reason {
			case metrics.HoldOverflow:
				overflows++
			case metrics.HoldLaneAge, metrics.HoldLaneFull:
				r.spills++
			case metrics.HoldBreaker:
			default:
				continue // an attempt
			}
			of[id] = append(of[id], rec.Timestamp)
		}
	}
	for _, times := range of {
		slices.SortFunc(times, time.Time.Compare)
	}
	return of, overflows
}

// requireHoldsBounded holds the writes of each waiting delivery to what the document says, by a column of it.
func (r *outageRun) requireHoldsBounded(column func(plan.Window) int) (writes int) {
	r.t.Helper()
	p := r.document(schemas.OrderParallel, len(r.subs))
	of, overflows := r.holds()
	if overflows > 0 {
		column = func(w plan.Window) int { return w.RewritesFull }
	}
	worst := map[string]int{}
	for id, times := range of {
		writes += len(times)
		for _, w := range p.Bound.Windows {
			// They carry the time at which they were settled, up to a beat after they were decided.
			n := peak.Within(times, time.Duration(w.Seconds)*time.Second-r.cfg.Processor.Beat)
			worst[w.Name] = max(worst[w.Name], n)
			require.LessOrEqual(r.t, n, column(w), "%s was written so often within a %s", id, w.Name)
		}
	}
	r.t.Logf("%d deliveries were held %d times, %d for want of look-ahead; one of them %v times", len(of), writes, overflows, worst)
	return writes
}

// recover lets every receiver work again, waits until nothing waits, replays what died, and holds the whole to the
// invariants.
func (r *outageRun) recover() {
	r.t.Helper()
	for _, s := range r.subs {
		s.behave(recovered(s.width), 0)
	}
	r.rest()
	letters := r.DeadLetters()
	for _, l := range letters {
		require.True(r.t, l.Delivery.History.TotalAttempts == app.Policy(&r.cfg).MaxAttempts() || l.Reason == schemas.ReasonExpired, "%s died of %s", l.Delivery.ID, l.Reason)
	}
	if len(letters) > 0 {
		q := dlq.New(r.Catalogue(), r.kafka(r.outside, r.log("operator"))...)
		res, err := q.Replay(r.ctx, dlq.ReplayOptions{Filter: dlq.Filter{All: true}, Rate: 1000, Endpoints: everybody{}, Operator: "sim"})
		require.NoError(r.t, err)
		require.Equal(r.t, len(letters), res.Replayed, "replayed")
		r.rest()
	}
	require.NoError(r.t, r.process.Stop())
	time.Sleep(2 * r.cfg.Processor.TransactionTimeout)
	require.Empty(r.t, r.Verdict(r.ledger, r.subs))
	got := map[string]bool{}
	for _, s := range r.subs {
		for _, p := range s.receiver.Posts() {
			if p.Answer == http.StatusNoContent && !p.Unheard {
				require.False(r.t, got[p.Body], "%s was delivered twice", p.Body)
				got[p.Body] = true
			}
		}
	}
	for _, sent := range r.ledger.sent {
		if !got[sent.Payload] {
			require.Failf(r.t, "not delivered", "%d of %d were delivered, %d had died; %s of %s was not", len(got), r.events, len(letters), sent.Payload, sent.Endpoint)
		}
	}
	r.t.Logf("%d delivered within %s of the recovery, %d of them died first and were replayed", len(got), time.Since(r.to).Round(time.Minute), len(letters))
}

// rest waits until everything is settled.
func (r *outageRun) rest() {
	r.t.Helper()
	for began := time.Now(); ; {
		time.Sleep(20 * time.Minute)
		if r.TakeReading().Unsettled() == 0 {
			return
		}
		require.Less(r.t, time.Since(began), r.cfg.Retry.Lifetime+time.Hour, "something is stuck")
	}
}

// requireRamp holds each recovered endpoint to its slow start: one request at a time, and one more with each success. It
// counts the requests that had company.
func (r *outageRun) requireRamp() (beside int) {
	r.t.Helper()
	for _, s := range r.subs {
		posts := s.receiver.Posts()
		var ended []time.Time // of the successes
		for _, p := range posts {
			if p.Answer == http.StatusNoContent && !p.Unheard {
				ended = append(ended, p.Ended)
			}
		}
		slices.SortFunc(ended, time.Time.Compare)
		for _, p := range posts {
			if p.Answer != http.StatusNoContent || p.Unheard {
				continue
			}
			successes, _ := slices.BinarySearchFunc(ended, p.Arrived, func(e, at time.Time) int {
				if e.After(at) {
					return 1
				}
				return -1
			})
			ramp := min(s.width, max(1, successes))
			require.LessOrEqual(r.t, p.Beside+1, ramp, "%s has seen %d successes", s.id, successes)
			if p.Beside > 0 {
				beside++
			}
		}
	}
	return beside
}

// DESIGN invariants 1, 7 and 8, C-085, C-087: an hour in which everything fails, at the rate per endpoint that 200 events a
// second to 1,000 endpoints make, and ten times that for its first quarter. Scaled down is the number of endpoints: each has
// a lane and a breaker of its own. The bound is the same for both, and both come close to it.
func TestOutage_AnHourIsBoundedWhateverWaits(t *testing.T) {
	t.Parallel()
	requests := map[float64]float64{} // to an ordered endpoint, by rate
	beside := 0
	for _, o := range []Outage{{Endpoints: 4, Rate: 0.2, Full: time.Hour}, {Endpoints: 2, Rate: 2, Full: 15 * time.Minute}} {
		o.Length, o.Failure = time.Hour, unavailable()
		synctest.Test(t, func(t *testing.T) {
			r := o.Play(t)
			r.requireBounded()
			writes := r.requireHoldsBounded(func(w plan.Window) int { return w.Rewrites })
			if o.Full == o.Length { // then what waits is there for half an hour on average
				drawn := r.document(schemas.OrderOrdered, o.Endpoints).Outage.HoldsFirstHour
				require.InEpsilon(t, drawn, float64(writes)/(float64(r.events)/2), 0.15, "writes of one waiting delivery in an hour, drawn and counted")
			}
			requests[o.Rate] = float64(len(r.subs[0].receiver.Posts()))
			r.recover()
			beside += r.requireRamp()
		})
	}
	require.Positive(t, beside, "no endpoint ever got two requests at a time: the ramp was not tried")
	require.InDelta(t, requests[0.2], requests[2], 2, "ten times as many events, and not more requests")
	require.Greater(t, requests[0.2], 11.0, "the bound of 13 is no number from afar")
}

// The same for a day, with 1,000 endpoints where BARNABAS_SIM_OUTAGE=1000 asks for it and 2 otherwise, 20 events for each at
// the rate of 200 a second to 1,000, and then one an hour.
func TestOutage_ADayIsBounded(t *testing.T) {
	t.Parallel()
	o := Outage{
		Endpoints: number(t, "BARNABAS_SIM_OUTAGE", 2), Rate: 0.2, Full: 100 * time.Second, Later: time.Hour, Length: 24 * time.Hour,
		Failure: unavailable(),
	}
	synctest.Test(t, func(t *testing.T) {
		r := o.Play(t)
		r.requireBounded()
		r.requireHoldsBounded(func(w plan.Window) int { return w.Rewrites })
		r.recover()
		r.requireRamp()
	})
}

// Every receiver hangs, and a cap of the process bounds what goes out before the breakers do: requests in flight, or
// requests per second.
func TestOutage_TheCapsBoundWhatHangs(t *testing.T) {
	t.Parallel()
	for name, configure := range map[string]func(*config.Config){
		"limits.in_flight": func(c *config.Config) { c.Limits.InFlight = 6 },
		"limits.rate":      func(c *config.Config) { c.Limits.Rate = 0.35 },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			const length = 10 * time.Minute
			o := Outage{Endpoints: 40, Rate: 0.05, Full: length, Length: length, Failure: hanging(), Configure: configure}
			synctest.Test(t, func(t *testing.T) {
				r := o.Play(t)
				var all []time.Time
				for _, s := range r.subs {
					for _, p := range s.receiver.Posts() {
						all = append(all, p.Arrived)
					}
				}
				slices.SortFunc(all, time.Time.Compare)
				windows := r.document(schemas.OrderParallel, o.Endpoints).Outage.Windows
				for _, w := range windows[:2] {
					n := peak.Within(all, time.Duration(w.Seconds)*time.Second)
					t.Logf("%d requests in the worst %s; the plan says %d by the rate, %d by the slots, %d at most", n, w.Name, w.ByRate, w.ByInFlight, w.RequestsHung)
					require.LessOrEqual(t, n, w.RequestsHung, w.Name)
				}
				require.Less(t, windows[0].RequestsHung, windows[0].ByBreakersHard, "the breakers alone would let more through")
				require.Greater(t, 2*peak.Within(all, time.Minute), windows[0].RequestsHung, "the bound is no number from afar")
				require.LessOrEqual(t, peak.Within(all, r.cfg.Timeouts.Headers-time.Millisecond), r.cfg.Limits.InFlight, "all that began so lately are in flight")
				r.requireHoldsBounded(func(w plan.Window) int { return w.RewritesShort })
			})
		})
	}
}

// Every receiver hangs, and there are slots enough: the bound on requests is the same, that on writes is the one for probes
// which hang, and the lanes do spill.
func TestOutage_WhatHangsIsBounded(t *testing.T) {
	t.Parallel()
	o := Outage{Endpoints: 3, Rate: 0.2, Full: 30 * time.Minute, Length: time.Hour, Failure: hanging()}
	synctest.Test(t, func(t *testing.T) {
		r := o.Play(t)
		r.requireBounded()
		r.requireHoldsBounded(func(w plan.Window) int { return w.RewritesHung })
		require.Positive(t, r.spills, "nothing waited for a probe")
		r.recover()
	})
}
