package api

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
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
	if err := who.gate.mayPass(time.Now()); err != nil {
		return err // before the body costs anything
	}
	text, release, err := a.readBody(w, r, who, a.opts.MaxBodyBytes)
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
	if err := a.backlog.refuses(ep.ID, time.Now()); err != nil {
		return err
	}
	if err := who.gate.pass(time.Now()); err != nil {
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
		w.Header().Set("Location", location(&answer))
		return reply(w, http.StatusOK, answer)
	case schemas.VerdictFirst:
	}
	a.metrics.accepted.Inc()
	answer.Status = StatusAccepted
	w.Header().Set("Location", location(&answer))
	return reply(w, http.StatusAccepted, answer)
}

func (a *API) pending(w http.ResponseWriter, answer Accepted) error {
	a.metrics.pending.Inc()
	w.Header().Set("Location", location(&answer))
	return reply(w, http.StatusAccepted, answer)
}

// location is where to ask for the delivery. It names the endpoint, so that a node that has not seen it can search.
func location(a *Accepted) string {
	return "/v1/deliveries/" + a.DeliveryID + "?endpoint_id=" + url.QueryEscape(a.EndpointID)
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
				fmt.Sprintf("There is no endpoint %q, or it is another tenant's; save it first, or send to a url.", body.EndpointID))
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

// getDelivery tells what became of a delivery: from memory if this node has seen it, else, where the caller says of
// which endpoint it is, by a bounded search of the topics. So any node can answer, also after a restart.
func (a *API) getDelivery(w http.ResponseWriter, r *http.Request, who principal) error {
	status, ok := a.recent.get(r.PathValue("id"))
	if !ok {
		var err error
		if status, err = a.find(r.Context(), r.PathValue("id"), r.URL.Query().Get("endpoint_id"), who); err != nil {
			return err
		}
	}
	if !a.shows(&status, who) {
		return unknownDelivery()
	}
	return reply(w, http.StatusOK, status)
}

func unknownDelivery() *Problem {
	return notFound("There is no such delivery, or its records are no longer kept.")
}

// shows says whether a delivery is the caller's to see.
func (a *API) shows(s *DeliveryStatus, who principal) bool {
	tenant := s.tenant
	if ep, ok := a.opts.Table.Get(s.EndpointID); ok {
		tenant = ep.Tenant
	}
	return who.scope == "" || tenant == who.scope
}

// find searches the topics for a delivery that this node does not remember.
func (a *API) find(ctx context.Context, id, endpointID string, who principal) (DeliveryStatus, error) {
	none := DeliveryStatus{}
	if endpointID == "" {
		return none, notFound("This server does not remember the delivery: it knows those that passed since it started, up to " +
			"a bounded number. With ?endpoint_id= the topics are searched for it.")
	}
	if err := schemas.CheckEndpointID(endpointID); err != nil {
		return none, badRequest("endpoint_id is no endpoint's id.")
	}
	minted, ok := schemas.MintedAt(id)
	if now := time.Now(); !ok || minted.After(now.Add(clockSlack)) || now.Sub(minted) > longestKept {
		return none, notFound("This server does not remember the delivery, and its id does not say when it was accepted, or that " +
			"is too long ago: only ids given by this API within the last days can be searched for.")
	}
	if err := a.ready(); err != nil {
		return none, err
	}
	if ep, ok := a.opts.Table.Get(endpointID); ok && who.scope != "" && ep.Tenant != who.scope {
		return none, unknownDelivery()
	}
	select {
	case a.searching <- struct{}{}:
		defer func() { <-a.searching }()
	default:
		return none, overloaded("Too many searches for deliveries are under way; try again.")
	}
	limited, cancel := context.WithTimeout(ctx, a.opts.SearchTimeout)
	defer cancel()
	begun := time.Now()
	f, err := a.search(limited, id, endpointID, minted)
	a.metrics.searchSeconds.Observe(time.Since(begun).Seconds())
	result := searchFound
	switch {
	case err != nil:
		result = searchFailed
		err = &causedError{Problem: unavailableProblem("The topics could not be searched; try again."), cause: err}
	case !f.known && f.whole:
		result, err = searchNone, unknownDelivery()
	case !f.known:
		result, err = searchBounded, a.searchEnded()
	case !f.whole:
		result, f.status.Partial = searchBounded, true
	default:
		a.recent.searched(&f.status)
	}
	a.metrics.searches.WithLabelValues(result).Inc()
	return f.status, err
}

// longestKept is how long the topics that a search reads keep their records; older ids are not searched for.
const longestKept = 8 * 24 * time.Hour

// searchEnded is not "there is no such delivery": so much is not known.
func (a *API) searchEnded() *Problem {
	return problem(http.StatusNotFound, CodeSearchEnded, "Not found within the search's bounds",
		fmt.Sprintf("The search read %d bytes of a topic, or used up its %s, and has found nothing of the delivery. It may be there "+
			"nevertheless, behind so many other records.", a.opts.SearchBytes, a.opts.SearchTimeout))
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
		p = retryLater(http.StatusServiceUnavailable, CodeBufferFull, "Buffer full", "So much is under way to Kafka that no more is "+
			"taken: it is slow or away. Nothing was taken; send again with the same Idempotency-Key.", defaultRetryAfter)
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
