package unit

import (
	"strconv"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/barnabas-webhooks/barnabas/dlq"
	"github.com/barnabas-webhooks/barnabas/internal/obs"
	"github.com/barnabas-webhooks/barnabas/processor/deliver"
	"github.com/barnabas-webhooks/barnabas/retry"
	"github.com/barnabas-webhooks/barnabas/schemas"
	"github.com/barnabas-webhooks/barnabas/topics"
)

// postpone sends a delivery to the tier for its wait: a retry, or a hold.
func (u *Unit) postpone(it *item, decision retry.Decision, now time.Time, also ...*kgo.Record) {
	d := it.delivery
	// Records hold milliseconds: rounded up, or it would come due before its time.
	d.DueAt = decision.Due.Add(time.Millisecond - 1).Truncate(time.Millisecond)
	u.Metrics.Decisions.WithLabelValues(string(decision.Kind)).Inc()
	if decision.Kind == retry.Hold {
		u.Metrics.Holds.WithLabelValues(decision.Reason).Inc()
	}
	value, err := schemas.EncodeDelivery(d)
	if err != nil {
		u.bury(it, schemas.ReasonTooLarge, err.Error(), now, also...)
		return
	}
	it.written, d.Payload = value, nil // one copy is enough, and lets go of what the delivery came in
	headers := []kgo.RecordHeader{
		{Key: topics.HeaderDeliveryID, Value: []byte(d.ID)},
		{Key: topics.HeaderDueAt, Value: strconv.AppendInt(nil, d.DueAt.UnixMilli(), 10)},
		{Key: topics.HeaderReason, Value: []byte(reasonOf(&decision, d))},
	}
	if h, ok := it.place.header(); ok {
		headers = append(headers, h)
	}
	u.outcome(it, append(also, &kgo.Record{
		Topic: u.Catalogue.Tier(u.Policy.TierFor(d.DueAt.Sub(now))), Partition: u.owner.Unit,
		Key: []byte(d.EndpointID), Value: value, Headers: headers,
	})...)
}

func reasonOf(decision *retry.Decision, d *schemas.Delivery) string {
	if decision.Kind == retry.Hold {
		return decision.Reason
	}
	return d.History.LastClass
}

// bury gives up on a delivery.
func (u *Unit) bury(it *item, reason, detail string, now time.Time, also ...*kgo.Record) {
	at := schemas.Coordinates{Topic: it.stream.topic, Partition: u.owner.Unit, Offset: it.offset}
	u.Log.Warn("dead letter", obs.KeyDeliveryID, it.delivery.ID, obs.KeyEndpointID, it.delivery.EndpointID, obs.KeyReason, reason, obs.KeyDetail, detail)
	u.buryLetter(it, dlq.FromDelivery(it.delivery, reason, detail, at, now), also...)
}

// buryLetter writes a dead letter in place of its source.
func (u *Unit) buryLetter(it *item, letter *schemas.DeadLetter, also ...*kgo.Record) {
	it.letter = letter
	u.Metrics.Decisions.WithLabelValues(string(retry.Dead)).Inc()
	u.Metrics.DeadLetters.WithLabelValues(letter.Reason).Inc()
	record, err := u.letterRecord(letter)
	if err != nil {
		u.Log.Error("dead letter cannot be encoded, its source stays unsettled", obs.KeyReason, letter.Reason, obs.KeyError, err)
		return
	}
	u.outcome(it, append(also, record)...)
}

// letterRecord is the record of a dead letter. It goes where its endpoint's letters are looked
// for, which is another unit's partition when the source was misrouted.
func (u *Unit) letterRecord(letter *schemas.DeadLetter) (*kgo.Record, error) {
	return dlq.Record(u.Catalogue.DLQ(), dlq.Partition(letter, u.Catalogue.Partitions), letter)
}

// refuse settles an event whose key belongs to another delivery.
func (u *Unit) refuse(it *item, c *schemas.Claim, now time.Time) {
	d := it.delivery
	kind := schemas.AttemptDuplicate
	if c.Verdict == schemas.VerdictConflict {
		kind = schemas.AttemptConflict
	}
	u.Log.Info("event refused", obs.KeyVerdict, string(c.Verdict), obs.KeyEndpointID, d.EndpointID,
		obs.KeyDeliveryID, d.ID, obs.KeyOwnerDeliveryID, c.DeliveryID)
	u.outcome(it, u.attempted(&schemas.Attempt{
		Kind: kind, DeliveryID: d.ID, EndpointID: d.EndpointID, Tenant: d.Tenant, EventType: d.EventType, At: now,
		Decision: string(c.Verdict), Source: d.Origin, OwnerDeliveryID: c.DeliveryID,
	}))
}

// attemptRecord is what operators read of an attempt.
func (u *Unit) attemptRecord(it *item, res *deliver.Result, decision *retry.Decision) *kgo.Record {
	d := it.delivery
	return u.attempted(&schemas.Attempt{
		Kind: schemas.AttemptPost, DeliveryID: d.ID, EndpointID: d.EndpointID, Tenant: d.Tenant, EventType: d.EventType,
		Number: d.Attempts, Replay: d.Replays, At: res.StartedAt, Duration: res.Duration,
		Class: string(res.Class), Status: res.Status, Error: res.Error, Excerpt: res.Excerpt,
		Decision: string(decision.Kind), NextAt: decision.Due,
		Source: schemas.Coordinates{Topic: it.stream.topic, Partition: u.owner.Unit, Offset: it.offset},
	})
}

func (u *Unit) attempted(a *schemas.Attempt) *kgo.Record {
	value, err := schemas.EncodeAttempt(a)
	if err != nil {
		u.Log.Error("attempt cannot be encoded", obs.KeyDeliveryID, a.DeliveryID, obs.KeyError, err)
	}
	return &kgo.Record{
		Topic: u.Catalogue.Attempts(), Partition: u.owner.Unit, Key: []byte(a.EndpointID), Value: value,
		Headers: []kgo.RecordHeader{{Key: topics.HeaderDeliveryID, Value: []byte(a.DeliveryID)}},
	}
}

// trimBytes is what a trimmed dead letter may take. The broker that refuses a
// record does not say what it would take; this fits any sane limit.
const trimBytes = 128 << 10

// trimmed is what is written for a source whose records the broker refuses for
// good: a dead letter that fits, in place of what did not.
func (u *Unit) trimmed(it *item) []*kgo.Record {
	letter := it.letter
	if letter == nil {
		at := schemas.Coordinates{Topic: it.stream.topic, Partition: u.owner.Unit, Offset: it.offset}
		d := it.delivery
		if it.written != nil {
			whole, err := schemas.DecodeDelivery(it.written)
			if err != nil { // it was encoded a moment ago
				u.Log.Error("record cannot be read again, its source stays unsettled", obs.KeyDeliveryID, d.ID, obs.KeyError, err)
				return nil
			}
			d = &whole
		}
		letter = dlq.FromDelivery(d, schemas.ReasonTooLarge, "the broker refuses the record as too large", at, time.Now())
		u.Metrics.DeadLetters.WithLabelValues(schemas.ReasonTooLarge).Inc()
	}
	letter, err := dlq.Trim(letter, trimBytes)
	if err != nil {
		u.Log.Error("dead letter cannot be trimmed, its source stays unsettled", obs.KeyError, err)
		return nil
	}
	record, err := u.letterRecord(letter)
	if err != nil {
		u.Log.Error("trimmed dead letter cannot be encoded, its source stays unsettled", obs.KeyError, err)
		return nil
	}
	it.trimmed.Store(true)
	return []*kgo.Record{record}
}
