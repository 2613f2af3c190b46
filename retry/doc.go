// Package retry is the retry policy, pure: it classifies what an attempt came
// to, decides what follows, and draws every wait. It takes the time and the
// random number as arguments and does nothing by itself.
//
// # The schedule
//
// The wait before retry n is drawn uniformly from (0, cap n]: exponential
// backoff with full jitter. With the default caps
//
//	5s  1m  10m  1h  6h  6h  6h  6h
//
// a delivery gets nine attempts in at most 25 h 11 m, 12.6 h on average. The
// failure of the last attempt is final: the delivery is dead, and the class of
// that failure is the reason.
//
// # What an attempt leads to
//
//	2xx                                   delivered
//	410                                   dead "gone", and the endpoint is disabled
//	a status the endpoint calls permanent dead, with the class as reason
//	cancelled (our shutdown)              hold: due at once, nothing spent
//	anything else                         retry, until the caps are used up
//
// DNS, TLS and build errors and blocked addresses are retried like any other
// failure: they are mended as often as an HTTP 500 is, and each shows as what it is.
//
// # Retry-After
//
// The next attempt is due after the drawn wait or after what the receiver asked
// for, whichever is later, never earlier than either. What it asked for is cut
// to [Policy.MaxRetryAfter]. A 429 or 503 that names a wait also pauses the
// endpoint as a whole, whatever becomes of the delivery at hand.
//
// # The lifetime
//
// [Policy.Lifetime] counts from the start of the run and ends a delivery that
// holds have kept waiting beyond its schedule. No wait reaches past that end:
//
//   - a drawn wait is drawn from what is left, (0, min(cap n, rest)], so that the
//     attempts that are left are still made;
//   - a wait that others fix (Retry-After, an open breaker) cannot be shortened
//     without being early: if it reaches the end, the delivery is dead at once,
//     with the reason "expired", instead of waiting for nothing.
//
// A lifetime shorter than the sum of the caps is therefore legal: it means what it says.
package retry
