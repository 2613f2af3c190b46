// Package deliver makes one attempt: it builds the POST from current
// configuration, signs it, sends it through the guarded dialer within hard
// limits, and says what it came to. It never retries and never decides.
package deliver

import (
	"context"
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
	StartedAt time.Time
	Duration  time.Duration // request written until status and headers were read, or until the failure
	Error     string        // safe to show and store
	Excerpt   []byte        // at most 4 KiB of the response body
}

// Sender makes attempts. Safe for concurrent use.
type Sender struct { /* helper C */
}

// Attempt makes one POST and reports. It returns within the endpoint's total timeout;
// when ctx is cancelled with a cause, the class is Cancelled.
func (s *Sender) Attempt(ctx context.Context, r Request) Result { panic("helper C") }
