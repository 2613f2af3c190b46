package schemas

// EncodeBreakerTransition writes a transition in Avro single-object encoding;
// OpenUntil is rounded up to a millisecond.
func EncodeBreakerTransition(v *BreakerTransition) ([]byte, error) {
	return registry().breaker.encode(v)
}

// DecodeBreakerTransition reads what EncodeBreakerTransition wrote, in any
// version. The error is a *[DecodeError].
func DecodeBreakerTransition(b []byte) (BreakerTransition, error) {
	return registry().breaker.decode(b)
}

func (t *BreakerTransition) check() error {
	return firstError(
		CheckEndpointID(t.EndpointID),
		checkOneOf("state", t.State, "closed", "open", "half_open"),
		checkCounts(count{"trips", t.Trips}),
	)
}

func breakerNative(t *BreakerTransition) map[string]any {
	return map[string]any{
		"endpoint_id": t.EndpointID,
		"state":       t.State,
		"trips":       t.Trips,
		"open_until":  dueMillis(t.OpenUntil),
		"at":          millis(t.At),
		"reason":      clean(t.Reason, MaxNameBytes),
	}
}

func breakerV1(f fields) BreakerTransition {
	return BreakerTransition{
		EndpointID: f.text("endpoint_id"),
		State:      f.text("state"),
		Trips:      f.int("trips"),
		OpenUntil:  f.time("open_until"),
		At:         f.time("at"),
		Reason:     f.text("reason"),
	}
}
