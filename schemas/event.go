package schemas

// EncodeEvent writes an event in Avro single-object encoding. A trace context
// that may not be passed on is left out.
//
// A record of the events topic that holds it must have no event-type and no
// ce_type header: those say that the value is the payload itself; see [ReadEvent].
func EncodeEvent(v *Event) ([]byte, error) {
	d := registry().event.create(v.check(), eventSize(v))
	v.fields(&d)
	return d.encoded()
}

// DecodeEvent reads what EncodeEvent wrote, in any version; Payload points into
// b. The error is a *[DecodeError]. Records of the events topic come in
// other forms too: read those with [ReadEvent].
func DecodeEvent(b []byte) (Event, error) { return readEvent(registry().event.open(b)) }

func readEvent(d datum) (Event, error) {
	var v Event
	v.fields(&d)
	if err := d.close(v.check()); err != nil {
		return Event{}, err
	}
	return v, nil
}

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

func (e *Event) fields(d *datum) {
	d.text("endpoint_id", &e.EndpointID)
	d.text("event_type", &e.EventType)
	d.bytes("payload", &e.Payload)
	d.text("content_type", &e.ContentType)
	d.text("idempotency_key", &e.IdempotencyKey)
	d.text("delivery_id", &e.DeliveryID)
	d.time("accepted_at", &e.AcceptedAt)
	e.Origin.fields(d, "origin")
	d.trace("traceparent", &e.TraceParent)
	d.trace("tracestate", &e.TraceState)
}

func (c *Coordinates) fields(d *datum, name string) {
	d.into(name)
	d.text("topic", &c.Topic)
	d.int32("partition", &c.Partition)
	d.long("offset", &c.Offset)
	d.out()
}
