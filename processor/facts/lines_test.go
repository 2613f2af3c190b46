package facts_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/barnabas-webhooks/barnabas/processor/facts"
	"github.com/barnabas-webhooks/barnabas/schemas"
)

// line writes a line of unit 0 in a transaction that the client has begun; done 0 is a tombstone.
func (r *rig) line(tx *kgo.Client, endpoint string, done int64) {
	r.t.Helper()
	record := &kgo.Record{Topic: r.topics.Lines(), Partition: 0, Key: []byte(endpoint)}
	if done > 0 {
		value, err := schemas.EncodeLine(&schemas.Line{EndpointID: endpoint, Epoch: 1, Taken: done, Done: done})
		require.NoError(r.t, err)
		record.Value = value
	}
	require.NoError(r.t, tx.ProduceSync(r.t.Context(), record).FirstErr())
}

func (r *rig) transactions(id string) *kgo.Client {
	r.t.Helper()
	return r.connect(kgo.TransactionalID(id), kgo.RecordPartitioner(kgo.ManualPartitioner()), kgo.TransactionTimeout(10*time.Second))
}

// Of each line the last that was committed counts; what was aborted was never said, also where it is the last of the log.
func TestRestore_LinesAreReadCommitted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		tx := r.transactions("tx")
		for _, c := range []struct {
			endpoint string
			done     int64
			commit   bool
		}{
			{"a", 1, true}, {"a", 2, true}, {"a", 3, false}, {"b", 5, true}, {"c", 6, true}, {"c", 0, true}, {"b", 0, false}, {"d", 9, false},
		} {
			require.NoError(t, tx.BeginTransaction())
			r.line(tx, c.endpoint, c.done)
			require.NoError(t, tx.EndTransaction(t.Context(), kgo.TransactionEndTry(c.commit)))
		}
		begun := time.Now()
		found := r.restore(0, 1)
		require.Less(t, time.Since(begun), 2*time.Second)
		require.Len(t, found[0].Lines, 2)
		require.Equal(t, int64(2), found[0].Lines["a"].Done)
		require.Equal(t, int64(5), found[0].Lines["b"].Done)
		require.Empty(t, found[1].Lines)
	})
}

// An owner was killed with its transaction open: what it comes to is waited for.
func TestRestore_WaitsForOpenTransactions(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		tx := r.transactions("tx")
		require.NoError(t, tx.BeginTransaction())
		r.line(tx, "a", 1)
		require.NoError(t, tx.EndTransaction(t.Context(), kgo.TryCommit))
		require.NoError(t, tx.BeginTransaction())
		r.line(tx, "a", 2)
		restored := make(chan *facts.Facts, 1)
		go func() {
			_ = r.restorer.Restore(t.Context(), []int32{0}, func(_ int32, f *facts.Facts) { restored <- f })
		}()
		time.Sleep(5 * time.Second)
		require.Empty(t, restored)
		require.NoError(t, tx.EndTransaction(t.Context(), kgo.TryCommit))
		require.Equal(t, int64(2), (<-restored).Lines["a"].Done)

		require.NoError(t, tx.BeginTransaction())
		r.line(tx, "a", 3)
		require.Equal(t, int64(2), r.restore(0)[0].Lines["a"].Done, "it was left open, and is aborted by the broker")
	})
}
