// Package deliver makes one attempt: it builds the POST from current
// configuration, signs it, sends it through the guarded dialer within hard
// limits, and says what it came to. It never retries and never decides.
//
// # What counts
//
// A complete status line and header section decide; the body never changes the verdict, however endless, slow or
// broken it is. Redirects are not followed. Everything is bounded: phases and the whole in time (Config), headers,
// body and interim (1xx) answers in bytes.
//
// # No hidden second POST
//
// net/http resends a request by itself in two kinds of cases, and only the harmless one is left here. Where nothing
// was written, or the HTTP/2 peer says that it did not process the stream (GOAWAY beyond it, REFUSED_STREAM), it
// resends: the bodies are replayable for that, a few times at most. Where a reused connection broke after the
// request was written, it resends what it takes for idempotent: by method, or by the header Idempotency-Key, which
// is therefore never sent and is a reserved name. Such a POST may have been processed, so it is not repeated within
// the attempt: it comes to class reset with Result.Stale set, and costs one retry with the same id.
package deliver

import (
	"time"

	"github.com/barnabas-webhooks/barnabas/processor/endpoint"
	"github.com/barnabas-webhooks/barnabas/retry"
	"github.com/barnabas-webhooks/barnabas/schemas"
)

// Request is what one attempt needs.
type Request struct {
	Delivery *schemas.Delivery
	Endpoint *endpoint.Endpoint
	Number   int // of this attempt within the run, 1-based
}

// Result is what one attempt came to.
type Result struct {
	retry.Outcome
	StartedAt time.Time // when the request was made and signed
	// Duration is the receiver's part: from having a connection until status and headers were read, or until the
	// failure. Without a connection it is the time spent trying to get one; 0 when nothing was tried.
	Duration time.Duration
	Error    string // safe to show and store: the host at most, no path, query, header or secret
	Excerpt  []byte // at most 4 KiB of the response body; custom header values and the URL's path are masked

	// Sent says that the request was written to a connection at least in part: the endpoint may have seen it.
	Sent bool
	// Stale says that a reused connection broke before any byte of the answer: most often the receiver closed it
	// for idleness at that moment (golang/go#22158). Its class is reset; it says nothing against the endpoint's
	// health.
	Stale bool
	// Local says that the fault is surely ours: out of descriptors, ports or memory, or egress is unhealthy (see
	// egress.Health). Its class is connect, or dns without a resolver, and nothing was sent.
	Local bool
	// LocalFor is how long such a fault has lasted; 0: not known.
	LocalFor time.Duration
}
