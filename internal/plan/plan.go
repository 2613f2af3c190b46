// Package plan works out, from the configuration and the user's volume alone, what an
// installation will do and need: the retry schedule as the policy really draws it, the bound on
// requests to failing endpoints, one and all of them, and the partitions, slots, memory,
// descriptors and disk that the volume asks for, with a verdict. It is the core of `barnabas plan`.
//
// Nothing in it is measured at run time, and nothing is guessed: numbers come from the
// configuration of the packages that do the work, from their own functions (retry, breaker,
// unit.Cost, the codecs of schemas), and from the constants of measured.go, each of which a test
// measures anew.
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
// N such endpoints get at most N times as much, and what the caps of P processes let through in W:
//
//	limits.rate        P * (rate * W + burst), where it is set
//	limits.in_flight   P * slots * (1 + W / timeouts.headers), where the receivers take requests and never answer
//
// # Holds
//
// A delivery that meets an open breaker is held beyond the end of that opening, so it is written
// once per opening at most. A window touches the more openings the more of them it sees whole; one that begins just before
// the end of the first sees it, n more with m(2) + ... + m(1+n) < W, and the one after. Two things add to that. A probe that
// hangs keeps the lane waiting, which spills what is older than lanes.max_age: see [Window.RewritesHung];
// likewise one that has to wait for a slot, [Window.RewritesShort]. And a tier's look-ahead that is full sends what is due last round again with its remaining
// wait, at most once per cap of the next smaller tier: see [Window.RewritesFull].
package plan

import (
	"errors"
	"fmt"
	"time"

	"github.com/barnabas-webhooks/barnabas/dlq"
	"github.com/barnabas-webhooks/barnabas/processor/breaker"
)

// Input is everything that the plan follows from.
type Input struct {
	Installation
	Volume
	// Seed and Ladders drive what is drawn: Ladders deliveries that never succeed. Zero Ladders: 10,000.
	Seed    uint64
	Ladders int
}

// Plan is what follows. Durations are in seconds, sizes in bytes, rates per second.
type Plan struct {
	Verdict  Verdict   `json:"verdict"`
	Volume   Volume    `json:"volume"`
	Contract Contract  `json:"contract"`
	Schedule Schedule  `json:"schedule"`
	Openings []Opening `json:"openings"`
	Bound    Bound     `json:"bound"`
	Outage   Outage    `json:"outage"`
	Load     Load      `json:"load"`
	Lane     Lane      `json:"lane"`
	Line     *Line     `json:"line,omitempty"` // where the endpoints are strict
	Memory   Memory    `json:"memory"`
	Disk     Disk      `json:"disk"`
	API      API       `json:"api"`
	// ReplayRate is the rate at which replays are offered, per second.
	ReplayRate int `json:"replay_rate"`
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
	// Rewrites is how often one held delivery is written at most, RewritesHung likewise where probes hang until they are
	// given up, RewritesFull where the look-ahead of its tiers is full, and RewritesShort where the lane has to wait for
	// slots or for limits.rate besides. The lane has room: what finds it full comes back when that should be worked off.
	Rewrites      int `json:"rewrites"`
	RewritesHung  int `json:"rewrites_hung"`
	RewritesFull  int `json:"rewrites_full"`
	RewritesShort int `json:"rewrites_short"`
}

// ErrInvalid is wrapped when the input contradicts itself.
var ErrInvalid = errors.New("cannot plan")

const defaultLadders = 10_000

// MaxLadders is how many deliveries may be drawn: a second's work.
const MaxLadders = 1_000_000

// Make works the plan out. The error names everything in the input that does not hold;
// what cannot be carried is no error but a verdict.
func Make(in Input) (Plan, error) {
	errs := []error{in.validate(), in.Validate()}
	if in.Ladders < 0 || in.Ladders > MaxLadders {
		errs = append(errs, fmt.Errorf("%w: ladders: %d is outside 0 to %d", ErrInvalid, in.Ladders, MaxLadders))
	}
	if in.Latency >= in.Deliver.Timeout && in.Deliver.Timeout > 0 {
		errs = append(errs, fmt.Errorf("%w: latency: %s is not shorter than timeouts.total of %s: every attempt would be given up",
			ErrInvalid, in.Latency, in.Deliver.Timeout))
	}
	if err := errors.Join(errs...); err != nil {
		return Plan{}, err
	}
	p := Plan{
		Volume: in.Volume, Contract: contract(in), Schedule: schedule(in), Openings: openings(in.Breaker), Bound: bound(in),
		API: in.API, ReplayRate: dlq.DefaultRate,
	}
	p.Load = load(in)
	p.Lane = laneOf(in)
	p.Line = lineOf(in, p.Schedule)
	p.Outage = outage(in, p.Bound, p.Load)
	p.Memory = memory(in, p.Load)
	p.Disk = disk(in, p.Outage)
	p.Verdict = judge(in, p)
	return p, nil
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
		MaxInFlight: in.width(), Endpoints: in.Endpoints,
	}
	for _, w := range windows() {
		probes := Probes(in.Breaker, w.length)
		row := Window{
			Name: w.name, Seconds: int(w.length / time.Second), Probes: probes,
			RequestsHard: Requests(in.Breaker.ConsecutiveHard, b.MaxInFlight, probes),
			RequestsAny:  Requests(in.Breaker.ConsecutiveAny, b.MaxInFlight, probes),
			LongDown:     int(w.length/shortest(in.Breaker, longestOpening(in.Breaker))) + 1,
			Rewrites:     rewrites(in.Breaker, w.length),
		}
		row.RewritesShort = row.Rewrites + int(w.length/in.Unit.LaneAge) + 1
		row.RewritesHung = rewritesHung(in, row)
		row.RewritesFull = rewritesFull(in, w.length, row.Rewrites)
		b.Windows = append(b.Windows, row)
	}
	return b
}

// window is a length of time with its name.
type window struct {
	name   string
	length time.Duration
}

// windows are the lengths of time that bounds are stated for.
func windows() []window {
	return []window{{"minute", time.Minute}, {"hour", time.Hour}, {"day", 24 * time.Hour}}
}

// Requests is the bound of the package documentation.
func Requests(threshold, inFlight, probes int) int { return threshold + inFlight - 1 + probes }

// Probes is how many probes at most fall into a window that begins as the breaker opens for the first time.
func Probes(cfg breaker.Config, window time.Duration) int { return openingsWithin(cfg, 1, window) }

// openingsWithin is how many openings, of those from number first on, fit into a window one after the other.
func openingsWithin(cfg breaker.Config, first int, window time.Duration) int {
	last := longestOpening(cfg)
	n, left := 0, window
	for k := first; k < last; k++ {
		m := shortest(cfg, k)
		if m > left {
			return n
		}
		n, left = n+1, left-m
	}
	return n + int(left/shortest(cfg, last))
}

// rewrites is how many openings a window touches at most: one that begins at the start of the first, or one that begins
// just before the end of the first and so sees two that it does not see whole.
func rewrites(cfg breaker.Config, window time.Duration) int {
	return max(Probes(cfg, window)+1, openingsWithin(cfg, 2, window-1)+2)
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
