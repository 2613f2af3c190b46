package api

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"time"

	"github.com/barnabas-webhooks/barnabas/processor/endpoint"
)

// Codes of problems: a closed set, the last part of a problem's type and the label "reason" of rejected requests.
const (
	CodeBadRequest         = "bad-request"
	CodeInvalid            = "invalid"
	CodeUnauthorized       = "unauthorized"
	CodeForbidden          = "forbidden"
	CodeNotFound           = "not-found"
	CodeMethodNotAllowed   = "method-not-allowed"
	CodeUnknownEndpoint    = "unknown-endpoint"
	CodeEndpointDisabled   = "endpoint-disabled"
	CodeIDTaken            = "id-taken"
	CodeLimitReached       = "limit-reached"
	CodePayloadTooLarge    = "payload-too-large"
	CodeUnsupportedMedia   = "unsupported-media-type"
	CodeKeyReused          = "idempotency-key-reused"
	CodeMissingKey         = "idempotency-key-missing"
	CodeOverloaded         = "overloaded"
	CodeBufferFull         = "buffer-full"
	CodeBacklog            = "backlog"
	CodeRateLimited        = "rate-limited"
	CodeConcurrencyLimited = "concurrency-limited"
	CodeSearchEnded        = "search-ended"
	CodeUnavailable        = "unavailable"
	CodeInternal           = "internal"
	problemTypePrefix      = "urn:barnabas:problem:"
	problemContentType     = "application/problem+json"
	defaultRetryAfter      = 2 * time.Second
	overloadedRetryAfter   = 1 * time.Second
	backlogRetryAfter      = 10 * time.Second // the lag is read again within that time
	maxProblemDetailLength = 1 << 10
)

// Codes lists the set: for metrics that are there from the start, and for the OpenAPI document's test.
func Codes() []string {
	return []string{
		CodeBadRequest, CodeInvalid, CodeUnauthorized, CodeForbidden, CodeNotFound, CodeMethodNotAllowed,
		CodeUnknownEndpoint, CodeEndpointDisabled, CodeIDTaken, CodeLimitReached, CodePayloadTooLarge,
		CodeUnsupportedMedia, CodeKeyReused, CodeMissingKey, CodeOverloaded, CodeBufferFull, CodeBacklog, CodeRateLimited,
		CodeConcurrencyLimited, CodeSearchEnded, CodeUnavailable, CodeInternal,
	}
}

// Problem is an RFC 9457 problem document. It is an error, so that handlers can return it.
type Problem struct { //nolint:errname // a document of RFC 9457, that is an error too
	Type   string             `json:"type"`
	Title  string             `json:"title"`
	Status int                `json:"status"`
	Detail string             `json:"detail,omitempty"`
	Errors []endpoint.Problem `json:"errors,omitempty"` // of the fields, where several are wrong
	Limit  int64              `json:"limit,omitempty"`  // 413: what is allowed, in bytes
	Size   int64              `json:"size,omitempty"`   // 413: what was announced, in bytes; 0: not announced

	code       string
	retryAfter time.Duration
}

func (p *Problem) Error() string { return p.Title + ": " + p.Detail }

func problem(status int, code, title, detail string) *Problem {
	if len(detail) > maxProblemDetailLength {
		detail = detail[:maxProblemDetailLength]
	}
	return &Problem{Type: problemTypePrefix + code, Title: title, Status: status, Detail: detail, code: code}
}

func badRequest(detail string) *Problem {
	return problem(http.StatusBadRequest, CodeBadRequest, "Bad request", detail)
}

func notFound(detail string) *Problem {
	return problem(http.StatusNotFound, CodeNotFound, "Not found", detail)
}

func unsupported(detail string) *Problem {
	return problem(http.StatusUnsupportedMediaType, CodeUnsupportedMedia, "Unsupported media type", detail)
}

func unavailableProblem(detail string) *Problem {
	return retryLater(http.StatusServiceUnavailable, CodeUnavailable, "Not available now", detail, defaultRetryAfter)
}

func overloaded(detail string) *Problem {
	return retryLater(http.StatusServiceUnavailable, CodeOverloaded, "Overloaded", detail, overloadedRetryAfter)
}

// retryLater is a problem that time heals, after the given wait.
func retryLater(status int, code, title, detail string, after time.Duration) *Problem {
	p := problem(status, code, title, detail)
	p.retryAfter = max(after, time.Second)
	return p
}

func tooLarge(limit, size int64) *Problem {
	p := problem(http.StatusRequestEntityTooLarge, CodePayloadTooLarge, "Request body too large", "")
	p.Limit, p.Size = limit, size
	if size > 0 {
		p.Detail = fmt.Sprintf("The body has %d bytes; at most %d are taken.", size, limit)
	} else {
		p.Detail = fmt.Sprintf("The body has more than %d bytes, which is the limit.", limit)
	}
	return p
}

// problemOf maps an error to what the caller is told. What it does not know is an internal error, of which the caller
// learns nothing.
func problemOf(err error) *Problem {
	var p *Problem
	var invalid *endpoint.InvalidError
	switch {
	case errors.As(err, &p):
		return p
	case errors.As(err, &invalid):
		p = problem(http.StatusBadRequest, CodeInvalid, "Invalid endpoint", invalid.Error())
		p.Errors = invalid.Problems
		return p
	case errors.Is(err, endpoint.ErrNotFound):
		return notFound("There is no such endpoint.")
	case errors.Is(err, endpoint.ErrIDTaken):
		return problem(http.StatusConflict, CodeIDTaken, "Id taken",
			"The endpoint's id is in use: by another tenant, or for another URL. To replace one of your own, PUT it.")
	case errors.Is(err, endpoint.ErrTooManySecrets):
		return problem(http.StatusConflict, CodeLimitReached, "Too many active secrets",
			"So many secrets are in their overlap that no further one is taken; an overlap of 0 ends them.")
	case errors.Is(err, endpoint.ErrTooManyEndpoints):
		return problem(http.StatusConflict, CodeLimitReached, "Too many endpoints", "The limit of endpoints is reached.")
	case errors.Is(err, endpoint.ErrLocked):
		return unavailableProblem("The endpoint's present version cannot be read by this server: " +
			"its sealing key differs, or the version is newer.")
	case errors.Is(err, endpoint.ErrUnavailable):
		return unavailableProblem("The change may not have been saved; try again.")
	}
	return problem(http.StatusInternalServerError, CodeInternal, "Internal error",
		"Something went wrong here, not with the request.")
}

// write sends the problem.
func (p *Problem) write(w http.ResponseWriter) {
	h := w.Header()
	h.Set("Content-Type", problemContentType)
	h.Set("Cache-Control", "no-store")
	if p.retryAfter > 0 {
		h.Set("Retry-After", strconv.Itoa(int((p.retryAfter+time.Second-1)/time.Second)))
	}
	if p.Status == http.StatusUnauthorized {
		h.Set("WWW-Authenticate", `Bearer realm="barnabas"`)
	}
	w.WriteHeader(p.Status)
	_ = json.NewEncoder(w).Encode(p) // the caller may be gone
}
