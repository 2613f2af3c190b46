// Package facts keeps the two compacted topics of a unit: who owns an
// idempotency key (claims), and how an endpoint's breaker stands.
//
// A fact's repetition changes nothing, so facts are written outside
// transactions, by a plain idempotent producer, and read uncommitted: a stale
// owner's late write says what the log says, or is overtaken by the present
// owner's next one.
package facts
