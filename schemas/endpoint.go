package schemas

import (
	"fmt"
	"math"
	"time"
)

// EncodeEndpoint writes an endpoint's configuration in Avro single-object
// encoding. An empty State or Order comes back as enabled or ordered;
// durations are cut to microseconds. What an endpoint may say is for package
// endpoint to check; this only keeps the record readable.
func EncodeEndpoint(v *Endpoint) ([]byte, error) { return registry().endpoint.encode(v) }

// DecodeEndpoint reads what EncodeEndpoint wrote, in any version; ciphertexts
// and header values point into b. The error is a *[DecodeError].
func DecodeEndpoint(b []byte) (Endpoint, error) { return registry().endpoint.decode(b) }

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
		checkOneOf("order", e.order(), OrderOrdered, OrderParallel),
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

func endpointNative(e *Endpoint) map[string]any {
	secrets := make([]any, len(e.Secrets))
	for i, s := range e.Secrets {
		secrets[i] = map[string]any{
			"id": s.ID, "ciphertext": orEmpty(s.Ciphertext),
			"created_at": millis(s.CreatedAt), "expires_at": millis(s.ExpiresAt),
		}
	}
	headers := make([]any, len(e.Headers))
	for i, h := range e.Headers {
		headers[i] = map[string]any{"key": h.Key, "value": orEmpty(h.Value)}
	}
	statuses := make([]any, len(e.PermanentStatuses))
	for i, s := range e.PermanentStatuses {
		statuses[i] = s
	}
	caps := make([]any, len(e.RetryCaps))
	for i, c := range e.RetryCaps {
		caps[i] = c.Microseconds()
	}
	return map[string]any{
		"id":                 e.ID,
		"tenant":             e.Tenant,
		"url":                e.URL,
		"description":        e.Description,
		"secrets":            secrets,
		"headers":            headers,
		"state":              string(e.state()),
		"disabled_reason":    e.DisabledReason,
		"order":              string(e.order()),
		"max_in_flight":      e.MaxInFlight,
		"rate_per_second":    e.RatePerSecond,
		"timeout_micros":     e.Timeout.Microseconds(),
		"permanent_statuses": statuses,
		"retry_caps_micros":  caps,
		"created_at":         millis(e.CreatedAt),
		"updated_at":         millis(e.UpdatedAt),
		"breaker_reset_at":   millis(e.BreakerResetAt),
	}
}

func endpointV1(f fields) Endpoint {
	e := Endpoint{
		ID:             f.text("id"),
		Tenant:         f.text("tenant"),
		URL:            f.text("url"),
		Description:    f.text("description"),
		State:          EndpointState(f.text("state")),
		DisabledReason: f.text("disabled_reason"),
		Order:          Order(f.text("order")),
		MaxInFlight:    f.int("max_in_flight"),
		RatePerSecond:  f.double("rate_per_second"),
		Timeout:        f.micros("timeout_micros"),
		CreatedAt:      f.time("created_at"),
		UpdatedAt:      f.time("updated_at"),
		BreakerResetAt: f.time("breaker_reset_at"),
	}
	e.State, e.Order = e.state(), e.order()
	for _, s := range f.records("secrets") {
		e.Secrets = append(e.Secrets, SealedSecret{
			ID: s.text("id"), Ciphertext: s.bytes("ciphertext"),
			CreatedAt: s.time("created_at"), ExpiresAt: s.time("expires_at"),
		})
	}
	for _, h := range f.records("headers") {
		e.Headers = append(e.Headers, Header{Key: h.text("key"), Value: h.bytes("value")})
	}
	for _, s := range field[[]any](f, "permanent_statuses") {
		n, _ := s.(int32)
		e.PermanentStatuses = append(e.PermanentStatuses, int(n))
	}
	e.RetryCaps = f.durations("retry_caps_micros")
	return e
}

// durations reads an array of microseconds.
func (f fields) durations(name string) []time.Duration {
	var out []time.Duration
	for _, item := range field[[]any](f, name) {
		n, _ := item.(int64)
		out = append(out, f.duration(name, n))
	}
	return out
}
