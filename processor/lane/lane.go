// Package lane holds what waits in memory: the FIFO of one endpoint, and the round of
// endpoints that are ready to send.
//
// A [Lane] keeps four classes of deliveries apart. Each is a FIFO of its own, and
// all have their share of the takes, so that none starves:
//
//	class    what it is                                  share
//	live     from events                                    16
//	replay   a dead letter that is re-fed                    4
//	held     put off without an attempt, and back again      4
//	retry    failed before                                   1
//
// The shares are those of a lane in which all four wait; a class that is empty gives
// its share to the others. A delivery that comes into an empty class waits for as
// many takes of the others as their shares are of its own: a retry for 16 of live.
//
// Shares are kept by tags on a virtual clock (self-clocked fair queueing). The head
// of each class has a tag, when its share will have come round; the lowest goes
// next, the class named first where they are equal, and the clock is at the last tag
// that went. A class that was served is tagged anew from then. One that runs empty
// because its head left out of turn, for it had waited too long, keeps its tag: who
// comes back does not begin to wait again, however short each stay is.
//
// A [Ring] goes round the keys that are ready, one step each, so that an endpoint with
// a million waiting deliveries gets the same turns as one with a single delivery.
//
// Both are for one goroutine, pure, and give memory back when they run empty: there
// may be 100,000 of them.
package lane

import "time"

// Class says what a delivery is to its lane.
type Class uint8

// The classes, in the order in which those of equal claim go.
const (
	Live   Class = iota // from events
	Replay              // a dead letter that is re-fed
	Held                // from a tier, never attempted: there was no room, or the endpoint was not to be tried
	Retry               // from a tier, after a failed attempt
)

// classes is how many there are.
const classes = 4

// whole is one take of a class that has all shares for itself, on the virtual clock.
const whole = 16

// Weight is the class's share: so many takes for one of Retry.
func (c Class) Weight() int {
	switch c {
	case Live:
		return 16
	case Replay, Held:
		return 4
	case Retry:
	}
	return 1
}

// String is the class's name.
func (c Class) String() string {
	switch c {
	case Live:
		return "live"
	case Replay:
		return "replay"
	case Held:
		return "held"
	case Retry:
		return "retry"
	}
	return "unknown"
}

// Lane is the FIFO of one endpoint. The zero value is empty and ready.
type Lane[T any] struct {
	queues [classes]queue[T]
	tags   [classes]uint64 // zero: empty, and nothing is owed
	clock  uint64
	bytes  int
}

// Push adds an item at the end of its class. bytes is what it weighs against the lane's budget.
// A class that does not exist counts as Retry: it may not jump the queue.
func (l *Lane[T]) Push(class Class, item T, bytes int, now time.Time) {
	class = min(class, Retry)
	if l.tags[class] == 0 {
		l.tag(class)
	}
	l.queues[class].push(entry[T]{item: item, bytes: bytes, at: now.UnixNano()})
	l.bytes += bytes
}

// tag has a class wait for its share, from now on.
func (l *Lane[T]) tag(class Class) { l.tags[class] = l.clock + whole/uint64(class.Weight()) }

// Pop takes the next item; false when the lane is empty.
func (l *Lane[T]) Pop() (item T, class Class, ok bool) {
	class, ok = l.turn()
	if !ok {
		return item, 0, false
	}
	l.clock = max(l.clock, l.tags[class])
	e := l.queues[class].pop()
	l.bytes -= e.bytes
	if l.tag(class); l.queues[class].len() == 0 {
		l.tags[class] = 0
	}
	return e.item, class, true
}

// PopOf takes the head of one class out of turn: it leaves the lane, and what the class
// is owed stays. False when none of the class waits.
func (l *Lane[T]) PopOf(class Class) (item T, ok bool) {
	q := &l.queues[min(class, Retry)]
	if q.len() == 0 {
		return item, false
	}
	e := q.pop()
	l.bytes -= e.bytes
	return e.item, true
}

// Peek is what Pop would take.
func (l *Lane[T]) Peek() (item T, class Class, ok bool) {
	class, ok = l.turn()
	if !ok {
		return item, 0, false
	}
	return l.queues[class].first().item, class, true
}

// PeekOf is what PopOf would take.
func (l *Lane[T]) PeekOf(class Class) (item T, ok bool) {
	q := &l.queues[min(class, Retry)]
	if q.len() == 0 {
		return item, false
	}
	return q.first().item, true
}

// turn says which class is next.
func (l *Lane[T]) turn() (next Class, ok bool) {
	for c := range Class(classes) {
		if l.queues[c].len() > 0 && (!ok || l.tags[c] < l.tags[next]) {
			next, ok = c, true
		}
	}
	return next, ok
}

// Len is how many items wait.
func (l *Lane[T]) Len() int {
	n := 0
	for c := range Class(classes) {
		n += l.queues[c].len()
	}
	return n
}

// LenOf is how many items of a class wait.
func (l *Lane[T]) LenOf(class Class) int { return l.queues[min(class, Retry)].len() }

// Bytes is what all waiting items weigh.
func (l *Lane[T]) Bytes() int { return l.bytes }

// OldestAge is how long the longest-waiting item has waited; zero when the lane is empty.
func (l *Lane[T]) OldestAge(now time.Time) time.Duration {
	var oldest time.Duration
	for c := range Class(classes) {
		oldest = max(oldest, l.AgeOf(c, now))
	}
	return oldest
}

// AgeOf is how long the head of a class has waited; zero when there is none, never negative.
func (l *Lane[T]) AgeOf(class Class, now time.Time) time.Duration {
	q := &l.queues[min(class, Retry)]
	if q.len() == 0 {
		return 0
	}
	return max(0, time.Duration(now.UnixNano()-q.first().at))
}

// Drain empties the lane: live, replay, held, retry, each in its order. Nil when it is empty.
func (l *Lane[T]) Drain() []T {
	n := l.Len()
	if n == 0 {
		return nil
	}
	items := make([]T, 0, n)
	for c := range Class(classes) {
		for _, e := range l.queues[c].waiting() {
			items = append(items, e.item)
		}
	}
	*l = Lane[T]{}
	return items
}
