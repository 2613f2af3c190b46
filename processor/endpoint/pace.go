package endpoint

import (
	"context"
	"time"
)

// logEvery is how often the table says the same kind of thing at most (C-236).
const logEvery = 10 * time.Second

// logLimiter lets one line through each logEvery and counts the others. For one goroutine.
type logLimiter struct {
	last    time.Time
	skipped int
}

// allow says whether to log now, and how many lines were left out since the last one.
func (l *logLimiter) allow() (skipped int, ok bool) {
	now := time.Now()
	if !l.last.IsZero() && now.Sub(l.last) < logEvery {
		l.skipped++
		return 0, false
	}
	skipped, l.skipped, l.last = l.skipped, 0, now
	return skipped, true
}

// backoff is the wait after consecutive failures: doubling from backoffMin to backoffMax. For one goroutine.
type backoff struct{ next time.Duration }

func (b *backoff) reset() { b.next = 0 }

// sleep waits, or returns when ctx ends.
func (b *backoff) sleep(ctx context.Context) {
	b.next = min(max(2*b.next, backoffMin), backoffMax)
	timer := time.NewTimer(b.next)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}
