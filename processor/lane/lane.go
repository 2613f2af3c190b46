// Package lane holds what waits in memory: the FIFO of one endpoint, and the round of
// endpoints that are ready to send.
//
// A [Lane] keeps three classes of deliveries apart. Each is a FIFO of its own; a
// take goes to live before retry before replay, but in every round of 21 takes each
// class has its share, so that none starves:
//
//	class    share of a round in which all three wait
//	live     16
//	retry     4
//	replay    1
//
// A class that is empty gives its share to the others. A class that has used up its
// share waits until the others have used theirs or are empty; then a new round starts.
//
// A [Ring] goes round the keys that are ready, one step each, so that an endpoint with
// a million waiting deliveries gets the same turns as one with a single delivery.
//
// Both are for one goroutine, pure, and give memory back when they run empty: there
// may be 100,000 of them.
package lane

import "time"

// Class is where a delivery comes from.
type Class uint8

// The classes, the most urgent first.
const (
	Live   Class = iota // from events
	Retry               // from a tier
	Replay              // a dead letter that is re-fed
)

// classes is how many there are.
const classes = 3

// Weight is the class's share of a round, in takes.
func (c Class) Weight() int {
	switch c {
	case Live:
		return 16
	case Retry:
		return 4
	case Replay:
	}
	return 1
}

// String is the class's name, as used in labels.
func (c Class) String() string {
	switch c {
	case Live:
		return "live"
	case Retry:
		return "retry"
	case Replay:
		return "replay"
	}
	return "unknown"
}

// Lane is the FIFO of one endpoint. The zero value is empty and ready.
type Lane[T any] struct {
	queues [classes]queue[T]
	taken  [classes]uint8 // of this round's share
	bytes  int
}

// Push adds an item at the end of its class. bytes is what it weighs against the lane's budget.
// A class that does not exist counts as Replay: it may not jump the queue.
func (l *Lane[T]) Push(class Class, item T, bytes int, now time.Time) {
	l.queues[min(class, Replay)].push(entry[T]{item: item, bytes: bytes, at: now.UnixNano()})
	l.bytes += bytes
}

// Pop takes the next item; false when the lane is empty.
func (l *Lane[T]) Pop() (item T, class Class, ok bool) {
	class, fresh, ok := l.turn()
	if !ok {
		return item, 0, false
	}
	if fresh {
		l.taken = [classes]uint8{}
	}
	l.taken[class]++
	e := l.queues[class].pop()
	l.bytes -= e.bytes
	return e.item, class, true
}

// PopOf takes the head of one class out of turn: it leaves the lane, and no share is
// used up. False when none of the class waits.
func (l *Lane[T]) PopOf(class Class) (item T, ok bool) {
	q := &l.queues[min(class, Replay)]
	if q.len() == 0 {
		return item, false
	}
	e := q.pop()
	l.bytes -= e.bytes
	return e.item, true
}

// Peek is what Pop would take.
func (l *Lane[T]) Peek() (item T, class Class, ok bool) {
	class, _, ok = l.turn()
	if !ok {
		return item, 0, false
	}
	return l.queues[class].first().item, class, true
}

// turn says which class is next, and whether a new round starts with it.
func (l *Lane[T]) turn() (class Class, fresh, ok bool) {
	first := Class(classes)
	for c := range Class(classes) {
		if l.queues[c].len() == 0 {
			continue
		}
		if int(l.taken[c]) < c.Weight() {
			return c, false, true
		}
		first = min(first, c)
	}
	return first, true, first != classes
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
func (l *Lane[T]) LenOf(class Class) int { return l.queues[min(class, Replay)].len() }

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
	q := &l.queues[min(class, Replay)]
	if q.len() == 0 {
		return 0
	}
	return max(0, time.Duration(now.UnixNano()-q.first().at))
}

// Drain empties the lane: live, then retry, then replay, each in its order. Nil when it is empty.
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
