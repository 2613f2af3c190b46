// Package breaker is the circuit breaker of one endpoint: a pure state machine
// that takes the time and the random number as arguments.
//
//	          5 hard in a row, 20 of any class in a row,
//	          or half of 20 and more within a minute
//	+--------+ ------------------------------------------> +------+
//	| closed |                                             | open | <------+
//	+--------+ <---------------+                           +------+        |
//	   slow start              |                              | time is up,|
//	                           | 2xx                          | next Admit | any other answer:
//	                           |                              v            | twice as long
//	                           +----------------------- +-----------+      |
//	                                                    | half open | -----+
//	                                                    +-----------+
//	                                                    exactly one probe
//
// What counts:
//
//   - hard failures (dns, connect, tls, timeout, reset, http_5xx, http_429) say that the
//     endpoint is in trouble: they count for all three rules;
//   - the other failures (http_3xx, http_4xx, gone, invalid_response) may be about one
//     payload: they count for the rule of 20 in a row only, and stand among the attempts of
//     the window rule, but not among its failures;
//   - a success clears both runs; a soft failure does not clear the run of hard ones;
//   - cancelled, blocked and build are our own doing and count nowhere.
//
// While an endpoint does nothing but fail, no more than ConsecutiveAny answers (or
// ConsecutiveHard, if they are hard) come in before it opens, and after that one probe
// per opening. So only a 2xx closes: a probe answered by a 422 opens again, and longer,
// or the bound on requests to a failing endpoint would not hold.
//
// AdmitEarly lets the probe come before the time is up, for a delivery that is about something else than all that failed: see
// the lanes of package unit. It is none more, since the next opening counts from when this one would have ended.
//
// Results carry the ticket of their admission. One of an earlier state changes nothing:
// a success that was under way when the breaker opened does not close it.
package breaker

import (
	"time"

	"github.com/barnabas-webhooks/barnabas/retry"
)

// State of a breaker.
type State string

// The three states, as they stand in the breakers topic.
const (
	Closed   State = "closed"
	Open     State = "open"
	HalfOpen State = "half_open"
)

// ReasonReset is the reason of a transition made by an operator.
const ReasonReset retry.Class = "reset_by_operator"

// SlowStart is how many successes after a recovery lift the limit of Width: width grows by
// one with each, so it doubles with each round of requests, and halves with a hard failure.
const SlowStart = 32

// Admission is what the breaker says to a delivery that is next.
type Admission struct {
	OK    bool
	Probe bool      // this attempt is the one probe of a half-open breaker
	Until time.Time // not OK: when the endpoint may next be tried; zero: a probe is under way, wait for it
}

// Ticket is handed out by Admit and given back with the result, so that a late
// result of an older state cannot change a newer one. Comparable; the zero value is nobody's.
type Ticket struct {
	generation uint32
	probe      bool
}

// Transition is a change of state, to be written to the breakers topic.
type Transition struct {
	From, To State
	// Trips counts the openings of this outage: 1 for the first. It drives the doubling.
	Trips     int
	OpenUntil time.Time
	Reason    retry.Class
}

// Breaker guards one endpoint, for one goroutine. The zero value is not usable: New.
type Breaker struct {
	cfg *Config
	// since is the end of the open time while open, the start of the probe while half open (of one that came early: the
	// end of the open time), and the time of the last recovery while closed (zero: none).
	since  time.Time
	window window
	// generation changes with each state, and with each probe; tickets of another one are stale.
	generation uint32
	hardRun    uint32 // hard failures since the last success
	anyRun     uint32 // failures since the last success
	trips      uint16
	width      uint16 // slow start; 0: none
	state      uint8
	probing    bool
}

const (
	closed uint8 = iota
	open
	halfOpen
)

// New returns a closed breaker. cfg must be valid.
func New(cfg Config) *Breaker { return &Breaker{cfg: &cfg, generation: 1} }

// Restore puts a breaker into the state of its last transition. A probe that was under
// way is lost; a closed breaker starts with all thresholds and at full width.
func (b *Breaker) Restore(s State, trips int, openUntil time.Time) {
	*b = Breaker{cfg: b.cfg, generation: b.generation + 1}
	if s != Open && s != HalfOpen {
		return
	}
	b.state = open // half open is open with the time up: the next Admit takes the probe
	b.since = openUntil
	b.trips = uint16(min(max(trips, 1), maxTrips))
}

// Admit says whether an attempt may start now. Each OK must be answered by one Record or Forget.
func (b *Breaker) Admit(now time.Time) (Admission, Ticket) {
	switch {
	case b.state == closed:
		return Admission{OK: true}, Ticket{generation: b.generation}
	case b.waits(now):
		return Admission{Until: b.since}, Ticket{}
	case b.probing && !b.overdue(now):
		return Admission{}, Ticket{}
	}
	b.state = halfOpen
	b.since = now
	b.probing = true
	b.generation++
	return Admission{OK: true, Probe: true}, Ticket{generation: b.generation, probe: true}
}

// AdmitEarly is Admit for a delivery of which there is reason to believe that it will be answered otherwise than those that
// opened the breaker, which were all about one thing. It may be the probe before the time is up. The next opening counts from
// when this one would have ended: so the probe comes earlier, and there is none more.
func (b *Breaker) AdmitEarly(now time.Time) (Admission, Ticket) {
	if !b.waits(now) {
		return b.Admit(now)
	}
	b.state, b.probing = halfOpen, true
	b.generation++
	return Admission{OK: true, Probe: true}, Ticket{generation: b.generation, probe: true}
}

// waits says that the open time is not over and no probe is under way: one that came early may have been given back. A time
// that no opening has, because a clock was stepped or of another configuration, is cut: it must not lock an endpoint away.
func (b *Breaker) waits(now time.Time) bool {
	if b.state == closed || b.probing || !now.Before(b.since) {
		return false
	}
	if latest := now.Add(b.cfg.longest()); b.since.After(latest) {
		b.since = latest
	}
	return true
}

// overdue says that the probe under way took longer than any attempt can: it is lost.
func (b *Breaker) overdue(now time.Time) bool {
	return b.cfg.ProbeTimeout > 0 && now.Sub(b.since) >= b.cfg.ProbeTimeout
}

// Record takes an attempt's class and says whether it changed the state. Cancelled, Blocked and
// Build are not charged; a probe that ends so frees the gate. rnd is uniform in [0, 1).
func (b *Breaker) Record(now time.Time, t Ticket, c retry.Class, rnd float64) (Transition, bool) {
	if t.generation != b.generation {
		return Transition{}, false // of an older state
	}
	weight := weigh(c)
	if weight == uncharged {
		b.Forget(t)
		return Transition{}, false
	}
	if t.probe {
		if weight == success {
			return b.heal(now, c), true
		}
		return b.trip(now, c, rnd), true
	}
	return b.count(now, c, weight, rnd)
}

// count takes the result of an attempt that was made while closed.
func (b *Breaker) count(now time.Time, c retry.Class, w weight, rnd float64) (Transition, bool) {
	b.window.add(now, b.cfg.Window, w == hard)
	if w == success {
		b.hardRun, b.anyRun = 0, 0
		if b.width > 0 {
			b.width++
		}
		if b.width > SlowStart {
			b.width, b.trips = 0, 0
		}
		return Transition{}, false
	}
	b.anyRun++
	if w == hard {
		b.hardRun++
		b.width = (b.width + 1) / 2
	}
	tripped := int(b.hardRun) >= b.cfg.ConsecutiveHard || int(b.anyRun) >= b.cfg.ConsecutiveAny
	if w == hard && !tripped {
		tripped = b.window.exceeds(b.cfg.WindowMin, b.cfg.WindowRatio)
	}
	if !tripped {
		return Transition{}, false
	}
	if !b.since.IsZero() && now.Sub(b.since) >= b.cfg.OpenMax {
		b.trips = 0 // it was up for long: another outage
	}
	return b.trip(now, c, rnd), true
}

// trip opens, for the time that the count of openings asks for.
func (b *Breaker) trip(now time.Time, c retry.Class, rnd float64) Transition {
	from := b.name()
	trips := min(b.trips+1, maxTrips)
	if b.state == halfOpen && b.since.After(now) { // the probe came early
		now = b.since.Add(min(0, now.Add(b.cfg.longest()).Sub(b.since))) // a stepped clock must not lock it away
	}
	*b = Breaker{
		cfg: b.cfg, generation: b.generation + 1,
		state: open, trips: trips, since: now.Add(b.cfg.OpenTime(int(trips), rnd)),
	}
	return Transition{From: from, To: Open, Trips: int(trips), OpenUntil: b.since, Reason: c}
}

// heal closes after a probe. The count of openings stays until the endpoint has proved
// itself, so that one that flaps is left alone for longer each time.
func (b *Breaker) heal(now time.Time, c retry.Class) Transition {
	from := b.name()
	*b = Breaker{cfg: b.cfg, generation: b.generation + 1, state: closed, trips: b.trips, since: now, width: 1}
	return Transition{From: from, To: Closed, Reason: c}
}

// Forget gives back a ticket whose attempt was not made, or whose result nobody knows. A probe frees the gate.
func (b *Breaker) Forget(t Ticket) {
	if t.probe && t.generation == b.generation {
		b.probing = false
		b.generation++ // given back is given back: no result of it counts any more
	}
}

// Reset is the operator's: an open or half-open breaker closes with all thresholds and at full
// width, and results that are under way no longer count. On a closed one it does nothing and
// returns false: repeated resets cannot hide an outage that is being counted.
func (b *Breaker) Reset(time.Time) (Transition, bool) {
	if b.state == closed {
		return Transition{}, false
	}
	from := b.name()
	*b = Breaker{cfg: b.cfg, generation: b.generation + 1}
	return Transition{From: from, To: Closed, Reason: ReasonReset}, true
}

// CountAnew is for an endpoint that was switched on again: a closed breaker forgets what it has counted, and results that
// are under way, so that the endpoint has all thresholds and full width. On an open one it does nothing: that is for Reset.
func (b *Breaker) CountAnew() {
	if b.state == closed {
		*b = Breaker{cfg: b.cfg, generation: b.generation + 1}
	}
}

// Peek tells the state without taking the probe: State, and until when it is open. An open
// breaker whose time is up is half open; the time is zero unless the state is Open.
func (b *Breaker) Peek(now time.Time) (State, time.Time) {
	switch {
	case b.state == closed:
		return Closed, time.Time{}
	case b.waits(now):
		return Open, b.since
	}
	return HalfOpen, time.Time{}
}

// Fresh says that the breaker is as good as one that New has just made: closed, at full
// width, and nothing that is counted would count. Its owner may let go of it. (A run of hard
// failures is one of any, and a slow start ends together with the count of openings.)
func (b *Breaker) Fresh(now time.Time) bool {
	return b.state == closed && b.anyRun == 0 && b.trips == 0 && b.window.over(now, b.cfg.Window)
}

// Width is how many requests may be in flight now, given the endpoint's own limit (slow start
// after recovery): 1 unless closed. A limit below 1 counts as 1.
func (b *Breaker) Width(limit int) int {
	limit = max(limit, 1)
	switch {
	case b.state != closed:
		return 1
	case b.width > 0:
		return min(limit, int(b.width))
	}
	return limit
}

func (b *Breaker) name() State {
	switch b.state {
	case open:
		return Open
	case halfOpen:
		return HalfOpen
	}
	return Closed
}
