package unit

import (
	"maps"
	"time"
)

// sweepEvery is how often the lanes are looked through for those that can go.
const sweepEvery = time.Minute

// sweep lets go of the lanes of which nothing need be remembered, so that memory
// follows the endpoints at work and not all that were ever heard of.
func (u *Unit) sweep(now time.Time) {
	if now.Sub(u.sweptAt) < sweepEvery {
		return
	}
	u.sweptAt = now
	maps.DeleteFunc(u.lanes, func(_ string, l *endpointLane) bool { return u.idle(l, now) })
	if 4*len(u.lanes) < u.mostLanes { // a map does not shrink by itself
		lanes := make(map[string]*endpointLane, len(u.lanes))
		maps.Copy(lanes, u.lanes)
		u.lanes, u.mostLanes = lanes, len(lanes)
	}
}

// idle says that a lane is as good as a new one: nothing is in it or under way,
// nothing limits it, and its breaker would not be told from a new one.
//
// Estimates are lost: its pace, which the next press and the next request find out again, and how much
// was spilled and is still away, some of which would have come back by now if it
// were much. So is which resets of the breaker have been heeded: heeding one again
// does nothing to a breaker that is closed.
func (u *Unit) idle(l *endpointLane, now time.Time) bool {
	switch {
	case l.queue.Len() > 0, l.inFlight > 0, u.lines.rooms[l.id] != nil, l.presses != nil, u.ready[l.slots].Has(l), !l.alarm.IsZero():
		return false // at work, or about to be
	case now.Sub(l.arrived) < recently, now.Sub(l.flooded) < recently:
		return false // it is asked whether it is a neighbour
	case l.pausedUntil.After(now), l.limiter != nil && l.limiter.TokensAt(now) < 1:
		return false // the endpoint wants to be left alone
	case !l.breaker.Fresh(now):
		return false
	}
	if l.goneBy != nil {
		if ep, _ := u.Endpoints.Get(l.id); ep == l.goneBy {
			return false
		}
	}
	return true
}
