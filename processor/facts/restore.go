package facts

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/barnabas-webhooks/barnabas/internal/obs"
	"github.com/barnabas-webhooks/barnabas/processor/claim"
	"github.com/barnabas-webhooks/barnabas/schemas"
	"github.com/barnabas-webhooks/barnabas/topics"
)

// Facts is what is known of one unit.
type Facts struct {
	Arbiter  *claim.Arbiter
	Breakers map[string]*schemas.BreakerTransition // the last of each endpoint
	Lines    map[string]*schemas.Line              // of strict endpoints, the last of each
	Records  int                                   // that were read for it
}

// Claims gives an arbiter what it remembers with: a cache of the unit's partition of the given log.
type Claims interface {
	Open(unit int32, log claim.Log) (claim.Store, error)
}

// Restorer reads facts back.
type Restorer struct {
	// NewClient makes a client with the caller's connection settings and, after them, the given ones.
	NewClient func(more ...kgo.Opt) (*kgo.Client, error)
	Admin     *kadm.Client
	Catalogue topics.Catalogue
	Claims    Claims
	Window    time.Duration // of idempotency keys
	Log       *slog.Logger
}

// Restore reads the facts of the given units, from where their stores stand (the start of the partition, where
// one is empty) to the end as it is now, and hands each unit's over as soon as it is whole.
// Records that cannot be read are logged and passed over: a lost fact costs a
// duplicate at worst, a stuck unit costs everything in it.
func (r *Restorer) Restore(ctx context.Context, units []int32, ready func(unit int32, f *Facts)) error {
	run, err := r.begin(ctx, units)
	defer run.close()
	if err != nil {
		return fmt.Errorf("restore: %w", err)
	}
	handOver := func(unit int32) {
		f := run.found[unit]
		delete(run.found, unit)
		ready(unit, f)
	}
	for _, unit := range units {
		if run.left[unit] == 0 {
			handOver(unit)
		}
	}
	if len(run.from) == 0 {
		return nil
	}
	client, err := r.reader(run.from)
	if err != nil {
		return fmt.Errorf("restore: %w", err)
	}
	defer client.Close()
	var failed error
	open := len(run.left)
	whole := func(topic string, unit int32) {
		if failed = run.readTo(topic, unit, run.end[topic][unit]); failed != nil {
			return
		}
		run.end[topic][unit] = -1 // what is written meanwhile is ours to write
		client.PauseFetchPartitions(map[string][]int32{topic: {unit}})
		if run.left[unit]--; run.left[unit] == 0 {
			open--
			handOver(unit)
		}
	}
	for open > 0 {
		quiet, cancel := context.WithTimeout(ctx, quietRestore)
		fetches := client.PollFetches(quiet)
		cancel()
		if err := ctx.Err(); err != nil {
			return fmt.Errorf("restore: %w", err)
		}
		if fetches.NumRecords() == 0 {
			if err := r.passOverDeleted(ctx, run.end, whole); err != nil {
				return err
			}
		}
		r.warn(fetches)
		fetches.EachPartition(func(p kgo.FetchTopicPartition) {
			n, end := len(p.Records), run.end[p.Topic][p.Partition]
			if failed != nil || n == 0 || end < 0 {
				return // fetched before it was paused; its unit has been handed over
			}
			if failed = run.take(p.Topic, p.Partition, p.Records); failed != nil {
				return
			}
			// The last record of a partition is never compacted away, and markers of transactions
			// are kept by the client: end-1 is always seen.
			if p.Records[n-1].Offset >= end-1 {
				whole(p.Topic, p.Partition)
			}
		})
		if failed != nil {
			return fmt.Errorf("restore: %w", failed)
		}
	}
	return nil
}

// reader makes a client that consumes just these partitions. Lines are written in transactions: those that are open, of
// an owner before this one, are waited for. And whoever waits for the last offset must see the marker that may lie there.
func (r *Restorer) reader(partitions map[string]map[int32]kgo.Offset) (*kgo.Client, error) {
	return r.NewClient(kgo.ConsumePartitions(partitions), kgo.FetchIsolationLevel(kgo.ReadCommitted()), kgo.KeepControlRecords())
}

// run is one reading of facts.
type run struct {
	*Restorer
	found map[int32]*Facts
	left  map[int32]int // partitions that are not read to their end
	from  map[string]map[int32]kgo.Offset
	end   map[string]map[int32]int64 // -1: reached
}

// close lets go of what was not handed over.
func (n *run) close() {
	for _, f := range n.found {
		if f.Arbiter != nil {
			_ = f.Arbiter.Close() // it is read again
		}
	}
}

// begin opens the units' stores and finds out what is to be read.
func (r *Restorer) begin(ctx context.Context, units []int32) (*run, error) {
	n := &run{
		Restorer: r, found: make(map[int32]*Facts, len(units)), left: make(map[int32]int, len(units)),
		from: map[string]map[int32]kgo.Offset{}, end: map[string]map[int32]int64{},
	}
	names := []string{r.Catalogue.Idempotency(), r.Catalogue.Breakers(), r.Catalogue.Lines()}
	// Asked so, the client does not answer from its cache, in which a topic that was made anew is the old one for a while.
	details, err := r.Admin.ListTopics(kadm.WithAuthorizedOps(ctx), names...)
	if err == nil {
		err = details.Error()
	}
	if err != nil {
		return n, fmt.Errorf("look up topics: %w", err)
	}
	starts, err := r.Admin.ListStartOffsets(ctx, names...)
	if err == nil {
		err = starts.Error()
	}
	if err != nil {
		return n, fmt.Errorf("list start offsets: %w", err)
	}
	ends, err := r.Admin.ListEndOffsets(ctx, names...)
	if err == nil {
		err = ends.Error()
	}
	if err != nil {
		return n, fmt.Errorf("list end offsets: %w", err)
	}
	for _, unit := range units {
		n.found[unit] = &Facts{Breakers: map[string]*schemas.BreakerTransition{}, Lines: map[string]*schemas.Line{}}
		for _, topic := range names {
			first, ok := starts.Lookup(topic, unit)
			last, ok2 := ends.Lookup(topic, unit)
			if !ok || !ok2 {
				return n, fmt.Errorf("topic %s has no partition %d", topic, unit)
			}
			at := first.Offset
			if topic == r.Catalogue.Idempotency() {
				store, err := r.Claims.Open(unit, claim.Log{Topic: details[topic].ID, End: last.Offset})
				if err != nil {
					return n, err
				}
				n.found[unit].Arbiter = claim.NewArbiter(r.Window, store)
				at = max(at, store.Position())
			}
			n.read(topic, unit, at, last.Offset)
			if at >= last.Offset {
				if err := n.readTo(topic, unit, last.Offset); err != nil {
					return n, err
				}
			}
		}
	}
	return n, nil
}

// read notes what is to be read of a partition.
func (n *run) read(topic string, unit int32, from, end int64) {
	if from >= end {
		return
	}
	if n.from[topic] == nil {
		n.from[topic], n.end[topic] = map[int32]kgo.Offset{}, map[int32]int64{}
	}
	n.from[topic][unit] = kgo.NewOffset().At(from)
	n.end[topic][unit] = end
	n.left[unit]++
}

// readTo notes that a partition has been read from where its store stood.
func (n *run) readTo(topic string, unit int32, offset int64) error {
	if topic != n.Catalogue.Idempotency() {
		return nil
	}
	return n.found[unit].Arbiter.Covered(0, offset)
}

// take adds records to what is known, and then says so.
func (n *run) take(topic string, unit int32, records []*kgo.Record) error {
	f := n.found[unit]
	f.Records += len(records)
	for _, record := range records {
		switch {
		case topic == n.Catalogue.Breakers():
			n.takeBreaker(f, record)
		case topic == n.Catalogue.Lines():
			n.takeLine(f, record)
		default:
			if c, ok := n.claim(record); ok {
				if err := f.Arbiter.Restore(&c); err != nil {
					return err
				}
			}
		}
	}
	return n.readTo(topic, unit, records[len(records)-1].Offset+1)
}

// quietRestore is after how long without a record it is asked whether there is any left.
const quietRestore = 5 * time.Second

// passOverDeleted ends the reading of partitions whose rest retention has deleted since
// their ends were listed: the record that is waited for will never come.
func (r *Restorer) passOverDeleted(ctx context.Context, end map[string]map[int32]int64, whole func(string, int32)) error {
	starts, err := r.Admin.ListStartOffsets(ctx, slices.Collect(maps.Keys(end))...)
	if err == nil {
		err = starts.Error()
	}
	if err != nil {
		return fmt.Errorf("restore: list start offsets: %w", err)
	}
	starts.Each(func(o kadm.ListedOffset) {
		if e, ok := end[o.Topic][o.Partition]; ok && e >= 0 && o.Offset >= e {
			whole(o.Topic, o.Partition)
		}
	})
	return nil
}

func (r *Restorer) takeBreaker(f *Facts, record *kgo.Record) {
	if holdsNothing(record) {
		return
	}
	t, err := schemas.DecodeBreakerTransition(record.Value)
	if err != nil {
		r.passOver(record, err)
		return
	}
	f.Breakers[t.EndpointID] = &t
}

// takeLine notes where a line stands; a tombstone ends it.
func (r *Restorer) takeLine(f *Facts, record *kgo.Record) {
	if record.Attrs.IsControl() {
		return
	}
	if record.Value == nil {
		delete(f.Lines, string(record.Key))
		return
	}
	l, err := schemas.DecodeLine(record.Value)
	if err != nil {
		r.passOver(record, err)
		return
	}
	f.Lines[l.EndpointID] = &l
}

// claim reads a claim; false when there is none that can be read.
func (r *Restorer) claim(record *kgo.Record) (c schemas.Claim, ok bool) {
	if holdsNothing(record) {
		return c, false
	}
	c, err := schemas.DecodeClaim(record.Value)
	if err != nil {
		r.passOver(record, err)
		return c, false
	}
	return c, true
}

// holdsNothing says that a record is a tombstone or the marker of a transaction.
func holdsNothing(record *kgo.Record) bool { return record.Value == nil || record.Attrs.IsControl() }

func (r *Restorer) passOver(record *kgo.Record, err error) {
	r.Log.Error("restore: a fact cannot be read and is passed over",
		obs.KeyTopic, record.Topic, obs.KeyPartition, record.Partition, obs.KeyOffset, record.Offset, obs.KeyError, err)
}

// warn logs the errors of fetches, which are gone on with.
func (r *Restorer) warn(fetches kgo.Fetches) {
	fetches.EachError(func(topic string, partition int32, err error) {
		if errors.Is(err, context.DeadlineExceeded) {
			return
		}
		r.Log.Warn("restore: fetch failed, it goes on", obs.KeyTopic, topic, obs.KeyPartition, partition, obs.KeyError, err)
	})
}
