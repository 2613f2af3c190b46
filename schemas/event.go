package schemas

// EncodeEvent writes an event in Avro single-object encoding. A trace context
// that may not be passed on is left out.
//
// A record of the events topic that holds it must have no event-type and no
// ce_type header: those say that the value is the payload itself; see [ReadEvent].
func EncodeEvent(v *Event) ([]byte, error) { return registry().event.encode(v) }

// DecodeEvent reads what EncodeEvent wrote, in any version; Payload points into
// b. The error is a *[DecodeError]. Records of the events topic come in
// other forms too: read those with [ReadEvent].
func DecodeEvent(b []byte) (Event, error) { return registry().event.decode(b) }

func (e *Event) check() error {
	return firstError(
		CheckEndpointID(e.EndpointID),
		checkName("event_type", e.EventType),
		checkContentType("content_type", e.ContentType),
		checkOptionalName("idempotency_key", e.IdempotencyKey),
		e.checkOwnID(),
		checkCoordinates("origin", &e.Origin),
		checkPayload("payload", e.Payload),
	)
}

func (e *Event) checkOwnID() error {
	if e.DeliveryID == "" {
		return nil
	}
	return checkDeliveryID("delivery_id", e.DeliveryID)
}

func eventSize(e *Event) int {
	return 64 + len(e.DeliveryID) + len(e.EndpointID) + len(e.IdempotencyKey) + len(e.EventType) +
		len(e.ContentType) + len(e.Payload) + len(e.Origin.Topic) + len(e.TraceParent) + len(e.TraceState)
}

func eventNative(e *Event) map[string]any {
	return map[string]any{
		"endpoint_id":     e.EndpointID,
		"event_type":      e.EventType,
		"payload":         orEmpty(e.Payload),
		"content_type":    e.ContentType,
		"idempotency_key": e.IdempotencyKey,
		"delivery_id":     e.DeliveryID,
		"accepted_at":     millis(e.AcceptedAt),
		"origin":          coordinatesNative(e.Origin),
		"traceparent":     trace(e.TraceParent),
		"tracestate":      trace(e.TraceState),
	}
}

func eventV1(f fields) Event {
	return Event{
		DeliveryID:     f.text("delivery_id"),
		EndpointID:     f.text("endpoint_id"),
		IdempotencyKey: f.text("idempotency_key"),
		EventType:      f.text("event_type"),
		ContentType:    f.text("content_type"),
		Payload:        f.bytes("payload"),
		AcceptedAt:     f.time("accepted_at"),
		Origin:         f.coordinates("origin"),
		TraceParent:    trace(f.text("traceparent")),
		TraceState:     trace(f.text("tracestate")),
	}
}
