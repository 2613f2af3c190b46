// Package client calls the HTTP API: what the barnabas command uses for sending and for managing endpoints.
// Nothing is tried again but by SendUntil: a send is made safe to repeat by its idempotency key, and whether to repeat
// it is the caller's choice.
package client

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/barnabas-webhooks/barnabas/internal/api"
	"github.com/barnabas-webhooks/barnabas/internal/secret"
)

const (
	// defaultTimeout bounds one call when Options give none.
	defaultTimeout = 30 * time.Second
	// maxAnswer bounds the answer that is read: a full page of endpoints with long URLs and headers.
	maxAnswer = 32 << 20
)

// errRequest is a request that cannot be made: trying again is of no use.
var errRequest = errors.New("the request cannot be made")

// Options say where the API is and who calls.
type Options struct {
	// BaseURL is the API's address without /v1, such as http://127.0.0.1:8080.
	BaseURL string
	// Token is the bearer key; empty: none is sent.
	Token secret.String
	// Timeout bounds each call. 0: 30 s.
	Timeout time.Duration
	// HTTP makes the requests. Nil: a client that follows no redirects, so that the token goes nowhere else.
	HTTP *http.Client
}

// Client calls one API. Safe for concurrent use.
type Client struct {
	base  *url.URL
	token secret.String
	http  *http.Client
}

// New checks the options.
func New(o Options) (*Client, error) {
	base, err := url.Parse(o.BaseURL)
	if err != nil || base.Scheme != "http" && base.Scheme != "https" || base.Host == "" {
		return nil, errors.New("api client: the address must be http://host:port or https://host:port")
	}
	if base.User != nil {
		return nil, errors.New("api client: user name and password in the address are not used; give a token")
	}
	if o.Timeout <= 0 {
		o.Timeout = defaultTimeout
	}
	hc := o.HTTP
	if hc == nil {
		hc = &http.Client{
			Timeout:       o.Timeout,
			CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		}
	}
	return &Client{base: base, token: o.Token, http: hc}, nil
}

// Error is an answer of the API that is no success.
type Error struct {
	Status     int           // HTTP
	Problem    api.Problem   // what the API said; its Title is the status text when it said nothing readable
	RetryAfter time.Duration // 0: not said
}

// Error shows the problem's detail and what is wrong with which field.
func (e *Error) Error() string {
	text := fmt.Sprintf("%d %s", e.Status, e.Problem.Title)
	if len(e.Problem.Errors) > 0 {
		for _, p := range e.Problem.Errors {
			text += "\n  " + p.Field + ": " + p.Reason
		}
	} else if e.Problem.Detail != "" {
		text += ": " + e.Problem.Detail
	}
	if e.RetryAfter > 0 {
		text += fmt.Sprintf(" (try again in %s)", e.RetryAfter)
	}
	return text
}

// Temporary says whether the same call may succeed later.
func (e *Error) Temporary() bool {
	switch e.Status {
	case http.StatusServiceUnavailable, http.StatusTooManyRequests, http.StatusGatewayTimeout:
		return true
	}
	return false
}

// IsNotFound says whether an error is the API's "there is no such thing".
func IsNotFound(err error) bool {
	e, ok := errors.AsType[*Error](err)
	return ok && e.Status == http.StatusNotFound
}

// Send is one event to hand over.
type Send struct {
	// EndpointID or URL says where to.
	EndpointID, URL string
	EventType       string
	// Payload is sent on byte for byte: as it stands in the request if JSON is set, else in base64.
	Payload []byte
	// JSON says that Payload is JSON text; ContentType may then be empty.
	JSON           bool
	ContentType    string
	IdempotencyKey string // required
	TraceParent    string
	// Async asks not to wait for the verdict.
	Async bool
}

// Sent is the API's answer to a send.
type Sent struct {
	api.Accepted
	Replayed bool `json:"replayed"` // the key was in use with the same content: the id is its owner's
}

// Send hands over one event. A conflict of the key is an *Error with status 422.
func (c *Client) Send(ctx context.Context, s Send) (Sent, error) {
	body, err := s.body()
	if err != nil {
		return Sent{}, err
	}
	if s.IdempotencyKey == "" {
		return Sent{}, fmt.Errorf("%w: it has no idempotency key", errRequest)
	}
	header := http.Header{}
	header.Set(api.HeaderIdempotencyKey, api.QuoteKey(s.IdempotencyKey))
	if s.Async {
		header.Set("Prefer", "respond-async")
	}
	if s.TraceParent != "" {
		header.Set("Traceparent", s.TraceParent)
	}
	var out Sent
	got, err := c.do(ctx, http.MethodPost, "/v1/deliveries", nil, header, body, &out.Accepted)
	if err != nil {
		return Sent{}, err
	}
	out.Replayed = got.Get(api.HeaderReplayed) == "true"
	return out, nil
}

// body writes the request's JSON around the payload, whose bytes are not touched.
func (s *Send) body() ([]byte, error) {
	fields := map[string]any{"event_type": s.EventType}
	if s.EndpointID != "" {
		fields["endpoint_id"] = s.EndpointID
	}
	if s.URL != "" {
		fields["url"] = s.URL
	}
	if s.ContentType != "" {
		fields["content_type"] = s.ContentType
	}
	if !s.JSON {
		fields["payload_base64"] = s.Payload // encoding/json writes bytes so
	} else if !json.Valid(s.Payload) {
		return nil, fmt.Errorf("%w: the payload is not valid JSON; give its content type to send it as it is", errRequest)
	}
	text, err := json.Marshal(fields)
	if err != nil || !s.JSON {
		return text, err
	}
	// Marshal would compact a RawMessage, hence by hand.
	text = append(text[:len(text)-1], `,"payload":`...)
	return append(append(text, s.Payload...), '}'), nil
}

// Delivery tells what became of a delivery. With its endpoint, a server that has not seen it searches the topics;
// with none, it knows only what it remembers.
func (c *Client) Delivery(ctx context.Context, id, endpointID string) (api.DeliveryStatus, error) {
	var out api.DeliveryStatus
	q := url.Values{}
	if endpointID != "" {
		q.Set("endpoint_id", endpointID)
	}
	_, err := c.do(ctx, http.MethodGet, path("deliveries", id, ""), q, nil, nil, &out)
	return out, err
}

// PutEndpoint creates or replaces an endpoint; with no id in the spec, it creates one under a new id.
func (c *Client) PutEndpoint(ctx context.Context, spec api.EndpointSpec) (api.Endpoint, error) {
	method, path := http.MethodPost, "/v1/endpoints"
	if spec.ID != "" {
		method, path = http.MethodPut, endpointPath(spec.ID, "")
	}
	return c.endpoint(ctx, method, path, spec)
}

// Endpoint reads one endpoint.
func (c *Client) Endpoint(ctx context.Context, id string) (api.Endpoint, error) {
	return c.endpoint(ctx, http.MethodGet, endpointPath(id, ""), nil)
}

// Endpoints reads one page of endpoints: those with ids above after. Limit 0: the server's default.
func (c *Client) Endpoints(ctx context.Context, tenant, after string, limit int) (api.EndpointPage, error) {
	q := url.Values{}
	for name, value := range map[string]string{"tenant": tenant, "after": after} {
		if value != "" {
			q.Set(name, value)
		}
	}
	if limit > 0 {
		q.Set("limit", strconv.Itoa(limit))
	}
	var out api.EndpointPage
	_, err := c.do(ctx, http.MethodGet, "/v1/endpoints", q, nil, nil, &out)
	return out, err
}

// DeleteEndpoint removes an endpoint.
func (c *Client) DeleteEndpoint(ctx context.Context, id string) error {
	_, err := c.do(ctx, http.MethodDelete, endpointPath(id, ""), nil, nil, nil, nil)
	return err
}

// EnableEndpoint lets deliveries be attempted again.
func (c *Client) EnableEndpoint(ctx context.Context, id string) (api.Endpoint, error) {
	return c.endpoint(ctx, http.MethodPost, endpointPath(id, "/enable"), nil)
}

// ResetBreaker closes the endpoint's breaker, wherever it is.
func (c *Client) ResetBreaker(ctx context.Context, id string) (api.Endpoint, error) {
	return c.endpoint(ctx, http.MethodPost, endpointPath(id, "/reset-breaker"), nil)
}

// DisableEndpoint stops deliveries from being attempted.
func (c *Client) DisableEndpoint(ctx context.Context, id, reason string) (api.Endpoint, error) {
	return c.endpoint(ctx, http.MethodPost, endpointPath(id, "/disable"), api.DisableSpec{Reason: reason})
}

// RotateSecret gives an endpoint a new secret, which is in the answer.
func (c *Client) RotateSecret(ctx context.Context, id string, spec api.RotateSpec) (api.Endpoint, error) {
	return c.endpoint(ctx, http.MethodPost, endpointPath(id, "/rotate-secret"), spec)
}

func endpointPath(id, action string) string { return path("endpoints", id, action) }

// path is an escaped path. Dots alone would be taken for steps up by servers on the way, so they are escaped too.
func path(kind, id, action string) string {
	escaped := url.PathEscape(id)
	if strings.Trim(id, ".") == "" {
		escaped = strings.ReplaceAll(id, ".", "%2E")
	}
	return "/v1/" + kind + "/" + escaped + action
}

func (c *Client) endpoint(ctx context.Context, method, path string, in any) (api.Endpoint, error) {
	var body []byte
	if in != nil {
		var err error
		if body, err = json.Marshal(in); err != nil {
			return api.Endpoint{}, err
		}
	}
	var out api.Endpoint
	_, err := c.do(ctx, method, path, nil, nil, body, &out)
	return out, err
}

// do makes one call to an escaped path. Out may be nil.
func (c *Client) do(
	ctx context.Context, method, path string, q url.Values, header http.Header, body []byte, out any,
) (http.Header, error) {
	target := strings.TrimRight(c.base.Scheme+"://"+c.base.Host+c.base.EscapedPath(), "/") + path
	if len(q) > 0 {
		target += "?" + q.Encode()
	}
	req, err := http.NewRequestWithContext(ctx, method, target, bytes.NewReader(body))
	if err != nil {
		return nil, fmt.Errorf("call the API: %w: %w", errRequest, err)
	}
	if header != nil {
		req.Header = header
	}
	req.Header.Set("Accept", "application/json, application/problem+json")
	if body != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	if c.token != "" {
		req.Header.Set("Authorization", "Bearer "+c.token.Reveal())
	}
	resp, err := c.http.Do(req)
	if err != nil {
		return nil, fmt.Errorf("call the API: %w", err)
	}
	defer func() { _ = resp.Body.Close() }()
	text, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer+1))
	if err != nil {
		return nil, fmt.Errorf("read the API's answer: %w", err)
	}
	if len(text) > maxAnswer {
		return nil, fmt.Errorf("read the API's answer: it is longer than %d bytes", maxAnswer)
	}
	if resp.StatusCode < 200 || resp.StatusCode > 299 {
		return nil, errorOf(resp, text)
	}
	if out != nil {
		if err := json.Unmarshal(text, out); err != nil {
			return nil, fmt.Errorf("read the API's answer: %w; is %s the address of the API?", err, c.base.Host)
		}
	}
	return resp.Header, nil
}

func errorOf(resp *http.Response, text []byte) error {
	e := &Error{Status: resp.StatusCode}
	if kind, _, _ := mime.ParseMediaType(resp.Header.Get("Content-Type")); kind == "application/problem+json" {
		_ = json.Unmarshal(text, &e.Problem) // what is not readable stays empty
	}
	if e.Problem.Title == "" {
		e.Problem = api.Problem{Title: http.StatusText(resp.StatusCode), Status: resp.StatusCode}
	}
	if s, err := strconv.Atoi(resp.Header.Get("Retry-After")); err == nil && s > 0 {
		e.RetryAfter = time.Duration(s) * time.Second
	}
	return e
}
