package processor_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kadm"

	"github.com/barnabas-webhooks/barnabas/processor"
	"github.com/barnabas-webhooks/barnabas/schemas"
	"github.com/barnabas-webhooks/barnabas/topics"
)

// C-129: retention overtook the committed position while nobody ran. It goes on at the earliest record that is
// left, says how many are gone, once, and the lag converges, also where nothing is left at all.
func TestProcessor_GoesOnAfterDeletedRecords(t *testing.T) {
	for name, after := range map[string]int{"some are left": 50, "none is left": 0} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t)
				w.createTopics()
				_, stop := w.process("a")
				w.send(50)
				time.Sleep(30 * time.Second)
				require.NoError(t, stop())
				n, _ := w.delivered()
				require.Equal(t, 50, n)

				w.send(50)
				w.deleteRecords()
				w.send(after)
				for _, name := range []string{"b", "c"} { // and again, when nothing more is missing
					_, stop = w.process(name)
					time.Sleep(30 * time.Second)
					require.NoError(t, stop())
				}
				n, again := w.delivered()
				require.Equal(t, 50+after, n, "fifty were deleted")
				require.Zero(t, again)
				require.InDelta(t, 50, w.counted("barnabas_log_gap_records_total", "removed"), 0)
				require.Zero(t, w.counted("barnabas_log_gap_records_total", "set_back"))
				for _, l := range w.letters() {
					require.Equal(t, schemas.ReasonRemoved, l.Reason)
				}
				require.NotEmpty(t, w.letters())
				w.requireNoLag()
			})
		})
	}
}

// C-129: the topic was made anew while nobody ran, so that the committed position is beyond its end: it is read from
// its start, whether there is something in it yet or not.
func TestProcessor_GoesOnInATopicMadeAnew(t *testing.T) {
	for name, before := range map[string]int{"with records": 8, "empty": 0} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t)
				w.createTopics()
				_, stop := w.process("a")
				w.send(200)
				time.Sleep(30 * time.Second)
				require.NoError(t, stop())

				events := w.catalogue.Events()
				w.recreate(events)
				w.send(before)
				_, stop = w.process("b")
				time.Sleep(30 * time.Second)
				w.send(20)
				time.Sleep(30 * time.Second)
				require.NoError(t, stop())
				n, again := w.delivered()
				require.Equal(t, 200+before+20, n)
				require.Zero(t, again)
				require.InDelta(t, 200-before, w.counted("barnabas_log_gap_records_total", "set_back"), 0)
				require.Zero(t, w.counted("barnabas_log_gap_records_total", "removed"))
				w.requireNoLag()
			})
		})
	}
}

// recreate makes a topic anew, with the offsets that the group had committed for the old one.
func (w *world) recreate(topic string) {
	w.t.Helper()
	admin := kadm.NewClient(w.client)
	group := processor.DefaultConfig().Group
	committed, err := admin.FetchOffsets(w.t.Context(), group)
	require.NoError(w.t, err)
	_, err = admin.DeleteTopic(w.t.Context(), topic)
	require.NoError(w.t, err)
	_, err = admin.CreateTopic(w.t.Context(), int32(w.catalogue.Partitions), 1, nil, topic)
	require.NoError(w.t, err)
	require.NoError(w.t, admin.CommitAllOffsets(w.t.Context(), group, committed.Offsets()))
	w.newClient() // the old one knows the old topic by its id
}

// deleteRecords deletes all events that are there.
func (w *world) deleteRecords() {
	w.t.Helper()
	admin := kadm.NewClient(w.client)
	ends, err := admin.ListEndOffsets(w.t.Context(), w.catalogue.Events())
	require.NoError(w.t, err)
	_, err = admin.DeleteRecords(w.t.Context(), ends.Offsets())
	require.NoError(w.t, err)
}

// requireNoLag checks that the group has committed the end of every topic, as any tool would see it; but for the mark
// of a transaction behind the last record, which nobody is handed.
func (w *world) requireNoLag() {
	w.t.Helper()
	lags, err := topics.Lag(w.t.Context(), kadm.NewClient(w.client), processor.DefaultConfig().Group, w.catalogue)
	require.NoError(w.t, err)
	for _, l := range lags {
		require.Zero(w.t, l.Gap, "%+v", l)
		require.LessOrEqual(w.t, l.Lag, int64(1), "%+v", l)
		if l.Lag > 0 {
			for _, r := range w.read(l.Topic) {
				require.False(w.t, r.Partition == l.Partition && r.Offset >= l.Committed, "unsettled: %+v", l)
			}
		}
	}
}
