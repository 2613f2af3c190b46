package app

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/barnabas-webhooks/barnabas/internal/obs"
	"github.com/barnabas-webhooks/barnabas/processor/tracker"
	"github.com/barnabas-webhooks/barnabas/topics"
)

// strandedWithin bounds how long is looked for deliveries in tiers of earlier configurations.
const strandedWithin = 10 * time.Second

// checkStranded refuses a configuration from which a tier is gone in which deliveries still wait: nobody would read
// them, and after a week the broker would delete them. The error is a *topics.VerifyError; any other means that it is
// not known.
func (a *App) checkStranded(ctx context.Context, c topics.Catalogue) error {
	ctx, cancel := context.WithTimeout(ctx, strandedWithin)
	defer cancel()
	unread, err := a.formerTiers(ctx, c)
	if err != nil || len(unread) == 0 {
		return err
	}
	var problems []topics.Problem
	for topic, at := range unread {
		waits, err := a.holdsDeliveries(ctx, topic, at)
		if err != nil {
			return fmt.Errorf("look for deliveries in %s: %w", topic, err)
		}
		if waits {
			tier, _ := c.TierOf(topic)
			problems = append(problems, topics.Problem{
				Topic: topic, Setting: "retry.tiers", Value: "without " + tier, Needed: "with it while deliveries wait there",
				Why:    "nobody would read them",
				Remedy: fmt.Sprintf("put %s back into retry.tiers until 'barnabas lag' shows that nothing waits there, or delete the topic to give them up", tier),
			})
		}
	}
	if len(problems) == 0 {
		return nil
	}
	return &topics.VerifyError{Problems: problems}
}

// leftover is what of one partition the group has not settled.
type leftover struct {
	from, to int64
	metadata string // with the offsets above from that are settled
}

// formerTiers lists the tiers in the cluster that are not of the catalogue, and what is not settled of each.
func (a *App) formerTiers(ctx context.Context, c topics.Catalogue) (map[string]map[int32]leftover, error) {
	all, err := a.admin().ListTopics(ctx)
	if err != nil {
		return nil, fmt.Errorf("list topics: %w", err)
	}
	former := slices.DeleteFunc(all.Names(), func(name string) bool {
		_, tier := c.TierOf(name)
		return !tier || slices.Contains(c.Consumed(), name)
	})
	if len(former) == 0 {
		return nil, nil
	}
	committed, err := topics.Committed(ctx, a.admin(), a.cfg.Processor.Group)
	if err != nil {
		return nil, err
	}
	starts, err := a.admin().ListStartOffsets(ctx, former...)
	if err != nil {
		return nil, fmt.Errorf("list start offsets: %w", err)
	}
	ends, err := a.admin().ListCommittedOffsets(ctx, former...)
	if err != nil {
		return nil, fmt.Errorf("list end offsets: %w", err)
	}
	unread := map[string]map[int32]leftover{}
	var failed error
	ends.Each(func(end kadm.ListedOffset) {
		start, _ := starts.Lookup(end.Topic, end.Partition)
		if failed = errors.Join(failed, end.Err, start.Err); failed != nil {
			return
		}
		l := leftover{from: start.Offset, to: end.Offset}
		if at, ok := committed.Lookup(end.Topic, end.Partition); ok && at.At >= l.from {
			l.from, l.metadata = at.At, at.Metadata
		}
		if l.from >= l.to {
			return
		}
		if unread[end.Topic] == nil {
			unread[end.Topic] = map[int32]leftover{}
		}
		unread[end.Topic][end.Partition] = l
	})
	return unread, failed
}

// holdsDeliveries reads a topic's leftovers until a record comes that is not settled: they may be markers of transactions only.
func (a *App) holdsDeliveries(ctx context.Context, topic string, at map[int32]leftover) (bool, error) {
	from, trackers := map[int32]kgo.Offset{}, map[int32]*tracker.Tracker{}
	for p, l := range at {
		from[p], trackers[p] = kgo.NewOffset().At(l.from), tracker.New(l.from, l.metadata)
	}
	client, err := a.newClient(kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{topic: from}),
		kgo.FetchIsolationLevel(kgo.ReadCommitted()), kgo.KeepControlRecords(), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))
	if err != nil {
		return false, err
	}
	defer client.Close()
	for len(at) > 0 {
		fetches := client.PollRecords(ctx, 1000)
		if ctx.Err() != nil { // what is left may be markers that the embedded broker does not show: no reason not to start
			a.log.Warn("a former tier could not be read to its end: see whether deliveries wait there", obs.KeyTopic, topic)
			return false, nil
		}
		if err := fetches.Err(); err != nil {
			return false, err
		}
		for r := range fetches.RecordsAll() {
			if !r.Attrs.IsControl() && r.Offset < at[r.Partition].to && trackers[r.Partition].Open(r.Offset) {
				return true, nil
			}
			if r.Offset >= at[r.Partition].to-1 {
				delete(at, r.Partition)
			}
		}
	}
	return false, nil
}
