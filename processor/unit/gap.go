package unit

import (
	"fmt"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/barnabas-webhooks/barnabas/dlq"
	"github.com/barnabas-webhooks/barnabas/internal/obs"
	"github.com/barnabas-webhooks/barnabas/processor/metrics"
	"github.com/barnabas-webhooks/barnabas/processor/tracker"
	"github.com/barnabas-webhooks/barnabas/schemas"
)

// Log is which offsets of a topic-partition are there: from Start on, up to End and without it (the
// high watermark). A Start below 0 is not known.
type Log struct{ Start, End int64 }

// compare holds the group's position against the log before the unit starts (C-129). What was
// removed in the meantime is never fetched, so that without this nobody would miss it; and where
// nothing is left, nothing would move the committed position on.
func (u *Unit) compare(s *stream, log Log, now time.Time) {
	first, committed := log.Start, s.committed
	if len(s.unread) > 0 {
		first = min(first, s.unread[0].Offset)
	}
	switch {
	case committed < 0 || s.anew != nil:
	case first > committed:
		u.removed(s, committed, first, now)
		s.tracker.Advance(first)
		s.expected = max(s.expected, first)
	case log.End < committed && len(s.unread) == 0:
		u.setBack(s, committed, log, now)
		s.tracker, s.expected = tracker.New(max(log.Start, 0), ""), max(log.Start, 0)
	}
}

// follow notes how far the log was read. Records that lie before that are read again,
// and their tracker knows them as done; unless the log ends before it: then it was
// made anew, or cut, and what it holds now has never been seen (C-129). Offsets that are
// left out are no gap, control records and compaction do that, unless the log begins behind them.
func (u *Unit) follow(s *stream, log Log, records []*kgo.Record) {
	if len(records) == 0 {
		return
	}
	first := records[0]
	switch {
	case first.Offset < s.expected && log.End < s.expected:
		u.setBack(s, s.expected, log, time.Now())
		s.anew, s.expected, s.keptTo = first, 0, 0
	case u.phase == running && s.expected >= 0 && min(log.Start, first.Offset) > s.expected:
		u.removed(s, s.expected, min(log.Start, first.Offset), time.Now())
	}
	last := records[len(records)-1]
	s.expected = max(s.expected, last.Offset+1)
	s.sees(log.End, last)
}

// removed reports that the log begins behind where it was read to. What lay between is lost: all that can be
// done is to say so, loudly and for good, and to go on with the earliest record that is left.
func (u *Unit) removed(s *stream, from, to int64, now time.Time) {
	lost := s.tracker.Missing(from, to) // at least one: the position is that of an unsettled record
	u.gap(s, metrics.GapRemoved, from, to, lost, now,
		fmt.Sprintf("offsets %d to %d, %d records at most, were removed from the log before they were read: they are lost", from, to-1, lost))
}

// setBack reports that the log ends before where it was read to: it was made anew, or cut.
func (u *Unit) setBack(s *stream, from int64, log Log, now time.Time) {
	u.gap(s, metrics.GapSetBack, from, log.Start, from-log.End, now,
		fmt.Sprintf("the log ends at offset %d, before %d, up to which it was read: it was made anew or cut, and is read from its start", log.End, from))
}

// gap makes a gap seen: an error in the log, a metric, and a dead letter without content, which is also the
// record that takes the committed position past it.
func (u *Unit) gap(s *stream, kind string, from, to, size int64, now time.Time, detail string) {
	u.Metrics.LogGapRecords.WithLabelValues(s.topic, kind).Add(float64(size))
	u.Log.Error("gap in the log", obs.KeyReason, kind, obs.KeyTopic, s.topic, obs.KeyPartition, u.owner.Unit,
		obs.KeyFrom, from, obs.KeyTo, to, obs.KeyCount, size, obs.KeyDetail, detail)
	if s.kind == events && kind == metrics.GapSetBack {
		u.endLines()
	}
	at := schemas.Coordinates{Topic: s.topic, Partition: u.owner.Unit, Offset: from}
	u.buryLetter(&item{stream: s, offset: -1}, dlq.FromRaw("", nil, nil, nil, schemas.ReasonRemoved, detail, at, now))
}
