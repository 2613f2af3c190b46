// Package plan works out, from the configuration alone, what an installation will do
// when receivers fail: the retry schedule as the policy really draws it, and the bound on
// requests to a failing endpoint. It is the core of `barnabas plan`.
//
// # The bound
//
// An endpoint does nothing but fail, and deliveries without end wait for it. Its breaker
// opens when T failures in a row have come in, and until then at most L are in flight; so
//
//	before it opens    T + L - 1 requests: T whose answers opened it, and L - 1 beside the last of them
//	while it is open   none
//	each opening       one probe at its end, whose failure opens it again
//
// Opening k lasts at least m(k) = min(OpenFor * 2^(k-1), OpenMax) * (1 - Jitter). The probes of
// any window W are therefore at most the largest n with m(1) + ... + m(n) <= W, and
//
//	requests(W) <= T + L - 1 + probes(W)
//
// for every window, wherever it begins: one that begins later sees longer openings. Once the
// doubling has ended it sees probes only, one each m(max). T is ConsecutiveAny where the failures are of any
// kind, ConsecutiveHard where they are all hard ones. How many deliveries wait does not enter.
//
// # Holds
//
// A delivery that meets an open breaker is held beyond the end of that opening, so it is written
// once per opening at most: probes(W) + 1 times in a window.
package plan

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/barnabas-webhooks/barnabas/processor/breaker"
	"github.com/barnabas-webhooks/barnabas/retry"
)

// Input is the part of the configuration that the plan follows from.
type Input struct {
	Policy  retry.Policy
	Breaker breaker.Config
	// MaxInFlight is how many requests one endpoint may have in flight; 1 for an ordered one. At least 1.
	MaxInFlight int
	// AttemptTimeout is the longest that one attempt may take. Zero: not checked against the breaker.
	AttemptTimeout time.Duration
	// Endpoints adds the bound for so many failing endpoints together. Zero: left out.
	Endpoints int
	// Seed and Ladders drive the drawn schedule: Ladders deliveries that never succeed. Zero Ladders: 10,000.
	Seed    uint64
	Ladders int
}

// Plan is what follows. Durations are in seconds.
type Plan struct {
	Schedule Schedule  `json:"schedule"`
	Openings []Opening `json:"openings"`
	Bound    Bound     `json:"bound"`
}

// Schedule is the course of a delivery that never succeeds.
type Schedule struct {
	Attempts             int     `json:"attempts"`
	Retries              []Retry `json:"retries"`
	MeanSeconds          float64 `json:"mean_seconds"`
	MaxSeconds           float64 `json:"max_seconds"`
	LifetimeSeconds      float64 `json:"lifetime_seconds"`
	MaxRetryAfterSeconds float64 `json:"max_retry_after_seconds"`
	// What came of drawing it: Ladders deliveries, the mean of their lengths, and the share
	// that ended by the lifetime.
	Ladders          int     `json:"ladders"`
	DrawnMeanSeconds float64 `json:"drawn_mean_seconds"`
	DrawnMaxSeconds  float64 `json:"drawn_max_seconds"`
	ExpiredShare     float64 `json:"expired_share"`
}

// Retry is one retry: its wait is uniform in (0, MaxSeconds].
type Retry struct {
	Number            int     `json:"number"`
	MeanSeconds       float64 `json:"mean_seconds"`
	MaxSeconds        float64 `json:"max_seconds"`
	CumulativeMean    float64 `json:"cumulative_mean_seconds"`
	CumulativeMax     float64 `json:"cumulative_max_seconds"`
	LongestTier       float64 `json:"longest_tier_seconds"` // where the longest wait goes; shorter ones into shorter tiers
	DrawnMinSeconds   float64 `json:"drawn_min_seconds"`
	DrawnMeanSeconds  float64 `json:"drawn_mean_seconds"`
	DrawnMaxSeconds   float64 `json:"drawn_max_seconds"`
	DrawnReachedShare float64 `json:"drawn_reached_share"` // of all deliveries, those that made this retry
}

// Opening is how long the breaker stays open the nth time in a row.
type Opening struct {
	Number      int     `json:"number"`
	MinSeconds  float64 `json:"min_seconds"`
	MeanSeconds float64 `json:"mean_seconds"`
	MaxSeconds  float64 `json:"max_seconds"`
}

// Bound is the bound on requests to a failing endpoint.
type Bound struct {
	ThresholdHard int      `json:"threshold_hard"`
	ThresholdAny  int      `json:"threshold_any"`
	MaxInFlight   int      `json:"max_in_flight"`
	Endpoints     int      `json:"endpoints,omitempty"`
	Windows       []Window `json:"windows"`
}

// Window is the bound over one length of time, wherever it begins.
type Window struct {
	Name         string `json:"name"`
	Seconds      int    `json:"seconds"`
	Probes       int    `json:"probes"`
	RequestsHard int    `json:"requests_hard"` // all failures are connection errors, timeouts, 429, 5xx
	RequestsAny  int    `json:"requests_any"`
	LongDown     int    `json:"requests_long_down"` // once the openings have reached their longest
	Rewrites     int    `json:"rewrites"`           // of one held delivery
	// AllEndpoints is RequestsAny for all of Input.Endpoints together.
	AllEndpoints int `json:"requests_all_endpoints,omitempty"`
}

// ErrInvalid is wrapped when the input contradicts itself.
var ErrInvalid = errors.New("cannot plan")

const defaultLadders = 10_000

// Make works the plan out. The error names everything in the input that does not hold.
func Make(in Input) (Plan, error) {
	errs := []error{in.Policy.Validate(), in.Breaker.Validate()}
	bad := func(format string, args ...any) {
		errs = append(errs, fmt.Errorf("%w: "+format, append([]any{ErrInvalid}, args...)...))
	}
	if in.MaxInFlight < 1 {
		bad("max_in_flight: %d is less than 1", in.MaxInFlight)
	}
	if in.Endpoints < 0 || in.Ladders < 0 {
		bad("endpoints: %d and ladders: %d must not be negative", in.Endpoints, in.Ladders)
	}
	if p := in.Breaker.ProbeTimeout; p > 0 && p <= in.AttemptTimeout {
		bad("probe_timeout: %s is not longer than an attempt may take, %s: a second probe could start beside the first",
			p, in.AttemptTimeout)
	}
	if err := errors.Join(errs...); err != nil {
		return Plan{}, err
	}
	return Plan{Schedule: schedule(in), Openings: openings(in.Breaker), Bound: bound(in)}, nil
}

func schedule(in Input) Schedule {
	p := in.Policy
	s := Schedule{
		Attempts:             p.MaxAttempts(),
		MeanSeconds:          p.TotalMean().Seconds(),
		MaxSeconds:           p.TotalMax().Seconds(),
		LifetimeSeconds:      p.Lifetime.Seconds(),
		MaxRetryAfterSeconds: p.MaxRetryAfter.Seconds(),
		Ladders:              in.Ladders,
	}
	if s.Ladders == 0 {
		s.Ladders = defaultLadders
	}
	var mean, most float64
	for i, limit := range p.Caps {
		mean, most = mean+limit.Seconds()/2, most+limit.Seconds()
		s.Retries = append(s.Retries, Retry{
			Number: i + 1, MeanSeconds: limit.Seconds() / 2, MaxSeconds: limit.Seconds(),
			CumulativeMean: mean, CumulativeMax: most,
			LongestTier: p.Tiers[p.TierFor(limit)].Seconds(),
		})
	}
	s.draw(p, rand.New(rand.NewPCG(in.Seed, 0))) //nolint:gosec // a repeatable draw, no secret
	return s
}

// draw lets deliveries fail until they are dead, and notes what the policy decided.
func (s *Schedule) draw(p retry.Policy, rnd *rand.Rand) {
	start := time.Unix(0, 0).UTC()
	failed := retry.Outcome{Class: retry.Connect}
	counts := make([]int, len(s.Retries))
	for range s.Ladders {
		now := start
		for attempts := 1; ; attempts++ {
			d := p.Decide(now, retry.Spent{Attempts: attempts, RunStartedAt: start}, failed, nil, nil, rnd.Float64())
			if d.Kind != retry.Retry {
				if d.Reason == retry.ReasonExpired {
					s.ExpiredShare += 1 / float64(s.Ladders)
				}
				break
			}
			wait, r := d.Due.Sub(now).Seconds(), &s.Retries[attempts-1]
			if counts[attempts-1] == 0 || wait < r.DrawnMinSeconds {
				r.DrawnMinSeconds = wait
			}
			r.DrawnMaxSeconds = max(r.DrawnMaxSeconds, wait)
			r.DrawnMeanSeconds += wait // the sum, for now
			counts[attempts-1]++
			now = d.Due
		}
		s.DrawnMeanSeconds += now.Sub(start).Seconds() / float64(s.Ladders)
		s.DrawnMaxSeconds = max(s.DrawnMaxSeconds, now.Sub(start).Seconds())
	}
	for i, n := range counts {
		s.Retries[i].DrawnReachedShare = float64(n) / float64(s.Ladders)
		if n > 0 {
			s.Retries[i].DrawnMeanSeconds /= float64(n)
		}
	}
}

// openings lists the openings until they no longer grow.
func openings(cfg breaker.Config) []Opening {
	var all []Opening
	for k := 1; ; k++ {
		mean := cfg.OpenTime(k, 0.5)
		all = append(all, Opening{
			Number: k, MinSeconds: cfg.OpenTime(k, 0).Seconds(), MeanSeconds: mean.Seconds(), MaxSeconds: cfg.OpenTime(k, 1).Seconds(),
		})
		if cfg.OpenTime(k+1, 0.5) == mean {
			return all
		}
	}
}

func bound(in Input) Bound {
	b := Bound{
		ThresholdHard: in.Breaker.ConsecutiveHard, ThresholdAny: in.Breaker.ConsecutiveAny,
		MaxInFlight: in.MaxInFlight, Endpoints: in.Endpoints,
	}
	for _, w := range []struct {
		name   string
		length time.Duration
	}{{"minute", time.Minute}, {"hour", time.Hour}, {"day", 24 * time.Hour}} {
		probes := Probes(in.Breaker, w.length)
		row := Window{
			Name: w.name, Seconds: int(w.length / time.Second), Probes: probes,
			RequestsHard: Requests(in.Breaker.ConsecutiveHard, in.MaxInFlight, probes),
			RequestsAny:  Requests(in.Breaker.ConsecutiveAny, in.MaxInFlight, probes),
			LongDown:     int(w.length/shortest(in.Breaker, longestOpening(in.Breaker))) + 1,
			Rewrites:     probes + 1,
		}
		row.AllEndpoints = row.RequestsAny * in.Endpoints
		b.Windows = append(b.Windows, row)
	}
	return b
}

// Requests is the bound of the package documentation.
func Requests(threshold, inFlight, probes int) int { return threshold + inFlight - 1 + probes }

// Probes is how many probes at most fall into a window that begins as the breaker opens for the first time.
func Probes(cfg breaker.Config, window time.Duration) int {
	last := longestOpening(cfg)
	n, left := 0, window
	for k := 1; k < last; k++ {
		m := shortest(cfg, k)
		if m > left {
			return n
		}
		n, left = n+1, left-m
	}
	return n + int(left/shortest(cfg, last))
}

// longestOpening is the number of the first opening that is as long as all that follow.
func longestOpening(cfg breaker.Config) int {
	k := 1
	for cfg.OpenTime(k+1, 0) > cfg.OpenTime(k, 0) {
		k++
	}
	return k
}

// shortest is m(k): the shortest that opening k can be.
func shortest(cfg breaker.Config, k int) time.Duration { return cfg.OpenTime(k, 0) }
