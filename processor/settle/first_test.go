package settle_test

import (
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// The first transaction of a client must not be taken for committed when it was not.
// franz-go v1.22.3 stores the partitions of a topic that it produces to for the first
// time after it has let the records go: when their acknowledgement is faster,
// EndTransaction finds that nothing was produced, aborts, and returns no error.
func TestSettler_FirstTransactionsAreNotLost(t *testing.T) {
	t.Parallel()
	addrs := fake(t).ListenAddrs()
	const settlers, rounds = 8, 15
	var wg sync.WaitGroup
	for range settlers {
		r := newRig(t, addrs)
		wg.Go(func() {
			want := []string{}
			for i := range rounds {
				r.stop()
				r.start() // a new client
				want = append(want, fmt.Sprintf("%03d", i))
				if err := <-r.want(0, int64(i+1), r.outcome("out", 0, want[i])).answers; err != nil {
					t.Error(err)
				}
			}
			if got := r.visible("out"); !slices.Equal(want, got) {
				t.Errorf("settled %v, visible %v", want, got)
			}
			r.requireCommitted(map[int32]int64{0: rounds})
		})
	}
	wg.Wait()
	require.False(t, t.Failed())
}

// The first commit of a partition, asked for while the transaction's end is still under way. To a request that
// names the partition Kafka says that it is unstable; to one for all that the group has, it leaves the partition
// out. Whoever asks that way takes what was committed for aborted, and writes it again: every delivery in it is forked.
func TestSettler_AFirstCommitUnderWayIsWaitedFor(t *testing.T) {
	t.Parallel()
	cluster := fake(t)
	r := newRig(t, cluster.ListenAddrs())
	var pending, asked atomic.Int32 // answers that are still unstable; those that were
	cluster.ControlKey(int16(kmsg.EndTxn), func(kmsg.Request) (kmsg.Response, error, bool) {
		cluster.KeepControl()
		pending.Store(3)
		return nil, nil, false
	})
	cluster.ControlKey(int16(kmsg.OffsetFetch), func(kreq kmsg.Request) (kmsg.Response, error, bool) {
		cluster.KeepControl()
		if pending.Add(-1) < 0 {
			return nil, nil, false
		}
		asked.Add(1)
		req := kreq.(*kmsg.OffsetFetchRequest)
		resp := req.ResponseKind().(*kmsg.OffsetFetchResponse)
		for _, g := range req.Groups {
			group := kmsg.NewOffsetFetchResponseGroup()
			group.Group = g.Group
			for _, topic := range g.Topics {
				named := kmsg.NewOffsetFetchResponseGroupTopic()
				named.Topic, named.TopicID = topic.Topic, topic.TopicID
				for _, p := range topic.Partitions {
					partition := kmsg.NewOffsetFetchResponseGroupTopicPartition()
					partition.Partition, partition.Offset, partition.ErrorCode = p, -1, kerr.UnstableOffsetCommit.Code
					named.Partitions = append(named.Partitions, partition)
				}
				group.Topics = append(group.Topics, named)
			}
			resp.Groups = append(resp.Groups, group)
		}
		return resp, nil, true
	})
	require.NoError(t, r.want(0, 1, r.outcome("out", 0, "once")).answer(t))
	require.Positive(t, asked.Load(), "the first transaction was not confirmed")
	require.Equal(t, []string{"once"}, r.visible("out"))
}
