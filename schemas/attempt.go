package schemas

// EncodeAttempt writes an attempt in Avro single-object encoding. Its error
// and excerpt are cut to their limits; NextAt is rounded up to a millisecond,
// Duration down to a microsecond.
func EncodeAttempt(v *Attempt) ([]byte, error) { return registry().attempt.encode(v) }

// DecodeAttempt reads what EncodeAttempt wrote, in any version; Excerpt points
// into b. The error is a *[DecodeError].
func DecodeAttempt(b []byte) (Attempt, error) { return registry().attempt.decode(b) }

func (a *Attempt) check() error {
	return firstError(
		checkOneOf("kind", a.Kind, AttemptPost, AttemptDuplicate, AttemptConflict),
		checkDeliveryID("delivery_id", a.DeliveryID),
		CheckEndpointID(a.EndpointID),
		checkCounts(count{"number", a.Number}, count{"replay", a.Replay}, count{"status", a.Status}),
		checkCoordinates("source", &a.Source),
	)
}

func attemptSize(a *Attempt) int {
	return 96 + len(a.Kind) + len(a.DeliveryID) + len(a.EndpointID) + len(a.Tenant) + len(a.EventType) + len(a.Class) +
		len(a.Error) + len(a.Excerpt) + len(a.Decision) + len(a.Source.Topic) + len(a.OwnerDeliveryID)
}

func attemptNative(a *Attempt) map[string]any {
	return map[string]any{
		"kind":              string(a.Kind),
		"delivery_id":       a.DeliveryID,
		"endpoint_id":       a.EndpointID,
		"tenant":            clean(a.Tenant, MaxNameBytes),
		"event_type":        clean(a.EventType, MaxNameBytes),
		"number":            a.Number,
		"replay":            a.Replay,
		"at":                millis(a.At),
		"duration_micros":   max(a.Duration.Microseconds(), 0),
		"class":             clean(a.Class, MaxNameBytes),
		"status":            a.Status,
		"error":             clean(a.Error, MaxErrorBytes),
		"excerpt":           orEmpty(cut(a.Excerpt, MaxExcerptBytes)),
		"decision":          clean(a.Decision, MaxNameBytes),
		"next_at":           dueMillis(a.NextAt),
		"source":            coordinatesNative(a.Source),
		"owner_delivery_id": clean(a.OwnerDeliveryID, MaxDeliveryIDBytes),
	}
}

func attemptV1(f fields) Attempt {
	return Attempt{
		Kind:            AttemptKind(f.text("kind")),
		DeliveryID:      f.text("delivery_id"),
		EndpointID:      f.text("endpoint_id"),
		Tenant:          f.text("tenant"),
		EventType:       f.text("event_type"),
		Number:          f.int("number"),
		Replay:          f.int("replay"),
		At:              f.time("at"),
		Duration:        f.micros("duration_micros"),
		Class:           f.text("class"),
		Status:          f.int("status"),
		Error:           f.text("error"),
		Excerpt:         f.bytes("excerpt"),
		Decision:        f.text("decision"),
		NextAt:          f.time("next_at"),
		Source:          f.coordinates("source"),
		OwnerDeliveryID: f.text("owner_delivery_id"),
	}
}
