package unit

import (
	"time"

	"github.com/barnabas-webhooks/barnabas/processor/breaker"
	"github.com/barnabas-webhooks/barnabas/processor/caps"
	"github.com/barnabas-webhooks/barnabas/processor/deliver"
	"github.com/barnabas-webhooks/barnabas/processor/endpoint"
	"github.com/barnabas-webhooks/barnabas/processor/metrics"
)

// slowAttempt is from when on an endpoint counts as slow: its requests do not get all of the process's slots.
const slowAttempt = time.Second

// paceOf is the pace that an endpoint is expected to keep, after an attempt that took so long.
func paceOf(took time.Duration) caps.Pace {
	if took < slowAttempt {
		return caps.Quick
	}
	return caps.Slow
}

// lineUp lets a lane have its turns, among those of its pace.
func (u *Unit) lineUp(l *endpointLane) {
	u.ready[caps.Quick+caps.Slow-l.slots].Remove(l) // its pace may have changed
	u.ready[l.slots].Add(l)
}

// dispatch gives each lane that has something its turn, one delivery at a time and the quick and the slow ones by
// turns, until none may start anything.
func (u *Unit) dispatch(now time.Time) {
	for served := true; served; {
		served = u.moveLines(now)
		for p := range u.ready {
			if u.capWait[p] || u.unsure {
				continue
			}
			l, ok := u.ready[p].Next()
			if !ok {
				continue
			}
			served = true
			if !u.serve(l, now) {
				u.ready[p].Remove(l)
			}
		}
	}
}

// serve starts at most one attempt of a lane. It returns false when the lane can
// do nothing until something happens to it: a result, an arrival, an alarm.
func (u *Unit) serve(l *endpointLane, now time.Time) bool {
	it, _, ok := l.queue.Peek()
	if !ok {
		return false
	}
	// Configuration may have changed since it joined.
	if _, ok := u.admissible(it, now); !ok {
		l.queue.Pop()
		return true
	}
	ep, _ := u.Endpoints.Get(l.id)
	if l.inFlight >= u.width(l, ep) || !u.mayStart(it) {
		return false
	}
	if l.pausedUntil.After(now) {
		u.holdAll(l, l.pausedUntil, metrics.HoldPaused, now)
		return false
	}
	if !u.acquire(l.slots) {
		return true // it keeps its turn
	}
	admit := l.breaker.Admit
	if l.door(it.delivery) {
		admit = l.breaker.AdmitEarly
	}
	admission, ticket := admit(now)
	if !admission.OK {
		u.InFlight.Release(l.slots)
		if !admission.Until.IsZero() {
			return u.holdRefused(l, admission.Until, now)
		}
		return false // a probe is under way: its result will tell
	}
	if wait := u.rateDelay(l, ep, now); wait > 0 {
		u.InFlight.Release(l.slots)
		l.breaker.Forget(ticket)
		u.alarms.set(l, now.Add(wait))
		return false
	}
	l.queue.Pop()
	u.relieve(l, now)
	u.attempt(l, it, ep, ticket)
	if l.queue.Len() == 0 {
		u.feed(l, now)
	}
	return true
}

// acquire takes a slot for a request: one that the unit was granted, or a free
// one; none while it is not certain that the unit is still ours.
func (u *Unit) acquire(p caps.Pace) bool {
	if u.unsure = !u.Lease.Held(u.confirmed); u.unsure {
		return false
	}
	if u.granted[p] > 0 {
		u.granted[p]--
		return true
	}
	u.capWait[p] = !u.InFlight.TryAcquire(p, func() { u.slotGranted(p) })
	return !u.capWait[p]
}

// confirmed is called, from anywhere, when the group has said that the unit is ours.
func (u *Unit) confirmed() {
	u.inbox.put(func() { u.unsure = false })
}

// slotGranted is called, from anywhere, when the unit's turn for a slot has come.
func (u *Unit) slotGranted(p caps.Pace) {
	if !u.inbox.put(func() { u.capWait[p], u.granted[p] = false, u.granted[p]+1 }) {
		u.InFlight.Release(p) // the unit has ended
	}
}

// releaseGranted gives on what the unit was granted and did not use.
func (u *Unit) releaseGranted() {
	for p := range u.granted {
		for ; u.granted[p] > 0; u.granted[p]-- {
			u.InFlight.Release(caps.Pace(p))
		}
	}
}

// attempt makes one POST, on a goroutine that it has for itself.
func (u *Unit) attempt(l *endpointLane, it *item, ep *endpoint.Endpoint, ticket breaker.Ticket) {
	l.inFlight++
	u.inFlight++
	u.flight.Add(1)
	slot := l.slots
	request := deliver.Request{Delivery: it.delivery, Endpoint: ep, Number: it.delivery.Attempts + 1}
	u.Workers.Go(func() {
		defer u.flight.Done()
		result := u.Sender.Attempt(u.attempts, request)
		u.InFlight.Release(slot)
		u.inbox.put(func() { u.finished(l, it, ep, ticket, result) })
	})
}
