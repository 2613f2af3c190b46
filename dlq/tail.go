package dlq

import (
	"context"
	"fmt"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// tailTimeout bounds one look at a partition that gives no records.
const tailTimeout = 5 * time.Second

// nothingUntil says whether a read_committed reader at offset from has nothing
// to come before end: only aborted data, or offsets that are no more. The
// consumer cannot tell, for it returns records, not positions; so this asks the
// leader itself, once in a while, when a read makes no progress.
//
// Apache Kafka ends aborted data with a marker, which the consumer would see.
// The embedded broker does not, after it was killed with a transaction open.
func (g *log) nothingUntil(ctx context.Context, topic string, p int32, from, end int64) (bool, error) {
	ctx, cancel := context.WithTimeout(ctx, tailTimeout)
	defer cancel()
	meta, err := g.adm.Metadata(ctx, topic)
	if err != nil {
		return false, fmt.Errorf("find leader of %s/%d: %w", topic, p, err)
	}
	detail := meta.Topics[topic]
	leader, ok := detail.Partitions[p]
	if !ok || leader.Err != nil {
		return false, fmt.Errorf("find leader of %s/%d: %w", topic, p, leader.Err)
	}
	for from < end {
		req := kmsg.NewPtrFetchRequest()
		req.ReplicaID = -1
		req.MaxBytes = fetchBytes
		req.IsolationLevel = 1
		t := kmsg.NewFetchRequestTopic()
		t.Topic, t.TopicID = topic, detail.ID
		part := kmsg.NewFetchRequestTopicPartition()
		part.Partition, part.FetchOffset, part.PartitionMaxBytes = p, from, fetchBytes
		t.Partitions = append(t.Partitions, part)
		req.Topics = append(req.Topics, t)
		kresp, err := g.cl.Broker(int(leader.Leader)).RetriableRequest(ctx, req)
		if err != nil {
			return false, fmt.Errorf("look at %s/%d: %w", topic, p, err)
		}
		resp := kresp.(*kmsg.FetchResponse) //nolint:forcetypeassert // the answer of its own request
		if err := kerr.ErrorForCode(resp.ErrorCode); err != nil {
			return false, fmt.Errorf("look at %s/%d: %w", topic, p, err)
		}
		if len(resp.Topics) != 1 || len(resp.Topics[0].Partitions) != 1 {
			return false, nil // nothing there yet
		}
		rp := &resp.Topics[0].Partitions[0]
		if rp.LogStartOffset >= end {
			return true, nil // retention took it all
		}
		got, next := kgo.ProcessFetchPartition(kgo.ProcessFetchPartitionOpts{
			KeepControlRecords: true,
			Offset:             from,
			IsolationLevel:     kgo.ReadCommitted(),
			Topic:              topic,
			Partition:          p,
		}, rp, kgo.DefaultDecompressor(), nil)
		if got.Err != nil {
			return false, fmt.Errorf("look at %s/%d: %w", topic, p, got.Err)
		}
		if len(got.Records) > 0 || next <= from {
			return false, nil // the consumer will bring it, or an open transaction bars the way
		}
		from = next
	}
	return true, nil
}
