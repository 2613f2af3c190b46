package schemas

// EncodeReplayMark writes a replay mark in Avro single-object encoding.
func EncodeReplayMark(v *ReplayMark) ([]byte, error) {
	d := registry().replayMark.create(v.check(), smallSize)
	v.fields(&d)
	return d.encoded()
}

// DecodeReplayMark reads what EncodeReplayMark wrote, in any version. The
// error is a *[DecodeError].
func DecodeReplayMark(b []byte) (ReplayMark, error) {
	d := registry().replayMark.open(b)
	var v ReplayMark
	v.fields(&d)
	if err := d.close(v.check()); err != nil {
		return ReplayMark{}, err
	}
	return v, nil
}

func (m *ReplayMark) check() error {
	return firstError(
		checkName("dead_letter.topic", m.DeadLetter.Topic),
		checkCoordinates("dead_letter", &m.DeadLetter),
	)
}

func (m *ReplayMark) fields(d *datum) {
	m.DeadLetter.fields(d, "dead_letter")
	d.label("delivery_id", &m.DeliveryID, MaxNameBytes)
	d.label("endpoint_id", &m.EndpointID, MaxNameBytes)
	d.label("run", &m.Run, MaxNameBytes)
	d.label("operator", &m.Operator, MaxNameBytes)
	d.time("replayed_at", &m.ReplayedAt)
}
