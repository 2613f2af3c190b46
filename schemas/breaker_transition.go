package schemas

// EncodeBreakerTransition writes a transition in Avro single-object encoding;
// OpenUntil is rounded up to a millisecond.
func EncodeBreakerTransition(v *BreakerTransition) ([]byte, error) {
	d := registry().breaker.create(v.check(), smallSize)
	v.fields(&d)
	return d.encoded()
}

// DecodeBreakerTransition reads what EncodeBreakerTransition wrote, in any
// version. The error is a *[DecodeError].
func DecodeBreakerTransition(b []byte) (BreakerTransition, error) {
	d := registry().breaker.open(b)
	var v BreakerTransition
	v.fields(&d)
	if err := d.close(v.check()); err != nil {
		return BreakerTransition{}, err
	}
	return v, nil
}

func (t *BreakerTransition) check() error {
	return firstError(
		CheckEndpointID(t.EndpointID),
		checkOneOf("state", t.State, "closed", "open", "half_open"),
		checkCounts(count{"trips", t.Trips}),
	)
}

func (t *BreakerTransition) fields(d *datum) {
	d.text("endpoint_id", &t.EndpointID)
	d.text("state", &t.State)
	d.int("trips", &t.Trips)
	d.due("open_until", &t.OpenUntil)
	d.time("at", &t.At)
	d.label("reason", &t.Reason, MaxNameBytes)
}
