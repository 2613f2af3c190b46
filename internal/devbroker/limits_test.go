package devbroker_test

import (
	"encoding/binary"
	"hash/crc32"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// The numbers are those of the package doc. Each test shows the limit, so that it
// fails when kfake loses it, and that the workaround holds.

// Limit 1: what kfake does by itself, and what Start makes of it.
func TestLimit_AKilledTransactionHasNoMarker(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	b := start(t, dir)
	createTopic(t, client(t, b), topic, 1, nil)
	open := client(t, b, kgo.TransactionalID("boot-1"))
	require.NoError(t, open.BeginTransaction())
	require.NoError(t, open.ProduceSync(t.Context(), &kgo.Record{Topic: topic, Value: []byte("never ended")}).FirstErr())
	dirs := [2]string{crash(t, dir), crash(t, dir)}

	commit := func(addr, id string) {
		cl, err := kgo.NewClient(kgo.SeedBrokers(addr), kgo.TransactionalID(id))
		require.NoError(t, err)
		defer cl.Close()
		require.NoError(t, cl.BeginTransaction())
		require.NoError(t, cl.ProduceSync(t.Context(), &kgo.Record{Topic: topic, Value: []byte("of " + id)}).FirstErr())
		require.NoError(t, cl.EndTransaction(t.Context(), kgo.TryCommit))
	}
	bare, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.DataDir(filepath.Join(dirs[0], "broker")))
	require.NoError(t, err)
	defer bare.Close()
	commit(bare.ListenAddrs()[0], "boot-1")
	commit(bare.ListenAddrs()[0], "boot-2")
	require.Equal(t, []string{"of boot-2"}, valuesOf(readAll(t, addr(bare.ListenAddrs()[0]), topic, committed())),
		"kfake's limit: if boot-1 is there now, kfake writes markers itself")

	repaired := start(t, dirs[1])
	require.Empty(t, readAll(t, repaired, topic, committed()), "a reader comes past it")
	commit(repaired.Addr(), "boot-1")
	commit(repaired.Addr(), "boot-2")
	require.Equal(t, []string{"of boot-1", "of boot-2"}, valuesOf(readAll(t, repaired, topic, committed())))
	require.Equal(t, []string{"never ended", "of boot-1", "of boot-2"}, valuesOf(readAll(t, repaired, topic)))
}

// Limit 3, retention: what it would do.
func TestLimit_AnEmptiedPartitionForgetsItsOffsets(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var network kfake.VirtualNetwork
		dir := filepath.Join(t.TempDir(), "broker")
		opts := []kfake.Opt{kfake.Ports(9092), kfake.ListenFn(network.Listen), kfake.DataDir(dir)}
		cluster, err := kfake.NewCluster(opts...)
		require.NoError(t, err)
		cl, err := kgo.NewClient(kgo.SeedBrokers("localhost:9092"), kgo.Dialer(network.DialContext))
		require.NoError(t, err)
		defer cl.Close()
		createTopic(t, cl, topic, 1, map[string]string{"retention.ms": "1000"})
		produce(t, cl, topic, "a0", "a1", "a2")
		time.Sleep(2 * time.Second)
		cluster.ApplyRetention()
		end := func() int64 {
			ends, err := kadm.NewClient(cl).ListEndOffsets(t.Context(), topic)
			require.NoError(t, err)
			o, _ := ends.Lookup(topic, 0)
			return o.Offset
		}
		require.Equal(t, int64(3), end())
		cluster.Close()
		cluster, err = kfake.NewCluster(opts...)
		require.NoError(t, err)
		defer cluster.Close()
		require.Zero(t, end(), "kfake's limit: if this is 3 now, retention may run")
	})
}

// Limits 3 and 5: here neither cleaner runs and no committed offset expires, however long it stands.
func TestLimit_NothingIsCleanedHere(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var v virtual
		dir := t.TempDir()
		b := v.start(t, dir)
		cl := client(t, b, v.dialer())
		createTopic(t, cl, "compacted", 1, map[string]string{"cleanup.policy": "compact"}) // with the default retention of 7 days
		createTopic(t, cl, "deleted", 1, map[string]string{"retention.ms": "1000"})
		produce(t, cl, "compacted", "a0", "a1", "b0", "a2")
		produce(t, cl, "deleted", "a0", "a1")
		commitOffset(t, cl, "g", "deleted", 0, 1, "metadata")
		cl.Close()
		time.Sleep(100 * 24 * time.Hour)
		require.NoError(t, b.Close())
		b = v.start(t, dir)
		time.Sleep(100 * 24 * time.Hour)

		require.Equal(t, []string{"a0", "a1", "b0", "a2"}, valuesOf(readAll(t, b, "compacted", v.dialer())))
		require.Equal(t, []string{"a0", "a1"}, valuesOf(readAll(t, b, "deleted", v.dialer())))
		cl = client(t, b, v.dialer())
		offsets, err := kadm.NewClient(cl).FetchOffsets(t.Context(), "g")
		require.NoError(t, err)
		at, ok := offsets.Lookup("deleted", 0)
		require.True(t, ok, "the group's offsets are still there")
		require.Equal(t, int64(1), at.At)
		require.Equal(t, "metadata", at.Metadata)
		cl.Close()
		require.NoError(t, b.Close())
	})
}

// Limit 6. An orderly stop keeps what is known of producers; a kill does not.
func TestLimit_AKillForgetsIdempotentProducers(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	b := start(t, dir)
	cl := client(t, b)
	createTopic(t, cl, topic, 1, nil)
	init := kmsg.NewPtrInitProducerIDRequest()
	init.TransactionTimeoutMillis = 1000
	pid := request[*kmsg.InitProducerIDResponse](t, cl, init)
	require.Zero(t, pid.ErrorCode)
	require.Equal(t, int64(0), produceRaw(t, cl, pid.ProducerID, pid.ProducerEpoch))
	require.Equal(t, int64(0), produceRaw(t, cl, pid.ProducerID, pid.ProducerEpoch), "a repeat is answered with the first one's offset")

	killed := start(t, crash(t, dir))
	require.Equal(t, int64(1), produceRaw(t, client(t, killed), pid.ProducerID, pid.ProducerEpoch),
		"kfake's limit: if this is 0 now, idempotence survives a kill")

	cl.Close()
	require.NoError(t, b.Close())
	stopped := start(t, dir)
	require.Equal(t, int64(0), produceRaw(t, client(t, stopped), pid.ProducerID, pid.ProducerEpoch))
}

// Limit 7.
func TestLimit_LogAppendTimeIsIgnored(t *testing.T) {
	t.Parallel()
	b := start(t, t.TempDir())
	cl := client(t, b)
	createTopic(t, cl, topic, 1, map[string]string{"message.timestamp.type": "LogAppendTime"})
	before := time.Now().Add(-time.Hour).Truncate(time.Millisecond)
	require.NoError(t, cl.ProduceSync(t.Context(), &kgo.Record{Topic: topic, Value: []byte("v"), Timestamp: before}).FirstErr())
	got := readAll(t, b, topic)
	require.Len(t, got, 1)
	require.True(t, got[0].Timestamp.Equal(before), "kfake's limit: if the time is the broker's now, it is honoured")
}

// Limit 8.
func TestLimit_RequireStableHoldsTheWholeGroup(t *testing.T) {
	t.Parallel()
	b := start(t, t.TempDir())
	cl := client(t, b)
	createTopic(t, cl, topic, 2, nil)
	commitOffset(t, cl, "g", topic, 0, 1, "")
	txn := client(t, b, kgo.TransactionalID("boot-1"))
	require.NoError(t, txn.BeginTransaction())
	require.NoError(t, commitInTxn(t.Context(), txn, "g", topic, 1, 5, ""))
	// Without a record franz-go takes the transaction for empty and never ends it.
	require.NoError(t, txn.ProduceSync(t.Context(), &kgo.Record{Topic: topic, Value: []byte("outcome")}).FirstErr())

	fetch := kmsg.NewPtrOffsetFetchRequest()
	fetch.RequireStable = true
	group := kmsg.NewOffsetFetchRequestGroup()
	group.Group = "g"
	fetch.Groups = append(fetch.Groups, group)
	codes := func() (out []int16) {
		resp := request[*kmsg.OffsetFetchResponse](t, cl, fetch)
		for _, g := range resp.Groups {
			for _, tp := range g.Topics {
				for _, p := range tp.Partitions {
					out = append(out, p.ErrorCode)
				}
			}
		}
		return out
	}
	require.Equal(t, []int16{88}, codes(), "kfake's limit: UNSTABLE_OFFSET_COMMIT for a partition that the transaction does not touch")
	require.NoError(t, txn.EndTransaction(t.Context(), kgo.TryCommit))
	require.Equal(t, []int16{0, 0}, codes())
}

// Limit 11: a batch that was aborted, and one that was committed and has no room behind it.
func TestLimit_ACutFetchForgetsWhatWasAborted(t *testing.T) {
	t.Parallel()
	mended := start(t, t.TempDir())
	bare, err := kfake.NewCluster(kfake.NumBrokers(1))
	require.NoError(t, err)
	defer bare.Close()
	large := strings.Repeat("x", 1000)
	read := func(at broker) []string {
		cl, err := kgo.NewClient(kgo.SeedBrokers(at.Addr()), kgo.TransactionalID("boot"), kgo.ProducerBatchCompression(kgo.NoCompression()))
		require.NoError(t, err)
		defer cl.Close()
		createTopic(t, cl, topic, 1, nil)
		for _, end := range []struct {
			name string
			how  kgo.TransactionEndTry
		}{{"aborted", kgo.TryAbort}, {"committed", kgo.TryCommit}} {
			require.NoError(t, cl.BeginTransaction())
			require.NoError(t, cl.ProduceSync(t.Context(), &kgo.Record{Topic: topic, Key: []byte(end.name), Value: []byte(large)}).FirstErr())
			require.NoError(t, cl.EndTransaction(t.Context(), end.how))
		}
		var keys []string
		for _, r := range readAll(t, at, topic, committed(), kgo.FetchMaxBytes(1500), kgo.FetchMaxPartitionBytes(1500)) {
			keys = append(keys, string(r.Key))
		}
		return keys
	}
	require.Equal(t, []string{"aborted", "committed"}, read(addr(bare.ListenAddrs()[0])), "kfake's limit: if nothing aborted is read now, it names it")
	require.Equal(t, []string{"committed"}, read(mended))
}

// produceRaw sends the same one-record batch, sequence 0, and gives the offset that is answered.
func produceRaw(t *testing.T, cl *kgo.Client, pid int64, epoch int16) int64 {
	t.Helper()
	rec := kmsg.Record{Key: []byte("k"), Value: []byte("v")}
	rec.Length = int32(len(rec.AppendTo(nil)) - 1)
	now := time.Now().UnixMilli()
	batch := kmsg.RecordBatch{
		PartitionLeaderEpoch: -1, Magic: 2, FirstTimestamp: now, MaxTimestamp: now,
		ProducerID: pid, ProducerEpoch: epoch, FirstSequence: 0, NumRecords: 1, Records: rec.AppendTo(nil),
	}
	raw := batch.AppendTo(nil)
	binary.BigEndian.PutUint32(raw[8:], uint32(len(raw)-12))
	binary.BigEndian.PutUint32(raw[17:], crc32.Checksum(raw[21:], crc32.MakeTable(crc32.Castagnoli)))

	details, err := kadm.NewClient(cl).ListTopics(t.Context(), topic)
	require.NoError(t, err)
	req := kmsg.NewPtrProduceRequest()
	req.Acks, req.TimeoutMillis = -1, 5000
	rt := kmsg.NewProduceRequestTopic()
	rt.Topic, rt.TopicID = topic, details[topic].ID
	rp := kmsg.NewProduceRequestTopicPartition()
	rp.Records = raw
	rt.Partitions = append(rt.Partitions, rp)
	req.Topics = append(req.Topics, rt)
	resp := request[*kmsg.ProduceResponse](t, cl, req)
	require.Zero(t, resp.Topics[0].Partitions[0].ErrorCode)
	return resp.Topics[0].Partitions[0].BaseOffset
}

// Limit 12: what compaction leaves of an aborted transaction hides what its producer commits later.
func TestLimit_CompactionKeepsANoteOfWhatWasAborted(t *testing.T) {
	t.Parallel()
	cluster, err := kfake.NewCluster(kfake.NumBrokers(1))
	require.NoError(t, err)
	defer cluster.Close()
	at := addr(cluster.ListenAddrs()[0])
	createTopic(t, client(t, at), topic, 1, map[string]string{"cleanup.policy": "compact"})
	plain, txn := client(t, at), client(t, at, kgo.TransactionalID("boot-1"))
	put := func(cl *kgo.Client, key, value string) {
		t.Helper()
		require.NoError(t, cl.ProduceSync(t.Context(), &kgo.Record{Topic: topic, Key: []byte(key), Value: []byte(value)}).FirstErr())
	}
	end := func(how kgo.TransactionEndTry) {
		t.Helper()
		require.NoError(t, txn.EndTransaction(t.Context(), how))
	}
	put(plain, "other", "keeps the start of the log")
	require.NoError(t, txn.BeginTransaction())
	put(txn, "key", "aborted")
	end(kgo.TryAbort)
	put(plain, "key", "first")
	put(plain, "another", "is the last batch")
	cluster.Compact()
	require.NoError(t, txn.BeginTransaction())
	put(txn, "key", "committed")
	end(kgo.TryCommit)
	require.Contains(t, valuesOf(readAll(t, at, topic)), "committed")
	require.NotContains(t, valuesOf(readAll(t, at, topic, committed())), "committed", "kfake's limit: if it is there now, lines may be compacted in the simulation")
}
