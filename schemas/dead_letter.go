package schemas

import "fmt"

// EncodeDeadLetter writes a dead letter in Avro single-object encoding.
//
// What foreign bytes left in it never keeps it from being written, for its
// partition would stand still: broken or over-long text is mended and cut, and
// RawKey, Raw and RawHeaders are cut where they could not fit the topic, which
// Detail then says. Whatever fits the events topic fits whole.
func EncodeDeadLetter(v *DeadLetter) ([]byte, error) { return registry().deadLetter.encode(v) }

// DecodeDeadLetter reads what EncodeDeadLetter wrote, in any version; the byte
// slices of the result point into b. The error is a *[DecodeError].
func DecodeDeadLetter(b []byte) (DeadLetter, error) { return registry().deadLetter.decode(b) }

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

func deadLetterNative(d *DeadLetter) map[string]any {
	key, raw, headers, lost := fitRaw(d)
	detail := d.Detail
	if lost > 0 {
		// The note goes first: a long detail is cut at its end.
		detail = fmt.Sprintf("(%d bytes of the raw record are cut off) %s", lost, detail)
	}
	native := make([]any, len(headers))
	for i, h := range headers {
		native[i] = map[string]any{"key": []byte(h.Key), "value": optionalNative(h.Value)}
	}
	return map[string]any{
		"delivery":    deliveryNative(&d.Delivery),
		"reason":      d.Reason,
		"detail":      clean(detail, MaxDetailBytes),
		"dead_at":     millis(d.DeadAt),
		"source":      coordinatesNative(d.Source),
		"raw_key":     optionalNative(key),
		"raw":         optionalNative(raw),
		"raw_headers": native,
	}
}

// headerOverhead is what a header costs beyond its key and value: two lengths
// and a union branch, at most.
const headerOverhead = 8

// fitRaw cuts the raw record to what a dead letter may hold: the value's end
// goes first, then headers, then the key's end. lost counts what is gone.
func fitRaw(d *DeadLetter) (key, raw []byte, headers []Header, lost int) {
	room := maxRawBytes - len(d.Delivery.Payload)
	key = cut(d.RawKey, room)
	lost = len(d.RawKey) - len(key)
	room -= len(key)
	for _, h := range d.RawHeaders {
		size := len(h.Key) + len(h.Value) + headerOverhead
		if len(headers) == MaxItems || size > room {
			lost += size - headerOverhead
			continue
		}
		headers = append(headers, h)
		room -= size
	}
	raw = cut(d.Raw, room)
	return key, raw, headers, lost + len(d.Raw) - len(raw)
}

func deadLetterV1(f fields) DeadLetter {
	d := DeadLetter{
		Delivery: deliveryV1(f.record("delivery")),
		Reason:   f.text("reason"),
		Detail:   f.text("detail"),
		DeadAt:   f.time("dead_at"),
		Source:   f.coordinates("source"),
		RawKey:   f.optionalBytes("raw_key"),
		Raw:      f.optionalBytes("raw"),
	}
	for _, h := range f.records("raw_headers") {
		d.RawHeaders = append(d.RawHeaders, Header{Key: string(h.bytes("key")), Value: h.optionalBytes("value")})
	}
	return d
}
