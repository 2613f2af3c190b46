// Package facts keeps the compacted topics of a unit: who owns an idempotency key
// (claims), how an endpoint's breaker stands, and where the line of a strict
// endpoint stands (lines).
//
// A claim's or a transition's repetition changes nothing, so these are written
// outside transactions, by a plain idempotent producer: a stale
// owner's late write says what the log says, or is overtaken by the present
// owner's next one. A line must agree with what was settled, so it is written by
// the settler, in the transaction of the outcomes that it follows from, and here
// only read back.
package facts
