package dlq

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/barnabas-webhooks/barnabas/schemas"
	"github.com/barnabas-webhooks/barnabas/topics"
)

// Limits on what a dead letter takes over from foreign input, in bytes.
const (
	// MaxDetail bounds DeadLetter.Detail.
	MaxDetail = 1024
	// MaxName bounds an id, an event type or the like that was learnt from a raw
	// record, and every header value of a dead letter's record.
	MaxName = schemas.MaxNameBytes
)

// FromDelivery makes the dead letter of a delivery that was given up on.
// source is the record that was read when it was; now is when.
//
// The delivery is copied but for its byte slices, which the letter shares: they
// are never written to. DueAt is cleared, everything else is kept, above all
// the id, the history, the replay count and the trace context.
func FromDelivery(d *schemas.Delivery, reason, detail string, source schemas.Coordinates, now time.Time) *schemas.DeadLetter {
	kept := *d
	kept.DueAt = time.Time{}
	return &schemas.DeadLetter{
		Delivery: kept,
		Reason:   reason,
		Detail:   cut(detail, MaxDetail),
		DeadAt:   now,
		Source:   source,
	}
}

// FromRaw makes the dead letter of a record that could not be decoded or read.
// Key, value and headers are kept byte for byte. endpoint is the endpoint that
// the record was for, as far as known (in practice its key); one that is not an
// id (not UTF-8, or longer than MaxName) is left out, the raw key has it.
//
// Of the delivery only what the headers say is filled in, so that the letter
// can be found by delivery id and event type.
func FromRaw(endpoint string, key, value []byte, headers []schemas.Header, reason, detail string, source schemas.Coordinates, now time.Time) *schemas.DeadLetter {
	l := &schemas.DeadLetter{
		Delivery: schemas.Delivery{
			EndpointID:  name(endpoint),
			ID:          learn(headers, topics.HeaderDeliveryID),
			EventType:   learn(headers, topics.HeaderEventType),
			ContentType: learn(headers, topics.HeaderContentType),
			TraceParent: learn(headers, topics.HeaderTraceParent),
			TraceState:  learn(headers, topics.HeaderTraceState),
		},
		Reason:     reason,
		Detail:     cut(detail, MaxDetail),
		DeadAt:     now,
		Source:     source,
		RawKey:     key,
		Raw:        value,
		RawHeaders: headers,
	}
	if l.Raw == nil {
		l.Raw = []byte{} // a tombstone is raw too: Raw says that nothing was decoded
	}
	return l
}

// Partition is where a dead letter belongs, of n partitions: with its
// endpoint's unit, or, when the endpoint is not known, at the partition that
// its source was in. Readers that look for one endpoint look only there.
func Partition(l *schemas.DeadLetter, n int) int32 {
	if l.Delivery.EndpointID != "" {
		return topics.Partition(l.Delivery.EndpointID, n)
	}
	if n <= 0 {
		return 0
	}
	return max(l.Source.Partition, 0) % int32(n)
}

// Record is the Kafka record of a dead letter. Its key is the endpoint id, its
// timestamp the time of death, and its headers are made anew, so that a letter
// that dies again does not grow: delivery-id, reason and event-type, which
// repeat the value for people with kcat and let a scan skip what it does not
// want. The producer needs a manual partitioner; see [Partition].
func Record(topic string, partition int32, l *schemas.DeadLetter) (*kgo.Record, error) {
	value, err := schemas.EncodeDeadLetter(l)
	if err != nil {
		return nil, fmt.Errorf("encode dead letter of %s/%d/%d: %w", l.Source.Topic, l.Source.Partition, l.Source.Offset, err)
	}
	r := &kgo.Record{
		Topic:     topic,
		Partition: partition,
		Value:     value,
		Timestamp: l.DeadAt,
	}
	if l.Delivery.EndpointID != "" {
		r.Key = []byte(l.Delivery.EndpointID)
	}
	for _, h := range [...]struct{ key, value string }{
		{topics.HeaderDeliveryID, l.Delivery.ID},
		{topics.HeaderReason, l.Reason},
		{topics.HeaderEventType, l.Delivery.EventType},
	} {
		if h.value != "" && len(h.value) <= MaxName {
			r.Headers = append(r.Headers, kgo.RecordHeader{Key: h.key, Value: []byte(h.value)})
		}
	}
	return r, nil
}

// Undecodable says whether a letter keeps a raw record, which cannot be delivered.
func Undecodable(l *schemas.DeadLetter) bool {
	return l.Raw != nil || l.Reason == schemas.ReasonUndecodable
}

// Trim makes a dead letter fit: one that the broker refuses for its size must
// still end visibly, or its source could never be settled. The result encodes
// to at most maxBytes; a letter that fits is returned as it is.
//
// First goes what only explains: the response excerpt, long texts. A letter
// that fits then keeps its reason and can be replayed. If that is not enough,
// payload, raw value and raw headers are cut and the reason becomes too_large:
// such a letter says what was lost (its coordinates lead to the source while
// retention lasts), and is never replayed, because its bytes are not the ones
// that were accepted. The error is that of encoding, or that maxBytes is too
// small for the ids alone.
func Trim(l *schemas.DeadLetter, maxBytes int) (*schemas.DeadLetter, error) {
	size, err := encodedSize(l)
	if err != nil || size <= maxBytes {
		return l, err
	}
	t := *l
	t.Delivery.History.LastExcerpt = nil
	t.Delivery.History.LastError = cut(t.Delivery.History.LastError, MaxName)
	t.Detail = cut(t.Detail, MaxName)
	if size, err = encodedSize(&t); err != nil || size <= maxBytes {
		return &t, err
	}

	payload, raw := len(t.Delivery.Payload), len(t.Raw)
	t.Reason = schemas.ReasonTooLarge
	t.RawHeaders = nil
	t.RawKey = t.RawKey[:min(len(t.RawKey), MaxName)]
	for _, s := range []*string{
		&t.Delivery.EventType, &t.Delivery.ContentType, &t.Delivery.IdempotencyKey,
		&t.Delivery.TraceParent, &t.Delivery.TraceState,
	} {
		*s = cut(*s, MaxName)
	}
	t.Detail = cut(fmt.Sprintf("trimmed to %d bytes (the payload had %d, the raw value %d); given up as %s: %s", maxBytes, payload, raw, l.Reason, t.Detail), MaxDetail)
	// What is left beside the two contents decides how much of them may stay.
	bare := t
	bare.Delivery.Payload, bare.Raw = nil, nil
	rest, err := encodedSize(&bare)
	if err != nil {
		return nil, err
	}
	const lengths = 16 // the varints before the contents, which bare has as one byte each
	room := min(maxBytes-rest-lengths, schemas.MaxPayloadBytes)
	if room < 0 {
		return nil, fmt.Errorf("trim dead letter: %d bytes are too few, %d are needed without any content", maxBytes, rest+lengths)
	}
	t.Delivery.Payload = t.Delivery.Payload[:min(payload, room)]
	if t.Raw != nil {
		t.Raw = t.Raw[:min(raw, room-len(t.Delivery.Payload))]
	}
	return &t, nil
}

// encodedSize is how long a letter's value is; one that is over the limits of
// package schemas is longer than anything.
func encodedSize(l *schemas.DeadLetter) (int, error) {
	b, err := schemas.EncodeDeadLetter(l)
	if errors.Is(err, schemas.ErrTooLarge) {
		return math.MaxInt, nil
	}
	if err != nil {
		return 0, fmt.Errorf("encode dead letter: %w", err)
	}
	return len(b), nil
}

// learn reads one header of a raw record as a name; the last one of a key
// counts, as everywhere in Kafka.
func learn(headers []schemas.Header, key string) string {
	for _, h := range slices.Backward(headers) {
		if h.Key == key {
			return name(string(h.Value))
		}
	}
	return ""
}

// name takes foreign bytes for an id, or not at all.
func name(s string) string {
	if len(s) > MaxName || !utf8.ValidString(s) {
		return ""
	}
	return s
}

// cut shortens s to at most limit bytes of valid UTF-8.
func cut(s string, limit int) string {
	if len(s) > limit {
		s = s[:limit]
		for len(s) > 0 && !utf8.ValidString(s[max(0, len(s)-utf8.UTFMax):]) && len(s) > limit-utf8.UTFMax {
			s = s[:len(s)-1]
		}
	}
	return strings.ToValidUTF8(s, "\uFFFD")
}
