package schemas

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"sync"
)

// Confluent's framing: a zero byte, the schema's id in four bytes, big-endian, the datum.
const (
	confluentMagic = 0
	confluentBytes = 5
)

// SchemaResolver finds the text of a schema by its id in a schema registry.
type SchemaResolver interface {
	// SchemaByID returns the schema as JSON text. An error that wraps [ErrUnknownSchema] says that the
	// registry answered and has no such id; any other that it could not be asked.
	SchemaByID(ctx context.Context, id int) (string, error)
}

// knownSchemas remembers the fingerprints of the registry's schemas: an id
// names the same schema for ever. It grows with the registry, not with what records claim.
type knownSchemas struct {
	mu           sync.Mutex // guards fingerprints
	fingerprints map[int]uint64
}

func (k *knownSchemas) get(id int) (uint64, bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	fingerprint, ok := k.fingerprints[id]
	return fingerprint, ok
}

func (k *knownSchemas) put(id int, fingerprint uint64) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.fingerprints == nil {
		k.fingerprints = map[int]uint64{}
	}
	k.fingerprints[id] = fingerprint
}

func (r *Reader) readConfluent(ctx context.Context, key, value []byte) (Event, error) {
	if len(value) > MaxRecordBytes {
		return Event{}, undecodable(tooLarge("record", len(value), MaxRecordBytes))
	}
	if len(value) < confluentBytes {
		return Event{}, undecodable(fmt.Errorf("%d bytes are too short for a schema id", len(value)))
	}
	id := int(binary.BigEndian.Uint32(value[1:]))
	if r.Schemas == nil {
		return Event{}, undecodable(fmt.Errorf("begins like Confluent's framing (schema id %d), and no schema registry is configured", id))
	}
	fingerprint, err := r.fingerprint(ctx, id)
	if err != nil {
		return Event{}, err
	}
	event, err := readEvent(registry().event.openDatum(fingerprint, value[confluentBytes:]))
	if err != nil {
		if inner, ok := errors.AsType[*DecodeError](err); ok {
			err = undecodable(fmt.Errorf("schema id %d: %w", id, inner.Err))
		}
		return Event{}, err
	}
	return event, matchKey(key, &event)
}

// fingerprint is that of the schema with the given id, which need not be an event's.
func (r *Reader) fingerprint(ctx context.Context, id int) (uint64, error) {
	if fingerprint, ok := r.known.get(id); ok {
		return fingerprint, nil
	}
	text, err := r.Schemas.SchemaByID(ctx, id)
	switch {
	case errors.Is(err, ErrUnknownSchema):
		return 0, undecodable(fmt.Errorf("schema id %d: %w", id, err))
	case err != nil:
		return 0, fmt.Errorf("resolve schema id %d: %w", id, err)
	}
	_, codec, err := compile(text)
	if err != nil {
		return 0, undecodable(fmt.Errorf("schema id %d: %w", id, err))
	}
	r.known.put(id, codec.Rabin)
	return codec.Rabin, nil
}
