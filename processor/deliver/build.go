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
	"sync/atomic"
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
func (s *Sender) build(ctx context.Context, r Request, now time.Time) (*http.Request, error) {
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
	req := &http.Request{
		Method: http.MethodPost, URL: u, Host: u.Host, Header: header,
		Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
	}
	s.setBody(req, r.Delivery.Payload)
	return req.WithContext(ctx), nil
}

// setBody makes the body replayable: a request that was refused unprocessed goes out again whole, or not at all.
func (s *Sender) setBody(req *http.Request, payload []byte) {
	if len(payload) == 0 {
		req.Body = http.NoBody // Content-Length: 0
		return
	}
	sends := new(atomic.Int64)
	fresh := func() io.ReadCloser { return &body{payload: bytes.NewReader(payload), sends: sends, stats: &s.stats} }
	req.Body = fresh()
	req.ContentLength = int64(len(payload))
	req.GetBody = func() (io.ReadCloser, error) { return fresh(), nil }
}

// body counts the sends that really begin: the transport asks for fresh bodies more often than it sends them.
type body struct {
	payload *bytes.Reader
	sends   *atomic.Int64
	stats   *counters
	begun   bool // read by one goroutine at a time
}

func (b *body) Read(p []byte) (int, error) {
	if !b.begun {
		b.begun = true
		switch n := b.sends.Add(1); {
		case n > maxResends+1:
			return 0, errResends
		case n > 1:
			b.stats.resends.Add(1)
		}
	}
	return b.payload.Read(p)
}

func (b *body) Close() error { return nil }

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
	h := http.Header{}
	for _, custom := range r.Endpoint.Headers {
		h.Set(custom.Key, string(custom.Value))
	}
	contentType := d.ContentType
	if contentType == "" {
		contentType = "application/json"
	}
	if len(contentType) > MaxHeaderValueBytes || !validValue(contentType) {
		return nil, errors.New("the event's content type cannot be sent in a header")
	}
	h.Set("content-type", contentType)
	h.Set("user-agent", s.userAgent)
	h.Set(sign.HeaderID, d.ID)
	h.Set(sign.HeaderTimestamp, sign.Timestamp(now))
	h.Set(sign.HeaderSignature, sign.Sign(d.ID, now, d.Payload, keys))
	h.Set(HeaderAttempt, strconv.Itoa(r.Number))
	if d.EventType != "" {
		encoded := encodeValue(d.EventType)
		if len(encoded) > MaxHeaderValueBytes {
			return nil, errors.New("the event type is too long for a header")
		}
		h.Set(HeaderEventType, encoded)
	}
	setTrace(h, d)
	return h, nil
}

// setTrace passes a W3C trace context on as it came. A broken one is left out: it is no reason to fail a delivery.
func setTrace(h http.Header, d *schemas.Delivery) {
	if len(d.TraceParent) < 55 || len(d.TraceParent) > 128 || strings.Trim(d.TraceParent, "0123456789abcdef-") != "" {
		return
	}
	h.Set("traceparent", d.TraceParent)
	if d.TraceState != "" && len(d.TraceState) <= 512 && validValue(d.TraceState) {
		h.Set("tracestate", d.TraceState)
	}
}
