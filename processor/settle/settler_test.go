package settle_test

import (
	"encoding/hex"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/barnabas-webhooks/barnabas/processor/settle"
)

// Records of several topics, offsets and metadata of several units: all in one transaction.
func TestSettler_WritesOutcomesAndOffsetsTogether(t *testing.T) {
	t.Parallel()
	onBrokers(t, func(t *testing.T, addrs []string) {
		r := newRig(t, addrs)
		a := r.want(0, 5, r.outcome("out", 0, "a1"), r.outcome("dlq", 0, "a2"))
		b := r.want(1, 7, r.outcome("out", 1, "b1"))
		require.NoError(t, a.answer(t))
		require.NoError(t, b.answer(t))
		require.Equal(t, []string{"a1", "b1"}, r.visible("out"))
		require.Equal(t, []string{"a2"}, r.visible("dlq"))
		r.requireCommitted(map[int32]int64{0: 5, 1: 7})

		require.NoError(t, r.want(0, 6, r.outcome("out", 0, "a3")).answer(t))
		r.requireCommitted(map[int32]int64{0: 6, 1: 7})
		require.Equal(t, []string{"a1", "a3", "b1"}, r.visible("out"))
	})
}

// Invariant 11: a process that was overtaken writes nothing, neither offsets nor
// records; what it still owns is settled under the new generation, once.
func TestSettler_StaleGenerationWritesNothing(t *testing.T) {
	t.Parallel()
	for name, lie := range map[string]func(*members){
		"a generation behind": func(m *members) { m.behind = 1 },
		"out of the group":    func(m *members) { m.out = true },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			onBrokers(t, func(t *testing.T, addrs []string) {
				r := newRig(t, addrs)
				require.NoError(t, r.want(2, 1, r.outcome("out", 2, "before")).answer(t))
				r.members.set(func() { lie(r.members) })
				mine, theirs := r.want(0, 5, r.outcome("out", 0, "mine")), r.want(1, 5, r.outcome("out", 1, "lost"))
				require.Never(t, func() bool { return len(mine.answers)+len(theirs.answers) > 0 }, 500*time.Millisecond, 50*time.Millisecond)
				require.Equal(t, []string{"before"}, r.visible("out"))
				r.requireCommitted(map[int32]int64{2: 1})

				r.members.set(func() { r.members.behind, r.members.out, r.members.gone[1] = 0, false, true })
				require.NoError(t, mine.answer(t))
				require.ErrorIs(t, theirs.answer(t), settle.ErrNotOwner)
				require.Equal(t, []string{"before", "mine"}, r.visible("out"))
				r.requireCommitted(map[int32]int64{0: 5, 2: 1})
			})
		})
	}
}

// A batch of a unit that went away is answered so and not written; the others of its beat are.
func TestSettler_DropsWhatIsNotOwned(t *testing.T) {
	t.Parallel()
	onBrokers(t, func(t *testing.T, addrs []string) {
		r := newRig(t, addrs)
		r.members.set(func() { r.members.gone[1] = true })
		mine, theirs := r.want(0, 5, r.outcome("out", 0, "mine")), r.want(1, 5, r.outcome("out", 1, "theirs"))
		require.NoError(t, mine.answer(t))
		require.ErrorIs(t, theirs.answer(t), settle.ErrNotOwner)
		require.Equal(t, []string{"mine"}, r.visible("out"))
		r.requireCommitted(map[int32]int64{0: 5})
	})
}

// C-122, C-142: one unit's topic is missing. The other units are settled meanwhile;
// that one is when the topic is there.
func TestSettler_AMissingTopicHoldsOnlyItsUnits(t *testing.T) {
	t.Parallel()
	onBrokers(t, func(t *testing.T, addrs []string) {
		r := newRig(t, addrs)
		stuck := r.want(0, 5, r.outcome("out", 0, "stuck: its attempt"), r.outcome("missing", 0, "stuck"))
		for i := range 3 {
			require.NoError(t, r.want(1, int64(i), r.outcome("out", 1, fmt.Sprintf("free %d", i))).answer(t))
		}
		stuck.unanswered(t)
		require.Equal(t, []string{"free 0", "free 1", "free 2"}, r.visible("out"))
		r.requireCommitted(map[int32]int64{1: 2})

		r.create(nil, "missing")
		require.NoError(t, stuck.answer(t))
		require.Equal(t, []string{"stuck"}, r.visible("missing"))
		require.Equal(t, []string{"free 0", "free 1", "free 2", "stuck: its attempt"}, r.visible("out"))
		r.requireCommitted(map[int32]int64{0: 5, 1: 2})
	})
}

// A record that the broker never takes is replaced by its trimmed form, once; the
// units beside it do not wait.
func TestSettler_TrimsWhatIsTooLarge(t *testing.T) {
	t.Parallel()
	onBrokers(t, func(t *testing.T, addrs []string) {
		r := newRig(t, addrs)
		r.create(map[string]*string{"max.message.bytes": kadmString("20000")}, "small")
		large := func(name string) *settle.Outcome {
			o := r.outcome("small", 0, incompressible(60_000))
			o.Records = append(o.Records, r.outcome("out", 0, "attempt of "+name).Records...)
			return o
		}
		trims := make(chan string, 10)
		fits, never, nothing := large("fits"), large("never"), large("nothing")
		fits.Trim = func() []*kgo.Record {
			trims <- "fits"
			return r.outcome("small", 0, "trimmed").Records
		}
		never.Trim = func() []*kgo.Record {
			trims <- "never"
			return r.outcome("small", 1, incompressible(30_000)).Records
		}
		nothing.Trim = func() []*kgo.Record {
			trims <- "nothing"
			return nil
		}
		unit0 := r.want(0, 5, r.outcome("out", 0, "beside it"), fits)
		unit1, unit2 := r.want(1, 5, never), r.want(2, 5, nothing)
		require.NoError(t, unit0.answer(t))
		require.Equal(t, []string{"trimmed"}, r.visible("small"))
		require.Equal(t, []string{"beside it"}, r.visible("out"))
		require.NoError(t, r.want(0, 6, r.outcome("out", 0, "goes on")).answer(t))
		require.Eventually(t, func() bool { return len(trims) == 3 }, patience, 10*time.Millisecond)
		require.Never(t, func() bool { return len(trims) > 3 }, 500*time.Millisecond, 50*time.Millisecond)
		unit1.unanswered(t)
		unit2.unanswered(t)
		r.requireCommitted(map[int32]int64{0: 6})
	})
}

func kadmString(s string) *string { return &s }

// incompressible is text of n characters that no codec makes fit.
func incompressible(n int) string {
	b := make([]byte, n/2)
	_, _ = rand.NewChaCha8([32]byte{1}).Read(b)
	return hex.EncodeToString(b)
}

// A transaction without a record would not be ended by the client, and its offsets
// be lost: it is not answered as if it had been.
func TestSettler_OffsetsAloneAreNotTakenForSettled(t *testing.T) {
	t.Parallel()
	r := newRig(t, fake(t).ListenAddrs())
	empty := r.want(0, 5, &settle.Outcome{})
	require.NoError(t, r.want(1, 5, r.outcome("out", 0, "other")).answer(t))
	if len(empty.answers) > 0 { // taken along by the other's
		require.NoError(t, empty.answer(t))
		r.requireCommitted(map[int32]int64{0: 5, 1: 5})
		return
	}
	r.requireCommitted(map[int32]int64{1: 5})
}

// The outcome of an ending is unknown: the request was lost, or its answer. Neither
// makes two copies, nor none.
func TestSettler_UnknownEndingsAreResolved(t *testing.T) {
	t.Parallel()
	for name, what := range map[string]loss{"the request is lost": loseRequest, "the answer is lost": loseAnswer} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			onBrokers(t, func(t *testing.T, addrs []string) {
				r := newRig(t, addrs)
				require.NoError(t, r.want(0, 4, r.outcome("out", 0, "before")).answer(t))
				r.wire.Lose(kmsg.EndTxn, what)
				a, b := r.want(0, 5, r.outcome("out", 0, "a"), r.outcome("dlq", 0, "a2")), r.want(1, 7, r.outcome("out", 1, "b"))
				if what == loseRequest { // no try can end before it heals
					require.Eventually(t, func() bool { return r.wire.Lost() >= 3 }, patience, 10*time.Millisecond)
					r.wire.Heal()
				}
				require.NoError(t, a.answer(t))
				require.Positive(t, r.wire.Lost())
				r.wire.Heal()
				require.NoError(t, b.answer(t))
				require.Equal(t, []string{"a", "b", "before"}, r.visible("out"))
				require.Equal(t, []string{"a2"}, r.visible("dlq"))
				r.requireCommitted(map[int32]int64{0: 5, 1: 7})
				require.NoError(t, r.want(0, 8, r.outcome("out", 0, "after")).answer(t))
				require.Equal(t, []string{"a", "after", "b", "before"}, r.visible("out"))
			})
		})
	}
}

// The same while everything else of the way back is broken too: it asks until it knows.
func TestSettler_ResolvesAcrossAnOutage(t *testing.T) {
	t.Parallel()
	for name, what := range map[string]loss{"the request is lost": loseRequest, "the answer is lost": loseAnswer} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			onBrokers(t, func(t *testing.T, addrs []string) {
				r := newRig(t, addrs)
				r.wire.Lose(kmsg.EndTxn, what)
				a := r.want(0, 5, r.outcome("out", 0, "a"))
				require.Eventually(t, func() bool { return r.wire.Lost() >= 1 }, patience, time.Millisecond)
				r.wire.Cut()
				require.Never(t, func() bool { return len(a.answers) > 0 }, time.Second, 50*time.Millisecond)
				r.wire.Heal()
				require.NoError(t, a.answer(t))
				require.Equal(t, []string{"a"}, r.visible("out"))
				r.requireCommitted(map[int32]int64{0: 5})
			})
		})
	}
}

// C-131: the broker is away for a while, before and in the middle of transactions.
func TestSettler_GoesOnAfterAnOutage(t *testing.T) {
	t.Parallel()
	onBrokers(t, func(t *testing.T, addrs []string) {
		r := newRig(t, addrs)
		want := []string{}
		for i := range 8 {
			value := fmt.Sprintf("%d", i)
			want = append(want, value)
			s := r.want(int32(i%partitions), int64(i), r.outcome("out", int32(i%partitions), value))
			if i%2 == 1 {
				time.Sleep(time.Duration(i) * 7 * time.Millisecond)
				r.wire.Cut()
				require.Never(t, func() bool { return false }, 300*time.Millisecond, 100*time.Millisecond)
				r.wire.Heal()
			}
			require.NoError(t, s.answer(t))
		}
		require.Equal(t, want, r.visible("out"))
		r.requireCommitted(map[int32]int64{0: 6, 1: 7, 2: 5})
	})
}

// Units never wait for a settler that has ended.
func TestSettler_StopAnswersWhatIsLeft(t *testing.T) {
	t.Parallel()
	onBrokers(t, func(t *testing.T, addrs []string) {
		r := newRig(t, addrs)
		r.members.set(func() { r.members.out = true })
		a, b := r.want(0, 5, r.outcome("out", 0, "a")), r.want(1, 5, r.outcome("out", 0, "b"))
		require.Never(t, func() bool { return len(a.answers)+len(b.answers) > 0 }, 200*time.Millisecond, 20*time.Millisecond)
		r.stop()
		require.ErrorIs(t, a.answer(t), settle.ErrStopped)
		require.ErrorIs(t, b.answer(t), settle.ErrStopped)
		require.Empty(t, r.visible("out"))
		require.Empty(t, r.committed())
	})
}

// Whatever a broker answers with for a while: the same batches are written again, and once.
func TestSettler_FaultsHealToOneCopy(t *testing.T) {
	t.Parallel()
	for name, fault := range map[string]kfake.Fault{
		"produce denied":             {Keys: []kmsg.Key{kmsg.Produce}, Err: kerr.TopicAuthorizationFailed, Count: 3},
		"produce has no quorum":      {Keys: []kmsg.Key{kmsg.Produce}, Err: kerr.NotEnoughReplicas, Count: 3},
		"produce applied, unsure":    {Keys: []kmsg.Key{kmsg.Produce}, Err: kerr.NotEnoughReplicasAfterAppend, Count: 2},
		"produce timed out, applied": {Keys: []kmsg.Key{kmsg.Produce}, Err: kerr.RequestTimedOut, Count: 2},
		"no coordinator":             {Keys: []kmsg.Key{kmsg.AddOffsetsToTxn}, Err: kerr.CoordinatorNotAvailable, Count: 5},
		"concurrent transactions":    {Keys: []kmsg.Key{kmsg.AddOffsetsToTxn}, Err: kerr.ConcurrentTransactions, Count: 5},
		"group denied":               {Keys: []kmsg.Key{kmsg.TxnOffsetCommit}, Err: kerr.GroupAuthorizationFailed, Count: 3},
		"rebalance in progress":      {Keys: []kmsg.Key{kmsg.TxnOffsetCommit}, Err: kerr.RebalanceInProgress, Count: 3},
		"offsets timed out, applied": {Keys: []kmsg.Key{kmsg.TxnOffsetCommit}, Err: kerr.RequestTimedOut, Count: 2},
		"illegal generation":         {Keys: []kmsg.Key{kmsg.TxnOffsetCommit}, Err: kerr.IllegalGeneration, Count: 3},
		"fenced in the middle":       {Keys: []kmsg.Key{kmsg.TxnOffsetCommit}, Err: kerr.ProducerFenced, Count: 1},
		"epoch of the past":          {Keys: []kmsg.Key{kmsg.TxnOffsetCommit}, Err: kerr.InvalidProducerEpoch, Count: 1},
		"fenced at the end":          {Keys: []kmsg.Key{kmsg.EndTxn}, Err: kerr.ProducerFenced, Count: 1},
		"end denied":                 {Keys: []kmsg.Key{kmsg.EndTxn}, Err: kerr.TransactionalIDAuthorizationFailed, Count: 2},
		"end in an illegal state":    {Keys: []kmsg.Key{kmsg.EndTxn}, Err: kerr.InvalidTxnState, Count: 2},
		"end of an unknown id":       {Keys: []kmsg.Key{kmsg.EndTxn}, Err: kerr.InvalidProducerIDMapping, Count: 1},
		"end without coordinator":    {Keys: []kmsg.Key{kmsg.EndTxn}, Err: kerr.CoordinatorNotAvailable, Count: 5},
		"end fails, broker confused": {Keys: []kmsg.Key{kmsg.EndTxn}, Err: kerr.UnknownServerError, Count: 2},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			cluster := fake(t)
			r := newRig(t, cluster.ListenAddrs())
			require.NoError(t, r.want(0, 4, r.outcome("out", 0, "before")).answer(t))
			fault.When = func(req kmsg.Request) bool { // the settler's own, not the rig's
				p, ok := req.(*kmsg.ProduceRequest)
				return !ok || p.TransactionID != nil
			}
			h := cluster.Fault(fault)
			a, b := r.want(0, 5, r.outcome("out", 0, "a"), r.outcome("dlq", 0, "a2")), r.want(1, 7, r.outcome("out", 1, "b"))
			require.NoError(t, a.answer(t))
			require.NoError(t, b.answer(t))
			require.Positive(t, h.Hits(), "the fault was never met")
			require.Equal(t, []string{"a", "b", "before"}, r.visible("out"))
			require.Equal(t, []string{"a2"}, r.visible("dlq"))
			r.requireCommitted(map[int32]int64{0: 5, 1: 7})
		})
	}
}

// Invariant 9: what one transaction may hold is shared out among the units that settle in it; each has some of it.
func TestSettler_SharesOutATransaction(t *testing.T) {
	t.Parallel()
	onBrokers(t, func(t *testing.T, addrs []string) {
		r := newRig(t, addrs)
		alone := r.want(0, 1, r.outcome("out", 0, "a"))
		require.NoError(t, alone.answer(t))
		require.Equal(t, int64(1<<20), (<-alone.sealed).limit)

		var units []*source
		for i := range 40 {
			units = append(units, r.want(int32(i%3), int64(2+i), r.outcome("out", 0, "b")))
		}
		limits, together := map[string]int64{}, map[string]int64{}
		for _, u := range units {
			require.NoError(t, u.answer(t))
			s := <-u.sealed
			limits[s.tag] = s.limit
			together[s.tag]++
		}
		for tag, n := range together {
			require.Equal(t, max(1<<20/n, 64<<10), limits[tag], "%d units in one beat", n)
		}
	})
}
