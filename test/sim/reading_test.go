package sim_test

import (
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/barnabas-webhooks/barnabas/processor/tracker"
	"github.com/barnabas-webhooks/barnabas/schemas"
)

// Reading is what the cluster holds at one moment in which nobody writes.
type Reading struct {
	Events, Waiting, Replays []Source
	Letters                  []LetterAt
	Marks                    map[schemas.Coordinates]int // how often each dead letter was replayed
	Attempts                 []AttemptAt
	Claims                   []ClaimAt
}

// Source is a record of a consumed topic.
type Source struct {
	*kgo.Record
	At      schemas.Coordinates
	Settled bool // by the group's committed offset, or the map in its metadata
	// Delivery of a tier and of replay; nil when it cannot be read.
	Delivery *schemas.Delivery
}

// LetterAt is a dead letter and where it is.
type LetterAt struct {
	schemas.DeadLetter
	At      schemas.Coordinates
	Written time.Time
}

// AttemptAt is a record of the attempts topic and when it was written.
type AttemptAt struct {
	schemas.Attempt
	Written time.Time
}

// ClaimAt is a claim and when it was written.
type ClaimAt struct {
	schemas.Claim
	Written time.Time
}

// TakeReading reads everything.
func (w *World) TakeReading() *Reading {
	w.t.Helper()
	c := w.Catalogue()
	all := w.Read(append(c.Consumed(), c.DLQ(), c.DLQState(), c.Attempts(), c.Idempotency())...)
	r := &Reading{Marks: map[schemas.Coordinates]int{}}
	commits := w.positions()
	source := func(topic string, read bool) []Source {
		trackers := map[int32]*tracker.Tracker{}
		var sources []Source
		records := all[topic]
		slices.SortStableFunc(records, func(a, b *kgo.Record) int {
			if a.Partition != b.Partition {
				return int(a.Partition - b.Partition)
			}
			return int(a.Offset - b.Offset)
		})
		for _, record := range records {
			t := trackers[record.Partition]
			if t == nil {
				at := position{offset: -1}
				if p, ok := commits[topic][record.Partition]; ok {
					at = p
				}
				t = tracker.New(at.offset, at.metadata)
				trackers[record.Partition] = t
			}
			s := Source{Record: record, At: at(record), Settled: !t.Open(record.Offset)}
			if read {
				if d, err := schemas.DecodeDelivery(record.Value); err == nil {
					s.Delivery = &d
				}
			}
			sources = append(sources, s)
		}
		return sources
	}
	r.Events, r.Replays = source(c.Events(), false), source(c.Replay(), true)
	for _, tier := range c.TierTopics() {
		r.Waiting = append(r.Waiting, source(tier, true)...)
	}
	for _, record := range all[c.DLQ()] {
		l, err := schemas.DecodeDeadLetter(record.Value)
		if err != nil {
			w.t.Errorf("dead letter %v cannot be read: %v", at(record), err)
		}
		r.Letters = append(r.Letters, LetterAt{l, at(record), record.Timestamp})
	}
	for _, m := range decodeAll(w, all[c.DLQState()], schemas.DecodeReplayMark) {
		r.Marks[m.DeadLetter]++
	}
	for _, record := range all[c.Attempts()] {
		a, err := schemas.DecodeAttempt(record.Value)
		if err != nil {
			w.t.Errorf("attempt %v cannot be read: %v", at(record), err)
		}
		r.Attempts = append(r.Attempts, AttemptAt{a, record.Timestamp})
	}
	for i, claim := range decodeAll(w, all[c.Idempotency()], schemas.DecodeClaim) {
		r.Claims = append(r.Claims, ClaimAt{claim, all[c.Idempotency()][i].Timestamp})
	}
	return r
}

// Unsettled counts the records of consumed topics that the group has not settled.
func (r *Reading) Unsettled() int {
	n := 0
	for _, there := range r.unsettled() {
		n += there
	}
	return n
}

// partition is one of a topic.
type partition struct {
	topic  string
	number int32
}

// unsettled is the same by partition.
func (r *Reading) unsettled() map[partition]int {
	by := map[partition]int{}
	for _, sources := range [][]Source{r.Events, r.Waiting, r.Replays} {
		for _, s := range sources {
			if !s.Settled {
				by[partition{s.At.Topic, s.At.Partition}]++
			}
		}
	}
	return by
}

func at(r *kgo.Record) schemas.Coordinates {
	return schemas.Coordinates{Topic: r.Topic, Partition: r.Partition, Offset: r.Offset}
}

// position is where the group stands in a partition.
type position struct {
	offset   int64
	metadata string
}

// positions are the group's committed offsets.
func (w *World) positions() map[string]map[int32]position {
	all := map[string]map[int32]position{}
	info := w.cluster.GroupInfo(w.cfg.Processor.Group)
	if info == nil {
		return all
	}
	for topic, partitions := range info.Commits {
		all[topic] = map[int32]position{}
		for p, c := range partitions {
			all[topic][p] = position{c.Offset, c.Metadata}
		}
	}
	return all
}
