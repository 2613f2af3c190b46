package schemas

import (
	"encoding/binary"
	"errors"
	"fmt"
	"sync"
)

// headerBytes is the length of single-object encoding's marker and fingerprint.
const headerBytes = 10

// codec writes and reads one kind of record: it writes the newest version of
// its schema and reads every version there ever was.
type codec[T any] struct {
	record string // as errors name it
	write  *schema
	// native turns a record into what goavro encodes.
	native func(*T) map[string]any
	// size estimates the encoded length, so that the payload is copied once.
	size func(*T) int
	// check holds a record to its rules, before writing and after reading.
	check func(*T) error
	// read maps a schema's fingerprint to what decodes it. A later version adds
	// its own entry, and the old entries go on filling the new struct.
	read map[uint64]reader[T]
}

type reader[T any] struct {
	schema *schema
	record func(fields) T
}

// codecs is all of them, and every schema by fingerprint.
type codecs struct {
	event      codec[Event]
	delivery   codec[Delivery]
	attempt    codec[Attempt]
	deadLetter codec[DeadLetter]
	claim      codec[Claim]
	endpoint   codec[Endpoint]
	breaker    codec[BreakerTransition]
	replayMark codec[ReplayMark]

	names map[uint64]string // fingerprint -> event.v1
}

// registry is compiled from the embedded files at the first use and never
// changes afterwards.
var registry = sync.OnceValue(func() *codecs { //nolint:gochecknoglobals // a constant that takes a compiler to make
	c := &codecs{names: map[uint64]string{}}
	c.event = newCodec(c, "event", eventNative, eventSize, (*Event).check, eventV1)
	c.delivery = newCodec(c, "delivery", deliveryNative, deliverySize, (*Delivery).check, deliveryV1)
	c.attempt = newCodec(c, "attempt", attemptNative, attemptSize, (*Attempt).check, attemptV1)
	c.deadLetter = newCodec(c, "dead_letter", deadLetterNative, deadLetterSize, (*DeadLetter).check, deadLetterV1)
	c.claim = newCodec(c, "claim", claimNative, smallSize, (*Claim).check, claimV1)
	c.endpoint = newCodec(c, "endpoint", endpointNative, smallSize, (*Endpoint).check, endpointV1)
	c.breaker = newCodec(c, "breaker_transition", breakerNative, smallSize, (*BreakerTransition).check, breakerV1)
	c.replayMark = newCodec(c, "replay_mark", replayMarkNative, smallSize, (*ReplayMark).check, replayMarkV1)
	return c
})

// newCodec compiles a record's schemas: versions[0] reads <record>.v1.avsc,
// and so on; the last is what is written.
func newCodec[T any](all *codecs, record string, native func(*T) map[string]any, size func(*T) int,
	check func(*T) error, versions ...func(fields) T,
) codec[T] {
	c := codec[T]{record: record, native: native, size: size, check: check, read: map[uint64]reader[T]{}}
	for i, version := range versions {
		s := loadSchema(fmt.Sprintf("%s.v%d", record, i+1))
		for _, fingerprint := range []uint64{s.fingerprint(), s.alias} {
			if other, taken := all.names[fingerprint]; taken && other != s.name {
				panic(fmt.Sprintf("schemas: %s has the fingerprint of %s", s.name, other))
			}
			all.names[fingerprint] = s.name
			c.read[fingerprint] = reader[T]{schema: s, record: version}
		}
		c.write = s
	}
	return c
}

func smallSize[T any](*T) int { return 256 }

// encode writes v in single-object encoding. What it writes, decode reads.
func (c *codec[T]) encode(v *T) ([]byte, error) {
	if err := c.check(v); err != nil {
		return nil, fmt.Errorf("encode %s: %w", c.record, err)
	}
	b, err := c.write.codec.SingleFromNative(make([]byte, 0, headerBytes+c.size(v)), c.native(v))
	if err != nil {
		return nil, fmt.Errorf("encode %s: %w", c.record, err)
	}
	if len(b) > MaxRecordBytes {
		return nil, fmt.Errorf("encode %s: %w", c.record, tooLarge("record", len(b), MaxRecordBytes))
	}
	if _, err := c.write.shape.walk(b[headerBytes:]); err != nil {
		return nil, fmt.Errorf("encode %s: %w", c.record, err)
	}
	return b, nil
}

// decode reads a record in single-object encoding. Byte slices of the result
// point into b.
func (c *codec[T]) decode(b []byte) (T, error) {
	var none T
	if len(b) > MaxRecordBytes {
		return none, c.fail(tooLarge("record", len(b), MaxRecordBytes))
	}
	fingerprint, ok := singleObject(b)
	if !ok {
		return none, c.fail(fmt.Errorf("%d bytes are not Avro single-object encoding (marker C3 01, fingerprint)", len(b)))
	}
	return c.decodeDatum(fingerprint, b[headerBytes:])
}

// decodeDatum reads a bare datum that was written with the schema of that fingerprint.
func (c *codec[T]) decodeDatum(fingerprint uint64, b []byte) (v T, err error) {
	var none T
	r, ok := c.read[fingerprint]
	if !ok {
		if name, known := registry().names[fingerprint]; known {
			return none, c.fail(fmt.Errorf("is a %s", name))
		}
		return none, c.fail(fmt.Errorf("unknown schema fingerprint %016x", fingerprint))
	}
	rest, err := r.schema.shape.walk(b)
	if err != nil {
		return none, c.fail(err)
	}
	if len(rest) > 0 {
		return none, c.fail(fmt.Errorf("%d bytes follow the record", len(rest)))
	}
	// The walk has seen the whole datum, so neither goavro nor the mapping should find anything
	// wrong any more. Should they all the same, it must not take the process with it.
	defer func() {
		if p := recover(); p != nil {
			v, err = none, c.fail(fmt.Errorf("not understood: %v", p))
		}
	}()
	native, _, err := r.schema.codec.NativeFromBinary(b)
	if err != nil {
		return none, c.fail(err)
	}
	m, ok := native.(map[string]any)
	if !ok {
		return none, c.fail(errors.New("is not a record"))
	}
	var bad error
	v = r.record(fields{m: m, bad: &bad})
	if err := firstError(bad, c.check(&v)); err != nil {
		return none, c.fail(err)
	}
	return v, nil
}

func (c *codec[T]) fail(err error) error { return &DecodeError{Record: c.record, Err: err} }

// singleObject tells whether b begins like single-object encoding, and of which schema.
func singleObject(b []byte) (fingerprint uint64, ok bool) {
	if len(b) < headerBytes || b[0] != 0xC3 || b[1] != 0x01 {
		return 0, false
	}
	return binary.LittleEndian.Uint64(b[2:]), true
}
