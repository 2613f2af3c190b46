package client

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"time"
)

const (
	// firstPause and longestPause bound the wait between two tries where the server asks for none.
	firstPause   = 250 * time.Millisecond
	longestPause = 10 * time.Second
)

// SendUntil sends one event, again and again with the same idempotency key, until the API says that it has it, refuses
// it for good, or ctx ends. It is what a producer should do: a time-out, a broken connection, a 429 and a 5xx leave open
// whether the event was taken, and the key makes it safe to ask again. Between two tries it waits for a drawn time below
// a bound that doubles from 250 ms to 10 s, and no less than Retry-After.
func (c *Client) SendUntil(ctx context.Context, s Send) (Sent, error) {
	bound := firstPause
	for {
		sent, err := c.Send(ctx, s)
		if err == nil || !mayRepeat(err) {
			return sent, err
		}
		wait := rand.N(bound) //nolint:gosec // spreads producers, and hides nothing
		bound = min(2*bound, longestPause)
		if e, ok := errors.AsType[*Error](err); ok {
			wait = max(wait, e.RetryAfter)
		}
		if deadline, ok := ctx.Deadline(); ok && time.Until(deadline) < wait {
			return Sent{}, fmt.Errorf("not known to be taken, send it again with the same key: %w", err)
		}
		select {
		case <-time.After(wait):
		case <-ctx.Done():
			return Sent{}, fmt.Errorf("%w; not known to be taken, send it again with the same key: %w", context.Cause(ctx), err)
		}
	}
}

// mayRepeat says whether a try that failed may be followed by one that does not.
func mayRepeat(err error) bool {
	e, answered := errors.AsType[*Error](err)
	if !answered {
		return !errors.Is(err, errRequest)
	}
	return e.Status == http.StatusTooManyRequests || e.Status == http.StatusRequestTimeout || e.Status >= http.StatusInternalServerError
}
