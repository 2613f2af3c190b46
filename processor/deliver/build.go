package deliver

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/barnabas-webhooks/barnabas/processor/egress"
	"github.com/barnabas-webhooks/barnabas/processor/sign"
	"github.com/barnabas-webhooks/barnabas/schemas"
)

// maxResends bounds how often the transport may send a request's body again after the peer said that it did not
// process it. net/http's own bound of about as many starts anew with each connection, so that a peer which goes away
// from every one would be hammered until the attempt's time is up. It takes this many because a receiver of few
// streams refuses those of a burst that began before its SETTINGS came, several connections in a row.
const maxResends = 6

// errResends ends the resending.
var errResends = errors.New("the receiver refused the request on several connections without processing it")

// build makes the signed POST. Its errors are *egress.BlockedError where the guard refuses the URL, else faults of
// configuration or of the event; all are safe to show.
func (s *Sender) build(ctx context.Context, r Request, seen *observer, now time.Time) (*http.Request, error) {
	if r.Delivery == nil || r.Endpoint == nil {
		return nil, errors.New("there is no configuration for the endpoint")
	}
	u, err := s.dialer.CheckURL(r.Endpoint.URL)
	if err != nil {
		if errors.Is(err, egress.ErrBlocked) {
			return nil, err
		}
		return nil, fmt.Errorf("the endpoint cannot be used: %w", err)
	}
	header, err := s.header(r, now)
	if err != nil {
		return nil, err
	}
	req := new(http.Request).WithContext(ctx) // which copies the request: better an empty one
	req.Method, req.URL, req.Host, req.Header = http.MethodPost, u, u.Host, header
	req.Proto, req.ProtoMajor, req.ProtoMinor = "HTTP/1.1", 1, 1
	setBody(req, r.Delivery.Payload, seen)
	return req, nil
}

// setBody makes the body replayable: a request that was refused unprocessed goes out again whole, or not at all. It is of
// a type that net/http knows to lie in memory, so that headers and body leave in one write.
func setBody(req *http.Request, payload []byte, seen *observer) {
	if len(payload) == 0 {
		req.Body = http.NoBody // Content-Length: 0
		return
	}
	req.Body = io.NopCloser(bytes.NewReader(payload))
	req.ContentLength = int64(len(payload))
	req.GetBody = func() (io.ReadCloser, error) {
		// The transport asks for fresh bodies more often than it sends them: what was sent is what counts.
		if seen.sends() > maxResends {
			return nil, errResends
		}
		return io.NopCloser(bytes.NewReader(payload)), nil
	}
}

// ours is how many headers are set beside an endpoint's own, at most.
const ours = 9

// Names as net/http keeps and writes them: to Header.Set they would be spelled so for each request. HTTP/2 has them in lower case.
const (
	canonicalID        = "Webhook-Id"
	canonicalTimestamp = "Webhook-Timestamp"
	canonicalSignature = "Webhook-Signature"
	canonicalAttempt   = "Barnabas-Attempt"
	canonicalEventType = "Barnabas-Event-Type"
)

// header is the whole set, from one place for every attempt, so that a retry cannot lack what the first one had.
func (s *Sender) header(r Request, now time.Time) (http.Header, error) {
	d := r.Delivery
	if d.ID == "" || len(d.ID) > MaxHeaderNameBytes || strings.ContainsAny(d.ID, " \t") || !validValue(d.ID) {
		return nil, errors.New("the delivery id cannot be sent in a header")
	}
	keys := r.Endpoint.ActiveKeys(now)
	if len(keys) == 0 {
		return nil, errors.New("the endpoint has no active signing secret")
	}
	if err := ValidateHeaders(r.Endpoint.Headers); err != nil {
		return nil, err
	}
	size := ours
	if d.TraceParent == "" {
		size -= 2 // up to eight lie in one piece of memory
	}
	h := make(http.Header, size+len(r.Endpoint.Headers))
	for _, custom := range r.Endpoint.Headers {
		h.Set(custom.Key, string(custom.Value))
	}
	values := make([]string, 0, ours) // one piece of memory for all of them
	set := func(name, value string) {
		values = append(values, value)
		h[name] = values[len(values)-1 : len(values) : len(values)]
	}
	contentType := d.ContentType
	if contentType == "" {
		contentType = "application/json"
	}
	if len(contentType) > MaxHeaderValueBytes || !validValue(contentType) {
		return nil, errors.New("the event's content type cannot be sent in a header")
	}
	set("Content-Type", contentType)
	set("User-Agent", s.userAgent)
	set(canonicalID, d.ID)
	set(canonicalTimestamp, sign.Timestamp(now))
	set(canonicalSignature, sign.Sign(d.ID, now, d.Payload, keys))
	set(canonicalAttempt, strconv.Itoa(r.Number))
	if d.EventType != "" {
		encoded := encodeValue(d.EventType)
		if len(encoded) > MaxHeaderValueBytes {
			return nil, errors.New("the event type is too long for a header")
		}
		set(canonicalEventType, encoded)
	}
	setTrace(set, d)
	return h, nil
}

// setTrace passes a W3C trace context on as it came. A broken one is left out: it is no reason to fail a delivery.
func setTrace(set func(name, value string), d *schemas.Delivery) {
	if len(d.TraceParent) < 55 || len(d.TraceParent) > 128 || strings.Trim(d.TraceParent, "0123456789abcdef-") != "" {
		return
	}
	set("Traceparent", d.TraceParent)
	if d.TraceState != "" && len(d.TraceState) <= 512 && validValue(d.TraceState) {
		set("Tracestate", d.TraceState)
	}
}
