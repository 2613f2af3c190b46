package chaos

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/barnabas-webhooks/barnabas/processor/tracker"
	"github.com/barnabas-webhooks/barnabas/schemas"
)

// auditor reads every topic that tells what became of deliveries, committed records only, while the run goes on.
type auditor struct {
	site   *site
	client *kgo.Client
	admin  *kadm.Client
	names  []string

	mu      sync.Mutex // guards what follows
	history History
	offsets map[string]map[int32][]int64 // of the records of consumed topics, ascending
	next    map[string]map[int32]int64   // what is read next
	err     error                        // a record that cannot be read
}

func newAuditor(s *site) (*auditor, error) {
	a := &auditor{
		site: s, names: append(s.catalogue.Consumed(), s.catalogue.DLQ(), s.catalogue.Attempts()),
		offsets: map[string]map[int32][]int64{}, next: map[string]map[int32]int64{},
	}
	for _, name := range a.names {
		a.offsets[name], a.next[name] = map[int32][]int64{}, map[int32]int64{}
	}
	var err error
	if a.client, err = kgo.NewClient(kgo.SeedBrokers(s.broker), kgo.ConsumeTopics(a.names...), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()),
		kgo.FetchIsolationLevel(kgo.ReadCommitted()), kgo.KeepControlRecords(), // a control record may be the last
		kgo.FetchMaxWait(time.Second)); err != nil {
		return nil, fmt.Errorf("auditor: %w", err)
	}
	a.admin = kadm.NewClient(a.client)
	return a, nil
}

// run reads until ctx ends.
func (a *auditor) run(ctx context.Context) {
	for ctx.Err() == nil {
		fetches := a.client.PollFetches(ctx) // a broker that is away is waited for
		a.mu.Lock()
		fetches.EachRecord(a.take)
		a.mu.Unlock()
	}
}

func (a *auditor) take(r *kgo.Record) {
	next := a.next[r.Topic]
	if r.Offset < next[r.Partition] {
		return // read before
	}
	next[r.Partition] = r.Offset + 1
	if r.Attrs.IsControl() {
		return
	}
	if r.Topic != a.site.catalogue.DLQ() && r.Topic != a.site.catalogue.Attempts() {
		a.offsets[r.Topic][r.Partition] = append(a.offsets[r.Topic][r.Partition], r.Offset)
	}
	if err := a.history.add(&a.site.catalogue, r); err != nil && a.err == nil {
		a.err = err
	}
}

// live lists the records that are not settled, as of a moment within the call, and only once everything that was
// settled by then is in the history: the group's offsets are read first, then the topics up to ends that are
// asked for later, and what a settled record became was written with its offset.
func (a *auditor) live(ctx context.Context) ([]schemas.Coordinates, error) {
	committed, err := a.admin.FetchOffsets(kadm.RequireStable(ctx), a.site.group)
	if err == nil {
		err = committed.Error()
	}
	if err != nil {
		return nil, fmt.Errorf("auditor: committed offsets: %w", err)
	}
	if err := a.catchUp(ctx); err != nil {
		return nil, err
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.err != nil {
		return nil, a.err
	}
	var live []schemas.Coordinates
	for topic, partitions := range a.offsets {
		for p, offsets := range partitions {
			at := kadm.Offset{At: -1}
			if o, ok := committed.Lookup(topic, p); ok {
				at = o.Offset
			}
			t := tracker.New(at.At, at.Metadata)
			from, _ := slices.BinarySearch(offsets, at.At)
			for _, o := range offsets[from:] {
				if t.Open(o) {
					live = append(live, schemas.Coordinates{Topic: topic, Partition: p, Offset: o})
				}
			}
		}
	}
	return live, nil
}

// catchUp waits until everything is read that is committed now.
func (a *auditor) catchUp(ctx context.Context) error {
	ends, err := a.admin.ListCommittedOffsets(ctx, a.names...)
	if err == nil {
		err = ends.Error()
	}
	if err != nil {
		return fmt.Errorf("auditor: ends of topics: %w", err)
	}
	for {
		behind := ""
		a.mu.Lock()
		ends.Each(func(o kadm.ListedOffset) {
			if a.next[o.Topic][o.Partition] < o.Offset {
				behind = fmt.Sprintf("%s[%d] at %d of %d", o.Topic, o.Partition, a.next[o.Topic][o.Partition], o.Offset)
			}
		})
		a.mu.Unlock()
		if behind == "" {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("auditor: behind at %s: %w", behind, ctx.Err())
		case <-time.After(50 * time.Millisecond):
		}
	}
}

// result is the history so far; the caller must have stopped the reading.
func (a *auditor) result() *History {
	a.mu.Lock()
	defer a.mu.Unlock()
	return &a.history
}

// setLive notes what the judgement is to take for waiting.
func (a *auditor) setLive(live []schemas.Coordinates) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.history.Live = live
}
