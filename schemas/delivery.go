package schemas

// EncodeDelivery writes a delivery in Avro single-object encoding. Its
// History's error and excerpt are cut to their limits; DueAt is rounded up to
// a millisecond, so that it never comes early.
func EncodeDelivery(v *Delivery) ([]byte, error) {
	d := registry().delivery.create(v.check(), deliverySize(v))
	v.fields(&d)
	return d.encoded()
}

// DecodeDelivery reads what EncodeDelivery wrote, in any version; Payload and
// LastExcerpt point into b. The error is a *[DecodeError].
func DecodeDelivery(b []byte) (Delivery, error) {
	d := registry().delivery.open(b)
	var v Delivery
	v.fields(&d)
	if err := d.close(v.check()); err != nil {
		return Delivery{}, err
	}
	return v, nil
}

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

func (d *Delivery) fields(x *datum) {
	x.label("id", &d.ID, MaxNameBytes)
	x.label("endpoint_id", &d.EndpointID, MaxNameBytes)
	x.label("tenant", &d.Tenant, MaxNameBytes)
	x.label("event_type", &d.EventType, MaxNameBytes)
	x.label("content_type", &d.ContentType, MaxNameBytes)
	x.label("idempotency_key", &d.IdempotencyKey, MaxNameBytes)
	x.bytes("payload", &d.Payload)
	x.time("accepted_at", &d.AcceptedAt)
	d.Origin.fields(x, "origin")
	x.trace("traceparent", &d.TraceParent)
	x.trace("tracestate", &d.TraceState)
	x.int("attempts", &d.Attempts)
	x.int("replays", &d.Replays)
	x.int("holds", &d.Holds)
	x.due("due_at", &d.DueAt)
	x.time("run_started_at", &d.RunStartedAt)
	d.History.fields(x, "history")
}

func (h *History) fields(d *datum, name string) {
	d.into(name)
	d.int("total_attempts", &h.TotalAttempts)
	d.time("first_attempt_at", &h.FirstAttemptAt)
	d.time("last_attempt_at", &h.LastAttemptAt)
	d.label("last_class", &h.LastClass, MaxNameBytes)
	d.int("last_status", &h.LastStatus)
	d.label("last_error", &h.LastError, MaxErrorBytes)
	d.excerpt("last_excerpt", &h.LastExcerpt)
	d.out()
}
