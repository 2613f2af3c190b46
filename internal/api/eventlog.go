package api

import (
	"context"
	"errors"
	"fmt"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/barnabas-webhooks/barnabas/schemas"
	"github.com/barnabas-webhooks/barnabas/topics"
)

// What an append fails with. Anything else means the same as ErrNotDurable.
var (
	// ErrNotDurable: the event may be lost, or may turn up later under its key.
	ErrNotDurable = errors.New("api: the event is not known to be durable")
	// ErrBufferFull: too much is under way to Kafka already; nothing was taken.
	ErrBufferFull = errors.New("api: the buffer for Kafka is full")
	// ErrEventTooLarge: Kafka will never take it.
	ErrEventTooLarge = errors.New("api: the event is too large for the events topic")
)

// Log is where events go.
type Log interface {
	// Append returns where the event is once all in-sync replicas have it.
	Append(ctx context.Context, e *schemas.Event) (partition int32, offset int64, err error)
}

// Producer writes records. *kgo.Client is one.
type Producer interface {
	TryProduce(ctx context.Context, r *kgo.Record, promise func(*kgo.Record, error))
}

// EventLog is the events topic. Safe for concurrent use.
type EventLog struct {
	client Producer
	topic  string
}

var _ Log = (*EventLog)(nil)

// NewEventLog produces with the given client, which must ask for acks of all in-sync replicas and partition as Kafka
// does by default (both are franz-go's defaults), and bound its buffer by bytes (kgo.MaxBufferedBytes).
func NewEventLog(client Producer, topic string) *EventLog {
	return &EventLog{client: client, topic: topic}
}

// Append implements Log. It returns when ctx ends at the latest; what is under way then may still be written, under
// its idempotency key, which is why a caller may send it again and nobody else may.
func (l *EventLog) Append(ctx context.Context, e *schemas.Event) (partition int32, offset int64, err error) {
	value, err := schemas.EncodeEvent(e)
	if err != nil {
		return 0, 0, fmt.Errorf("encode event: %w", err)
	}
	rec := &kgo.Record{
		Topic: l.topic, Key: []byte(e.EndpointID), Value: value,
		// The event-type header is left out: it is what marks a plain record.
		Headers: []kgo.RecordHeader{{Key: topics.HeaderDeliveryID, Value: []byte(e.DeliveryID)}},
	}
	done := make(chan error, 1)
	l.client.TryProduce(ctx, rec, func(_ *kgo.Record, err error) { done <- err })
	select {
	case err = <-done:
	case <-ctx.Done():
		return 0, 0, fmt.Errorf("%w: %w", ErrNotDurable, context.Cause(ctx))
	}
	switch {
	case err == nil:
		return rec.Partition, rec.Offset, nil
	case errors.Is(err, kgo.ErrMaxBuffered):
		return 0, 0, ErrBufferFull
	case errors.Is(err, kerr.MessageTooLarge), errors.Is(err, kerr.RecordListTooLarge):
		return 0, 0, fmt.Errorf("%w: %w", ErrEventTooLarge, err)
	}
	return 0, 0, fmt.Errorf("%w: %w", ErrNotDurable, err)
}
