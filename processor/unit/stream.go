package unit

import (
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/barnabas-webhooks/barnabas/processor/tracker"
	"github.com/barnabas-webhooks/barnabas/retry"
	"github.com/barnabas-webhooks/barnabas/topics"
)

// kind tells what the records of a stream are.
type kind int

const (
	events kind = iota
	tier        // deliveries that wait
	replay      // dead letters being re-fed
)

// stream is one topic of the unit: one topic-partition with its tracker.
type stream struct {
	topic   string
	kind    kind
	tracker *tracker.Tracker // nil until the group's position is known
	// expected is above every offset that was committed or handed over; -1: there was none.
	expected  int64
	end       int64                  // of the log, when it was last fetched from
	committed int64                  // where the group stood when the unit began; -1: nowhere
	anew      *kgo.Record            // the first of a log that was set back; nil: none
	damaged   map[*kgo.Record]damage // of unread: what stands for a batch that cannot be read
	waiting   waiting                // of a tier

	// atLeast is how long every record of this tier waits: the cap of the next
	// smaller one, since a longer wait never goes to a smaller tier than it needs.
	atLeast time.Duration
	// quiet is the time before which no record can be due that has not been read
	// yet: later records carry later timestamps.
	quiet time.Time
	// overflowed says that some of what was read went round again. What makes room by that must not be filled with
	// what has just gone round: until quiet has passed, nothing more is read, however much memory there is.
	overflowed   bool
	overflowedAt time.Time

	paused  bool // it is full
	stands  bool // it is not fetched from: it is full, or rests
	rest    rest
	wrote   time.Time     // when the unit last had something to write here
	pressed *endpointLane // intake stands still for this lane to drain; nil: for none
	hungry  *endpointLane // while it starves no lane presses that is not full; nil: none
	seenAll time.Time     // when the end of its log was last reached
	look    look          // whether somebody else would wait for it
	madeWay time.Time     // when lanes last spilled to have its window move on
	unread  []*kgo.Record // fetched while it stood still, in log order
	keptTo  int64         // the offset below which what is unread lies by itself in memory
}

// damage is why a batch cannot be read, and up to which offset.
type damage struct {
	last   int64
	reason error
}

// stream finds the stream of a topic; nil: the unit has none. There are a handful, which each turn of the unit goes through.
func (u *Unit) stream(topic string) *stream {
	for _, s := range u.streams {
		if s.topic == topic {
			return s
		}
	}
	return nil
}

// newStreams lists the topics of a unit, events first.
func newStreams(c topics.Catalogue, p retry.Policy) []*stream {
	streams := []*stream{{topic: c.Events(), kind: events}, {topic: c.Replay(), kind: replay}}
	for i := range c.Tiers {
		streams = append(streams, &stream{topic: c.Tier(i), kind: tier, atLeast: p.TierFloor(i)})
	}
	for _, s := range streams {
		s.expected = -1
	}
	return streams
}

// begin sets the position; false when it was set before.
func (s *stream) begin(at Position) bool {
	if s.tracker != nil {
		return false
	}
	s.tracker, s.expected, s.committed = tracker.New(at.Offset, at.Metadata), max(s.expected, at.Offset), at.Offset
	return true
}

// startOver gives a log that was set back a tracker of its own, once nothing is on its way that
// carries an offset of the old one; false until then.
func (s *stream) startOver() bool {
	if s.tracker.Unsettled() > 0 {
		return false
	}
	s.tracker, s.anew = tracker.New(-1, ""), nil
	return true
}

// keepUnread takes what stays unread out of the fetches that it came in, each record once. See item.keep.
func (s *stream) keepUnread() {
	for _, r := range slices.Backward(s.unread) {
		if r.Offset < s.keptTo {
			break
		}
		// One piece of memory for all of it; the headers' values are short, and copied with the value.
		size := len(r.Key) + len(r.Value)
		for _, h := range r.Headers {
			size += len(h.Value)
		}
		buf := make([]byte, 0, size)
		own := func(b []byte) []byte {
			if b == nil {
				return nil // which means something else than empty
			}
			from := len(buf)
			buf = append(buf, b...)
			return buf[from:len(buf):len(buf)]
		}
		r.Key, r.Value = own(r.Key), own(r.Value)
		for i := range r.Headers {
			r.Headers[i].Value = own(r.Headers[i].Value)
		}
	}
	if n := len(s.unread); n > 0 {
		s.keptTo = s.unread[n-1].Offset + 1
	}
}

// next is when a stream wants to be looked at again; zero: never by itself.
func (u *Unit) next(s *stream, now time.Time) time.Time {
	at, _ := s.waiting.next()
	if s.paused && s.quiet.After(now) {
		at = earlier(at, s.quiet)
	}
	return earlier(at, u.turn(s))
}

// earlier is the earlier of two times of which each may be zero, for never.
func earlier(a, b time.Time) time.Time {
	if a.IsZero() || !b.IsZero() && b.Before(a) {
		return b
	}
	return a
}

// full says that intake of this stream must stand still.
func (u *Unit) full(s *stream, now time.Time) bool {
	switch {
	case s.tracker.Full():
		return true
	case s.kind != tier && u.Memory.Scarce(u.weighs(s)):
		return true
	case s.kind != tier:
		// What was fetched while intake stood still is what goes on first; more is
		// fetched only while little of it is left, since a resumed partition has to
		// wait for the fetch under way.
		return len(s.unread) >= u.hysteresis(s, 2*u.readAhead())
	}
	limit, scarce := u.WaitingRecords, u.Memory.HalfFull()
	if scarce {
		limit = 1
	}
	if s.atLeast == 0 {
		return s.waiting.len() >= u.hysteresis(s, limit)
	}
	// What can't be due yet is not worth reading once the look-ahead is half full; and
	// while memory is scarce it would only be sent round, as fast as it is read. What may
	// be due is read however full it is: what is due last makes room.
	if !s.quiet.After(now) {
		s.overflowed = false
		return false
	}
	return scarce || s.overflowed || 2*s.waiting.len() >= limit
}

// weighs is what the unit holds, as it counts for whether it may take more: twice that for a stream that is paused, so
// that it resumes when half of its share has gone.
func (u *Unit) weighs(s *stream) int64 {
	if s.paused {
		return 2 * u.held
	}
	return u.held
}

// readAhead is how many unread records a stream may have and be fetched still: the fewer the more units there are, since a fetch
// brings something for many of them, and each of them works off its own the more slowly.
func (u *Unit) readAhead() int {
	const ofAll, least, most = 4096, 64, 1024
	return min(max(ofAll/u.Memory.Units(), least), most)
}

// hysteresis is the limit at which a stream is paused, and half of it once it is:
// it resumes when half has gone, not with each record.
func (u *Unit) hysteresis(s *stream, limit int) int {
	if s.paused {
		return limit/2 + 1
	}
	return limit
}

// makeRoomEvery is how often a look-ahead gives up its half while the memory budget is used up: what it gives up is
// free when it is settled.
const makeRoomEvery = time.Second

// makeRoom sends deliveries that only wait round again while the memory budget is used up. Nothing is fetched then, by
// any unit, and nothing that is read would make room: without this, what is due in minutes would keep live events out for minutes.
func (u *Unit) makeRoom(now time.Time) {
	for _, s := range u.streams {
		if s.atLeast > 0 && s.waiting.len() > 0 && u.Memory.Full() && now.Sub(s.overflowedAt) >= makeRoomEvery {
			u.overflow(s, now)
		}
	}
}

// moveOn sends deliveries round again that keep the window of their tier where it is, when behind it there may be one
// that is due: a tier has waits of very different lengths, of a day say, when an endpoint asks for it, and who is due
// first is not to wait for who came first. What goes round is not read again before its quiet time, so that each
// does so once per cap of the next smaller tier, at most. Of other streams it is lanes that keep the window: see makeWay.
func (u *Unit) moveOn(now time.Time) {
	for _, s := range u.streams {
		lowest, _ := s.tracker.Lowest()
		switch {
		case s.kind != tier && s.tracker.HalfFull():
			u.makeWay(s, lowest+tracker.Window/4, now)
		case s.atLeast > 0 && !s.quiet.After(now) && s.tracker.Full():
			for _, it := range s.waiting.below(lowest + tracker.Window/2) {
				u.goRound(it, now)
			}
		}
	}
}

// regulate stops what is full or rests from being fetched from, and has it go on.
func (u *Unit) regulate(now time.Time) {
	for _, s := range u.streams {
		full := u.full(s, now)
		if s.paused && !full {
			s.rouse(now) // something may have come in the meantime
		}
		s.paused = full
		stands := u.rests(s, now) || s.paused
		switch {
		case stands && !s.stands:
			u.Intake.Pause(s.topic, u.owner.Unit)
		case !stands && s.stands:
			u.Intake.Resume(s.topic, u.owner.Unit)
		}
		s.stands = stands
	}
}
