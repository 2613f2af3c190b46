package unit

import (
	"slices"
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/barnabas-webhooks/barnabas/processor/settle"
	"github.com/barnabas-webhooks/barnabas/processor/tracker"
)

// settling is what has come out and is not written for good yet: what gathers,
// and the one batch that is with the settler.
type settling struct {
	gathered []settled
	sealed   []settled
	wanted   bool         // the settler has been told
	hurried  bool         // ... and that it should not wait
	left     bool         // the last batch was full, and some of gathered is what it left
	bytes    atomic.Int64 // of the records in gathered
}

// settled pairs an outcome with the source record that it settles.
type settled struct {
	it    *item
	out   *settle.Outcome
	bytes int64 // of its records
}

// len is how many outcomes are not settled yet.
func (s *settling) len() int { return len(s.gathered) + len(s.sealed) }

// outcome notes what an item came to: the records that take its place. The
// source stays unsettled until they are written.
func (u *Unit) outcome(it *item, records ...*kgo.Record) {
	one := settled{it: it, out: &settle.Outcome{Records: records, Trim: func() []*kgo.Record { return u.trimmed(it) }}}
	for _, r := range records {
		one.bytes += int64(len(r.Value))
	}
	u.settling.gathered = append(u.settling.gathered, one)
	u.settling.bytes.Add(one.bytes)
	now := time.Now()
	u.rouseWhere(records, now)
	u.step(it, now)
}

// want tells the settler that there is something, and that it is urgent, each once until it asks.
func (u *Unit) want() {
	s := &u.settling
	if len(s.sealed) > 0 || len(s.gathered) == 0 {
		return
	}
	if !s.wanted {
		s.wanted = true
		u.Settler.Want(u)
	}
	if !s.hurried && u.urgent() {
		s.hurried = true
		u.Settler.Hurry()
	}
}

// manyOfFull is how many outcomes are worth a transaction at once while a stream's window is used up.
const manyOfFull = tracker.FarOpen / 2

// urgent says that it is better not to wait for the beat: the last batch could not hold all; a whole one has gathered, which can be
// written while the next one is read; or a stream reads no further before much of this is settled. Who comes behind a flood waits for all of it to be read.
func (u *Unit) urgent() bool {
	s := &u.settling
	if s.left || len(s.gathered) >= u.BatchOutcomes || s.bytes.Load() >= u.BatchBytes {
		return true
	}
	return len(s.gathered) >= manyOfFull && slices.ContainsFunc(u.streams, func(s *stream) bool { return s.tracker.Full() })
}

// Gathered implements settle.Source.
func (u *Unit) Gathered() int64 { return u.settling.bytes.Load() }

// Seal implements settle.Source.
func (u *Unit) Seal(tag string, limit int64, reply chan<- *settle.Batch) bool {
	return u.inbox.put(func() { reply <- u.seal(tag, min(limit, u.BatchBytes)) })
}

// seal makes a batch of what may be settled: everything gathered but those whose
// claim is not durable yet, up to limit bytes and the outcomes of a batch.
func (u *Unit) seal(tag string, limit int64) *settle.Batch {
	s := &u.settling
	s.wanted, s.hurried, s.left = false, false, false
	if u.phase == ended || len(s.sealed) > 0 {
		return nil
	}
	batch := &settle.Batch{Owner: u.owner, Tag: tag}
	done := map[*stream][]int64{}
	var later []settled
	var bytes int64
	kept := map[string]bool{} // lines of which something is left for later: then so is what comes after it
	for _, one := range s.gathered {
		full := len(s.sealed) >= u.BatchOutcomes || bytes >= limit
		if full || one.it.claiming || kept[one.it.place.endpoint] {
			s.left = s.left || full
			later = append(later, one)
			if one.it.place.number > 0 {
				kept[one.it.place.endpoint] = true
			}
			continue
		}
		bytes += one.bytes
		s.sealed = append(s.sealed, one)
		batch.Outcomes = append(batch.Outcomes, one.out)
		done[one.it.stream] = append(done[one.it.stream], one.it.offset)
	}
	s.gathered = later
	s.bytes.Add(-bytes)
	if len(s.sealed) == 0 {
		return nil
	}
	if records := u.sealLines(s.sealed); len(records) > 0 {
		batch.Outcomes = append(batch.Outcomes, &settle.Outcome{Records: records})
	}
	for stream, offsets := range done {
		offset, metadata := stream.tracker.CommitWith(offsets, tag)
		batch.Commits = append(batch.Commits, settle.Commit{
			Topic: stream.topic, Partition: u.owner.Unit, Offset: offset, Metadata: metadata,
		})
	}
	batch.Settled = func(err error) { u.inbox.put(func() { u.settled(err) }) }
	return batch
}

// settled takes the settler's answer on the batch.
func (u *Unit) settled(err error) {
	s := &u.settling
	sealed := s.sealed
	s.sealed = nil
	if u.phase == ended {
		return
	}
	if err != nil {
		// Not ours any more, or the settler has ended: nothing was written, and
		// nothing of this unit will be.
		u.phase = ended
		return
	}
	for _, one := range sealed {
		one.it.stream.tracker.Done(one.it.offset)
		u.release(one.it.cost)
	}
	u.settledLines(sealed, time.Now())
	if err := u.arbiter.Settled(u.streams[0].tracker.Position()); err != nil {
		u.fail(err)
	}
}
