package schemas

import (
	"fmt"
	"math"
)

// EncodeEndpoint writes an endpoint's configuration in Avro single-object
// encoding. An empty State or Order comes back as enabled or ordered;
// durations are cut to microseconds. What an endpoint may say is for package
// endpoint to check; this only keeps the record readable.
func EncodeEndpoint(v *Endpoint) ([]byte, error) {
	d := registry().endpoint.create(v.check(), smallSize)
	whole := *v
	whole.State, whole.Order = v.state(), v.order()
	whole.fields(&d)
	return d.encoded()
}

// DecodeEndpoint reads what EncodeEndpoint wrote, in any version; ciphertexts
// and header values point into b. The error is a *[DecodeError].
func DecodeEndpoint(b []byte) (Endpoint, error) {
	d := registry().endpoint.open(b)
	var v Endpoint
	v.fields(&d)
	if err := d.close(v.check()); err != nil {
		return Endpoint{}, err
	}
	v.State, v.Order = v.state(), v.order()
	return v, nil
}

func (e *Endpoint) check() error {
	var rate, lists error
	if e.RatePerSecond < 0 || math.IsNaN(e.RatePerSecond) || math.IsInf(e.RatePerSecond, 0) {
		rate = &FieldError{Field: "rate_per_second", Problem: "is not a number from 0 up"}
	}
	if max(len(e.Secrets), len(e.Headers), len(e.PermanentStatuses), len(e.RetryCaps)) > MaxItems {
		lists = &FieldError{
			Field:   "secrets, headers, permanent_statuses or retry_caps",
			Problem: fmt.Sprintf("has more than %d items", MaxItems),
		}
	}
	return firstError(
		checkName("id", e.ID),
		checkOneOf("state", e.state(), EndpointEnabled, EndpointDisabled),
		checkOneOf("order", e.order(), OrderOrdered, OrderParallel, OrderStrict),
		checkCounts(count{"max_in_flight", e.MaxInFlight}),
		rate,
		lists,
	)
}

func (e *Endpoint) state() EndpointState {
	if e.State == "" {
		return EndpointEnabled
	}
	return e.State
}

func (e *Endpoint) order() Order {
	if e.Order == "" {
		return OrderOrdered
	}
	return e.Order
}

func (e *Endpoint) fields(d *datum) {
	d.text("id", &e.ID)
	d.text("tenant", &e.Tenant)
	d.text("url", &e.URL)
	d.text("description", &e.Description)
	for s := range items(d, "secrets", &e.Secrets) {
		d.text("id", &s.ID)
		d.bytes("ciphertext", &s.Ciphertext)
		d.time("created_at", &s.CreatedAt)
		d.time("expires_at", &s.ExpiresAt)
	}
	for h := range items(d, "headers", &e.Headers) {
		d.text("key", &h.Key)
		d.bytes("value", &h.Value)
	}
	d.text("state", (*string)(&e.State))
	d.text("disabled_reason", &e.DisabledReason)
	d.text("order", (*string)(&e.Order))
	d.int("max_in_flight", &e.MaxInFlight)
	d.double("rate_per_second", &e.RatePerSecond)
	d.micros("timeout_micros", &e.Timeout)
	for s := range items(d, "permanent_statuses", &e.PermanentStatuses) {
		d.int(item, s)
	}
	for c := range items(d, "retry_caps_micros", &e.RetryCaps) {
		d.micros(item, c)
	}
	d.time("created_at", &e.CreatedAt)
	d.time("updated_at", &e.UpdatedAt)
	d.time("breaker_reset_at", &e.BreakerResetAt)
}
