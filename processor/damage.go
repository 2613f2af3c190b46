package processor

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/barnabas-webhooks/barnabas/internal/obs"
	"github.com/barnabas-webhooks/barnabas/processor/unit"
)

// maxBatch is how large a batch may decompress to: far above what any topic takes, and far below what a few
// kilobytes can be made to say.
const maxBatch = 64 << 20

// finding is what came of looking into a partition that cannot be read.
type finding struct {
	at     place
	unit   *unit.Unit
	record *kgo.Record // the batch's bytes, at its first offset that was not read; nil: nothing damaged was found
	last   int64       // its last offset
	err    error       // why it cannot be read
}

// look reads a partition by hand from where its unit stands, to find a batch that cannot be read: the client says
// only that there is one, and stays before it for ever (C-127). What it finds the poller takes from there.
func (p *Processor) look(ctx context.Context, found chan<- finding, u *unit.Unit, at place, large *kgo.ErrDecompressTooLarge) {
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	f := finding{at: at, unit: u}
	if err := p.findDamage(ctx, &f, large); err != nil && ctx.Err() == nil {
		p.ownership.shared.Quiet.Warn("a partition that cannot be read could not be looked into", obs.KeyTopic, at.topic, obs.KeyPartition, at.partition, obs.KeyError, err)
	}
	select {
	case found <- f:
		p.wake()
	case <-ctx.Done():
	}
}

// looks is how many fetches are made by hand at most: behind what was read there may be control records only.
const looks = 20

func (p *Processor) findDamage(ctx context.Context, f *finding, large *kgo.ErrDecompressTooLarge) error {
	client := p.ownership.client.Load()
	offset, ok := f.unit.Expected(f.at.topic)
	if !ok {
		return nil // it has ended
	}
	if offset < 0 {
		starts, err := kadm.NewClient(client).ListStartOffsets(ctx, f.at.topic)
		if err != nil {
			return fmt.Errorf("list start offsets: %w", err)
		}
		start, _ := starts.Lookup(f.at.topic, f.at.partition)
		offset = start.Offset
	}
	for range looks {
		data, err := fetchRaw(ctx, client, f.at, offset)
		if err != nil {
			return err
		}
		next := offset
		for len(data) > 0 {
			var batch []byte
			if batch, data = cutBatch(data); batch == nil {
				break // cut off: it is first in the next answer
			}
			base := int64(binary.BigEndian.Uint64(batch))
			first, last := max(base, next), base+lastDelta(batch)
			if last < next {
				continue
			}
			if err := readable(batch, next, last, large); err != nil {
				f.last, f.err = last, err
				f.record = &kgo.Record{Topic: f.at.topic, Partition: f.at.partition, Offset: first, Value: batch, Timestamp: time.Now()}
				return nil
			}
			next = last + 1
		}
		if next == offset {
			return nil
		}
		offset = next
	}
	return nil
}

// fetchRaw asks the leader for batches as they are.
func fetchRaw(ctx context.Context, client *kgo.Client, at place, offset int64) ([]byte, error) {
	details, err := kadm.NewClient(client).ListTopics(ctx, at.topic)
	if err == nil {
		err = details.Error()
	}
	if err != nil {
		return nil, fmt.Errorf("find leader: %w", err)
	}
	topic := details[at.topic]
	req := kmsg.NewPtrFetchRequest()
	req.MaxBytes, req.MinBytes, req.MaxWaitMillis, req.IsolationLevel, req.SessionEpoch = 16<<20, 1, 500, 1, -1
	t := kmsg.NewFetchRequestTopic()
	t.Topic, t.TopicID = at.topic, topic.ID
	one := kmsg.NewFetchRequestTopicPartition()
	one.Partition, one.FetchOffset, one.PartitionMaxBytes = at.partition, offset, 1<<20
	t.Partitions = append(t.Partitions, one)
	req.Topics = append(req.Topics, t)
	answer, err := client.Broker(int(topic.Partitions[at.partition].Leader)).RetriableRequest(ctx, req)
	if err != nil {
		return nil, fmt.Errorf("fetch by hand: %w", err)
	}
	resp, ok := answer.(*kmsg.FetchResponse)
	if !ok {
		return nil, errors.New("fetch by hand: no answer to what was asked")
	}
	err = kerr.ErrorForCode(resp.ErrorCode)
	if err == nil && (len(resp.Topics) != 1 || len(resp.Topics[0].Partitions) != 1) {
		err = errors.New("the partition is missing from the answer")
	}
	if err == nil {
		err = kerr.ErrorForCode(resp.Topics[0].Partitions[0].ErrorCode)
	}
	if err != nil {
		return nil, fmt.Errorf("fetch by hand: %w", err)
	}
	return resp.Topics[0].Partitions[0].RecordBatches, nil
}

// Where things are in a record batch.
const (
	batchLength    = 8 // of what follows it
	batchLastDelta = 23
	batchRecords   = 61
)

// cutBatch cuts the first batch off; nil when it is not whole.
func cutBatch(data []byte) (batch, rest []byte) {
	if len(data) < batchRecords {
		return nil, nil
	}
	length := int64(int32(binary.BigEndian.Uint32(data[batchLength:]))) + batchLength + 4
	if length < batchRecords || length > int64(len(data)) {
		return nil, nil
	}
	return data[:length], data[length:]
}

func lastDelta(batch []byte) int64 {
	return max(int64(int32(binary.BigEndian.Uint32(batch[batchLastDelta:]))), 0)
}

// readable says why a batch cannot be read from an offset to its last, as the client would find.
func readable(batch []byte, from, last int64, large *kgo.ErrDecompressTooLarge) error {
	if large != nil && large.NextOffset == last+1 {
		return fmt.Errorf("the batch takes more than %d bytes when it is decompressed", maxBatch)
	}
	read, next := kgo.ProcessFetchPartition(
		kgo.ProcessFetchPartitionOpts{Offset: from, KeepControlRecords: true},
		&kmsg.FetchResponseTopicPartition{RecordBatches: batch, HighWatermark: last + 1}, kgo.DefaultDecompressor(), nil)
	if read.Err != nil {
		return fmt.Errorf("the batch cannot be read: %w", read.Err)
	}
	if next <= last {
		return fmt.Errorf("the batch ends at offset %d and has nothing readable from %d on", last, next)
	}
	return nil
}
