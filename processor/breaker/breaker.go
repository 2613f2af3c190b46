// Package breaker is the circuit breaker of one endpoint: a pure state machine
// that takes the time and the random number as arguments.
package breaker

import (
	"time"

	"github.com/barnabas-webhooks/barnabas/retry"
)

// State of a breaker.
type State string

const (
	Closed   State = "closed"
	Open     State = "open"
	HalfOpen State = "half_open"
)

// Config of all breakers of a deployment. See DefaultConfig for the defaults and their meaning.
type Config struct {
	ConsecutiveHard int     // of dns, connect, tls, timeout, reset, 5xx, 429
	ConsecutiveAny  int     // of any failure
	WindowRatio     float64 // failures / attempts within Window ...
	WindowMin       int     // ... when there were at least so many
	Window          time.Duration
	OpenFor         time.Duration // first opening; doubles
	OpenMax         time.Duration
	Jitter          float64 // +- share of the open time
}

// Admission is what the breaker says to a delivery that is next.
type Admission struct {
	OK    bool
	Probe bool      // this attempt is the one probe of a half-open breaker
	Until time.Time // not OK: when the endpoint may next be tried; zero: a probe is under way, wait for it
}

// Ticket is handed out by Admit and given back with the result, so that a late
// result of an older state cannot change a newer one.
type Ticket struct { /* helper B */
}

// Transition is a change of state, to be written to the breakers topic.
type Transition struct {
	From, To  State
	Trips     int
	OpenUntil time.Time
	Reason    retry.Class
}

// Breaker guards one endpoint. The zero value is not usable: New.
type Breaker struct { /* helper B */
}

func New(cfg Config) *Breaker { panic("helper B") }

// Restore puts a breaker into the state of its last transition.
func (b *Breaker) Restore(s State, trips int, openUntil time.Time) { panic("helper B") }
func (b *Breaker) Admit(now time.Time) (Admission, Ticket)         { panic("helper B") }

// Record takes an attempt's class. Cancelled, Blocked and Build are not charged; a probe that ends so frees the gate.
func (b *Breaker) Record(now time.Time, t Ticket, c retry.Class, rnd float64) (Transition, bool) {
	panic("helper B")
}
func (b *Breaker) Reset(now time.Time) (Transition, bool) { panic("helper B") }

// Peek tells the state without taking the probe: State, and until when it is open.
func (b *Breaker) Peek(now time.Time) (State, time.Time) { panic("helper B") }

// Width is how many requests may be in flight now, given the endpoint's own limit (slow start after recovery).
func (b *Breaker) Width(limit int) int { panic("helper B") }
