package unit

import (
	"bytes"
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/barnabas-webhooks/barnabas/dlq"
	"github.com/barnabas-webhooks/barnabas/internal/obs"
	"github.com/barnabas-webhooks/barnabas/processor/lane"
	"github.com/barnabas-webhooks/barnabas/processor/metrics"
	"github.com/barnabas-webhooks/barnabas/retry"
	"github.com/barnabas-webhooks/barnabas/schemas"
	"github.com/barnabas-webhooks/barnabas/topics"
)

// item is one source record that is not settled yet.
type item struct {
	stream   *stream
	offset   int64
	cost     int64             // charged to the memory budget
	delivery *schemas.Delivery // nil while it is only a record
	class    lane.Class
	letter   *schemas.DeadLetter // what it ended as; nil: not dead
	claiming bool                // its claim is not durable yet: it must not be settled
	own      bool                // its payload lies by itself in memory, and not in a fetch
	written  []byte              // the delivery as it will be written to a tier; delivery then has no payload
	place    place               // in its endpoint's line
	trimmed  atomic.Bool         // a dead letter was written instead, by the settler's goroutine
}

// keep takes the payload of a delivery that may stay for a while out of the fetch that it came in: while any of it is
// referred to, a fetch of megabytes stays in memory whole, and the memory budget knows of one record.
func (it *item) keep() {
	if !it.own {
		it.own, it.delivery.Payload = true, bytes.Clone(it.delivery.Payload)
	}
}

// recordOverhead is what a record costs in memory beside its bytes: the record,
// the item, the delivery, and their places in queues.
const recordOverhead = 600

// Cost is what a record is charged to the memory budget. Its payload counts
// twice: as it came or waits, and as it goes out, to a receiver or to a tier.
func Cost(r *kgo.Record) int64 {
	return recordOverhead + int64(len(r.Key)) + 2*int64(len(r.Value))
}

// take receives records, in log order, and reads them unless intake stands still.
func (u *Unit) take(s *stream, log Log, records []*kgo.Record) {
	for _, r := range records {
		u.held += Cost(r)
	}
	u.follow(s, log, records)
	s.unread = append(s.unread, records...)
	now := time.Now()
	s.rouse(now)
	if u.phase == running {
		u.read(s, now)
	}
}

// readOn goes on with what was left unread.
func (u *Unit) readOn(now time.Time) {
	for _, s := range u.streams {
		u.read(s, now)
	}
}

// read opens records in their tracker and sends each on its way, until a lane
// presses on the stream.
func (u *Unit) read(s *stream, now time.Time) {
	n := 0
	for ; n < len(s.unread) && s.pressed == nil && u.phase == running; n++ {
		r := s.unread[n]
		if r == s.anew && !s.startOver() || s.tracker.Full() || !s.tracker.Fits(r.Offset) {
			break
		}
		s.unread[n] = nil
		cost := Cost(r)
		if !s.tracker.Open(r.Offset) { // completed before a crash
			u.release(cost)
			continue
		}
		it := &item{stream: s, offset: r.Offset, cost: cost, own: r.Offset < s.keptTo}
		if d, ok := s.damaged[r]; ok {
			delete(s.damaged, r)
			s.tracker.Advance(d.last + 1) // there is nothing else in it
			u.buryRaw(it, r, d.reason, now)
			continue
		}
		switch s.kind {
		case events:
			u.takeEvent(it, r, now)
		case tier:
			u.takeWaiting(it, r, now)
		case replay:
			u.takeReplayed(it, r, now)
		}
	}
	if s.unread = s.unread[n:]; len(s.unread) == 0 {
		s.unread = nil
		if s.readOut() {
			s.seenAll = now
		}
	}
	s.keepUnread()
}

// release gives bytes back to the memory budget.
func (u *Unit) release(cost int64) {
	u.held -= cost
	u.Memory.Release(cost)
}

// takeEvent reads an event, gets the arbiter's verdict, and sends it to its lane.
func (u *Unit) takeEvent(it *item, r *kgo.Record, now time.Time) {
	event, err := schemas.ReadEvent(r.Key, r.Value, headersOf(r))
	if err != nil {
		u.Metrics.Events.WithLabelValues(metrics.Undecodable).Inc()
		u.buryRaw(it, r, err, now)
		return
	}
	d := deliveryOf(&event, r)
	it.delivery, it.class = d, lane.Live
	if p := topics.Partition(d.EndpointID, u.Catalogue.Partitions); p != u.owner.Unit {
		u.reroute(it, r, &event, p, now)
		return
	}
	if event.IdempotencyKey == "" {
		u.Metrics.Events.WithLabelValues(metrics.Unkeyed).Inc()
		u.lineUpAtEnd(it, r, now)
		u.join(it, now)
		return
	}
	u.judge(it, r, &event, now)
}

// takeWaiting reads a delivery of a tier and keeps it until it is due.
func (u *Unit) takeWaiting(it *item, r *kgo.Record, now time.Time) {
	s := it.stream
	s.quiet = r.Timestamp.Add(s.atLeast)
	it.place = placeOf(r)
	d, err := schemas.DecodeDelivery(r.Value)
	if err != nil {
		u.buryRaw(it, r, err, now)
		return
	}
	// A due time beyond what any policy draws is not ours; it must not wait for ever.
	if latest := r.Timestamp.Add(max(u.Policy.MaxRetryAfter, u.Policy.Lifetime)); d.DueAt.After(latest) {
		d.DueAt = latest
	}
	it.delivery, it.class = &d, classOf(&d)
	if !d.DueAt.After(now) {
		u.Metrics.LateSeconds.Observe(now.Sub(d.DueAt).Seconds())
		u.join(it, now)
		return
	}
	if s.atLeast == 0 && u.Policy.TierFor(d.DueAt.Sub(now)) > 0 {
		// Not one of ours, or of other tiers than there are now. The first tier stands still for what waits in it, and so
		// for nothing that waits longer than its cap.
		u.goRound(it, now)
		return
	}
	it.keep() // it may wait for hours
	s.waiting.add(it)
	// What overflows a higher tier goes round again with its remaining wait, by
	// the same rule, at most once per cap of the next smaller tier. The first
	// tier has no smaller one: it stands still instead, for at most its own cap.
	if s.atLeast > 0 && (s.waiting.len() >= u.WaitingRecords || u.Memory.HalfFull()) {
		u.overflow(s, now)
	}
}

// overflow sends the half of a tier's look-ahead that is due last round again.
func (u *Unit) overflow(s *stream, now time.Time) {
	s.overflowed, s.overflowedAt = true, now
	for _, late := range s.waiting.latest() {
		u.goRound(late, now)
	}
}

// goRound writes a delivery anew to the tier for what is left of its wait.
func (u *Unit) goRound(it *item, now time.Time) {
	u.postpone(it, retry.Decision{Kind: retry.Hold, Due: it.delivery.DueAt, Reason: metrics.HoldOverflow}, now)
}

// classOf is what a delivery is that comes from a tier: a retry if an attempt of this
// run has failed, else what was only held, be it of a replay or not.
func classOf(d *schemas.Delivery) lane.Class {
	switch {
	case d.Attempts > 0:
		return lane.Retry
	case d.Replays > 0:
		return lane.Replay
	}
	return lane.Held
}

// takeReplayed reads a dead letter that an operator re-fed.
func (u *Unit) takeReplayed(it *item, r *kgo.Record, now time.Time) {
	d, err := schemas.DecodeDelivery(r.Value)
	if err != nil {
		u.buryRaw(it, r, err, now)
		return
	}
	it.delivery, it.class = &d, lane.Replay
	u.join(it, now)
}

// deliveryOf makes the delivery that an event asks for.
func deliveryOf(e *schemas.Event, r *kgo.Record) *schemas.Delivery {
	at := schemas.Coordinates{Topic: r.Topic, Partition: r.Partition, Offset: r.Offset}
	d := &schemas.Delivery{
		ID: e.DeliveryID, EndpointID: e.EndpointID, EventType: e.EventType, ContentType: e.ContentType,
		IdempotencyKey: e.IdempotencyKey, Payload: e.Payload, AcceptedAt: e.AcceptedAt,
		Origin: e.Origin, TraceParent: e.TraceParent, TraceState: e.TraceState,
	}
	if d.ID == "" {
		d.ID = schemas.DeriveDeliveryID(at, r.Timestamp.UnixMilli())
	}
	// It was accepted when it was written, here or, before a re-route, elsewhere. A producer's clock, or its idea of
	// milliseconds, is not ours: an acceptance of two days ago would end the lifetime before the first attempt.
	if d.Origin == (schemas.Coordinates{}) {
		d.Origin, d.AcceptedAt = at, r.Timestamp
	}
	if d.AcceptedAt.IsZero() || d.AcceptedAt.After(r.Timestamp) {
		d.AcceptedAt = r.Timestamp
	}
	d.RunStartedAt = d.AcceptedAt
	return d
}

// reroute settles a record whose key belongs to another partition by writing it
// there, with the identity that it has here.
func (u *Unit) reroute(it *item, r *kgo.Record, e *schemas.Event, partition int32, now time.Time) {
	d := it.delivery
	e.DeliveryID, e.Origin, e.AcceptedAt = d.ID, d.Origin, d.AcceptedAt
	value, err := schemas.EncodeEvent(e)
	if err != nil { // it was decoded a moment ago
		u.buryRaw(it, r, err, now)
		return
	}
	u.Metrics.Rerouted.Inc()
	u.outcome(it, &kgo.Record{
		Topic: it.stream.topic, Partition: partition, Key: []byte(e.EndpointID), Value: value,
		Headers: []kgo.RecordHeader{{Key: topics.HeaderDeliveryID, Value: []byte(d.ID)}},
	})
}

// buryRaw gives up on a record that cannot be read, with its bytes.
func (u *Unit) buryRaw(it *item, r *kgo.Record, reason error, now time.Time) {
	at := schemas.Coordinates{Topic: r.Topic, Partition: r.Partition, Offset: r.Offset}
	letter := dlq.FromRaw(string(r.Key), r.Key, r.Value, headersOf(r), schemas.ReasonUndecodable, reason.Error(), at, now)
	u.Log.Error("record cannot be read", obs.KeyTopic, r.Topic, obs.KeyPartition, r.Partition, obs.KeyOffset, r.Offset, obs.KeyError, reason)
	u.buryLetter(it, letter)
}

func headersOf(r *kgo.Record) []schemas.Header {
	if len(r.Headers) == 0 {
		return nil
	}
	hs := make([]schemas.Header, len(r.Headers))
	for i, h := range r.Headers {
		hs[i] = schemas.Header{Key: h.Key, Value: h.Value}
	}
	return hs
}
