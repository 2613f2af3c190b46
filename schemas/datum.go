package schemas

import (
	"encoding/binary"
	"fmt"
	"iter"
	"math"
	"strings"
	"time"
	"unicode/utf8"
)

// maxMillis is the last millisecond of the year 9999, the last that text forms of time can hold.
const maxMillis = 253402300799999

// datum is the Avro binary form of one record, being written or being read.
//
// A record names its fields once, in the order of its schema, in its method fields; the mode says what
// becomes of them. So writing and reading cannot disagree, and the list that the same lines give is held
// against the schema before either is done (see [newCodec]).
//
// Every length and count is checked against what is there before anything is made of it.
type datum struct {
	codec   *codec
	version int // of the record's schema, from 1; what is written has the newest
	mode    mode
	b       []byte // writing: the record so far; reading: what is left of it
	err     error  // the first thing wrong

	// within names the records and arrays that the next field is in, the outermost first. A
	// dead letter's delivery has an origin: deeper than that goes none.
	within [2]string
	depth  int
	listed []string // listing: "origin.topic string"
}

// mode is what is done with a field that is named. The zero mode does nothing:
// something is wrong, and what comes after it has no meaning.
type mode uint8

const (
	writing mode = iota + 1
	reading
	listing // name and type are noted
)

// fail notes what is wrong with a field. Nothing is written or read any more.
func (d *datum) fail(name, problem string) {
	if d.err == nil {
		d.err = &FieldError{Field: d.path(name), Problem: problem}
	}
	d.mode = 0
}

func (d *datum) path(name string) string {
	return strings.Join(append(d.within[:d.depth:d.depth], name), ".")
}

func (d *datum) list(name, kind string) { d.listed = append(d.listed, d.path(name)+" "+kind) }

// into and out stand around the fields of a record within the record.
func (d *datum) into(name string) {
	d.within[d.depth] = name
	d.depth++
}

func (d *datum) out() { d.depth-- }

// number reads a zig-zag number, which is encoding/binary's.
func (d *datum) number(name string) int64 {
	n, size := binary.Varint(d.b)
	switch {
	case size == 0:
		d.fail(name, "ends too early")
		return 0
	case size < 0:
		d.fail(name, "has a number longer than 64 bits")
		return 0
	}
	d.b = d.b[size:]
	return n
}

// span reads a length and as many bytes. They point into the record, and an
// append to them does not write into what follows.
func (d *datum) span(name string) []byte {
	n := d.number(name)
	switch {
	case n < 0:
		d.fail(name, "has a negative length")
		return nil
	case n > int64(len(d.b)):
		d.fail(name, "ends too early")
		return nil
	}
	b := d.b[:n:n]
	d.b = d.b[n:]
	return b
}

func (d *datum) putNumber(n int64) { d.b = binary.AppendVarint(d.b, n) }

func putSpan[T string | []byte](d *datum, b T) {
	d.putNumber(int64(len(b)))
	d.b = append(d.b, b...)
}

// text is a string that must be UTF-8, both ways.
func (d *datum) text(name string, p *string) {
	switch d.mode {
	case writing:
		if !utf8.ValidString(*p) {
			d.fail(name, notUTF8)
			return
		}
		putSpan(d, *p)
	case reading:
		b := d.span(name)
		if !utf8.Valid(b) {
			d.fail(name, notUTF8)
			return
		}
		*p = word(b)
	case listing:
		d.list(name, "string")
	}
}

const notUTF8 = "is not UTF-8"

// word is b as a string. Those that most records hold cost no memory.
func word(b []byte) string {
	switch string(b) {
	case defaultContentType:
		return defaultContentType
	case string(AttemptPost):
		return string(AttemptPost)
	case string(VerdictFirst):
		return string(VerdictFirst)
	}
	return string(b)
}

// label is text that is mended and cut to limit bytes when it is written: what foreign
// bytes left in it must not keep the record from being written.
func (d *datum) label(name string, p *string, limit int) {
	if d.mode == writing {
		cleaned := clean(*p, limit)
		p = &cleaned
	}
	d.text(name, p)
}

// trace is a trace-context value; one that may not be passed on is left out, both ways.
func (d *datum) trace(name string, p *string) {
	if d.mode == writing {
		passed := trace(*p)
		p = &passed
	}
	d.text(name, p)
	if d.mode == reading {
		*p = trace(*p)
	}
}

// bytes is bytes; none are read as nil.
func (d *datum) bytes(name string, p *[]byte) {
	switch d.mode {
	case writing:
		putSpan(d, *p)
	case reading:
		if b := d.span(name); len(b) > 0 {
			*p = b
		}
	case listing:
		d.list(name, "bytes")
	}
}

// excerpt is bytes that are cut to [MaxExcerptBytes] when they are written.
func (d *datum) excerpt(name string, p *[]byte) {
	if d.mode == writing {
		short := cut(*p, MaxExcerptBytes)
		p = &short
	}
	d.bytes(name, p)
}

// rawText is bytes that Go holds in a string: it need not be UTF-8.
func (d *datum) rawText(name string, p *string) {
	switch d.mode {
	case writing:
		putSpan(d, *p)
	case reading:
		*p = string(d.span(name))
	case listing:
		d.list(name, "bytes")
	}
}

// optionalBytes is null or bytes: nil is null, and no bytes are not.
func (d *datum) optionalBytes(name string, p *[]byte) {
	switch d.mode {
	case writing:
		if *p == nil {
			d.putNumber(0)
			return
		}
		d.putNumber(1)
		putSpan(d, *p)
	case reading:
		switch branch := d.number(name); branch {
		case 0:
			*p = nil
		case 1:
			*p = d.span(name)
		default:
			d.fail(name, fmt.Sprintf("has no union branch %d", branch))
		}
	case listing:
		d.list(name, "null|bytes")
	}
}

func (d *datum) long(name string, p *int64) {
	switch d.mode {
	case writing:
		d.putNumber(*p)
	case reading:
		*p = d.number(name)
	case listing:
		d.list(name, "long")
	}
}

// narrow is a number of 32 bits in a Go integer that may hold more.
func narrow[T int | int32](d *datum, name string, p *T) {
	switch d.mode {
	case writing:
		if n := int64(*p); d.narrows(name, n) {
			d.putNumber(n)
		}
	case reading:
		if n := d.number(name); d.narrows(name, n) {
			*p = T(n)
		}
	case listing:
		d.list(name, "int")
	}
}

func (d *datum) narrows(name string, n int64) bool {
	if n != int64(int32(n)) {
		d.fail(name, fmt.Sprintf("is %d, no 32-bit number", n))
		return false
	}
	return true
}

func (d *datum) int(name string, p *int)     { narrow(d, name, p) }
func (d *datum) int32(name string, p *int32) { narrow(d, name, p) }

func (d *datum) double(name string, p *float64) {
	switch d.mode {
	case writing:
		d.b = binary.LittleEndian.AppendUint64(d.b, math.Float64bits(*p))
	case reading:
		if len(d.b) < 8 {
			d.fail(name, "ends too early")
			return
		}
		*p = math.Float64frombits(binary.LittleEndian.Uint64(d.b))
		d.b = d.b[8:]
	case listing:
		d.list(name, "double")
	}
}

// time is milliseconds since 1970, UTC; 0 is the zero time. What milliseconds cannot say is cut off when
// it is written, and a time outside the range becomes its nearest end.
func (d *datum) time(name string, p *time.Time) {
	var ms int64
	if d.mode == writing && !p.IsZero() {
		ms = min(max(p.UnixMilli(), 0), maxMillis)
	}
	d.long(name, &ms)
	switch {
	case d.mode != reading || ms == 0:
	case ms < 0 || ms > maxMillis:
		d.fail(name, "is not a time between the years 1970 and 9999")
	default:
		*p = time.UnixMilli(ms).UTC()
	}
}

// due is a time before which nothing may happen: rounded up when it is written, so that the stored time is
// never earlier than the one decided.
func (d *datum) due(name string, p *time.Time) {
	if d.mode == writing {
		up := p.Add(time.Millisecond - 1)
		p = &up
	}
	d.time(name, p)
}

// micros is a duration in microseconds, never negative; what they cannot say is cut off when it is written.
func (d *datum) micros(name string, p *time.Duration) {
	n := max(p.Microseconds(), 0)
	d.long(name, &n)
	switch {
	case d.mode != reading:
	case n < 0 || n > math.MaxInt64/int64(time.Microsecond):
		d.fail(name, "is not a duration between 0 and 292 years")
	default:
		*p = time.Duration(n) * time.Microsecond
	}
}

// item is the name of an array's item that is not a record.
const item = "item"

// items goes over an array, for the loop's body to name each item's fields. It is written as one block, as
// goavro does, and read from any number of them, up to [MaxItems] items in all.
func items[T any](d *datum, name string, list *[]T) iter.Seq[*T] {
	return func(yield func(*T) bool) {
		each := func(p *T) {
			d.into(name)
			yield(p)
			d.out()
		}
		switch d.mode {
		case writing:
			if len(*list) > 0 {
				d.putNumber(int64(len(*list)))
			}
			for i := range *list {
				each(&(*list)[i])
			}
			d.putNumber(0)
		case reading:
			for range d.blocks(name) {
				*list = append(*list, *new(T))
				each(&(*list)[len(*list)-1])
			}
		case listing:
			d.list(name, "array")
			each(new(T))
		}
	}
}

// blocks reads an array's block headers and yields once for each item, as long as nothing is wrong. A negative
// count is followed by the block's size in bytes, which nobody here needs.
func (d *datum) blocks(name string) iter.Seq[struct{}] {
	return func(yield func(struct{}) bool) {
		for left := int64(MaxItems); ; {
			n := d.number(name)
			if n < 0 && d.mode == reading {
				d.number(name)
				n = -n // the smallest number has no counterpart and stays negative
			}
			if n < 0 || n > left {
				d.fail(name, fmt.Sprintf("has more than %d items", MaxItems))
			}
			if n == 0 || d.mode != reading {
				return
			}
			left -= n
			for range n {
				if !yield(struct{}{}) || d.mode != reading {
					return
				}
			}
		}
	}
}
