package retry

import (
	"errors"
	"fmt"
	"slices"
	"time"
)

// Hard limits of every policy, whatever is configured.
const (
	MaxRetries  = 32                  // caps in one schedule, so 33 attempts
	MaxCap      = 24 * time.Hour      // of a single wait, drawn or asked for
	MaxTiers    = 16                  // retry topics
	MaxLifetime = 30 * 24 * time.Hour // of one run of a delivery
)

// Policy is the retry schedule of a deployment. The zero value gives up at the
// first failure; it is not valid as configuration: start from DefaultPolicy.
type Policy struct {
	// Caps are the upper bounds of the wait before retry 1, 2, ...; as many
	// retries as caps. 1 to MaxRetries entries, each in (0, MaxCap], in any order.
	Caps []time.Duration
	// Tiers are the longest waits of the retry topics, strictly ascending whole
	// seconds, each in (0, MaxCap]. A longer wait goes through the last tier more than once.
	Tiers []time.Duration
	// Lifetime is how long a run of a delivery may last, holds included; in (0, MaxLifetime].
	// May be shorter than the sum of the caps: see the package documentation.
	Lifetime time.Duration
	// MaxRetryAfter is what a receiver's Retry-After is cut to; in [0, MaxCap]. Zero: Retry-After is ignored.
	MaxRetryAfter time.Duration
}

// DefaultPolicy is the schedule of DESIGN section 9.
func DefaultPolicy() Policy {
	return Policy{
		Caps: []time.Duration{
			5 * time.Second, time.Minute, 10 * time.Minute, time.Hour,
			6 * time.Hour, 6 * time.Hour, 6 * time.Hour, 6 * time.Hour,
		},
		Tiers:         []time.Duration{time.Minute, 10 * time.Minute, time.Hour, 6 * time.Hour},
		Lifetime:      26 * time.Hour,
		MaxRetryAfter: 24 * time.Hour,
	}
}

// ErrInvalid is what every problem found by Validate and ValidateCaps wraps.
var ErrInvalid = errors.New("invalid retry policy")

// Validate reports all problems at once, each naming its field and the value.
func (p Policy) Validate() error {
	errs := []error{ValidateCaps(p.Caps)}
	bad := func(format string, args ...any) {
		errs = append(errs, fmt.Errorf("%w: "+format, append([]any{ErrInvalid}, args...)...))
	}
	if n := len(p.Tiers); n == 0 || n > MaxTiers {
		bad("tiers: %d entries, need 1 to %d", n, MaxTiers)
	}
	for i, t := range p.Tiers {
		switch {
		case t <= 0 || t > MaxCap:
			bad("tiers[%d]: %s is not in (0, %s]", i, t, MaxCap)
		case t%time.Second != 0:
			// Topic names are made of tiers: retry.90s can be said, retry.1.5s can't.
			bad("tiers[%d]: %s is not a whole number of seconds", i, t)
		}
		if i > 0 && t == p.Tiers[i-1] {
			bad("tiers[%d]: %s is there twice", i, t)
		}
		if i > 0 && t < p.Tiers[i-1] {
			bad("tiers[%d]: %s after %s, must ascend", i, t, p.Tiers[i-1])
		}
	}
	if p.Lifetime <= 0 || p.Lifetime > MaxLifetime {
		bad("lifetime: %s is not in (0, %s]", p.Lifetime, MaxLifetime)
	}
	if p.MaxRetryAfter < 0 || p.MaxRetryAfter > MaxCap {
		bad("max_retry_after: %s is not in [0, %s]", p.MaxRetryAfter, MaxCap)
	}
	return errors.Join(errs...)
}

// ValidateCaps checks a schedule by itself: that of an endpoint, which overrides the deployment's.
func ValidateCaps(caps []time.Duration) error {
	var errs []error
	if n := len(caps); n == 0 || n > MaxRetries {
		errs = append(errs, fmt.Errorf("%w: caps: %d entries, need 1 to %d", ErrInvalid, n, MaxRetries))
	}
	for i, c := range caps {
		if c <= 0 || c > MaxCap {
			errs = append(errs, fmt.Errorf("%w: caps[%d]: %s is not in (0, %s]", ErrInvalid, i, c, MaxCap))
		}
	}
	return errors.Join(errs...)
}

// MaxAttempts is how many POSTs a run may spend: one more than there are caps.
func (p Policy) MaxAttempts() int { return len(limited(p.Caps)) + 1 }

// TotalMax is the sum of the caps: the longest that the schedule by itself can take.
func (p Policy) TotalMax() time.Duration {
	var sum time.Duration
	for _, c := range limited(p.Caps) {
		sum += bounded(c)
	}
	return sum
}

// TotalMean is the expected length of the schedule by itself: half of TotalMax,
// since every wait is uniform from zero to its cap.
func (p Policy) TotalMean() time.Duration { return p.TotalMax() / 2 }

// WithCaps is the policy with an endpoint's own schedule, if it has one.
func (p Policy) WithCaps(caps []time.Duration) Policy {
	if len(caps) > 0 {
		p.Caps = slices.Clone(caps)
	}
	return p
}

// TierFor is the index of the smallest tier whose cap is >= wait; the last tier for longer waits.
func (p Policy) TierFor(wait time.Duration) int {
	for i, t := range p.Tiers {
		if wait <= t {
			return i
		}
	}
	return max(len(p.Tiers)-1, 0)
}

// TierFloor is the wait that every record of tier i exceeded when it was
// written there: its owner need not read it before its timestamp plus this.
// Zero for the first tier.
func (p Policy) TierFloor(i int) time.Duration {
	if i <= 0 || i > len(p.Tiers) {
		return 0
	}
	return p.Tiers[i-1]
}

// limited cuts a schedule that nobody validated to the hard limit.
func limited(caps []time.Duration) []time.Duration { return caps[:min(len(caps), MaxRetries)] }

// bounded cuts one wait that nobody validated to the hard limits.
func bounded(c time.Duration) time.Duration { return max(1, min(c, MaxCap)) }
