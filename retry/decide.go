package retry

import (
	"net/http"
	"slices"
	"time"
)

// ReasonExpired is the reason of a dead delivery whose lifetime ended, or would end
// before it may be tried again. It is the ReasonExpired of package schemas.
const ReasonExpired = "expired"

// Outcome is one attempt's result as the policy sees it.
type Outcome struct {
	Class      Class
	Status     int           // 0: none was read
	RetryAfter time.Duration // parsed and clamped; 0: none
}

// Kind is what comes after an attempt.
type Kind string

// The four endings of an attempt.
const (
	Delivered Kind = "delivered"
	Retry     Kind = "retry" // wait; an attempt was spent
	Hold      Kind = "hold"  // wait; no attempt was spent
	Dead      Kind = "dead"
)

// Decision is what follows an attempt, or a refused admission.
type Decision struct {
	Kind   Kind
	Due    time.Time // when the delivery may next be tried (retry, hold)
	Reason string    // dead: a Class or a schemas.Reason; hold: what held it; retry: the Class
	// PauseEndpoint is how long the whole endpoint asked to be left alone (429/503 with Retry-After).
	PauseEndpoint time.Duration
	// DisableEndpoint is set by 410.
	DisableEndpoint bool
}

// Spent is what a delivery has used up, this attempt included.
type Spent struct {
	Attempts     int       // POSTs in this run, the one just made included
	RunStartedAt time.Time // the lifetime counts from here; zero: unknown, it never ends
}

// Decide says what follows an attempt. rnd is uniform in [0, 1).
// permanent lists the statuses that the endpoint declares final; caps overrides p.Caps when not empty.
// The package documentation has the rules.
func (p Policy) Decide(now time.Time, s Spent, o Outcome, permanent []int, caps []time.Duration, rnd float64) Decision {
	if len(caps) == 0 {
		caps = p.Caps
	}
	caps = limited(caps)
	attempts := max(s.Attempts, 1) // one was just made, whatever was counted

	if o.Class == OK {
		return Decision{Kind: Delivered}
	}
	if o.Class == Cancelled {
		// Our own doing: the attempt is not counted, and it may be made again at once.
		return p.HoldUntil(now, s, now, 0, string(Cancelled), rnd)
	}

	asked := max(0, min(o.RetryAfter, p.MaxRetryAfter, MaxCap))
	d := Decision{Reason: string(o.Class)}
	if o.Class == HTTP429 || o.Status == http.StatusServiceUnavailable {
		d.PauseEndpoint = asked
	}

	dead := func(reason string) Decision {
		d.Kind, d.Reason = Dead, reason
		return d
	}
	switch {
	case o.Class == Gone:
		d.DisableEndpoint = true
		return dead(string(Gone))
	case o.Status != 0 && slices.Contains(permanent, o.Status):
		return dead(string(o.Class))
	case attempts > len(caps):
		return dead(string(o.Class)) // the last failure says more than that time was up
	}

	limit := bounded(caps[attempts-1])
	if end, ends := p.Ends(s); ends {
		rest := before(end, now)
		if rest <= 0 || asked > rest {
			return dead(ReasonExpired)
		}
		limit = min(limit, rest)
	}
	d.Kind = Retry
	d.Due = now.Add(max(draw(limit, rnd), asked))
	return d
}

// HoldUntil is a wait that spends no attempt: due uniformly in (until, until+spread],
// never before now. Past the lifetime, or where until is past its end, it is Dead with
// reason "expired"; a spread that reaches past the end is cut.
func (p Policy) HoldUntil(now time.Time, s Spent, until time.Time, spread time.Duration, reason string, rnd float64) Decision {
	if until.Before(now) {
		until = now
	}
	if end, ends := p.Ends(s); ends {
		rest := before(end, until)
		if rest < 0 {
			return Decision{Kind: Dead, Reason: ReasonExpired}
		}
		spread = min(spread, rest)
	}
	due := until
	if spread > 0 {
		due = until.Add(draw(spread, rnd))
	}
	return Decision{Kind: Hold, Due: due, Reason: reason}
}

// Ends is when the lifetime of a run is over; false when it never is, because
// the policy has no lifetime or the run no known start.
func (p Policy) Ends(s Spent) (time.Time, bool) {
	if p.Lifetime <= 0 || s.RunStartedAt.IsZero() {
		return time.Time{}, false
	}
	return s.RunStartedAt.Add(p.Lifetime), true
}

// Expired says that the lifetime of a run is over at now: it is not to be attempted any more.
func (p Policy) Expired(now time.Time, s Spent) bool {
	end, ends := p.Ends(s)
	return ends && !now.Before(end)
}

// before is how long from a time until just before the end: every due time lies before it. Negative when the time
// does not; Sub stops at 292 years, and one less than that would be a long time indeed.
func before(end, t time.Time) time.Duration {
	if !t.Before(end) {
		return -1
	}
	return end.Sub(t) - 1
}

// draw is uniform in (0, limit]. The smallest wait is one nanosecond, never
// zero; a random number outside [0, 1) (or NaN) counts as the nearest legal one.
func draw(limit time.Duration, rnd float64) time.Duration {
	if !(rnd > 0) {
		return limit
	}
	// limit is at most 30 days, far below 2^53 ns: the float is exact, the product cannot overflow.
	return max(1, min(limit, time.Duration(float64(limit)*(1-min(rnd, 1)))))
}
