package endpoint

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/barnabas-webhooks/barnabas/internal/obs"
)

const (
	// probeEvery is how long the tail waits for records before it asks whether any are left to come.
	probeEvery = 250 * time.Millisecond
	// backoffMin and backoffMax bound the wait after an error of Kafka's (C-236).
	backoffMin = 100 * time.Millisecond
	backoffMax = 5 * time.Second
	// askTimeout bounds one question to the cluster.
	askTimeout = 10 * time.Second
)

// ErrRunning is returned by a second call of Table.Run.
var ErrRunning = errors.New("endpoint: the table runs already")

// Run reads the topic from the start and follows it until ctx ends, and returns nil then. A cluster that is not
// there, or has no such topic yet, is waited for: the table is not ready until then (C-234). Run may be called once.
func (t *Table) Run(ctx context.Context) error {
	t.mu.Lock()
	again := t.running
	t.running = true
	t.mu.Unlock()
	if again {
		return ErrRunning
	}
	cl, err := t.opts.Client(
		kgo.ConsumeTopics(t.opts.Topic),
		kgo.ConsumeStartOffset(kgo.NewOffset().AtStart()),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()),
		// No transaction ever writes here, so there is nothing to wait for.
		kgo.FetchIsolationLevel(kgo.ReadUncommitted()),
	)
	if err != nil {
		return fmt.Errorf("endpoint table: %w", err)
	}
	defer cl.Close()

	goals := t.goals(ctx, cl)
	t.approach(ctx, cl, goals, false) // an empty topic is whole already
	var failures backoff
	for ctx.Err() == nil {
		pollCtx, cancel := ctx, context.CancelFunc(func() {})
		if len(goals) > 0 {
			pollCtx, cancel = context.WithTimeout(ctx, probeEvery)
		}
		fetches := cl.PollFetches(pollCtx)
		cancel()
		if fetches.IsClientClosed() {
			return nil
		}
		n := fetches.NumRecords()
		if err := fetchError(fetches); err != nil && n == 0 {
			if skipped, ok := t.limiter.allow(); ok {
				t.log.Warn("endpoint_table_read_failed", obs.KeyTopic, t.opts.Topic, obs.KeyError, err, obs.KeySuppressed, skipped)
			}
			failures.sleep(ctx)
		} else if n > 0 {
			failures.reset()
		}
		fetches.EachRecord(t.apply)
		t.advance(fetches)
		t.approach(ctx, cl, goals, n == 0)
	}
	return nil
}

// WaitReady returns when the table has caught up with the end of the topic as it was at the call of Run.
func (t *Table) WaitReady(ctx context.Context) error {
	select {
	case <-t.ready:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("endpoint table not ready: %w", context.Cause(ctx))
	}
}

// Ready says whether the table has caught up once.
func (t *Table) Ready() bool {
	select {
	case <-t.ready:
		return true
	default:
		return false
	}
}

// goals asks for the topic's ends until the cluster answers, and notes where the log starts.
// The result is what must still be read, by partition; empty when ctx ended.
func (t *Table) goals(ctx context.Context, cl *kgo.Client) map[int32]int64 {
	adm := kadm.NewClient(cl)
	var failures backoff
	for {
		starts, ends, err := t.bounds(ctx, adm)
		if err == nil {
			t.mu.Lock()
			for p, o := range starts {
				t.applied[p] = o
			}
			t.mu.Unlock()
			return ends
		}
		if ctx.Err() != nil {
			return nil
		}
		if skipped, ok := t.limiter.allow(); ok {
			t.log.Warn("endpoint_table_waits", obs.KeyTopic, t.opts.Topic, obs.KeyError, err, obs.KeySuppressed, skipped)
		}
		failures.sleep(ctx)
	}
}

func (t *Table) bounds(ctx context.Context, adm *kadm.Client) (starts, ends map[int32]int64, err error) {
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	read := func(list func(context.Context, ...string) (kadm.ListedOffsets, error)) (map[int32]int64, error) {
		offsets, err := list(ctx, t.opts.Topic)
		if err == nil {
			err = offsets.Error()
		}
		if err != nil {
			return nil, err
		}
		if len(offsets[t.opts.Topic]) == 0 {
			return nil, kerr.UnknownTopicOrPartition
		}
		at := map[int32]int64{}
		offsets.Each(func(o kadm.ListedOffset) { at[o.Partition] = o.Offset })
		return at, nil
	}
	// Starts first: an end that is read later is never below the start.
	if starts, err = read(adm.ListStartOffsets); err != nil {
		return nil, nil, fmt.Errorf("list start offsets: %w", err)
	}
	if ends, err = read(adm.ListEndOffsets); err != nil {
		return nil, nil, fmt.Errorf("list end offsets: %w", err)
	}
	return starts, ends, nil
}

// advance notes how far the log was applied, and wakes those who wait for it.
func (t *Table) advance(fetches kgo.Fetches) {
	if fetches.NumRecords() == 0 {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	fetches.EachPartition(func(p kgo.FetchTopicPartition) {
		if n := len(p.Records); n > 0 {
			t.applied[p.Partition] = p.Records[n-1].Offset + 1
		}
	})
	close(t.changed)
	t.changed = make(chan struct{})
}

// approach drops the goals that were reached, and opens ready with the last. Where nothing came, it asks the broker
// whether anything is left: compaction and transaction markers leave offsets that no record will ever have, also
// right below the end, and the client's polls do not show that these were passed.
func (t *Table) approach(ctx context.Context, cl *kgo.Client, goals map[int32]int64, quiet bool) {
	if t.Ready() || ctx.Err() != nil {
		return
	}
	for p, end := range goals {
		t.mu.RLock()
		at := t.applied[p]
		t.mu.RUnlock()
		if at >= end {
			delete(goals, p)
			continue
		}
		if !quiet {
			continue
		}
		empty, err := emptyBetween(ctx, cl, t.opts.Topic, p, at, end)
		if err != nil && ctx.Err() == nil {
			if skipped, ok := t.limiter.allow(); ok {
				t.log.Warn("endpoint_table_probe_failed", obs.KeyTopic, t.opts.Topic, obs.KeyPartition, p, obs.KeyError, err,
					obs.KeySuppressed, skipped)
			}
		}
		if empty {
			delete(goals, p)
		}
	}
	if len(goals) == 0 {
		close(t.ready)
	}
}

// emptyBetween says whether no record lies in [from, to) of a partition. False may also mean that it is not known yet.
func emptyBetween(ctx context.Context, cl *kgo.Client, topic string, partition int32, from, to int64) (bool, error) {
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	leader, epoch, err := cl.PartitionLeader(topic, partition)
	if err != nil || leader < 0 {
		return false, err
	}
	meta, err := kadm.NewClient(cl).ListTopics(ctx, topic)
	if err != nil {
		return false, err
	}
	for from < to {
		req := kmsg.NewPtrFetchRequest()
		req.MaxBytes, req.SessionEpoch = 1<<20, -1
		rt := kmsg.NewFetchRequestTopic()
		rt.Topic, rt.TopicID = topic, meta[topic].ID
		rp := kmsg.NewFetchRequestTopicPartition()
		rp.Partition, rp.FetchOffset, rp.CurrentLeaderEpoch, rp.PartitionMaxBytes = partition, from, epoch, 1<<20
		rt.Partitions = append(rt.Partitions, rp)
		req.Topics = append(req.Topics, rt)
		kresp, err := cl.Broker(int(leader)).RetriableRequest(ctx, req)
		if err != nil {
			return false, err
		}
		resp, ok := kresp.(*kmsg.FetchResponse)
		if !ok {
			return false, fmt.Errorf("fetch: unexpected answer %T", kresp)
		}
		if len(resp.Topics) != 1 || len(resp.Topics[0].Partitions) != 1 {
			return false, kerr.ErrorForCode(resp.ErrorCode) // nil: the broker said nothing of it; asked again later
		}
		fp, next := kgo.ProcessFetchPartition(kgo.ProcessFetchPartitionOpts{
			Offset: from, Topic: topic, Partition: partition,
		}, &resp.Topics[0].Partitions[0], kgo.DefaultDecompressor(), nil)
		switch {
		case fp.Err != nil:
			return false, fp.Err
		case len(fp.Records) > 0:
			return fp.Records[0].Offset >= to, nil
		case next <= from:
			return true, nil // the broker has nothing from here on
		}
		from = next
	}
	return true, nil
}

// fetchError returns one error of a poll, if there was any but the end of the wait.
func fetchError(fetches kgo.Fetches) error {
	for _, e := range fetches.Errors() {
		if !errors.Is(e.Err, context.DeadlineExceeded) && !errors.Is(e.Err, context.Canceled) {
			return e.Err
		}
	}
	return nil
}
