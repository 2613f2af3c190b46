// Package aimd adapts how many requests one endpoint may have in flight to what it bears: one more for each full round
// that it bore, half as many when it does not (additive increase, multiplicative decrease, as TCP's congestion
// avoidance: Chiu and Jain 1989; RFC 5681 section 3.1).
//
// It is for one goroutine, pure, and small: there may be 100,000 of them.
package aimd

import "time"

// Limit is the limit of one endpoint. The zero value allows all that is asked for: an endpoint is trusted until it
// shows otherwise.
type Limit struct {
	width float64 // 0: as much as is asked for
	cut   int64   // when it was last cut, in Unix nanoseconds
}

// Of is how many requests may be in flight where most are asked for: in [1, most], 1 for a most below that.
func (l *Limit) Of(most int) int {
	most = max(most, 1)
	if l.width == 0 {
		return most
	}
	return min(most, int(l.width))
}

// Bore notes a request that the endpoint bore, with so many in flight, itself included. Only a full round counts: what
// an endpoint does with fewer requests than it may have says nothing of more.
func (l *Limit) Bore(inFlight, most int) {
	if l.width == 0 || inFlight < l.Of(most) {
		return
	}
	if l.width += 1 / l.width; l.width >= float64(most) {
		l.width = 0
	}
}

// Overloaded notes a request, begun at started, that was too much for it, and says whether the limit was cut. All that
// were under way together are one sign: those begun before the last cut do not cut again.
func (l *Limit) Overloaded(started, now time.Time, most int) bool {
	if started.UnixNano() <= l.cut {
		return false
	}
	l.cut = now.UnixNano()
	l.width = max(1, float64(l.Of(most))/2)
	return true
}
