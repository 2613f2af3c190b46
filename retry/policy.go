package retry

import "time"

// Class is what an attempt came to: a closed set, used as metric label,
// dead-letter reason and policy input.
type Class string

const (
	OK              Class = "ok"
	DNS             Class = "dns"
	Connect         Class = "connect"
	TLS             Class = "tls"
	Timeout         Class = "timeout"
	Reset           Class = "reset"
	Blocked         Class = "blocked"
	HTTP3xx         Class = "http_3xx"
	HTTP4xx         Class = "http_4xx"
	HTTP429         Class = "http_429"
	HTTP5xx         Class = "http_5xx"
	Gone            Class = "gone"
	InvalidResponse Class = "invalid_response"
	Build           Class = "build"
	Cancelled       Class = "cancelled"
)

// Classes lists the set, in the order above.
func Classes() []Class { panic("helper B") }

// ClassOfStatus maps an HTTP status code to its class; everything outside 200..599 is InvalidResponse.
func ClassOfStatus(code int) Class { panic("helper B") }

// Outcome is one attempt's result as the policy sees it.
type Outcome struct {
	Class      Class
	Status     int           // 0: none was read
	RetryAfter time.Duration // parsed and clamped; 0: none
}

// Kind is what comes after an attempt.
type Kind string

const (
	Delivered Kind = "delivered"
	Retry     Kind = "retry"
	Hold      Kind = "hold"
	Dead      Kind = "dead"
)

// Decision is what follows an attempt, or a refused admission.
type Decision struct {
	Kind   Kind
	Due    time.Time // when the delivery may next be tried (retry, hold)
	Reason string    // dead: a Class or a schemas.Reason; hold: what held it
	// PauseEndpoint is how long the whole endpoint asked to be left alone (429/503 with Retry-After).
	PauseEndpoint time.Duration
	// DisableEndpoint is set by 410.
	DisableEndpoint bool
}

// Spent is what a delivery has used up, this attempt included.
type Spent struct {
	Attempts     int       // POSTs in this run, the one just made included
	RunStartedAt time.Time // the lifetime counts from here
}

// Policy is the retry schedule of a deployment.
type Policy struct {
	Caps          []time.Duration // upper bound of the wait before retry 1, 2, ...
	Tiers         []time.Duration // ascending
	Lifetime      time.Duration
	MaxRetryAfter time.Duration
}

// Decide says what follows an attempt. rnd is uniform in [0, 1).
// permanent lists the statuses that the endpoint declares final; caps overrides p.Caps when not empty.
func (p Policy) Decide(now time.Time, s Spent, o Outcome, permanent []int, caps []time.Duration, rnd float64) Decision {
	panic("helper B")
}

// HoldUntil is a wait that spends no attempt: due uniformly in (until, until+spread],
// never before now. Past the lifetime it is Dead with reason "expired".
func (p Policy) HoldUntil(now time.Time, s Spent, until time.Time, spread time.Duration, reason string, rnd float64) Decision {
	panic("helper B")
}

// TierFor is the index of the smallest tier whose cap is >= wait; the last tier for longer waits.
func (p Policy) TierFor(wait time.Duration) int { panic("helper B") }

// ParseRetryAfter reads a Retry-After header (RFC 9110 section 10.2.3): whole seconds or
// an HTTP date. Anything else, zero, negative or past gives 0. Clamped to max.
func ParseRetryAfter(values []string, now time.Time, max time.Duration) time.Duration {
	panic("helper B")
}
