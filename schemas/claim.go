package schemas

// EncodeClaim writes a claim in Avro single-object encoding.
func EncodeClaim(v *Claim) ([]byte, error) { return registry().claim.encode(v) }

// DecodeClaim reads what EncodeClaim wrote, in any version; PayloadHash points
// into b. The error is a *[DecodeError].
func DecodeClaim(b []byte) (Claim, error) { return registry().claim.decode(b) }

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

func claimNative(c *Claim) map[string]any {
	return map[string]any{
		"endpoint_id":     c.EndpointID,
		"key":             c.Key,
		"delivery_id":     c.DeliveryID,
		"payload_hash":    orEmpty(c.PayloadHash),
		"claimed_offset":  c.ClaimedOffset,
		"claimed_at":      millis(c.ClaimedAt),
		"answered_offset": c.AnsweredOffset,
		"verdict":         string(c.Verdict),
	}
}

func claimV1(f fields) Claim {
	return Claim{
		EndpointID:     f.text("endpoint_id"),
		Key:            f.text("key"),
		DeliveryID:     f.text("delivery_id"),
		PayloadHash:    f.bytes("payload_hash"),
		ClaimedOffset:  f.long("claimed_offset"),
		ClaimedAt:      f.time("claimed_at"),
		AnsweredOffset: f.long("answered_offset"),
		Verdict:        Verdict(f.text("verdict")),
	}
}
