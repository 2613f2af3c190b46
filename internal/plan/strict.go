package plan

import (
	"strings"

	"github.com/barnabas-webhooks/barnabas/schemas"
)

// Line is what strict order costs. Durations are in seconds.
type Line struct {
	// PerSecond is how many deliveries an endpoint takes at most, and TurnSeconds what one of them takes: the receiver's
	// time, and the settling of the one before.
	PerSecond   float64 `json:"per_second"`
	TurnSeconds float64 `json:"turn_seconds"`
	// A head that fails holds all behind it: after its nth failure for HoldSeconds[n-1] on average and HoldMaxSeconds[n-1]
	// at most, also when the endpoint is well again in the meantime; one that dies has held them for HeldSeconds on average.
	HoldSeconds    []float64 `json:"hold_seconds"`
	HoldMaxSeconds []float64 `json:"hold_max_seconds"`
	HeldSeconds    float64   `json:"held_seconds"`
	// Rewrites is how often one of those behind it is written to a tier meanwhile, at most: once when it comes, and once for
	// each failure.
	Rewrites int `json:"rewrites"`
	// Backlog is what gathers behind the busiest endpoint's head until it dies, and DrainSeconds how long that
	// takes to be worked off beside what else comes; 0: it never is.
	Backlog      int     `json:"backlog"`
	DrainSeconds float64 `json:"drain_seconds"`
}

func lineOf(in Input, s Schedule) *Line {
	if in.Order != schemas.OrderStrict {
		return nil
	}
	l := &Line{PerSecond: in.bears(), TurnSeconds: in.turn().Seconds(), HeldSeconds: min(s.MeanSeconds, s.LifetimeSeconds), Rewrites: s.Attempts}
	for _, r := range s.Retries {
		l.HoldSeconds, l.HoldMaxSeconds = append(l.HoldSeconds, r.MeanSeconds), append(l.HoldMaxSeconds, r.MaxSeconds)
	}
	rate := in.Rate * in.busiest()
	l.Backlog = int(rate * l.HeldSeconds)
	if l.PerSecond > rate {
		l.DrainSeconds = float64(l.Backlog) / (l.PerSecond - rate)
	}
	return l
}

func (p Plan) strict(b *strings.Builder) {
	l := p.Line
	if l == nil {
		return
	}
	b.WriteString("\n## Strict order\n\n")
	prose(b, "Nothing is attempted before what came before it has ended, delivered or dead, and that is settled. So an endpoint takes "+
		"%s at most, one each %s (latency + processor.beat), whatever its concurrency could be.", rate(l.PerSecond), span(l.TurnSeconds))
	b.WriteString("\n")
	prose(b, "**A head that fails holds all behind it** until its next attempt, also when the endpoint is well again before that:")
	b.WriteString("\n")
	t := table{{"failure of the head", "holds the line for, mean", "at most"}}
	for i := range l.HoldSeconds {
		t = append(t, []string{ordinal(i + 1), span(l.HoldSeconds[i]), span(l.HoldMaxSeconds[i])})
	}
	t.write(b)
	drained := "and the endpoint gets more than it bears: it never catches up"
	if l.DrainSeconds > 0 {
		drained = "and is worked off within " + span(l.DrainSeconds) + " (backlog / (what it bears - what comes))"
	}
	b.WriteString("\n")
	prose(b, "* One that dies has held its line for %s on average: %s have gathered behind the busiest endpoint's by then (rate * busiest * "+
		"that), %s.", span(l.HeldSeconds), counted(l.Backlog, "delivery"), drained)
	prose(b, "* The lifetime of those behind it goes on meanwhile: what is older than %s when its turn comes dies without an attempt. Where "+
		"that is too long, give the endpoint shorter `retry_caps`: the head dies sooner, visibly, and the line goes on.", span(p.Contract.LifetimeSeconds))
	prose(b, "* Those behind it spend no attempts, and are written to a tier %d times at most while one head fails (once, and once for each "+
		"failure), and a few times more while the line is worked off.", l.Rewrites)
	prose(b, "* Only the head is attempted, so the bounds on requests hold as they stand; a breaker opens by the head's failures alone.")
	prose(b, "* A dead letter that is replayed comes out of order: the line has gone on.")
}
