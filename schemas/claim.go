package schemas

// EncodeClaim writes a claim in Avro single-object encoding.
func EncodeClaim(v *Claim) ([]byte, error) {
	d := registry().claim.create(v.check(), smallSize)
	v.fields(&d)
	return d.encoded()
}

// DecodeClaim reads what EncodeClaim wrote, in any version; PayloadHash points
// into b. The error is a *[DecodeError].
func DecodeClaim(b []byte) (Claim, error) {
	d := registry().claim.open(b)
	var v Claim
	v.fields(&d)
	if err := d.close(v.check()); err != nil {
		return Claim{}, err
	}
	return v, nil
}

func (c *Claim) check() error {
	var offsets error
	if c.ClaimedOffset < 0 || c.AnsweredOffset < 0 {
		offsets = &FieldError{Field: "claimed_offset or answered_offset", Problem: "is negative"}
	}
	return firstError(
		CheckEndpointID(c.EndpointID),
		checkName("key", c.Key),
		checkDeliveryID("delivery_id", c.DeliveryID),
		offsets,
		checkOneOf("verdict", c.Verdict, VerdictFirst, VerdictDuplicate, VerdictConflict),
	)
}

func (c *Claim) fields(d *datum) {
	d.text("endpoint_id", &c.EndpointID)
	d.text("key", &c.Key)
	d.text("delivery_id", &c.DeliveryID)
	d.bytes("payload_hash", &c.PayloadHash)
	d.long("claimed_offset", &c.ClaimedOffset)
	d.time("claimed_at", &c.ClaimedAt)
	d.long("answered_offset", &c.AnsweredOffset)
	d.text("verdict", (*string)(&c.Verdict))
}
