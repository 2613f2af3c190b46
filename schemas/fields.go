package schemas

import (
	"fmt"
	"math"
	"slices"
	"time"
)

// maxMillis is the last millisecond of the year 9999, the last that text forms of time can hold.
const maxMillis = 253402300799999

// fields reads a record as goavro decodes it. The first thing wrong is kept
// in bad; what follows reads zero values.
type fields struct {
	m   map[string]any
	bad *error
}

func (f fields) fail(name, problem string) {
	if *f.bad == nil {
		*f.bad = &FieldError{Field: name, Problem: problem}
	}
}

func field[T any](f fields, name string) T {
	v, ok := f.m[name].(T)
	if !ok {
		f.fail(name, fmt.Sprintf("is a %T", f.m[name]))
	}
	return v
}

func (f fields) text(name string) string    { return field[string](f, name) }
func (f fields) long(name string) int64     { return field[int64](f, name) }
func (f fields) int32(name string) int32    { return field[int32](f, name) }
func (f fields) int(name string) int        { return int(field[int32](f, name)) }
func (f fields) double(name string) float64 { return field[float64](f, name) }

// bytes reads a byte field; an empty one is nil.
func (f fields) bytes(name string) []byte {
	b := field[[]byte](f, name)
	if len(b) == 0 {
		return nil
	}
	return slices.Clip(b) // an append must not write into what follows it in the record
}

// optionalBytes reads ["null", "bytes"]: nil is null.
func (f fields) optionalBytes(name string) []byte {
	if f.m[name] == nil {
		return nil
	}
	return slices.Clip(field[[]byte](fields{m: field[map[string]any](f, name), bad: f.bad}, "bytes"))
}

func (f fields) record(name string) fields {
	return fields{m: field[map[string]any](f, name), bad: f.bad}
}

// records reads an array of records.
func (f fields) records(name string) []fields {
	items := field[[]any](f, name)
	if len(items) == 0 {
		return nil
	}
	out := make([]fields, 0, len(items))
	for i, item := range items {
		m, ok := item.(map[string]any)
		if !ok {
			f.fail(fmt.Sprintf("%s[%d]", name, i), fmt.Sprintf("is a %T", item))
			return nil
		}
		out = append(out, fields{m: m, bad: f.bad})
	}
	return out
}

// time reads milliseconds since 1970, UTC; 0 is the zero time.
func (f fields) time(name string) time.Time {
	ms := f.long(name)
	switch {
	case ms == 0:
		return time.Time{}
	case ms < 0 || ms > maxMillis:
		f.fail(name, "is not a time between the years 1970 and 9999")
		return time.Time{}
	}
	return time.UnixMilli(ms).UTC()
}

// micros reads a duration.
func (f fields) micros(name string) time.Duration { return f.duration(name, f.long(name)) }

func (f fields) duration(name string, micros int64) time.Duration {
	if micros < 0 || micros > math.MaxInt64/int64(time.Microsecond) {
		f.fail(name, "is not a duration between 0 and 292 years")
		return 0
	}
	return time.Duration(micros) * time.Microsecond
}

func (f fields) coordinates(name string) Coordinates {
	c := f.record(name)
	return Coordinates{Topic: c.text("topic"), Partition: c.int32("partition"), Offset: c.long("offset")}
}

// millis writes a time; what milliseconds cannot say is cut off, and a time
// outside the range of [fields.time] becomes its nearest end.
func millis(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return min(max(t.UnixMilli(), 0), maxMillis)
}

// dueMillis writes a time before which nothing may happen: rounded up, so that
// the stored time is never earlier than the one decided.
func dueMillis(t time.Time) int64 { return millis(t.Add(time.Millisecond - 1)) }

func coordinatesNative(c Coordinates) map[string]any {
	return map[string]any{"topic": c.Topic, "partition": c.Partition, "offset": c.Offset}
}

func optionalNative(b []byte) any {
	if b == nil {
		return nil
	}
	return map[string]any{"bytes": b}
}

// orEmpty is b, or no bytes: goavro takes a nil slice for bytes, but not a nil interface.
func orEmpty(b []byte) []byte {
	if b == nil {
		return []byte{}
	}
	return b
}
