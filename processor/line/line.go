package line

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"github.com/barnabas-webhooks/barnabas/schemas"
)

// Line is the line of one endpoint. New or Restore makes one.
type Line struct {
	settled schemas.Line  // what the log says, or will say with the first batch
	sealed  *schemas.Line // what it will say when the batch that is at the settler is settled; nil: none is

	taken, takenOffset int64           // the last number that was given, and to which event
	open               map[int64]int64 // numbers whose events are not settled -> where in events
	again              map[int64]int64 // events that will be read again -> the numbers they have

	turn  int64              // the lowest number that has not ended
	ended map[int64]struct{} // numbers from turn on that have ended, and those that ended and are not settled
	due   time.Time          // when the one whose turn it is may be attempted; zero: not known, or now
	since time.Time          // when it got its turn

	pace  time.Duration // of the line: how long one has the turn, from when it is here until its ending is settled
	here  time.Time     // when the one whose turn it is came first; zero: it has not
	began time.Time     // the same, of the last that has ended; zero: it is settled

	late    []int64 // ended otherwise than the log has been told
	missed  missing
	skipped int64 // up to this, numbers count as ended
}

// firstPace is assumed of a line of which nothing has ended yet: that of an endpoint that answers fast, since each
// delivery waits for the settling of the one before.
const firstPace = 100 * time.Millisecond

// New is the line that begins with the event at an offset. The epoch tells it from earlier lines of the endpoint: it
// must be above theirs.
func New(endpointID string, epoch, offset int64, now time.Time) *Line {
	return Restore(&schemas.Line{EndpointID: endpointID, Epoch: epoch, TakenOffset: offset - 1, Since: now})
}

// Restore is a line as it was last settled.
func Restore(r *schemas.Line) *Line {
	l := &Line{
		settled: *r, taken: r.Taken, takenOffset: r.TakenOffset, turn: r.Done + 1, due: r.DueAt, since: r.Since, pace: firstPace,
		open: map[int64]int64{}, again: map[int64]int64{}, ended: map[int64]struct{}{},
	}
	for _, p := range r.Open {
		l.open[p.Number], l.again[p.Offset] = p.Offset, p.Number
	}
	for _, n := range r.Gone {
		l.ended[n] = struct{}{}
	}
	l.pass()
	return l
}

// Epoch tells the line from earlier ones of its endpoint.
func (l *Line) Epoch() int64 { return l.settled.Epoch }

// Take gives an event its number: the next one, or the one that it had when it was read before. 0: it was read before,
// and has none. Events come in the order of the log.
func (l *Line) Take(offset int64, now time.Time) int64 {
	if offset <= l.takenOffset {
		return l.again[offset]
	}
	if l.Empty() {
		l.since = now
	}
	l.taken, l.takenOffset = l.taken+1, offset
	l.open[l.taken] = offset
	return l.taken
}

// Turn is the number that is next.
func (l *Line) Turn() int64 { return l.turn }

// Clear says that all before the turn are settled: it may be attempted.
func (l *Line) Clear() bool {
	for n := range l.ended {
		if n < l.turn {
			return false
		}
	}
	return true
}

// Empty says that all numbers that were given have ended.
func (l *Line) Empty() bool { return l.turn > l.taken }

// Behind is how many wait behind the one whose turn it is.
func (l *Line) Behind() int64 { return max(l.taken-l.turn, 0) }

// Due is when the one whose turn it is may be attempted; zero: now, or not known.
func (l *Line) Due() time.Time { return l.due }

// Come notes that the one whose turn it is has come.
func (l *Line) Come(now time.Time) {
	if l.here.IsZero() {
		l.here = now
	}
}

// Postpone notes that a number was sent to a tier until due.
func (l *Line) Postpone(number int64, due time.Time) {
	if number == l.turn {
		l.due = due
	}
}

// End notes that a number has ended, which is not settled yet. It returns true when that gives another one the turn.
func (l *Line) End(number int64, now time.Time) bool {
	if number < l.turn {
		return false
	}
	l.ended[number] = struct{}{}
	return l.advance(now)
}

// Lose notes that a number ended of which the log was told that it went to a tier. The next Seal says so.
func (l *Line) Lose(number int64, now time.Time) bool {
	l.late = append(l.late, number)
	return l.End(number, now)
}

// advance moves the turn on.
func (l *Line) advance(now time.Time) bool {
	if !l.pass() {
		return false
	}
	if l.began.IsZero() {
		l.began = l.here
	}
	l.due, l.here, l.since, l.missed = time.Time{}, time.Time{}, now, missing{}
	return true
}

func (l *Line) pass() bool {
	before := l.turn
	for {
		if _, ended := l.ended[l.turn]; !ended {
			return l.turn > before
		}
		l.turn++
	}
}

// Move is what is settled of one number: it has ended, or it went to a tier.
type Move struct {
	Number int64
	Ended  bool
}

// maxGone bounds how many numbers that ended out of turn are written down. There are hardly any: what cannot be read or
// written in its tier. One that is forgotten is a number that never comes: see Overdue.
const maxGone = 256

// Seal is the record to be written in the transaction that settles moves. What it says counts when Settle is called;
// there is one at a time.
func (l *Line) Seal(moves []Move) *schemas.Line {
	next := l.settled
	gone := map[int64]struct{}{}
	for _, n := range next.Gone {
		gone[n] = struct{}{}
	}
	for _, n := range l.late {
		gone[n] = struct{}{}
	}
	l.late = nil
	for _, m := range moves {
		if offset, ok := l.open[m.Number]; ok {
			if m.Number > next.Taken {
				next.Taken, next.TakenOffset = m.Number, offset
			}
			delete(l.open, m.Number)
			delete(l.again, offset)
		}
		if m.Ended && m.Number > next.Done {
			gone[m.Number] = struct{}{}
		}
	}
	next.Done = max(next.Done, l.skipped)
	for n := range gone {
		if n <= next.Done {
			delete(gone, n)
		}
	}
	for {
		if _, ok := gone[next.Done+1]; !ok {
			break
		}
		next.Done++
		delete(gone, next.Done)
	}
	next.Gone = slices.Sorted(maps.Keys(gone))
	next.Gone = next.Gone[:min(len(next.Gone), maxGone)]
	next.Open = nil
	for n, offset := range l.open {
		if n <= next.Taken {
			next.Open = append(next.Open, schemas.Place{Number: n, Offset: offset})
		}
	}
	slices.SortFunc(next.Open, func(a, b schemas.Place) int { return cmp.Compare(a.Number, b.Number) })
	next.DueAt, next.Since = l.due, l.since
	l.sealed = &next
	return &next
}

// Settle notes that the record of the last Seal is written for good.
func (l *Line) Settle(now time.Time) {
	if l.sealed == nil {
		return
	}
	if n := l.sealed.Done - l.settled.Done; n > 0 {
		l.keepPace(n, now)
	}
	l.settled, l.sealed = *l.sealed, nil
	maps.DeleteFunc(l.ended, func(n int64, _ struct{}) bool { return n <= l.settled.Done })
}
