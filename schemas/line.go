package schemas

import "fmt"

// EncodeLine writes a line in Avro single-object encoding; DueAt is rounded up to a millisecond.
func EncodeLine(v *Line) ([]byte, error) {
	d := registry().line.create(v.check(), smallSize)
	v.fields(&d)
	return d.encoded()
}

// DecodeLine reads what EncodeLine wrote, in any version. The error is a *[DecodeError].
func DecodeLine(b []byte) (Line, error) {
	d := registry().line.open(b)
	var v Line
	v.fields(&d)
	if err := d.close(v.check()); err != nil {
		return Line{}, err
	}
	return v, nil
}

func (l *Line) check() error {
	var negative, lists error
	if min(l.Epoch, l.Taken, l.TakenOffset+1, l.Done) < 0 {
		negative = &FieldError{Field: "epoch, taken, taken_offset or done", Problem: "is negative"}
	}
	if max(len(l.Gone), len(l.Open)) > MaxItems {
		lists = &FieldError{Field: "gone or open", Problem: fmt.Sprintf("has more than %d items", MaxItems)}
	}
	return firstError(CheckEndpointID(l.EndpointID), negative, lists)
}

func (l *Line) fields(d *datum) {
	d.text("endpoint_id", &l.EndpointID)
	d.long("epoch", &l.Epoch)
	d.long("taken", &l.Taken)
	d.long("taken_offset", &l.TakenOffset)
	d.long("done", &l.Done)
	for n := range items(d, "gone", &l.Gone) {
		d.long(item, n)
	}
	for p := range items(d, "open", &l.Open) {
		d.long("number", &p.Number)
		d.long("offset", &p.Offset)
	}
	d.due("due_at", &l.DueAt)
	d.time("since", &l.Since)
}
