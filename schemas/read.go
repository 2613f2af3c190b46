package schemas

import (
	"context"
	"errors"
	"fmt"
	"strings"
)

// Reader reads the records of the events topic. The zero value reads all forms
// but Confluent's, for which it needs Schemas. A Reader may be used by many
// goroutines and must not be copied after its first use.
type Reader struct {
	// Schemas finds a schema by its id in a registry; nil: there is none, and
	// records in Confluent's framing are undecodable.
	Schemas SchemaResolver

	known knownSchemas
}

// ReadEvent is [Reader.ReadEvent] of a Reader without a schema registry.
func ReadEvent(key, value []byte, headers []Header) (Event, error) {
	var r Reader
	return r.ReadEvent(context.Background(), key, value, headers)
}

// ReadEvent reads any record of the events topic. The first rule that fits
// says which form it is:
//
//   - A header event-type: a plain record. The value is the payload, the key the
//     endpoint id; content-type (default application/json), idempotency-key, traceparent
//     and tracestate are optional headers.
//   - A header ce_type or ce_specversion: a CloudEvent 1.0 in Kafka's binary content mode. The value is
//     the payload, the key the endpoint id, ce_type the event type, content-type as above. The
//     idempotency key is ce_source + "#" + ce_id, which CloudEvents declares to be unique, unless an
//     idempotency-key header gives another. Trace context comes from traceparent
//     and tracestate, else from ce_traceparent and ce_tracestate.
//   - A value that begins with C3 01: an Event in Avro single-object encoding. A key, where
//     there is one, must equal its endpoint_id.
//   - A value that begins with 00: an Event in Confluent's framing.
//
// Header names are in lower case. A header that is read must stand once and must not be empty; others
// are ignored. Trace context that is broken or repeated is left out and costs the
// event nothing. The limits are those of the constants of this package.
//
// The result has a content type, and Payload points into value. The error is a
// *[DecodeError], which will be the same however often the record is read; or
// else the registry could not be asked, and the record may be read again later.
func (r *Reader) ReadEvent(ctx context.Context, key, value []byte, headers []Header) (Event, error) {
	event, err := r.read(ctx, key, value, headers)
	if err != nil {
		return Event{}, err
	}
	if event.ContentType == "" {
		event.ContentType = defaultContentType
	}
	return event, nil
}

func (r *Reader) read(ctx context.Context, key, value []byte, headers []Header) (Event, error) {
	plain, cloud := has(headers, headerEventType), has(headers, headerCEType) || has(headers, headerCESpecVersion)
	switch {
	case plain && cloud:
		return Event{}, undecodable(errors.New("has both an event-type and ce_ headers: a plain record or a CloudEvent?"))
	case plain:
		return readPlain(key, value, headers)
	case cloud:
		return readCloudEvent(key, value, headers)
	}
	if len(value) > 0 && value[0] == confluentMagic {
		return r.readConfluent(ctx, key, value)
	}
	if _, ok := singleObject(value); !ok {
		return Event{}, undecodable(fmt.Errorf("%d bytes are no event: neither event-type nor ce_type in the headers, nor Avro single-object encoding%s",
			len(value), hint(headers)))
	}
	event, err := DecodeEvent(value)
	if err != nil {
		return Event{}, err
	}
	return event, matchKey(key, &event)
}

// hint says more of a record that looks like something we know but do not read.
func hint(headers []Header) string {
	for _, h := range headers {
		if h.Key == headerContentType && strings.HasPrefix(string(h.Value), "application/cloudevents") {
			return " (CloudEvents are read in binary content mode only)"
		}
		if strings.EqualFold(h.Key, headerEventType) || strings.EqualFold(h.Key, headerCEType) {
			return " (header names are in lower case)"
		}
	}
	return ""
}

// matchKey holds an Avro event to its record's key: the key placed it in the
// partition, and so with its endpoint's other events.
func matchKey(key []byte, event *Event) error {
	if len(key) > 0 && string(key) != event.EndpointID {
		return undecodable(&FieldError{Field: "record key", Problem: "differs from endpoint_id"})
	}
	return nil
}

func undecodable(err error) error { return &DecodeError{Record: "event", Err: err} }
