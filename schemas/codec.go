package schemas

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"sync"
)

// headerBytes is the length of single-object encoding's marker and fingerprint.
const headerBytes = 10

// codec is what writing and reading one kind of record takes beyond the record itself: it writes the newest
// version of its schema and reads every version there ever was.
type codec struct {
	record   string            // as errors name it
	newest   int               // version that is written
	header   [headerBytes]byte // of what is written
	versions map[uint64]int    // by fingerprint
}

// codecs is all of them, and every schema by fingerprint.
type codecs struct {
	event, delivery, attempt, deadLetter, claim, endpoint, breaker, replayMark, line codec

	names map[uint64]string // fingerprint -> event.v1
}

// registry is compiled from the embedded files at the first use and never
// changes afterwards.
var registry = sync.OnceValue(func() *codecs { //nolint:gochecknoglobals // a constant that takes a compiler to make
	c := &codecs{names: map[uint64]string{}}
	c.event = newCodec(c, "event", func(d *datum) { new(Event).fields(d) })
	c.delivery = newCodec(c, "delivery", func(d *datum) { new(Delivery).fields(d) })
	c.attempt = newCodec(c, "attempt", func(d *datum) { new(Attempt).fields(d) })
	c.deadLetter = newCodec(c, "dead_letter", func(d *datum) { new(DeadLetter).fields(d) })
	c.claim = newCodec(c, "claim", func(d *datum) { new(Claim).fields(d) })
	c.endpoint = newCodec(c, "endpoint", func(d *datum) { new(Endpoint).fields(d) })
	c.breaker = newCodec(c, "breaker_transition", func(d *datum) { new(BreakerTransition).fields(d) })
	c.replayMark = newCodec(c, "replay_mark", func(d *datum) { new(ReplayMark).fields(d) })
	c.line = newCodec(c, "line", func(d *datum) { new(Line).fields(d) })
	return c
})

// newCodec compiles a record's schemas, <record>.v1.avsc and so on; the last is
// what is written. A record whose code names other fields than its schema is a
// broken program, and a panic at once: its bytes would mean something else.
func newCodec(all *codecs, record string, fields func(*datum)) codec {
	c := codec{record: record, versions: map[uint64]int{}}
	for version := 1; ; version++ {
		s, err := loadSchema(fmt.Sprintf("%s.v%d", record, version))
		if errors.Is(err, fs.ErrNotExist) && version > 1 {
			return c
		}
		if err != nil {
			panic(fmt.Sprintf("schemas: %v", err))
		}
		d := datum{mode: listing, version: version}
		if fields(&d); !slices.Equal(d.listed, s.layout) {
			panic(fmt.Sprintf("schemas: the code names the fields\n%q, and %s.avsc has\n%q", d.listed, s.name, s.layout))
		}
		for _, fingerprint := range []uint64{s.fingerprint, s.alias} {
			if other, taken := all.names[fingerprint]; taken && other != s.name {
				panic(fmt.Sprintf("schemas: %s has the fingerprint of %s", s.name, other))
			}
			all.names[fingerprint] = s.name
			c.versions[fingerprint] = version
		}
		c.newest = version
		c.header = [headerBytes]byte{0xC3, 0x01}
		binary.LittleEndian.PutUint64(c.header[2:], s.fingerprint)
	}
}

// smallSize is room for a record without a payload; a longer one makes more.
const smallSize = 256

// create begins a record of about size bytes. One that breaks a rule is not begun.
func (c *codec) create(broken error, size int) datum {
	d := datum{codec: c, version: c.newest, err: broken}
	if broken == nil {
		d.mode = writing
		d.b = append(make([]byte, 0, headerBytes+size), c.header[:]...)
	}
	return d
}

// encoded is the record, when all fields are written.
func (d *datum) encoded() ([]byte, error) {
	if d.err == nil && len(d.b) > MaxRecordBytes {
		d.err = tooLarge("record", len(d.b), MaxRecordBytes)
	}
	if d.err != nil {
		return nil, fmt.Errorf("encode %s: %w", d.codec.record, d.err)
	}
	return d.b, nil
}

// open begins to read a record in single-object encoding. Byte slices that are
// read point into b.
func (c *codec) open(b []byte) datum {
	if len(b) > MaxRecordBytes {
		return datum{codec: c, err: tooLarge("record", len(b), MaxRecordBytes)}
	}
	fingerprint, ok := singleObject(b)
	if !ok {
		return datum{codec: c, err: fmt.Errorf("%d bytes are not Avro single-object encoding (marker C3 01, fingerprint)", len(b))}
	}
	return c.openDatum(fingerprint, b[headerBytes:])
}

// openDatum begins to read a bare datum that was written with the schema of that fingerprint.
func (c *codec) openDatum(fingerprint uint64, b []byte) datum {
	version, ok := c.versions[fingerprint]
	if ok {
		return datum{codec: c, version: version, mode: reading, b: b}
	}
	if name, known := registry().names[fingerprint]; known {
		return datum{codec: c, err: fmt.Errorf("is a %s", name)}
	}
	return datum{codec: c, err: fmt.Errorf("unknown schema fingerprint %016x", fingerprint)}
}

// close ends the reading when all fields are read. broken is the rule that they break, or nil.
func (d *datum) close(broken error) error {
	err := d.err
	switch {
	case err != nil:
	case len(d.b) > 0:
		err = fmt.Errorf("%d bytes follow the record", len(d.b))
	case broken != nil:
		err = broken
	default:
		return nil
	}
	return &DecodeError{Record: d.codec.record, Err: err}
}

// singleObject tells whether b begins like single-object encoding, and of which schema.
func singleObject(b []byte) (fingerprint uint64, ok bool) {
	if len(b) < headerBytes || b[0] != 0xC3 || b[1] != 0x01 {
		return 0, false
	}
	return binary.LittleEndian.Uint64(b[2:]), true
}
