package deliver

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptrace"
	"os"
	"time"

	"github.com/barnabas-webhooks/barnabas/processor/egress"
	"github.com/barnabas-webhooks/barnabas/retry"
)

// errTotal is the cause when the limit of the whole attempt ran out.
var errTotal = errors.New("the attempt's time limit ran out")

// Sender makes attempts. Safe for concurrent use.
type Sender struct {
	cfg        Config
	dialer     *egress.Dialer
	userAgent  string
	rootsEmpty bool
	stats      counters
	pools      pools
}

// New builds a sender that connects through the dialer. It fails when the configuration cannot hold, or CAFile
// cannot be read or has no certificate.
func New(cfg Config, dialer *egress.Dialer) (*Sender, error) {
	if err := cfg.Validate(); err != nil {
		return nil, fmt.Errorf("deliver: %w", err)
	}
	roots, empty, err := loadRoots(cfg.CAFile)
	if err != nil {
		return nil, fmt.Errorf("deliver: %w", err)
	}
	s := &Sender{cfg: cfg, dialer: dialer, userAgent: "Barnabas", rootsEmpty: empty}
	if cfg.Version != "" {
		s.userAgent += "/" + encodeValue(cfg.Version)
	}
	s.pools = pools{cfg: cfg, dialer: dialer, stats: &s.stats, tls: &tls.Config{
		MinVersion:         tls.VersionTLS12,
		RootCAs:            roots,
		ClientSessionCache: tls.NewLRUClientSessionCache(cfg.MaxIdleConns),
	}}
	return s, nil
}

// RootsEmpty says that no root certificate was found, so that every https delivery will fail: worth a warning at
// start.
func (s *Sender) RootsEmpty() bool { return s.rootsEmpty }

// Close closes idle connections. Attempts under way go on.
func (s *Sender) Close() { s.pools.closeIdle() }

// loadRoots gives the system's roots and those of the file, and whether there are none at all.
func loadRoots(file string) (*x509.CertPool, bool, error) {
	roots, err := x509.SystemCertPool()
	if err != nil {
		roots = x509.NewCertPool() // RootsEmpty tells
	}
	if file != "" {
		pem, err := os.ReadFile(file)
		if err != nil {
			return nil, false, fmt.Errorf("ca_file: %w", err)
		}
		if !roots.AppendCertsFromPEM(pem) {
			return nil, false, fmt.Errorf("ca_file: %s has no PEM certificate", file)
		}
	}
	return roots, roots.Equal(x509.NewCertPool()), nil
}

// Attempt makes one POST and reports. It returns within the endpoint's total timeout;
// when ctx is cancelled with a cause, the class is Cancelled.
//
// A verdict that was read stands, whatever follows: a cancel or a timeout during the response body changes nothing.
func (s *Sender) Attempt(ctx context.Context, r Request) Result {
	res := Result{StartedAt: time.Now()}
	if ctx.Err() != nil {
		return res.failed(cancelled(ctx))
	}
	s.stats.inFlight.Add(1)
	defer s.stats.inFlight.Add(-1)

	seen := &observer{}
	limited, cancel := context.WithTimeoutCause(ctx, s.timeout(r), errTotal)
	defer cancel()
	req, err := s.build(httptrace.WithClientTrace(limited, seen.trace(s)), r, seen, res.StartedAt)
	switch {
	case errors.Is(err, egress.ErrBlocked):
		return res.failed(fault{class: retry.Blocked, text: err.Error()})
	case err != nil:
		return res.failed(fault{class: retry.Build, text: printable(err.Error())})
	}

	p := s.pools.acquire(res.StartedAt)
	defer s.pools.release(p)
	tried := time.Now()
	resp, err := s.pools.transport(p, req.URL).RoundTrip(req) //nolint:bodyclose // closed by read
	ended := time.Now()

	at := seen.seen()
	if !at.gotConn.IsZero() {
		tried = at.gotConn
	}
	res.Duration, res.Sent = ended.Sub(tried), at.sent
	if err != nil {
		f := classify(err, at)
		if ctx.Err() != nil {
			f = cancelled(ctx)
		}
		if f.stale {
			s.stats.stale.Add(1)
		}
		return res.failed(f)
	}

	s.dialer.Health().Heard()
	res.Status = resp.StatusCode
	res.Class = retry.ClassOfStatus(resp.StatusCode)
	if res.Class != retry.OK {
		res.Error = fmt.Sprintf("the receiver answered with status %d", resp.StatusCode)
		res.RetryAfter = retry.ParseRetryAfter(resp.Header.Values("Retry-After"), ended, s.cfg.MaxRetryAfter)
	}
	res.Excerpt = mask(s.read(resp), r)
	return res
}

func (r Result) failed(f fault) Result {
	r.Class, r.Error, r.Stale, r.Local, r.LocalFor = f.class, f.text, f.stale, f.local, f.lasted
	return r
}

func cancelled(ctx context.Context) fault {
	return fault{class: retry.Cancelled, text: printable("given up: " + context.Cause(ctx).Error())}
}

// timeout is the endpoint's limit for the whole attempt, or the deployment's, under the cap.
func (s *Sender) timeout(r Request) time.Duration {
	if r.Endpoint == nil || r.Endpoint.Timeout <= 0 {
		return s.cfg.Timeout
	}
	return min(r.Endpoint.Timeout, s.cfg.MaxTimeout)
}

// read keeps the beginning of the body and reads on up to the cap, so that the connection can be reused. Errors are
// of no interest: the verdict is there, and the attempt's deadline ends a body that drips.
func (s *Sender) read(resp *http.Response) []byte {
	defer func() { _ = resp.Body.Close() }() // unread rest: HTTP/1 closes the connection, HTTP/2 the stream
	if resp.StatusCode == http.StatusSwitchingProtocols || resp.Body == http.NoBody {
		return nil // the "body" of the first is the connection itself
	}
	excerpt, err := io.ReadAll(io.LimitReader(resp.Body, s.cfg.MaxExcerptBytes))
	if err == nil {
		_, err = io.CopyN(io.Discard, resp.Body, s.cfg.MaxBodyBytes-int64(len(excerpt)))
	}
	if !errors.Is(err, io.EOF) {
		s.stats.cut.Add(1)
	}
	return excerpt
}

// mask takes out of an excerpt what a receiver may echo of the request's secrets: custom header values and the path
// and query of the URL. Short ones are left: they are no secrets, and would blot out half of the text.
func mask(excerpt []byte, r Request) []byte {
	if len(excerpt) == 0 {
		return nil
	}
	const shortest = 8
	hide := func(secret []byte) {
		if len(secret) >= shortest {
			excerpt = bytes.ReplaceAll(excerpt, secret, []byte("***"))
		}
	}
	for _, h := range r.Endpoint.Headers {
		hide(h.Value)
	}
	_, rest, _ := bytes.Cut([]byte(r.Endpoint.URL), []byte("://"))
	if i := bytes.IndexAny(rest, "/?"); i >= 0 {
		hide(rest[i:])
	}
	return excerpt
}
