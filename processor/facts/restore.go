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
}

// Restorer reads facts back.
type Restorer struct {
	// NewClient makes a client that consumes just these partitions; the caller's
	// connection settings, read uncommitted.
	NewClient func(partitions map[string]map[int32]kgo.Offset) (*kgo.Client, error)
	Admin     *kadm.Client
	Catalogue topics.Catalogue
	Window    time.Duration // of idempotency keys
	Log       *slog.Logger
}

// Restore reads the facts of the given units, from the start of their partitions
// to the end as it is now, and hands each unit's over as soon as it is whole.
// Records that cannot be read are logged and passed over: a lost fact costs a
// duplicate at worst, a stuck unit costs everything in it.
func (r *Restorer) Restore(ctx context.Context, units []int32, ready func(unit int32, f *Facts)) error {
	names := []string{r.Catalogue.Idempotency(), r.Catalogue.Breakers()}
	starts, err := r.Admin.ListStartOffsets(ctx, names...)
	if err == nil {
		err = starts.Error()
	}
	if err != nil {
		return fmt.Errorf("restore: list start offsets: %w", err)
	}
	ends, err := r.Admin.ListEndOffsets(ctx, names...)
	if err == nil {
		err = ends.Error()
	}
	if err != nil {
		return fmt.Errorf("restore: list end offsets: %w", err)
	}

	found := make(map[int32]*Facts, len(units))
	left := make(map[int32]int, len(units)) // partitions that are not read to their end
	read := map[string]map[int32]kgo.Offset{}
	end := map[string]map[int32]int64{}
	for _, unit := range units {
		found[unit] = &Facts{Arbiter: claim.NewArbiter(r.Window), Breakers: map[string]*schemas.BreakerTransition{}}
		for _, topic := range names {
			first, ok := starts.Lookup(topic, unit)
			last, ok2 := ends.Lookup(topic, unit)
			if !ok || !ok2 {
				return fmt.Errorf("restore: topic %s has no partition %d", topic, unit)
			}
			if first.Offset >= last.Offset {
				continue
			}
			if read[topic] == nil {
				read[topic], end[topic] = map[int32]kgo.Offset{}, map[int32]int64{}
			}
			read[topic][unit] = kgo.NewOffset().At(first.Offset)
			end[topic][unit] = last.Offset
			left[unit]++
		}
		if left[unit] == 0 {
			ready(unit, found[unit])
		}
	}
	if len(read) == 0 {
		return nil
	}
	client, err := r.NewClient(read)
	if err != nil {
		return fmt.Errorf("restore: %w", err)
	}
	defer client.Close()
	open := len(left)
	whole := func(topic string, unit int32) {
		end[topic][unit] = -1 // what is written meanwhile is ours to write
		client.PauseFetchPartitions(map[string][]int32{topic: {unit}})
		if left[unit]--; left[unit] == 0 {
			open--
			ready(unit, found[unit])
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
			if err := r.passOverDeleted(ctx, end, whole); err != nil {
				return err
			}
		}
		fetches.EachError(func(topic string, partition int32, err error) {
			if errors.Is(err, context.DeadlineExceeded) {
				return
			}
			r.Log.Warn("restore: fetch failed, it goes on", obs.KeyTopic, topic, obs.KeyPartition, partition, obs.KeyError, err)
		})
		fetches.EachPartition(func(p kgo.FetchTopicPartition) {
			if end[p.Topic][p.Partition] < 0 {
				return // fetched before it was paused; its unit has been handed over
			}
			for _, record := range p.Records {
				r.take(found[p.Partition], record)
			}
			// The last record of a partition is never compacted away, and none of
			// these topics holds transaction markers: end-1 is always seen.
			if n := len(p.Records); n > 0 && p.Records[n-1].Offset >= end[p.Topic][p.Partition]-1 {
				whole(p.Topic, p.Partition)
			}
		})
	}
	return nil
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

// take adds one record to what is known.
func (r *Restorer) take(f *Facts, record *kgo.Record) {
	if record.Value == nil {
		return
	}
	if record.Topic == r.Catalogue.Idempotency() {
		c, err := schemas.DecodeClaim(record.Value)
		if err != nil {
			r.passOver(record, err)
			return
		}
		f.Arbiter.Restore(&c)
		return
	}
	t, err := schemas.DecodeBreakerTransition(record.Value)
	if err != nil {
		r.passOver(record, err)
		return
	}
	f.Breakers[t.EndpointID] = &t
}

func (r *Restorer) passOver(record *kgo.Record, err error) {
	r.Log.Error("restore: a fact cannot be read and is passed over",
		obs.KeyTopic, record.Topic, obs.KeyPartition, record.Partition, obs.KeyOffset, record.Offset, obs.KeyError, err)
}
