package endpoint_test

import (
	"context"
	"fmt"
	"runtime"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/barnabas-webhooks/barnabas/processor/endpoint"
	"github.com/barnabas-webhooks/barnabas/schemas"
)

func TestTable_IsReadyWithTheLatestVersionOfAll(t *testing.T) {
	t.Parallel()
	c := cluster(t, 3)
	cl := client(t, c)
	for i := range 50 {
		id := fmt.Sprintf("e%02d", i)
		produce(t, cl, record(t, id, "https://old.example/", key32('o')), record(t, id, "https://new.example/"+id, key32('n')))
	}
	produce(t, cl, &kgo.Record{Topic: topic, Key: []byte("e07")}) // a tombstone

	table := ready(t, c, keyA)
	for i := range 50 {
		id := fmt.Sprintf("e%02d", i)
		ep, ok := table.Get(id)
		require.Equal(t, i != 7, ok, id)
		require.Equal(t, i == 7, table.Deleted(id), id)
		if ok {
			require.Equal(t, "https://new.example/"+id, ep.URL)
			require.Equal(t, [][]byte{key32('n')}, ep.ActiveKeys(time.Now()))
			require.NoError(t, ep.Locked)
		}
	}
	_, ok := table.Get("never")
	require.False(t, ok)
	require.False(t, table.Deleted("never"))
	require.Equal(t, endpoint.Stats{Endpoints: 49}, table.Stats())

	// It follows: a deleted endpoint may come back, another go.
	produce(t, cl, record(t, "e07", "https://again.example/", nil), &kgo.Record{Topic: topic, Key: []byte("e08")})
	eventually(t, "the change is seen", func() bool { _, ok := table.Get("e07"); return ok && table.Deleted("e08") })
	require.False(t, table.Deleted("e07"))
}

// An end that no record has: an aborted or committed transaction's marker, and a log whose records are all gone.
// Both are there on real clusters, and a table that waited for a record would never be ready.
func TestTable_IsReadyWhereTheLogEndsWithoutARecord(t *testing.T) {
	t.Parallel()
	t.Run("marker", func(t *testing.T) {
		t.Parallel()
		c := cluster(t, 1)
		tx := client(t, c, kgo.TransactionalID("tx"))
		require.NoError(t, tx.BeginTransaction())
		produce(t, tx, record(t, "e1", "https://h.example/", nil))
		require.NoError(t, tx.EndTransaction(t.Context(), kgo.TryCommit))
		require.Equal(t, int64(2), c.PartitionInfo(topic, 0).HighWatermark, "the marker is the last offset")

		table := ready(t, c, keyA)
		_, ok := table.Get("e1")
		require.True(t, ok)
	})
	t.Run("all deleted", func(t *testing.T) {
		t.Parallel()
		c := cluster(t, 2)
		produce(t, client(t, c), record(t, "e1", "https://h.example/", nil), record(t, "e2", "https://h.example/", nil))
		for p := range int32(2) {
			require.NoError(t, c.DeleteRecords(topic, p, c.PartitionInfo(topic, p).HighWatermark))
		}
		require.Zero(t, ready(t, c, keyA).Stats().Endpoints)
	})
	t.Run("empty", func(t *testing.T) {
		t.Parallel()
		require.Zero(t, ready(t, cluster(t, 4), keyA).Stats().Endpoints)
	})
	t.Run("compacted", func(t *testing.T) {
		t.Parallel()
		c := cluster(t, 1)
		cl := client(t, c)
		for i := range 20 {
			produce(t, cl, record(t, fmt.Sprintf("e%d", i%3), "https://h.example/", nil))
		}
		c.Compact()
		require.Equal(t, 3, ready(t, c, keyA).Stats().Endpoints)
	})
}

// C-234: the topic is not there at the start; the table says so by not being ready, and is by itself when it comes.
func TestTable_WaitsForItsTopic(t *testing.T) {
	t.Parallel()
	c := cluster(t, 0)
	table := start(t, c, keyA)
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	require.ErrorIs(t, table.WaitReady(ctx), context.DeadlineExceeded)
	require.False(t, table.Ready())

	require.NoError(t, c.CreateTopic(topic, 2, compacted()))
	waitReady(t, table)
	require.True(t, table.Ready())
	require.ErrorIs(t, table.Run(t.Context()), endpoint.ErrRunning)
}

// What cannot be read is passed over: the previous version stays, and where there is none the endpoint is locked, so
// that its deliveries wait instead of ending as "unknown endpoint".
func TestTable_PassesOverWhatItCannotRead(t *testing.T) {
	t.Parallel()
	c := cluster(t, 1)
	cl := client(t, c)
	swapped := record(t, "other", "https://h.example/", nil)
	swapped.Key = []byte("mine")
	produce(t, cl,
		record(t, "kept", "https://kept.example/", key32('k')),
		&kgo.Record{Topic: topic, Key: []byte("kept"), Value: []byte("garbage")},
		&kgo.Record{Topic: topic, Key: []byte("kept"), Value: []byte{}},
		&kgo.Record{Topic: topic, Key: []byte("newer"), Value: []byte{0xc3, 1, 1, 2, 3, 4, 5, 6, 7, 8, 9}},
		&kgo.Record{Topic: topic, Value: []byte("no key")},
		swapped,
		record(t, "last", "https://last.example/", nil),
	)
	table := ready(t, c, keyA)

	ep, ok := table.Get("kept")
	require.True(t, ok)
	require.Equal(t, "https://kept.example/", ep.URL)
	require.NoError(t, ep.Locked)
	_, ok = table.Get("last")
	require.True(t, ok, "what follows is read")

	for _, id := range []string{"newer", "mine"} {
		ep, ok = table.Get(id)
		require.True(t, ok, id)
		var bad *schemas.DecodeError
		require.ErrorAs(t, ep.Locked, &bad, id)
		require.Empty(t, ep.ActiveKeys(time.Now()))
	}
	_, ok = table.Get("")
	require.False(t, ok)
	_, ok = table.Get("other")
	require.False(t, ok)
	require.Equal(t, endpoint.Stats{Endpoints: 4, Locked: 2, Undecodable: 5}, table.Stats())

	// A readable version unlocks.
	produce(t, cl, record(t, "newer", "https://newer.example/", nil))
	eventually(t, "the readable version is taken", func() bool { ep, _ := table.Get("newer"); return ep.Locked == nil })
	require.Equal(t, 1, table.Stats().Locked)
}

func TestTable_LocksWhatItsKeyDoesNotOpen(t *testing.T) {
	t.Parallel()
	c := cluster(t, 1)
	produce(t, client(t, c), record(t, "e1", "https://h.example/", key32('k')))
	table := ready(t, c, keyB)
	ep, ok := table.Get("e1")
	require.True(t, ok)
	require.ErrorIs(t, ep.Locked, endpoint.ErrUnseal)
	require.Equal(t, "https://h.example/", ep.URL)
	require.Equal(t, endpoint.Stats{Endpoints: 1, Locked: 1}, table.Stats())
}

// After the topic was given more partitions, an id may be in two of them: the later version counts, however they are read.
func TestTable_LaterVersionWinsAcrossPartitions(t *testing.T) {
	t.Parallel()
	at := time.Now().Add(-time.Hour)
	for _, newer := range []int32{0, 1} {
		c := cluster(t, 2)
		cl := client(t, c, kgo.RecordPartitioner(kgo.ManualPartitioner()))
		write := func(p int32, id, url string, at time.Time) {
			r := &kgo.Record{Topic: topic, Key: []byte(id)}
			if url != "" {
				r = record(t, id, url, nil)
			}
			r.Partition, r.Timestamp = p, at
			produce(t, cl, r)
		}
		write(newer, "changed", "https://new.example/", at.Add(time.Minute))
		write(1-newer, "changed", "https://old.example/", at)
		write(newer, "gone", "", at.Add(time.Minute))
		write(1-newer, "gone", "https://old.example/", at)

		table := ready(t, c, keyA)
		ep, ok := table.Get("changed")
		require.True(t, ok)
		require.Equal(t, "https://new.example/", ep.URL)
		require.True(t, table.Deleted("gone"))
	}
}

func TestTable_List(t *testing.T) {
	t.Parallel()
	c := cluster(t, 2)
	cl := client(t, c)
	for i := range 5 {
		produce(t, cl, record(t, fmt.Sprintf("e%d", i), "https://h.example/", nil))
	}
	table := ready(t, c, keyA)
	ids := func(eps []*endpoint.Endpoint) (out []string) {
		for _, ep := range eps {
			out = append(out, ep.ID)
		}
		return out
	}
	require.Equal(t, []string{"e0", "e1"}, ids(table.List("", "", 2)))
	require.Equal(t, []string{"e2", "e3", "e4"}, ids(table.List("acme", "e1", 10)))
	require.Empty(t, table.List("globex", "", 10))
	require.Equal(t, 5, table.Count("acme"))
	require.Zero(t, table.Count("globex"))
}

// 100,000 endpoints must fit: not more than about 1.5 kB each, measured on fewer.
func TestTable_IsLean(t *testing.T) { // not parallel: it measures the heap
	const n = 5000
	c := cluster(t, 1)
	recs := make([]*kgo.Record, n)
	for i := range recs {
		recs[i] = record(t, fmt.Sprintf("ep_%026d", i), "https://hooks.customer.example/services/webhooks/incoming", key32('k'))
	}
	produce(t, client(t, c), recs...)
	clear(recs)
	table := endpoint.NewTable(endpoint.TableOptions{Topic: topic, Client: dial(c), Sealer: sealer(t, keyA)})
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- table.Run(ctx) }()
	waitReady(t, table)
	cancel() // and with it go the client and its buffers
	require.NoError(t, <-done)
	require.Equal(t, n, table.Stats().Endpoints)

	heap := func() int64 {
		runtime.GC()
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return int64(m.HeapAlloc)
	}
	with := heap()
	runtime.KeepAlive(table)
	table = nil
	each := (with - heap()) / n
	t.Logf("%d bytes for each endpoint", each)
	require.Less(t, each, int64(1500))
	require.Greater(t, each, int64(300), "the measure must measure something")
}

func BenchmarkTable_Get(b *testing.B) {
	table := endpoint.NewTable(endpoint.TableOptions{})
	b.ReportAllocs()
	for b.Loop() {
		table.Get("ep_00000000000000000000000000")
	}
}
