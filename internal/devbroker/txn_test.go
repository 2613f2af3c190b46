package devbroker_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// commitInTxn adds a group's offset to the open transaction of a client that is
// not the group's member: AddOffsetsToTxn and TxnOffsetCommit as raw requests.
func commitInTxn(ctx context.Context, cl *kgo.Client, group, topic string, partition int32, offset int64, metadata string) error {
	return commitInTxnAs(ctx, cl, group, "", -1, topic, partition, offset, metadata)
}

func commitInTxnAs(
	ctx context.Context, cl *kgo.Client, group, member string, generation int32, topic string, partition int32, offset int64, metadata string,
) error {
	pid, epoch, err := cl.ProducerID(ctx)
	if err != nil {
		return err
	}
	txid, _ := cl.OptValue(kgo.TransactionalID).(string)
	add := kmsg.NewPtrAddOffsetsToTxnRequest()
	add.TransactionalID, add.ProducerID, add.ProducerEpoch, add.Group = txid, pid, epoch, group
	added, err := add.RequestWith(ctx, cl)
	if err != nil {
		return err
	}
	if err := kerr.ErrorForCode(added.ErrorCode); err != nil {
		return fmt.Errorf("add offsets: %w", err)
	}
	req := kmsg.NewPtrTxnOffsetCommitRequest()
	req.TransactionalID, req.ProducerID, req.ProducerEpoch, req.Group = txid, pid, epoch, group
	req.MemberID, req.Generation = member, generation
	details, err := kadm.NewClient(cl).ListTopics(ctx, topic)
	if err != nil {
		return err
	}
	rt := kmsg.NewTxnOffsetCommitRequestTopic()
	rt.Topic, rt.TopicID = topic, details[topic].ID
	rp := kmsg.NewTxnOffsetCommitRequestTopicPartition()
	rp.Partition, rp.Offset, rp.Metadata = partition, offset, kmsg.StringPtr(metadata)
	rt.Partitions = append(rt.Partitions, rp)
	req.Topics = append(req.Topics, rt)
	resp, err := req.RequestWith(ctx, cl)
	if err != nil {
		return err
	}
	for _, t := range resp.Topics {
		for _, p := range t.Partitions {
			if err := kerr.ErrorForCode(p.ErrorCode); err != nil {
				return fmt.Errorf("commit offsets: %w", err)
			}
		}
	}
	return nil
}

// commitOffset commits outside of transactions, with metadata.
func commitOffset(t *testing.T, cl *kgo.Client, group, topic string, partition int32, offset int64, metadata string) {
	t.Helper()
	offsets := make(kadm.Offsets)
	offsets.Add(kadm.Offset{Topic: topic, Partition: partition, At: offset, LeaderEpoch: -1, Metadata: metadata})
	resp, err := kadm.NewClient(cl).CommitOffsets(t.Context(), group, offsets)
	require.NoError(t, err)
	require.NoError(t, resp.Error())
}

// What the settler relies on: offsets and metadata of 4,096 characters travel in
// a transaction, arrive at the next owner's OnOffsetsFetched with RequireStable,
// and survive an orderly restart and a kill.
func TestTransactions_CarryOffsetsWithMetadata(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	b := start(t, dir)
	admin := client(t, b)
	createTopic(t, admin, topic, 1, nil)
	createTopic(t, admin, "out", 1, nil)
	produce(t, admin, topic, "a0", "a1", "a2", "a3")

	metadata := make([]byte, 4096)
	for i := range metadata {
		metadata[i] = 'a' + byte(i%26)
	}
	member := newMember(t, b)
	require.Equal(t, []string{"a0", "a1", "a2", "a3"}, member.poll(t, 4))
	id, generation := member.cl.GroupMetadata()

	txn := client(t, b, kgo.TransactionalID("boot-1"), kgo.TransactionTimeout(10*time.Second))
	require.NoError(t, txn.BeginTransaction())
	require.NoError(t, txn.ProduceSync(t.Context(), &kgo.Record{Topic: "out", Value: []byte("outcome")}).FirstErr())
	require.NoError(t, commitInTxnAs(t.Context(), txn, "g", id, generation, topic, 0, 2, string(metadata)))
	require.NoError(t, txn.EndTransaction(t.Context(), kgo.TryCommit))
	require.Equal(t, []string{"outcome"}, valuesOf(readAll(t, b, "out", committed())))

	// A stale generation and an unknown member are refused, and the transaction can be aborted.
	for _, stale := range []struct {
		member     string
		generation int32
		want       error
	}{{id, generation - 1, kerr.IllegalGeneration}, {"nobody", generation, kerr.UnknownMemberID}} {
		require.NoError(t, txn.BeginTransaction())
		require.NoError(t, txn.ProduceSync(t.Context(), &kgo.Record{Topic: "out", Value: []byte("stale")}).FirstErr())
		err := commitInTxnAs(t.Context(), txn, "g", stale.member, stale.generation, topic, 0, 4, "x")
		require.ErrorIs(t, err, stale.want)
		require.NoError(t, txn.EndTransaction(t.Context(), kgo.TryAbort))
	}
	require.Equal(t, []string{"outcome"}, valuesOf(readAll(t, b, "out", committed())))
	member.cl.Close()

	check := func(name, dir string) {
		b := start(t, dir)
		again := newMember(t, b)
		require.Equal(t, []string{"a2", "a3"}, again.poll(t, 2), name)
		require.Equal(t, string(metadata), again.metadata(topic, 0), name)
		again.cl.Close()
		require.NoError(t, b.Close())
	}
	killed := crash(t, dir)
	txn.Close()
	require.NoError(t, b.Close())
	check("after an orderly stop", dir)
	check("after a kill", killed)
}

// A client that dies in a transaction: read_committed readers wait for its
// timeout, not for ever, and never see what it wrote; what came after is seen.
func TestTransactions_OfADeadClientEndWithTheirTimeout(t *testing.T) {
	t.Parallel()
	b := start(t, t.TempDir())
	admin := client(t, b)
	createTopic(t, admin, topic, 1, nil)
	createTopic(t, admin, "source", 1, nil)
	commitOffset(t, admin, "g", "source", 0, 1, "old")

	var g gate
	dead := client(t, b, kgo.Dialer(g.dial), kgo.TransactionalID("dead"), kgo.TransactionTimeout(2*time.Second))
	require.NoError(t, dead.BeginTransaction())
	require.NoError(t, dead.ProduceSync(t.Context(), &kgo.Record{Topic: topic, Value: []byte("of the dead")}).FirstErr())
	require.NoError(t, commitInTxn(t.Context(), dead, "g", "source", 0, 9, "of the dead"))
	began := time.Now()
	g.cut()
	produce(t, admin, topic, "later")

	stable := func() int64 {
		ends, err := kadm.NewClient(admin).ListCommittedOffsets(t.Context(), topic)
		require.NoError(t, err)
		end, _ := ends.Lookup(topic, 0)
		return end.Offset
	}
	require.Zero(t, stable(), "readers wait for the open transaction")

	// The next owner's offsets wait as well.
	next := newMemberOf(t, b, "source")
	require.Eventually(t, func() bool { return next.fetched("source", 0) }, 20*time.Second, 10*time.Millisecond)
	require.GreaterOrEqual(t, time.Since(began), 1900*time.Millisecond, "RequireStable waits for the transaction's timeout")
	require.Equal(t, "old", next.metadata("source", 0), "the dead client's offsets are not there")
	require.Positive(t, stable())
	require.Equal(t, []string{"later"}, valuesOf(readAll(t, b, topic, committed())))
	next.cl.Close()
}

// The next boot's transactional id is another, so the one of before is ended by
// its timeout: this is how long a restarted processor waits for its offsets.
func TestTransactions_OpenAtAnOrderlyStopEndWithTheirTimeout(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var v virtual
		dir := t.TempDir()
		b := v.start(t, dir)
		admin := client(t, b, v.dialer())
		createTopic(t, admin, topic, 1, nil)
		txn := client(t, b, v.dialer(), kgo.TransactionalID("boot-1"), kgo.TransactionTimeout(10*time.Second))
		require.NoError(t, txn.BeginTransaction())
		require.NoError(t, txn.ProduceSync(t.Context(), &kgo.Record{Topic: topic, Value: []byte("open")}).FirstErr())
		require.NoError(t, b.Close())
		txn.Close()

		b = v.start(t, dir)
		produce(t, admin, topic, "later")
		time.Sleep(11 * time.Second)
		produce(t, admin, topic, "last")
		require.Equal(t, []string{"later", "last"}, valuesOf(readAll(t, b, topic, v.dialer(), committed())))
		admin.Close()
		require.NoError(t, b.Close())
	})
}

// member is a group member as the processor's is: own offsets. franz-go always asks
// for stable ones.
type member struct {
	cl *kgo.Client

	mu   sync.Mutex // guards meta
	meta map[string]string
}

func newMember(t *testing.T, b broker) *member {
	t.Helper()
	return newMemberOf(t, b, topic)
}

func newMemberOf(t *testing.T, b broker, topic string) *member {
	t.Helper()
	m := &member{meta: make(map[string]string)}
	cl, err := kgo.NewClient(kgo.SeedBrokers(b.Addr()), kgo.ConsumerGroup("g"), kgo.ConsumeTopics(topic), kgo.DisableAutoCommit(),
		kgo.FetchIsolationLevel(kgo.ReadCommitted()), kgo.ConsumeStartOffset(kgo.NewOffset().AtStart()),
		kgo.OnOffsetsFetched(func(_ context.Context, _ *kgo.Client, resp *kmsg.OffsetFetchResponse) error {
			m.mu.Lock()
			defer m.mu.Unlock()
			for _, g := range resp.Groups {
				for _, t := range g.Topics {
					for _, p := range t.Partitions {
						if p.ErrorCode == 0 {
							m.meta[fmt.Sprintf("%s/%d", t.Topic, p.Partition)] = deref(p.Metadata)
						}
					}
				}
			}
			for _, t := range resp.Topics {
				for _, p := range t.Partitions {
					if p.ErrorCode == 0 {
						m.meta[fmt.Sprintf("%s/%d", t.Topic, p.Partition)] = deref(p.Metadata)
					}
				}
			}
			return nil
		}))
	require.NoError(t, err)
	t.Cleanup(cl.Close)
	m.cl = cl
	return m
}

func deref(s *string) string {
	if s == nil {
		return ""
	}
	return *s
}

func (m *member) metadata(topic string, p int32) string {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.meta[fmt.Sprintf("%s/%d", topic, p)]
}

func (m *member) fetched(topic string, p int32) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	_, ok := m.meta[fmt.Sprintf("%s/%d", topic, p)]
	return ok
}

// poll reads n records.
func (m *member) poll(t *testing.T, n int) []string {
	t.Helper()
	var out []string
	for len(out) < n {
		fetches := m.cl.PollFetches(t.Context())
		require.NoError(t, fetches.Err())
		fetches.EachRecord(func(r *kgo.Record) { out = append(out, string(r.Value)) })
	}
	return out
}
