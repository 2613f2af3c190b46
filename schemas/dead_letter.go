package schemas

import "fmt"

// EncodeDeadLetter writes a dead letter in Avro single-object encoding.
//
// What foreign bytes left in it never keeps it from being written, for its
// partition would stand still: broken or over-long text is mended and cut, and
// RawKey, Raw and RawHeaders are cut where they could not fit the topic, which
// Detail then says. Whatever fits the events topic fits whole.
func EncodeDeadLetter(v *DeadLetter) ([]byte, error) {
	d := registry().deadLetter.create(v.check(), deadLetterSize(v))
	fitting := v.fitting()
	fitting.fields(&d)
	return d.encoded()
}

// DecodeDeadLetter reads what EncodeDeadLetter wrote, in any version; the byte
// slices of the result point into b. The error is a *[DecodeError].
func DecodeDeadLetter(b []byte) (DeadLetter, error) {
	d := registry().deadLetter.open(b)
	var v DeadLetter
	v.fields(&d)
	if err := d.close(v.check()); err != nil {
		return DeadLetter{}, err
	}
	return v, nil
}

func (d *DeadLetter) check() error {
	return firstError(
		checkName("reason", d.Reason),
		d.Delivery.checkContent(),
		checkCoordinates("source", &d.Source),
	)
}

func deadLetterSize(d *DeadLetter) int {
	size := 64 + deliverySize(&d.Delivery) + len(d.Reason) + len(d.Detail) + len(d.Source.Topic) + len(d.RawKey) + len(d.Raw)
	for _, h := range d.RawHeaders {
		size += 8 + len(h.Key) + len(h.Value)
	}
	return min(size, MaxRecordBytes)
}

// headerOverhead is what a header costs beyond its key and value: two lengths
// and a union branch, at most.
const headerOverhead = 8

// fitting is the dead letter with its raw record cut to what may be held: the
// value's end goes first, then headers, then the key's end.
func (d *DeadLetter) fitting() DeadLetter {
	fit := *d
	room := max(maxRawBytes-len(d.Delivery.Payload), 0)
	fit.RawKey = cut(d.RawKey, room)
	lost := len(d.RawKey) - len(fit.RawKey)
	room -= len(fit.RawKey)
	fit.RawHeaders = nil
	for _, h := range d.RawHeaders {
		size := len(h.Key) + len(h.Value) + headerOverhead
		if len(fit.RawHeaders) == MaxItems || size > room {
			lost += size - headerOverhead
			continue
		}
		fit.RawHeaders = append(fit.RawHeaders, h)
		room -= size
	}
	fit.Raw = cut(d.Raw, room)
	if lost += len(d.Raw) - len(fit.Raw); lost > 0 {
		// The note goes first: a long detail is cut at its end.
		fit.Detail = fmt.Sprintf("(%d bytes of the raw record are cut off) %s", lost, d.Detail)
	}
	return fit
}

func (d *DeadLetter) fields(x *datum) {
	x.into("delivery")
	d.Delivery.fields(x)
	x.out()
	x.text("reason", &d.Reason)
	x.label("detail", &d.Detail, MaxDetailBytes)
	x.time("dead_at", &d.DeadAt)
	d.Source.fields(x, "source")
	x.optionalBytes("raw_key", &d.RawKey)
	x.optionalBytes("raw", &d.Raw)
	for h := range items(x, "raw_headers", &d.RawHeaders) {
		x.rawText("key", &h.Key)
		x.optionalBytes("value", &h.Value)
	}
}
