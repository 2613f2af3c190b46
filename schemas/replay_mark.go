package schemas

// EncodeReplayMark writes a replay mark in Avro single-object encoding.
func EncodeReplayMark(v *ReplayMark) ([]byte, error) { return registry().replayMark.encode(v) }

// DecodeReplayMark reads what EncodeReplayMark wrote, in any version. The
// error is a *[DecodeError].
func DecodeReplayMark(b []byte) (ReplayMark, error) { return registry().replayMark.decode(b) }

func (m *ReplayMark) check() error {
	return firstError(
		checkName("dead_letter.topic", m.DeadLetter.Topic),
		checkCoordinates("dead_letter", &m.DeadLetter),
	)
}

func replayMarkNative(m *ReplayMark) map[string]any {
	return map[string]any{
		"dead_letter": coordinatesNative(m.DeadLetter),
		"delivery_id": clean(m.DeliveryID, MaxNameBytes),
		"endpoint_id": clean(m.EndpointID, MaxNameBytes),
		"run":         clean(m.Run, MaxNameBytes),
		"operator":    clean(m.Operator, MaxNameBytes),
		"replayed_at": millis(m.ReplayedAt),
	}
}

func replayMarkV1(f fields) ReplayMark {
	return ReplayMark{
		DeadLetter: f.coordinates("dead_letter"),
		DeliveryID: f.text("delivery_id"),
		EndpointID: f.text("endpoint_id"),
		Run:        f.text("run"),
		Operator:   f.text("operator"),
		ReplayedAt: f.time("replayed_at"),
	}
}
