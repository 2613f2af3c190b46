package dlq

import (
	"cmp"
	"slices"
	"time"

	"github.com/barnabas-webhooks/barnabas/schemas"
)

// inOriginalOrder sorts letters of one partition into the order in which their
// events were accepted: jittered retries make deliveries die in another order
// than they came, and a receiver that wants order wants the first one.
//
// The order of events is that of their log: within one origin partition the
// offset decides. Letters of several origins (events that a foreign partitioner
// had put elsewhere were re-routed, and keep their first coordinates) are merged
// by the time of acceptance, each origin's own order kept; ties go to the one
// that died first.
func inOriginalOrder(letters []*Letter) {
	type origin struct {
		topic     string
		partition int32
	}
	groups := map[origin][]*Letter{}
	var keys []origin
	for _, l := range letters {
		o := l.Delivery.Origin
		k := origin{o.Topic, o.Partition}
		if _, ok := groups[k]; !ok {
			keys = append(keys, k)
		}
		groups[k] = append(groups[k], l)
	}
	for k, g := range groups {
		if k.topic == "" {
			continue // no origin known: as they died
		}
		slices.SortStableFunc(g, func(a, b *Letter) int {
			return cmp.Compare(a.Delivery.Origin.Offset, b.Delivery.Origin.Offset)
		})
	}
	for i := range letters {
		var best *Letter
		var from origin
		for _, k := range keys {
			if g := groups[k]; len(g) > 0 && (best == nil || before(g[0], best)) {
				best, from = g[0], k
			}
		}
		letters[i] = best
		groups[from] = groups[from][1:]
	}
}

func before(a, b *Letter) bool {
	return cmp.Or(
		a.Delivery.AcceptedAt.Compare(b.Delivery.AcceptedAt),
		cmp.Compare(a.At.Offset, b.At.Offset),
	) < 0
}

// revived is the delivery of a dead letter as it goes to the replay topic: the
// same id and history, a fresh budget, one replay more.
//
// Attempt numbers start again at 1 with each run, so (delivery id, endpoint,
// replay number, attempt number) names one attempt for ever.
func revived(d schemas.Delivery, now time.Time) schemas.Delivery {
	d.Attempts = 0
	d.Holds = 0
	d.Replays = schemas.OneMore(d.Replays)
	d.RunStartedAt = now
	d.DueAt = time.Time{}
	return d
}
