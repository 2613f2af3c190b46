package api

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"regexp"
	"strings"
	"time"

	"github.com/barnabas-webhooks/barnabas/processor/endpoint"
	"github.com/barnabas-webhooks/barnabas/schemas"
)

// Names of the request and answer headers.
const (
	HeaderIdempotencyKey = "Idempotency-Key"
	HeaderReplayed       = "Idempotent-Replayed"
	// MaxKeyBytes is the length of the longest idempotency key.
	MaxKeyBytes = 255
)

// traceParent is version 00 of W3C Trace Context's traceparent.
var traceParent = regexp.MustCompile(`^00-[0-9a-f]{32}-[0-9a-f]{16}-[0-9a-f]{2}$`)

// Accepted is the body of a 2xx of POST /v1/deliveries.
type Accepted struct {
	DeliveryID string `json:"delivery_id"`
	EndpointID string `json:"endpoint_id"`
	// Status is accepted, duplicate (of 200: delivery_id is the key's owner) or pending.
	Status Status `json:"status"`
}

// postDelivery takes an event. Everything that may refuse it comes before the produce, so that a refusal never binds
// the key; after the produce there are only the verdict's answers.
func (a *API) postDelivery(w http.ResponseWriter, r *http.Request, who principal) error {
	key, err := idempotencyKey(r.Header)
	if err != nil {
		return err
	}
	text, release, err := a.readBody(w, r, a.opts.MaxBodyBytes)
	if err != nil {
		return err
	}
	defer release()
	body, err := schemas.ParseSendBody(text)
	if err != nil {
		return sendBodyProblem(err)
	}
	ep, err := a.target(r.Context(), &body, who)
	if err != nil {
		return err
	}
	event := body.Event(ep.ID, key)
	event.DeliveryID = schemas.MintDeliveryID()
	event.AcceptedAt = time.Now().UTC()
	if tp := r.Header.Get("Traceparent"); traceParent.MatchString(tp) {
		event.TraceParent = tp
		event.TraceState = strings.Join(r.Header.Values("Tracestate"), ",")
	}
	return a.accept(w, r, &event, ep)
}

// accept makes the event durable and answers by its verdict.
func (a *API) accept(w http.ResponseWriter, r *http.Request, event *schemas.Event, ep *endpoint.Endpoint) error {
	ctx, cancel := context.WithTimeout(r.Context(), a.opts.ProduceTimeout)
	partition, offset, err := a.opts.Log.Append(ctx, event)
	cancel()
	if err != nil {
		return appendProblem(err)
	}
	durable := time.Now()
	a.recent.appended(event, ep.Tenant)
	answer := Accepted{DeliveryID: event.DeliveryID, EndpointID: ep.ID, Status: StatusPending}

	if respondAsync(r.Header) {
		w.Header().Set("Preference-Applied", "respond-async")
		return a.pending(w, answer)
	}
	ctx, cancel = context.WithTimeout(r.Context(), a.opts.VerdictTimeout)
	defer cancel()
	verdict, ok := a.verdicts.Wait(ctx, partition, offset)
	if !ok {
		return a.pending(w, answer)
	}
	a.metrics.verdictWait.Observe(time.Since(durable).Seconds())
	a.recent.answered(event.DeliveryID, verdict)
	switch verdict.Verdict {
	case schemas.VerdictConflict:
		a.metrics.conflicts.Inc()
		return problem(http.StatusUnprocessableEntity, CodeKeyReused, "Idempotency key reused",
			"This key was used for this endpoint with another event type, content type or payload. Nothing was delivered.")
	case schemas.VerdictDuplicate:
		a.metrics.replayed.Inc()
		answer.DeliveryID, answer.Status = verdict.OwnerID, StatusDuplicate
		w.Header().Set(HeaderReplayed, "true")
		w.Header().Set("Location", "/v1/deliveries/"+answer.DeliveryID)
		return reply(w, http.StatusOK, answer)
	case schemas.VerdictFirst:
	}
	a.metrics.accepted.Inc()
	answer.Status = StatusAccepted
	w.Header().Set("Location", "/v1/deliveries/"+answer.DeliveryID)
	return reply(w, http.StatusAccepted, answer)
}

func (a *API) pending(w http.ResponseWriter, answer Accepted) error {
	a.metrics.pending.Inc()
	w.Header().Set("Location", "/v1/deliveries/"+answer.DeliveryID)
	return reply(w, http.StatusAccepted, answer)
}

// target finds the endpoint that a body names, among the caller's own.
func (a *API) target(ctx context.Context, body *schemas.SendBody, who principal) (*endpoint.Endpoint, error) {
	if err := a.ready(); err != nil {
		return nil, err
	}
	var ep *endpoint.Endpoint
	if body.URL != "" {
		var err error
		if ep, err = a.opts.Endpoints.EnsureForURL(ctx, who.tenant(), body.URL); err != nil {
			return nil, err
		}
	} else {
		var ok bool
		ep, ok = a.opts.Table.Get(body.EndpointID)
		switch {
		case ok && ep.Locked != nil:
			// Whose it is may not be known: neither "unknown" nor "yours" would be true.
		case !ok || who.scope != "" && ep.Tenant != who.scope:
			return nil, problem(http.StatusNotFound, CodeUnknownEndpoint, "Unknown endpoint",
				fmt.Sprintf("There is no endpoint %q; save it first, or send to a url.", body.EndpointID))
		}
	}
	if ep.Locked != nil {
		return nil, endpoint.ErrLocked
	}
	if !ep.Enabled() {
		return nil, problem(http.StatusConflict, CodeEndpointDisabled, "Endpoint disabled",
			"The endpoint is disabled; the event was not taken. Enable the endpoint and send again with the same key.")
	}
	return ep, nil
}

// getDelivery tells what this node has seen of a delivery lately. It knows what it accepted itself and what passed on
// the idempotency and attempts topics since it started, up to a bounded number; it does not search the topics.
func (a *API) getDelivery(w http.ResponseWriter, r *http.Request, who principal) error {
	missing := notFound("This server has not seen the delivery lately: it remembers what passed since it started, " +
		"up to a bounded number. The attempts topic holds every attempt of the last days.")
	status, ok := a.recent.get(r.PathValue("id"))
	if !ok {
		return missing
	}
	if who.scope != "" {
		tenant := status.tenant
		if ep, ok := a.opts.Table.Get(status.EndpointID); ok {
			tenant = ep.Tenant
		}
		if tenant != who.scope {
			return missing
		}
	}
	return reply(w, http.StatusOK, status)
}

// idempotencyKey reads the key: 1 to 255 visible ASCII characters, once.
func idempotencyKey(h http.Header) (string, error) {
	values := h.Values(HeaderIdempotencyKey)
	if len(values) == 0 {
		return "", problem(http.StatusBadRequest, CodeMissingKey, "Idempotency key missing",
			"The header Idempotency-Key is required: it makes sending again safe.")
	}
	key := values[0]
	invisible := func(c rune) bool { return c < '!' || c > '~' }
	if len(values) > 1 || key == "" || len(key) > MaxKeyBytes || strings.ContainsFunc(key, invisible) {
		return "", badRequest("Idempotency-Key must be there once, with 1 to 255 visible ASCII characters.")
	}
	return key, nil
}

// respondAsync says whether the caller would rather not wait (RFC 7240 section 4.1).
func respondAsync(h http.Header) bool {
	for _, line := range h.Values("Prefer") {
		for p := range strings.SplitSeq(line, ",") {
			name, _, _ := strings.Cut(p, ";")
			if strings.EqualFold(strings.TrimSpace(name), "respond-async") {
				return true
			}
		}
	}
	return false
}

// sendBodyProblem tells what is wrong with a body; its errors repeat nothing of it but names and sizes.
func sendBodyProblem(err error) *Problem {
	detail := err.Error()
	var decode *schemas.DecodeError
	if errors.As(err, &decode) {
		detail = decode.Err.Error()
	}
	if errors.Is(err, schemas.ErrTooLarge) {
		p := tooLarge(schemas.MaxPayloadBytes, 0)
		p.Detail = detail
		return p
	}
	return badRequest(detail)
}

// appendProblem tells why an event may not be durable.
func appendProblem(err error) error {
	var p *Problem
	switch {
	case errors.Is(err, ErrEventTooLarge):
		p = problem(http.StatusRequestEntityTooLarge, CodePayloadTooLarge, "Event too large",
			"The events topic does not take records of this size.")
	case errors.Is(err, schemas.ErrTooLarge):
		p = sendBodyProblem(err)
	case errors.Is(err, ErrBufferFull):
		p = overloaded("Too much is under way to Kafka; try again.")
	default:
		p = unavailableProblem("The event is not known to be durable; send it again with the same Idempotency-Key.")
	}
	return &causedError{Problem: p, cause: err}
}

// causedError is a problem whose cause is for the log only.
type causedError struct {
	*Problem
	cause error
}

func (p *causedError) Error() string   { return p.Problem.Error() + ": " + p.cause.Error() }
func (p *causedError) Unwrap() []error { return []error{p.Problem, p.cause} }
