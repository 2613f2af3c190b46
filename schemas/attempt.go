package schemas

// EncodeAttempt writes an attempt in Avro single-object encoding. Its error
// and excerpt are cut to their limits; NextAt is rounded up to a millisecond,
// Duration down to a microsecond.
func EncodeAttempt(v *Attempt) ([]byte, error) {
	d := registry().attempt.create(v.check(), attemptSize(v))
	v.fields(&d)
	return d.encoded()
}

// DecodeAttempt reads what EncodeAttempt wrote, in any version; Excerpt points
// into b. The error is a *[DecodeError].
func DecodeAttempt(b []byte) (Attempt, error) {
	d := registry().attempt.open(b)
	var v Attempt
	v.fields(&d)
	if err := d.close(v.check()); err != nil {
		return Attempt{}, err
	}
	return v, nil
}

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

func (a *Attempt) fields(d *datum) {
	d.text("kind", (*string)(&a.Kind))
	d.text("delivery_id", &a.DeliveryID)
	d.text("endpoint_id", &a.EndpointID)
	d.label("tenant", &a.Tenant, MaxNameBytes)
	d.label("event_type", &a.EventType, MaxNameBytes)
	d.int("number", &a.Number)
	d.int("replay", &a.Replay)
	d.time("at", &a.At)
	d.micros("duration_micros", &a.Duration)
	d.label("class", &a.Class, MaxNameBytes)
	d.int("status", &a.Status)
	d.label("error", &a.Error, MaxErrorBytes)
	d.excerpt("excerpt", &a.Excerpt)
	d.label("decision", &a.Decision, MaxNameBytes)
	d.due("next_at", &a.NextAt)
	a.Source.fields(d, "source")
	d.label("owner_delivery_id", &a.OwnerDeliveryID, MaxDeliveryIDBytes)
}
