package api

import (
	"context"
	"fmt"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
)

// topicReader reads parts of one partition number of several topics, read_committed, with a client of its own. It
// belongs to one goroutine.
type topicReader struct {
	cl        *kgo.Client
	adm       *kadm.Client
	partition int32
	ends      map[string]int64 // last stable offsets, as they were at the start
	left      map[string]int64 // bytes of each topic that may still be read
}

const (
	// readIdle is how long a poll waits, and readQuiet how many of them may bring nothing: then a reader is behind data
	// of an aborted transaction, or the broker does not answer, and either way it stops there.
	readIdle  = 250 * time.Millisecond
	readQuiet = 3
	// readFetch bounds one fetch, and so what a search holds in memory.
	readFetch = 1 << 20
)

// openReader lists where the topics end. The caller closes the client.
func openReader(
	ctx context.Context, client func(...kgo.Opt) (*kgo.Client, error), partition int32, budget int64, names ...string,
) (*topicReader, error) {
	cl, err := client(
		kgo.FetchIsolationLevel(kgo.ReadCommitted()),
		kgo.KeepControlRecords(), // so that the end is seen where a transaction's marker is the last
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()),
		kgo.FetchMaxBytes(readFetch), kgo.FetchMaxPartitionBytes(readFetch), kgo.MaxConcurrentFetches(1),
		kgo.FetchMaxWait(readIdle/2),
	)
	if err != nil {
		return nil, fmt.Errorf("search: %w", err)
	}
	r := &topicReader{
		cl: cl, adm: kadm.NewClient(cl), partition: partition, ends: map[string]int64{}, left: map[string]int64{},
	}
	listed, err := r.adm.ListCommittedOffsets(ctx, names...)
	if err == nil {
		err = listed.Error()
	}
	if err != nil {
		cl.Close()
		return nil, fmt.Errorf("search: list end offsets: %w", err)
	}
	for _, name := range names {
		end, ok := listed.Lookup(name, partition)
		if !ok {
			cl.Close()
			return nil, fmt.Errorf("search: topic %s has no partition %d", name, partition)
		}
		r.ends[name], r.left[name] = end.Offset, budget
	}
	return r, nil
}

// since is the offset of a topic's first record that is not older than a time, or its end.
func (r *topicReader) since(ctx context.Context, topic string, at time.Time) (int64, error) {
	listed, err := r.adm.ListOffsetsAfterMilli(ctx, at.UnixMilli(), topic)
	if err == nil {
		err = listed.Error()
	}
	if err != nil {
		return 0, fmt.Errorf("search: list offsets: %w", err)
	}
	o, ok := listed.Lookup(topic, r.partition)
	if !ok || o.Offset < 0 {
		return r.ends[topic], nil
	}
	return o.Offset, nil
}

// reachesBack says whether a topic still has records from before an offset.
func (r *topicReader) reachesBack(ctx context.Context, topic string, offset int64) (bool, error) {
	listed, err := r.adm.ListStartOffsets(ctx, topic)
	if err == nil {
		err = listed.Error()
	}
	if err != nil {
		return false, fmt.Errorf("search: list start offsets: %w", err)
	}
	start, ok := listed.Lookup(topic, r.partition)
	return ok && start.Offset < offset, nil
}

// read visits a topic's records from an offset on, in order, until visit returns false, the topic's end or the bounds.
// It says whether it ended by visit or at the end (whole) and where it would go on.
func (r *topicReader) read(
	ctx context.Context, topic string, from int64, visit func(*kgo.Record) (more bool),
) (next int64, whole bool, err error) {
	end := r.ends[topic]
	if from >= end {
		return from, true, nil
	}
	r.cl.AddConsumePartitions(map[string]map[int32]kgo.Offset{topic: {r.partition: kgo.NewOffset().At(from)}})
	defer r.cl.RemoveConsumePartitions(map[string][]int32{topic: {r.partition}})
	next = from
	for quiet := 0; quiet < readQuiet && r.left[topic] > 0; {
		poll, cancel := context.WithTimeout(ctx, readIdle)
		fetches := r.cl.PollFetches(poll)
		cancel()
		if ctx.Err() != nil {
			return next, false, nil // the bound of time
		}
		if err := firstError(fetches); err != nil {
			return next, false, fmt.Errorf("search: %w", err)
		}
		quiet++
		for it := fetches.RecordIter(); !it.Done(); {
			rec := it.Next()
			if rec.Topic != topic || rec.Offset < from {
				continue
			}
			quiet, next = 0, rec.Offset+1
			r.left[topic] -= int64(len(rec.Key)+len(rec.Value)) + 64 // and headers and framing, roughly
			if rec.Offset < end && !rec.Attrs.IsControl() && !visit(rec) || next >= end {
				return next, true, nil
			}
			if r.left[topic] <= 0 {
				break
			}
		}
	}
	return next, false, nil
}
