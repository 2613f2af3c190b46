package unit_test

import (
	"bytes"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/barnabas-webhooks/barnabas/processor/claim"
	"github.com/barnabas-webhooks/barnabas/processor/metrics"
	"github.com/barnabas-webhooks/barnabas/processor/settle"
	"github.com/barnabas-webhooks/barnabas/processor/tracker"
	"github.com/barnabas-webhooks/barnabas/processor/unit"
	"github.com/barnabas-webhooks/barnabas/schemas"
)

// gaps makes a rig whose errors are kept, for a group that stands at a commit of events.
func gaps(t *testing.T, at settle.Commit) (*rig, *bytes.Buffer) {
	t.Helper()
	log := &bytes.Buffer{} // written by the unit's goroutine: read once it is idle
	r := newRig(t, func(r *rig) { r.Log = slog.New(slog.NewTextHandler(log, &slog.HandlerOptions{Level: slog.LevelError})) })
	r.endpoint("ep")
	at.Topic = r.Catalogue.Events()
	r.settler.commits[at.Topic] = at
	return r, log
}

func (r *rig) startWithLog(log unit.Log) {
	r.t.Helper()
	r.startWith(unit.Restored{Arbiter: claim.NewArbiter(24*time.Hour, claim.NewMemory()), Logs: map[string]unit.Log{r.Catalogue.Events(): log}})
}

// doneAbove is the metadata of a commit above which some offsets are done.
func doneAbove(commit int64, done ...int64) string {
	tr := tracker.New(commit, "")
	for o := commit; o <= done[len(done)-1]; o++ {
		tr.Open(o)
	}
	_, metadata := tr.CommitWith(done, "")
	return metadata
}

// C-129: what was removed while nobody ran is said with its size, and the position moves on although nothing
// comes that could be read. What the map calls done is not lost.
func TestUnit_RecordsRemovedBeforeTheStart(t *testing.T) {
	for name, tc := range map[string]struct {
		commit settle.Commit
		log    unit.Log
		events int // that are there
		lost   float64
	}{
		"all of them":                 {settle.Commit{Offset: 50}, unit.Log{Start: 100, End: 100}, 0, 50},
		"some of them":                {settle.Commit{Offset: 50}, unit.Log{Start: 60, End: 63}, 3, 10},
		"of which some were settled":  {settle.Commit{Offset: 50, Metadata: doneAbove(50, 51, 59, 60)}, unit.Log{Start: 60, End: 63}, 3, 8},
		"from the first one on":       {settle.Commit{Offset: 0}, unit.Log{Start: 1, End: 2}, 1, 1},
		"none":                        {settle.Commit{Offset: 50}, unit.Log{Start: 50, End: 53}, 3, 0},
		"none, and the start unknown": {settle.Commit{Offset: 50}, unit.Log{Start: -1, End: 53}, 3, 0},
		"of a group that is new":      {settle.Commit{Offset: -1}, unit.Log{Start: 50, End: 53}, 3, 0},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r, log := gaps(t, tc.commit)
				events := r.Catalogue.Events()
				first := max(tc.log.Start, tc.commit.Offset)
				r.log.base[events] = first
				r.startWithLog(tc.log)
				for range tc.events {
					r.event("ep", "", `{}`)
				}
				time.Sleep(time.Second)
				r.idle()
				require.InDelta(t, tc.lost, r.gap(events, metrics.GapRemoved), 0)
				require.Zero(t, r.gap(events, metrics.GapSetBack))
				posts := tc.events
				if name == "of which some were settled" {
					posts--
				}
				require.Len(t, r.sender.seen(), posts, "from the earliest that is left on")
				letters := r.letters()
				if tc.lost == 0 {
					require.Empty(t, letters)
					require.Empty(t, log.String())
					return
				}
				require.Len(t, letters, 1)
				require.Equal(t, schemas.ReasonRemoved, letters[0].Reason)
				require.Equal(t, schemas.Coordinates{Topic: events, Offset: tc.commit.Offset}, letters[0].Source)
				require.Equal(t, first+int64(tc.events), r.committed(events), "the lag converges")
				for _, want := range []string{"level=ERROR", "topic=" + events, "partition=0", "from=", "to=", "count="} {
					require.Contains(t, log.String(), want)
				}
				r.end()

				r.restart() // said once
				time.Sleep(time.Second)
				require.Len(t, r.letters(), 1)
				r.end()
			})
		})
	}
}

// C-129: the same while it runs, a tier say that retention overtakes; what control records and compaction leave out is no gap.
func TestUnit_RecordsRemovedWhileItRuns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, log := gaps(t, settle.Commit{Offset: -1})
		r.start()
		r.event("ep", "", `{}`)
		tier := r.Catalogue.Tier(1)
		r.waiting(1, delivery("dlv_1", "ep", 2*time.Minute))
		time.Sleep(3 * time.Minute)
		require.Len(t, r.sender.seen(), 2)

		take := func(topic string, offset, start int64, like *kgo.Record) {
			rec := *like
			rec.Offset, rec.Timestamp = offset, time.Now()
			r.Memory.Charge(unit.Cost(&rec))
			r.unit.Take(topic, unit.Log{Start: start, End: offset + 1}, []*kgo.Record{&rec})
			time.Sleep(time.Second)
		}
		event, waits := r.log.all(r.Catalogue.Events())[0], r.log.all(tier)[0]
		take(r.Catalogue.Events(), 5, 0, event) // 1 to 4 never were, or are no records
		take(r.Catalogue.Events(), 9, 6, event) // nothing that was not read
		require.Zero(t, r.gap(r.Catalogue.Events(), metrics.GapRemoved))
		require.Empty(t, r.letters())
		require.Empty(t, log.String())

		take(tier, 8, 8, waits)
		take(tier, 20, 12, waits)
		require.InDelta(t, 7+3, r.gap(tier, metrics.GapRemoved), 0)
		require.Len(t, r.letters(), 2)
		require.Equal(t, schemas.Coordinates{Topic: tier, Offset: 9}, r.letters()[1].Source)
		require.Contains(t, log.String(), "from=9 to=12 count=3")
		time.Sleep(time.Hour)
		r.idle()
		require.Equal(t, int64(21), r.committed(tier))
		require.Len(t, r.sender.seen(), 6)
		r.end()
	})
}

// C-129: the log ends before the committed position. It is said, also where the log is empty, and read from its start.
func TestUnit_CommittedPositionBeyondTheLog(t *testing.T) {
	for name, events := range map[string]int{"which is empty": 0, "which has begun anew": 3} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r, log := gaps(t, settle.Commit{Offset: 1000, Metadata: doneAbove(1000, 1001, 1002)})
				r.settler.anew = true
				topic := r.Catalogue.Events()
				r.startWithLog(unit.Log{Start: 0, End: int64(events)})
				for range events {
					r.event("ep", "", `{}`)
				}
				time.Sleep(time.Second)
				r.idle()
				require.Len(t, r.sender.seen(), events)
				require.InDelta(t, 1000-events, r.gap(topic, metrics.GapSetBack), 0)
				require.Zero(t, r.gap(topic, metrics.GapRemoved))
				require.Len(t, r.letters(), 1)
				require.Contains(t, log.String(), "set_back")
				require.Equal(t, int64(events), r.committed(topic), "the lag converges")
				r.end()
			})
		})
	}
}

// gap is the metric of a topic and kind.
func (r *rig) gap(topic, kind string) float64 {
	r.t.Helper()
	families, err := r.registry.Gather()
	require.NoError(r.t, err)
	for _, f := range families {
		if f.GetName() != "barnabas_log_gap_records_total" {
			continue
		}
		for _, m := range f.GetMetric() {
			if m.GetLabel()[0].GetValue() == kind && m.GetLabel()[1].GetValue() == topic {
				return m.GetCounter().GetValue()
			}
		}
	}
	require.Fail(r.t, "no such series", "%s %s", topic, kind)
	return 0
}
