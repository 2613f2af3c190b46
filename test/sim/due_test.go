package sim_test

import (
	"time"

	"github.com/barnabas-webhooks/barnabas/processor/metrics"
	"github.com/barnabas-webhooks/barnabas/topics"
)

// early: while a delivery waits in a tier, nobody posts it.
func (j *Judge) early() {
	for _, a := range j.m.sorted() {
		for _, t := range a.Tiers {
			until := waitsUntil(a, t)
			for _, p := range j.byID[a.ID] {
				// Signed in whole seconds: later than the record was written only if later by a whole one.
				if p.Timestamp.After(t.Timestamp) && p.Arrived.Before(until) &&
					!j.ledger.Disturbed(p.Process, p.Arrived.Add(-j.grace()), p.Arrived.Add(time.Second)) {
					j.bad(5, "%s: attempt %d by %s came at %s, %s before it was due by %s: %s", a.Name, p.Attempt, p.Process,
						p.Arrived.Sub(j.w.start), until.Sub(p.Arrived), coordinates(t.At), j.story(a))
				}
			}
		}
	}
}

// waitsUntil is when a record of a tier may be attempted: when it is due. Who waits for his turn in a line is only told when to look
// again; when the line moves before that, he gets another time, or the dead letter that his lifetime asks for.
func waitsUntil(a *Account, t Source) time.Time {
	until := t.Delivery.DueAt
	if header(t, topics.HeaderReason) != metrics.HoldLine {
		return until
	}
	earlier := func(at time.Time) {
		if at.Before(until) {
			until = at
		}
	}
	for _, l := range a.Letters {
		if l.Source == t.At {
			earlier(l.Written)
		}
	}
	for _, next := range a.Tiers {
		if next.Timestamp.After(t.Timestamp) {
			earlier(next.Timestamp)
		}
	}
	return until
}
