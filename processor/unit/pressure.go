package unit

import (
	"time"

	"github.com/barnabas-webhooks/barnabas/processor/lane"
	"github.com/barnabas-webhooks/barnabas/processor/metrics"
)

// press makes intake stand still for a lane that has plenty, if that hurts
// nobody: there is no neighbour who would be kept waiting with nothing to do. What is not read yet waits in the log, and
// neither in memory nor until it has waited too long in the lane. For a lane that is full it stands still too if its half will be gone
// within LanePause, which hurts nobody much; otherwise the lane spills what comes next.
func (u *Unit) press(s *stream, l *endpointLane, now time.Time) {
	n := l.queue.Len()
	if n < u.plenty() {
		return
	}
	full, neighbours := n >= u.LaneEntries, u.neighbours
	if full {
		l.flooded, neighbours = now, u.neighboursNow
	}
	if s.kind == tier || l.presses != nil || !full && s.hungry != nil && s.hungry.starves(now) {
		return
	}
	if half := u.halfTime(l); full && half <= u.LanePause || half <= u.LaneAge && !neighbours(s, now) {
		s.pressed, l.presses, l.pressed, l.pressedAt = l, s, now, n
		u.alarms.set(l, now.Add(u.LanePause))
	}
}

// plenty is how many deliveries keep a lane busy for longer than it takes to fetch more.
func (u *Unit) plenty() int { return max(1, u.LaneEntries/4) }

// feed has intake go on until a lane that has run empty has something again: that may be behind what is for a lane that has plenty.
func (u *Unit) feed(hungry *endpointLane, now time.Time) {
	for _, s := range u.streams {
		if l := s.pressed; l != nil && l.pressedAt < u.LaneEntries {
			l.letGo()
			s.hungry = hungry
			u.read(s, now)
		}
	}
}

// starves says that the lane of an endpoint at work has nothing to do.
func (l *endpointLane) starves(now time.Time) bool {
	return l.queue.Len() == 0 && now.Sub(l.arrived) < recently
}

const (
	// recently is how long an endpoint counts as one that is at work.
	recently = 10 * time.Second
	// unseenFor is how long backlogs are worked off in their order before the rest of the log is looked at.
	unseenFor = 30 * time.Second
	// lookEvery bounds how old the answer to whether there are neighbours may be.
	lookEvery = 100 * time.Millisecond
	// looksPer bounds for how many deliveries that find their lane full it is the same: one for so many lanes and records
	// that were looked at for it, so that to ask for each of them costs as much as to look at a few.
	looksPer = 8
)

// look is an answer to whether a stream has neighbours.
type look struct {
	at    time.Time
	found bool
	good  int // for so many deliveries that find their lane full
}

// neighboursNow is for a delivery that finds its lane full: the answer decides whether it is spilled.
func (u *Unit) neighboursNow(s *stream, now time.Time) bool {
	if s.look.good == 0 {
		s.look.at = time.Time{}
	}
	found := u.neighbours(s, now)
	s.look.good--
	return found
}

// neighbours says whether somebody would be kept waiting, and not by what is before it in its own lane, if a stream stood still.
func (u *Unit) neighbours(s *stream, now time.Time) bool {
	if now.Sub(s.look.at) >= lookEvery {
		found, looked := u.lookRound(s, now)
		s.look = look{now, found, 1 + looked/looksPer}
	}
	return s.look.found
}

// lookRound looks for a neighbour among what is fetched, and among the endpoints at work if there may be more in the log than that;
// and counts what it looks at. A lane that has something to do is none: what comes next for it would only
// wait there. Where every endpoint has a backlog, each waits for itself, and nothing goes round. But who has not been at work may
// be behind all of it: so it goes round after a while, until the end of the log has been seen.
func (u *Unit) lookRound(s *stream, now time.Time) (found bool, looked int) {
	for _, r := range s.unread {
		if r == nil || len(r.Key) == 0 {
			continue // being read at this moment, or of nobody
		}
		looked++
		if l, known := u.lanes[string(r.Key)]; !known || l.queue.Len() == 0 {
			return true, looked
		}
	}
	if s.expected >= s.end && !s.paused && !u.Memory.Full() {
		return false, looked // what comes now is seen as soon as it is there
	}
	if now.Sub(s.seenAll) >= unseenFor {
		return true, looked
	}
	for _, l := range u.lanes {
		looked++
		if l.starves(now) && now.Sub(l.flooded) >= recently {
			return true, looked
		}
	}
	return false, looked
}

// relieve lets intake go on once half of what the lane had when it pressed is gone,
// or it has had its time.
func (u *Unit) relieve(l *endpointLane, now time.Time) {
	if l.presses == nil {
		return
	}
	if l.queue.Len() > l.pressedAt/2 {
		waited := now.Sub(l.pressed)
		if waited < u.LanePause {
			return
		}
		// The pace that it shows while it presses. It may go on if it would be done in
		// time and keeps nobody waiting; otherwise it must not press again at that pace.
		shown := waited / time.Duration(max(1, l.pressedAt-l.queue.Len()))
		if time.Duration(u.LaneEntries/2)*shown <= u.LaneAge && !u.neighbours(l.presses, now) {
			return
		}
		l.pace = max(l.pace, shown)
	}
	l.letGo()
}

// letGo lets intake go on.
func (l *endpointLane) letGo() { l.presses.pressed, l.presses = nil, nil }

// halfTime is how long the half of a full lane takes.
func (u *Unit) halfTime(l *endpointLane) time.Duration {
	return time.Duration(u.LaneEntries/2) * u.interval(l)
}

// spill sends a delivery round through a tier, to come back when the lane will
// have worked off what is in front of it: what is in flight, what was spilled
// before and comes back in the same class, and so many that are queued. What was spilled before gives each delivery of a flood a place of
// its own, so that a quarter of the time for that is room enough for chance: drawn over all of it, a flood would come back several times
// as fast at first as it can be worked off, to be spilled again. A lane that spills for age may be all but
// empty, and where it is for want of slots its pace says nothing: so each time that a delivery is held, it stays away
// for a little longer.
func (u *Unit) spill(l *endpointLane, it *item, queued int, reason string, now time.Time) {
	class, interval := classOf(it.delivery), u.interval(l)
	l.backlog[class]++
	before := time.Duration(l.backlog[class]) * interval
	if end, ends := u.Policy.Ends(spentBy(it.delivery)); ends {
		before = min(before, max(0, end.Sub(now))) // it is a guess, and nothing is given up for a guess
	}
	spread := before/4 + time.Duration(queued+l.inFlight)*interval
	again := min(time.Duration(it.delivery.Holds)*u.LaneAge, longestAgain)
	u.hold(it, now.Add(before-before/4), max(time.Second, spread, again), reason, now)
}

// makeWay has slow lanes that are flooded spill what they took from a stream below an offset, when its window is running out and
// somebody waits behind the flood with nothing to do. What such a lane has queued takes it seconds, and all that time
// the rest of the flood could go through what is left of the window only.
func (u *Unit) makeWay(s *stream, below int64, now time.Time) {
	if now.Sub(s.madeWay) < lookEvery || !u.neighbours(s, now) {
		return
	}
	s.madeWay = now
	for _, l := range u.lanes {
		if now.Sub(l.flooded) >= recently || u.halfTime(l) <= u.LanePause {
			continue
		}
		for class := lane.Live; class <= lane.Retry; class++ {
			for it, ok := l.queue.PeekOf(class); ok && it.stream == s && it.offset < below; it, ok = l.queue.PeekOf(class) {
				l.queue.PopOf(class)
				u.spill(l, it, l.queue.Len(), metrics.HoldLaneFull, now)
			}
		}
		u.relieve(l, now)
	}
}

// longestAgain bounds by how much a spilled delivery stays away longer for having been held before.
const longestAgain = time.Minute

// interval is what lies between two completions: the pace, or what the endpoint's rate allows.
func (u *Unit) interval(l *endpointLane) time.Duration {
	if ep, ok := u.Endpoints.Get(l.id); ok && ep.RatePerSecond > 0 {
		// A rate near zero must not overflow: no wait is longer than this.
		return max(l.pace, time.Duration(min(float64(time.Second)/ep.RatePerSecond, float64(time.Hour))))
	}
	return l.pace
}

// isSpill says whether a hold was for want of room or turn in the lane.
func isSpill(reason string) bool {
	return reason == metrics.HoldLaneFull || reason == metrics.HoldLaneAge
}

// patience is how long the head of a class may wait in a lane. What is not live and is next stays while a request is
// under way that may hang for longer than LaneAge: it would come back to find the next one under way, and the next.
func (u *Unit) patience(l *endpointLane, class lane.Class) time.Duration {
	if class != lane.Live && l.inFlight > 0 {
		if _, next, _ := l.queue.Peek(); next == class {
			return hanging * u.LaneAge
		}
	}
	return u.LaneAge
}

// hanging is how many times LaneAge a request may take: 30 s of 5.
const hanging = 6

// spillAged sends away what has waited too long at the head of a lane, so that
// no record stays unsettled behind a slow endpoint.
func (u *Unit) spillAged(l *endpointLane, now time.Time) {
	u.relieve(l, now)
	for class := lane.Live; class <= lane.Retry; class++ {
		for l.queue.AgeOf(class, now) >= u.patience(l, class) {
			it, _ := l.queue.PopOf(class)
			u.spill(l, it, 0, metrics.HoldLaneAge, now) // it was at the head
		}
	}
	if l.queue.Len() > 0 {
		u.alarms.set(l, now.Add(max(u.LaneAge-l.queue.OldestAge(now), lookEvery)))
	}
	if l.presses != nil {
		u.alarms.set(l, now.Add(lookEvery))
	}
}
