package line

import "time"

const (
	// longestAway bounds how much later than the head somebody behind it comes back: the longest that a line stands
	// idle because it became faster than was thought.
	longestAway = 10 * time.Minute
	// shortestAway is the least, where it is not known when the head comes back.
	shortestAway = time.Second
	// longestPace bounds what one ending says of the pace: an outage of hours says nothing of what comes after it.
	longestPace = 5 * time.Second
	// apart is between two that come back at the same time otherwise, so that they keep their order.
	apart = time.Millisecond
)

// keepPace updates the moving average of how long one has the turn, retries and all. The time in which the next one is
// still away does not count: it is a consequence of the pace that was assumed.
func (l *Line) keepPace(endings int64, now time.Time) {
	if l.began.IsZero() {
		return
	}
	took := min(now.Sub(l.began)/time.Duration(endings), longestPace)
	l.pace += (took - l.pace) / 8
	l.began = time.Time{}
}

// Away is how long it takes until the turn comes to a number, once the line moves. least is the least that lies between
// two attempts (what the endpoint's rate allows).
func (l *Line) Away(number int64, least time.Duration) time.Duration {
	between := max(l.pace, least)
	distance := time.Duration(max(number-l.turn, 0))
	if distance > longestAway/max(between, 1) {
		return longestAway
	}
	return distance * between
}

// Back is when a number that waits in a tier is to come back: when the head does, or early before its own turn where that is
// later. By three quarters of the time until then, so that the line does not run dry where the pace was thought too
// slow. Of those that leave in the same state of the line, a lower number comes back earlier. Where nothing is known of
// the head (it is overdue), the longer that lasts the longer they stay away.
func (l *Line) Back(number int64, least, early time.Duration, now time.Time) time.Time {
	head := l.due
	if !head.After(now) {
		stuck := min(max(now.Sub(l.since)/4, shortestAway), longestAway)
		head = now.Add(stuck)
	}
	away := max(3*l.Away(number, least)/4-early, 0)
	return head.Add(away + time.Duration(max(number-l.turn, 0))*apart)
}

// missing is what is known of a number that does not come.
type missing struct {
	lowest int64     // behind it that was seen since it is overdue; 0: none
	first  time.Time // when the first was seen
}

// patience is how long those behind a number that is overdue have to show themselves: all do, see longestAway.
const patience = 3 * longestAway

// Overdue is asked when a number comes that has not its turn. A delivery has the turn for its lifetime at most: when that
// has passed and nothing came, its record is lost (removed from the log, say), or would be dead at once. Then
// all who wait behind it have half an hour to come back, and the lowest of them gets the turn: true.
func (l *Line) Overdue(number int64, lifetime time.Duration, now time.Time) bool {
	if lifetime <= 0 || now.Sub(l.since) < lifetime {
		return false
	}
	m := &l.missed
	if m.lowest == 0 {
		m.lowest, m.first = number, now
	}
	m.lowest = min(m.lowest, number)
	if number != m.lowest || now.Sub(m.first) < patience {
		return false
	}
	l.turn, l.due, l.here, l.since = number, time.Time{}, time.Time{}, now
	l.missed, l.skipped = missing{}, number-1
	for n := range l.ended {
		if n < number {
			delete(l.ended, n)
		}
	}
	return true
}
