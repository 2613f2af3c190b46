package schemas

// EncodeDelivery writes a delivery in Avro single-object encoding. Its
// History's error and excerpt are cut to their limits; DueAt is rounded up to
// a millisecond, so that it never comes early.
func EncodeDelivery(v *Delivery) ([]byte, error) { return registry().delivery.encode(v) }

// DecodeDelivery reads what EncodeDelivery wrote, in any version; Payload and
// LastExcerpt point into b. The error is a *[DecodeError].
func DecodeDelivery(b []byte) (Delivery, error) { return registry().delivery.decode(b) }

func (d *Delivery) check() error {
	return firstError(
		checkDeliveryID("id", d.ID),
		CheckEndpointID(d.EndpointID),
		d.checkContent(),
	)
}

// checkContent is what holds of every delivery, also of one in a dead letter.
func (d *Delivery) checkContent() error {
	return firstError(
		checkPayload("payload", d.Payload),
		checkCoordinates("origin", &d.Origin),
		checkCounts(
			count{"attempts", d.Attempts}, count{"replays", d.Replays}, count{"holds", d.Holds},
			count{"history.total_attempts", d.History.TotalAttempts}, count{"history.last_status", d.History.LastStatus},
		),
	)
}

func deliverySize(d *Delivery) int {
	return 128 + len(d.ID) + len(d.EndpointID) + len(d.Tenant) + len(d.EventType) + len(d.ContentType) +
		len(d.IdempotencyKey) + len(d.Payload) + len(d.Origin.Topic) + len(d.TraceParent) + len(d.TraceState) +
		len(d.History.LastClass) + len(d.History.LastError) + len(d.History.LastExcerpt)
}

func deliveryNative(d *Delivery) map[string]any {
	h := &d.History
	return map[string]any{
		"id":              clean(d.ID, MaxNameBytes),
		"endpoint_id":     clean(d.EndpointID, MaxNameBytes),
		"tenant":          clean(d.Tenant, MaxNameBytes),
		"event_type":      clean(d.EventType, MaxNameBytes),
		"content_type":    clean(d.ContentType, MaxNameBytes),
		"idempotency_key": clean(d.IdempotencyKey, MaxNameBytes),
		"payload":         orEmpty(d.Payload),
		"accepted_at":     millis(d.AcceptedAt),
		"origin":          coordinatesNative(d.Origin),
		"traceparent":     trace(d.TraceParent),
		"tracestate":      trace(d.TraceState),
		"attempts":        d.Attempts,
		"replays":         d.Replays,
		"holds":           d.Holds,
		"due_at":          dueMillis(d.DueAt),
		"run_started_at":  millis(d.RunStartedAt),
		"history": map[string]any{
			"total_attempts":   h.TotalAttempts,
			"first_attempt_at": millis(h.FirstAttemptAt),
			"last_attempt_at":  millis(h.LastAttemptAt),
			"last_class":       clean(h.LastClass, MaxNameBytes),
			"last_status":      h.LastStatus,
			"last_error":       clean(h.LastError, MaxErrorBytes),
			"last_excerpt":     orEmpty(cut(h.LastExcerpt, MaxExcerptBytes)),
		},
	}
}

func deliveryV1(f fields) Delivery {
	h := f.record("history")
	return Delivery{
		ID:             f.text("id"),
		EndpointID:     f.text("endpoint_id"),
		Tenant:         f.text("tenant"),
		EventType:      f.text("event_type"),
		ContentType:    f.text("content_type"),
		IdempotencyKey: f.text("idempotency_key"),
		Payload:        f.bytes("payload"),
		AcceptedAt:     f.time("accepted_at"),
		Origin:         f.coordinates("origin"),
		TraceParent:    trace(f.text("traceparent")),
		TraceState:     trace(f.text("tracestate")),
		Attempts:       f.int("attempts"),
		Replays:        f.int("replays"),
		Holds:          f.int("holds"),
		DueAt:          f.time("due_at"),
		RunStartedAt:   f.time("run_started_at"),
		History: History{
			TotalAttempts:  h.int("total_attempts"),
			FirstAttemptAt: h.time("first_attempt_at"),
			LastAttemptAt:  h.time("last_attempt_at"),
			LastClass:      h.text("last_class"),
			LastStatus:     h.int("last_status"),
			LastError:      h.text("last_error"),
			LastExcerpt:    h.bytes("last_excerpt"),
		},
	}
}
