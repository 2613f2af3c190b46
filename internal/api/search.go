package api

import (
	"context"
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/barnabas-webhooks/barnabas/schemas"
	"github.com/barnabas-webhooks/barnabas/topics"
)

const (
	// searchSlots bounds the searches at a time; each has a Kafka client and a fetch of 1 MiB in memory.
	searchSlots = 4
	// clockSlack is how far the clocks of API nodes, processors and brokers may be apart for a search to find everything.
	clockSlack = 10 * time.Second
	// durableWithin is how long after its id was minted an event is in the log, or never will be by this node's doing.
	durableWithin = time.Minute
)

// finding is what a search came to.
type finding struct {
	status DeliveryStatus // as far as it is known; DeliveryID and EndpointID are set
	known  bool           // there is such a delivery
	// whole: nothing that was in the topics at the time of the search contradicts it. Else the bounds ended the search.
	whole bool
}

// search looks for a delivery in the topics, without an index: the id says when it was minted, the endpoint says in
// which partition it is, and an attempt says when the next one is due, before which there is none. So it jumps
//
//	minted ──▶ attempt 1, next at t1 ──▶ attempt 2, next at t2 ──▶ ... ──▶ the last one
//
// and reads of the attempts topic only what lies between due time and attempt. What has no attempt yet is looked for in
// dlq (dead without one), events (durable at all) and idempotency (its verdict). Bounded by ctx and
// Config.SearchBytes.
func (a *API) search(ctx context.Context, id, endpointID string, minted time.Time) (finding, error) {
	names := a.opts.Topics
	r, err := openReader(ctx, a.opts.Client, topics.Partition(endpointID, names.Partitions), a.opts.SearchBytes,
		names.Attempts(), names.DLQ(), names.Events(), names.Idempotency())
	if err != nil {
		return finding{}, err
	}
	defer r.cl.Close()
	f, err := a.searchFor(ctx, r, finding{status: DeliveryStatus{DeliveryID: id, EndpointID: endpointID, Status: StatusPending}}, minted)
	if err != nil && ctx.Err() != nil {
		f.whole, err = false, nil // the bound of time, in the middle of a question
	}
	return f, err
}

func (a *API) searchFor(ctx context.Context, r *topicReader, f finding, minted time.Time) (finding, error) {
	if err := a.searchAttempts(ctx, r, &f, minted.Add(-clockSlack)); err != nil || f.known && f.status.settled() {
		return f, err
	}
	all := f.whole
	if all && f.known && f.status.NextAttemptAt != nil && f.status.NextAttemptAt.After(time.Now()) {
		return f, nil // waits for its time, and can be nowhere else
	}
	if err := a.searchLetters(ctx, r, &f, minted); err != nil {
		return f, err
	}
	all = all && f.whole
	if f.whole = all; f.known {
		return f, nil
	}
	return f, a.searchEvent(ctx, r, &f, minted)
}

// settled says that nothing follows by itself. A dead one may be replayed, which the attempts that follow show.
func (s *DeliveryStatus) settled() bool {
	switch s.Status {
	case StatusDelivered, StatusDead, StatusDuplicate, StatusConflict:
		return true
	case StatusPending, StatusAccepted, StatusRetrying:
	}
	return false
}

func (a *API) searchAttempts(ctx context.Context, r *topicReader, f *finding, from time.Time) error {
	topic, next := a.opts.Topics.Attempts(), int64(0)
	for {
		at, err := r.since(ctx, topic, from)
		if err != nil {
			return err
		}
		jump := false
		next, f.whole, err = r.read(ctx, topic, max(next, at), func(rec *kgo.Record) bool {
			if deliveryOf(rec) != f.status.DeliveryID {
				return true
			}
			attempt, err := schemas.DecodeAttempt(rec.Value)
			if err != nil || attempt.DeliveryID != f.status.DeliveryID || attempt.EndpointID != f.status.EndpointID {
				return true
			}
			f.known = true
			f.status.attempted(&attempt)
			jump = f.status.NextAttemptAt != nil
			// The rest is read behind a dead one: it may have been replayed.
			return !jump && f.status.Status != StatusDelivered && f.status.OwnerDeliveryID == ""
		})
		if err != nil || !jump {
			return err
		}
		if from = f.status.NextAttemptAt.Add(-clockSlack); from.After(time.Now()) {
			return nil
		}
	}
}

// searchLetters finds a delivery that was given up on without an attempt to tell of it: held until its lifetime ended,
// or its endpoint was switched off.
func (a *API) searchLetters(ctx context.Context, r *topicReader, f *finding, minted time.Time) error {
	from, topic := minted, a.opts.Topics.DLQ()
	if f.status.LastAttemptAt != nil {
		from = *f.status.LastAttemptAt
	}
	at, err := r.since(ctx, topic, from.Add(-clockSlack))
	if err != nil {
		return err
	}
	_, f.whole, err = r.read(ctx, topic, at, func(rec *kgo.Record) bool {
		if deliveryOf(rec) != f.status.DeliveryID {
			return true
		}
		letter, err := schemas.DecodeDeadLetter(rec.Value)
		if err != nil || letter.Delivery.ID != f.status.DeliveryID || letter.Delivery.EndpointID != f.status.EndpointID {
			return true
		}
		f.known, f.status.tenant = true, letter.Delivery.Tenant
		f.status.Status, f.status.LastError, f.status.NextAttemptAt = StatusDead, letter.Detail, nil
		f.status.Attempts, f.status.Replays = letter.Delivery.Attempts, letter.Delivery.Replays
		f.status.LastClass = letter.Reason
		return true // a later letter of the same delivery is the one that counts
	})
	return err
}

// searchEvent finds whether the event is in the log, which it is soon after its id was minted or never, and then the
// verdict on it. That it never was is known also where the other topics were not read to their ends, if the log goes
// back that far.
func (a *API) searchEvent(ctx context.Context, r *topicReader, f *finding, minted time.Time) error {
	topic := a.opts.Topics.Events()
	at, err := r.since(ctx, topic, minted.Add(-clockSlack))
	if err != nil {
		return err
	}
	late := minted.Add(durableWithin + clockSlack)
	offset, when := int64(-1), time.Time{}
	_, whole, err := r.read(ctx, topic, at, func(rec *kgo.Record) bool {
		if deliveryOf(rec) == f.status.DeliveryID && string(rec.Key) == f.status.EndpointID {
			offset, when = rec.Offset, rec.Timestamp
		}
		return offset < 0 && rec.Timestamp.Before(late)
	})
	if err != nil {
		return err
	}
	if offset < 0 {
		if whole && !f.whole {
			f.whole, err = r.reachesBack(ctx, topic, at)
		}
		f.whole = f.whole && whole
		return err
	}
	f.known = true
	topic = a.opts.Topics.Idempotency()
	if at, err = r.since(ctx, topic, when.Add(-clockSlack)); err != nil {
		return err
	}
	_, whole, err = r.read(ctx, topic, at, func(rec *kgo.Record) bool {
		claim, err := schemas.DecodeClaim(rec.Value)
		if err != nil || claim.AnsweredOffset != offset || claim.EndpointID != f.status.EndpointID {
			return true
		}
		f.status.answered(Answer{Verdict: claim.Verdict, OwnerID: claim.DeliveryID})
		return false
	})
	f.whole = f.whole && whole
	return err
}

// deliveryOf is the delivery that a record's header names.
func deliveryOf(rec *kgo.Record) string {
	i := slices.IndexFunc(rec.Headers, func(h kgo.RecordHeader) bool { return h.Key == topics.HeaderDeliveryID })
	if i < 0 {
		return ""
	}
	return string(rec.Headers[i].Value)
}
