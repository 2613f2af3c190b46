package unit

import (
	"math"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

const (
	// restAfter is how long nothing has come before a stream rests, at least. It is twice what a fetch may wait at the broker, if that is
	// longer: who is woken is in the next fetch, and that one's answer has come by then.
	restAfter = time.Second
	// tierRests is for how long a tier rests. Nobody but the unit itself writes there; that it looks by itself is for who does so
	// all the same.
	tierRests = time.Minute
	// replayRests is the same for replays, which come from outside.
	replayRests = 5 * time.Second
)

// rest is when a stream is fetched from of which all that is there has been read. A broker looks at each partition that is asked for
// with every fetch, and of a unit's handful all but one are empty most of the time: with all of them in it, each fetch took the broker
// three times as long. So they are left out, and looked at now and then, or when the unit has written there.
type rest struct {
	resting bool
	since   time.Time // the rest, or the waking
}

// someEnd is the end of a log that is known to hold something, but not how much.
const someEnd = math.MaxInt64

// rouse has a stream fetched from, until all that is there is read.
func (s *stream) rouse(now time.Time) { s.rest = rest{since: now} }

// rouseWhere has the streams fetched from to which the unit is going to write: before it is written, since a stream that is woken has to
// wait for the fetch under way. They do not rest before it has come back.
func (u *Unit) rouseWhere(records []*kgo.Record, now time.Time) {
	for _, r := range records {
		if s := u.stream(r.Topic); s != nil && r.Partition == u.owner.Unit {
			s.end, s.wrote = someEnd, now
			s.rouse(now)
		}
	}
}

// sees notes where the log ended when its last record was fetched. Of a fetch that brings what was there before the unit wrote,
// it says nothing.
func (s *stream) sees(end int64, last *kgo.Record) {
	if !last.Timestamp.Before(s.wrote.Truncate(time.Millisecond)) {
		s.end = end
	}
}

// rests says whether a stream rests now.
func (u *Unit) rests(s *stream, now time.Time) bool {
	if turn := u.turn(s); !turn.IsZero() && !now.Before(turn) {
		s.rest = rest{resting: !s.rest.resting, since: now}
	}
	return s.rest.resting
}

// turn is when a stream next begins or ends its rest; zero: not before something comes.
func (u *Unit) turn(s *stream) time.Time {
	switch {
	case s.kind == events, !s.rest.resting && !s.readOut():
		return time.Time{}
	case !s.rest.resting:
		return s.rest.since.Add(max(restAfter, 2*u.FetchWait))
	case s.kind == replay:
		return s.rest.since.Add(replayRests)
	}
	return s.rest.since.Add(tierRests)
}

// readOut says that all has been read that was there when the stream was last fetched from. What ends a transaction is in the log too,
// and is not handed over: one of them may stand behind the last record.
func (s *stream) readOut() bool { return max(s.expected, 0) >= s.end-1 }
