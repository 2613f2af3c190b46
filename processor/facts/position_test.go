package facts_test

import (
	"fmt"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/barnabas-webhooks/barnabas/processor/claim"
	"github.com/barnabas-webhooks/barnabas/processor/claimstore"
	"github.com/barnabas-webhooks/barnabas/processor/facts"
)

// onDisk has the rig keep its claims on a disk of memory.
func (r *rig) onDisk() (store *claimstore.Store, reopen func() *claimstore.Store) {
	r.t.Helper()
	fs := vfs.NewMem()
	reopen = func() *claimstore.Store {
		if store != nil {
			require.NoError(r.t, store.Close())
		}
		var err error
		store, err = claimstore.Open(claimstore.Options{
			Config: claimstore.Config{Directory: "/claims", Cache: 8 << 20}, Window: 24 * time.Hour, Log: slog.New(slog.DiscardHandler), FS: fs,
		})
		require.NoError(r.t, err)
		r.restorer.Claims = store
		return store
	}
	r.t.Cleanup(func() { _ = store.Close() })
	return reopen(), reopen
}

// judged writes a claim as its owner does: it judges, appends, and learns where it lies.
func (r *rig) judged(unit int32, a *claim.Arbiter, key string, offset int64) {
	r.t.Helper()
	c, err := a.Judge(claim.Question{
		EndpointID: "ep", Key: key, DeliveryID: fmt.Sprintf("dlv_%d", offset), ContentHash: make([]byte, 16), Offset: offset, At: time.Now(),
	})
	require.NoError(r.t, err)
	done := make(chan int64)
	r.journal.AppendClaim(unit, &c, func(at int64) { done <- at })
	at := <-done
	require.NoError(r.t, a.Covered(at, at+1))
}

// A store goes on from where it stands: neither what it read nor what its owner wrote is read again.
func TestRestore_GoesOnFromThePosition(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		_, reopen := r.onDisk()
		for i := range 100 {
			r.claim(0, fmt.Sprintf("k%d", i), int64(i))
		}
		f := r.restore(0)[0]
		require.Equal(t, 100, f.Records)
		for i := 100; i < 150; i++ {
			r.judged(0, f.Arbiter, fmt.Sprintf("k%d", i), int64(i))
		}
		require.NoError(t, f.Arbiter.Close())
		reopen()
		r.claim(0, "k150", 150)
		f = r.restore(0)[0]
		require.Equal(t, 1, f.Records)
		for i := range 151 {
			require.Equal(t, fmt.Sprintf("dlv_%d", i), owner(f.Arbiter, fmt.Sprintf("k%d", i)))
		}
		require.Zero(t, r.restore(1)[1].Records)
	})
}

// An owner that does not know yet that it is none any more writes between the claims of the present one. The position
// never passes what it wrote unread: the next restore begins there, or the present owner reads it.
func TestRestore_StaleOwnersAreReadOrNotPassed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		_, reopen := r.onDisk()
		f := r.restore(0)[0]
		r.judged(0, f.Arbiter, "mine0", 1000)
		r.claim(0, "stale1", 1)
		r.claim(0, "stale2", 2)
		const mine = 1500
		for i := 1; i <= mine; i++ {
			r.judged(0, f.Arbiter, fmt.Sprintf("mine%d", i), int64(1000+i))
		}
		require.EqualValues(t, 1, f.Arbiter.Position())
		from, to, ok := f.Arbiter.Gap()
		require.True(t, ok)
		require.EqualValues(t, 1, from)
		require.EqualValues(t, 3, to)
		require.NoError(t, f.Arbiter.Close())

		// The process ends: the next one begins with what was not read.
		reopen()
		next := r.restore(0)[0]
		require.Equal(t, 2+mine, next.Records)
		require.Equal(t, "dlv_1", owner(next.Arbiter, "stale1"))
		require.Equal(t, "dlv_2", owner(next.Arbiter, "stale2"))
		require.EqualValues(t, 3+mine, next.Arbiter.Position())

		// It does not end, and reads the gap.
		claims, upTo, err := r.restorer.Gap(t.Context(), 0, from, to)
		require.NoError(t, err)
		require.EqualValues(t, 3, upTo)
		require.Len(t, claims, 2)
		require.Equal(t, "stale1", claims[0].Key)
		require.Equal(t, "stale2", claims[1].Key)
	})
}

// The log of claims was made anew, or cut: the store is not a cache of it any more.
func TestRestore_AnotherLogIsReadWhole(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		store, _ := r.onDisk()
		for i := range 20 {
			r.claim(0, fmt.Sprintf("old%d", i), int64(i))
		}
		require.Equal(t, 20, r.restore(0)[0].Records)
		require.EqualValues(t, 20, store.Stats().Held)
		_, err := r.admin.DeleteTopics(t.Context(), r.topics.Idempotency())
		require.NoError(t, err)
		_, err = r.admin.CreateTopic(t.Context(), units, 1, nil, r.topics.Idempotency())
		require.NoError(t, err)
		// A producer of before does not find the new one.
		r.journal = facts.NewJournal(t.Context(), r.connect(kgo.RecordPartitioner(kgo.ManualPartitioner()), kgo.ProducerLinger(0)),
			r.topics, slog.New(slog.DiscardHandler))
		for i := range 30 {
			r.claim(0, fmt.Sprintf("new%d", i), int64(i))
		}
		f := r.restore(0)[0]
		require.Equal(t, 30, f.Records)
		require.EqualValues(t, 30, f.Arbiter.Len())
		require.Equal(t, "nobody", owner(f.Arbiter, "old3"))
	})
}

// What retention has deleted below the log's start is not waited for.
func TestRestore_PositionBelowTheLogsStart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		r.onDisk()
		for i := range 10 {
			r.claim(0, fmt.Sprintf("k%d", i), int64(i))
		}
		require.Equal(t, 10, r.restore(0)[0].Records)
		for i := 10; i < 30; i++ {
			r.claim(0, fmt.Sprintf("k%d", i), int64(i))
		}
		offsets := kadm.Offsets{}
		offsets.Add(kadm.Offset{Topic: r.topics.Idempotency(), Partition: 0, At: 25})
		_, err := r.admin.DeleteRecords(t.Context(), offsets)
		require.NoError(t, err)
		f := r.restore(0)[0]
		require.Equal(t, 5, f.Records)
		require.EqualValues(t, 15, f.Arbiter.Len())
		require.EqualValues(t, 30, f.Arbiter.Position())
	})
}

// A later restore of a unit takes its store from an earlier one that is still under way, which ends with an error.
func TestRestore_TheLaterOneWins(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		store, _ := r.onDisk()
		r.claim(0, "k", 1)
		err := r.restorer.Restore(t.Context(), []int32{0, 1}, func(unit int32, _ *facts.Facts) {
			if unit == 1 { // unit 0 is being read
				_, err := store.Open(0, claim.Log{})
				require.NoError(t, err)
			}
		})
		require.ErrorIs(t, err, claim.ErrClosed)
	})
}
