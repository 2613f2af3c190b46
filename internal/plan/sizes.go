package plan

import (
	"bytes"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/barnabas-webhooks/barnabas/dlq"
	"github.com/barnabas-webhooks/barnabas/processor/unit"
	"github.com/barnabas-webhooks/barnabas/retry"
	"github.com/barnabas-webhooks/barnabas/schemas"
	"github.com/barnabas-webhooks/barnabas/topics"
)

// Sizes of records are those of samples that are encoded as the processor does it, with names of usual lengths.
const (
	sampleKey    = "order-4f8a11c2-9d3e-4a07-b1c5-0e6f7a8b9c0d" // a word and a UUID
	sampleEvent  = "order.paid"
	sampleTenant = "acme"
	sampleURL    = "https://hooks.customer.example/services/webhooks/incoming"
	sampleError  = "the receiver answered with status 503"
)

// sample makes one record of each topic, for a payload of so many bytes.
type sample struct {
	catalogue topics.Catalogue
	payload   []byte
}

func sampleTime() time.Time { return time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC) }

func (s sample) endpoint() string { return "ep_" + strings.Repeat("x", 26) }

func (s sample) origin() schemas.Coordinates {
	return schemas.Coordinates{Topic: s.catalogue.Events(), Partition: 7, Offset: 1 << 30}
}

func (s sample) id() string {
	return schemas.DeriveDeliveryID(s.origin(), sampleTime().UnixMilli())
}

func (s sample) record(topic string, value []byte, headers ...string) *kgo.Record {
	r := &kgo.Record{Topic: topic, Key: []byte(s.endpoint()), Value: value}
	for i := 0; i+1 < len(headers); i += 2 {
		r.Headers = append(r.Headers, kgo.RecordHeader{Key: headers[i], Value: []byte(headers[i+1])})
	}
	return r
}

// event is a plain record, as a service writes it.
func (s sample) event() *kgo.Record {
	return s.record(s.catalogue.Events(), s.payload,
		topics.HeaderEventType, sampleEvent, topics.HeaderContentType, "application/json", topics.HeaderIdempotencyKey, sampleKey)
}

func (s sample) delivery() schemas.Delivery {
	at := sampleTime()
	return schemas.Delivery{
		ID: s.id(), EndpointID: s.endpoint(), Tenant: sampleTenant, EventType: sampleEvent, ContentType: "application/json",
		IdempotencyKey: sampleKey, Payload: s.payload, AcceptedAt: at, Origin: s.origin(), RunStartedAt: at, DueAt: at,
		Attempts: 3, Holds: 40, History: schemas.History{
			TotalAttempts: 3, FirstAttemptAt: at, LastAttemptAt: at, LastClass: string(retry.HTTP5xx), LastStatus: 503, LastError: sampleError,
		},
	}
}

func (s sample) waiting() (*kgo.Record, error) {
	d := s.delivery()
	value, err := schemas.EncodeDelivery(&d)
	return s.record(s.catalogue.Tier(0), value, topics.HeaderDeliveryID, d.ID, topics.HeaderDueAt, "1795975883000", topics.HeaderReason, "breaker_open"), err
}

func (s sample) attempt() (*kgo.Record, error) {
	d := s.delivery()
	value, err := schemas.EncodeAttempt(&schemas.Attempt{
		Kind: schemas.AttemptPost, DeliveryID: d.ID, EndpointID: d.EndpointID, Tenant: d.Tenant, EventType: d.EventType, Number: 1,
		At: sampleTime(), Duration: time.Second, Class: string(retry.OK), Status: 200, Decision: string(retry.Delivered), Source: d.Origin,
	})
	return s.record(s.catalogue.Attempts(), value, topics.HeaderDeliveryID, d.ID), err
}

func (s sample) claim() (*kgo.Record, error) {
	value, err := schemas.EncodeClaim(&schemas.Claim{
		EndpointID: s.endpoint(), Key: sampleKey, DeliveryID: s.id(), PayloadHash: bytes.Repeat([]byte{1}, 32), ClaimedOffset: 1 << 30,
		ClaimedAt: sampleTime(), AnsweredOffset: 1 << 30, Verdict: schemas.VerdictFirst,
	})
	r := s.record(s.catalogue.Idempotency(), value)
	r.Key = append(append(r.Key, 0), sampleKey...) // and the time of the claim: see package facts
	r.Key = strconv.AppendInt(append(r.Key, 0), sampleTime().UnixMilli(), 10)
	return r, err
}

func (s sample) breaker() (*kgo.Record, error) {
	at := sampleTime()
	value, err := schemas.EncodeBreakerTransition(&schemas.BreakerTransition{
		EndpointID: s.endpoint(), State: "open", Trips: 6, OpenUntil: at, At: at, Reason: string(retry.HTTP5xx),
	})
	return s.record(s.catalogue.Breakers(), value), err
}

// line is that of an endpoint that keeps up.
func (s sample) line() (*kgo.Record, error) {
	at := sampleTime()
	value, err := schemas.EncodeLine(&schemas.Line{
		EndpointID: s.endpoint(), Epoch: at.UnixMilli(), Taken: 1 << 20, TakenOffset: 1 << 30, Done: 1 << 20, Since: at,
	})
	return s.record(s.catalogue.Lines(), value), err
}

func (s sample) letter() (*kgo.Record, error) {
	d := s.delivery()
	return dlq.Record(s.catalogue.DLQ(), 7, dlq.FromDelivery(&d, schemas.ReasonExpired, "", s.origin(), sampleTime()))
}

func (s sample) settings() (*kgo.Record, error) {
	at := sampleTime()
	value, err := schemas.EncodeEndpoint(&schemas.Endpoint{
		ID: s.endpoint(), Tenant: sampleTenant, URL: sampleURL, State: schemas.EndpointEnabled, Order: schemas.OrderOrdered, CreatedAt: at, UpdatedAt: at,
		Secrets: []schemas.SealedSecret{{ID: "sec_" + strings.Repeat("x", 26), Ciphertext: bytes.Repeat([]byte{1}, 12+32+16), CreatedAt: at}},
	})
	return s.record(s.catalogue.Endpoints(), value), err
}

// size of a record that could be made; one that cannot is a mistake of this package, which its tests would meet.
func size(r *kgo.Record, err error) int {
	if err != nil {
		panic(fmt.Sprintf("plan: a sample cannot be encoded: %v", err))
	}
	return recordBytes(r)
}

// cost is what a waiting delivery is charged to the memory budget.
func cost(s sample) int64 {
	r, err := s.waiting()
	size(r, err)
	return unit.Cost(r)
}

const (
	// batchBytes is the header of a record batch (Kafka's message format, version 2).
	batchBytes = 61
	// markerBytes is the batch with the marker that a transaction writes into each partition that it wrote to: a header,
	// and a record with a key of 4 and a value of 6 bytes.
	markerBytes = batchBytes + 17
	// deltaBytes is what the deltas of timestamp and offset in a record may take while a batch is of one beat.
	deltaBytes = 2 + 2
)

// recordBytes is a record in Kafka's message format, without compression.
func recordBytes(r *kgo.Record) int {
	n := 1 + deltaBytes + varint(len(r.Key)) + len(r.Key) + varint(len(r.Value)) + len(r.Value) + varint(len(r.Headers))
	for _, h := range r.Headers {
		n += varint(len(h.Key)) + len(h.Key) + varint(len(h.Value)) + len(h.Value)
	}
	return n + varint(n)
}

// varint is how many bytes a length takes, zigzag-encoded.
func varint(n int) int {
	size := 1
	for n = 2 * n; n >= 0x80; n >>= 7 {
		size++
	}
	return size
}
