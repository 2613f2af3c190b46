package processor

import (
	"context"
	"errors"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/barnabas-webhooks/barnabas/internal/obs"
	"github.com/barnabas-webhooks/barnabas/processor/unit"
)

const (
	// pollFor is how long one poll may wait for records. A rebalance does not wait
	// for it: what wants to rebalance interrupts the poll.
	pollFor = 10 * time.Second
	// pollFull is the same while the memory budget is used up: how soon it is seen
	// that there is room again.
	pollFull = 50 * time.Millisecond
	// pollRecords bounds one poll, so that memory is charged in steps.
	pollRecords = 5000
	// quietErrors is how long a fetch error that goes on is not logged again.
	quietErrors = 30 * time.Second
)

// poll fetches records and hands them to their units until ctx ends. Intake
// stands still while the memory budget is used up; the polling does not.
func (p *Processor) poll(ctx context.Context, group *kgo.Client) error {
	consumed := p.opts.Catalogue.Consumed()
	logged := map[string]time.Time{}
	full := false
	for ctx.Err() == nil {
		wait := pollFor
		switch now := p.memory.Full(); {
		case now && !full:
			group.PauseFetchTopics(consumed...)
			full = true
		case !now && full:
			group.ResumeFetchTopics(consumed...)
			full = false
		}
		if full {
			wait = pollFull
		}
		short, cancel := context.WithTimeout(ctx, wait)
		p.interrupt.Store(&cancel)
		if p.ownership.expelled.Swap(false) { // asked for once it can be interrupted: no expulsion is missed
			cancel()
			return errExpelled
		}
		fetches := group.PollRecords(short, pollRecords)
		cancel()
		if fetches.IsClientClosed() {
			return errors.New("processor: the group's client was closed")
		}
		fetches.EachPartition(func(f kgo.FetchTopicPartition) { //nolint:contextcheck // reading an event waits for nothing
			p.handOver(f.Topic, f.Partition, unit.Log{Start: f.LogStartOffset, End: f.HighWatermark}, f.Records)
		})
		group.AllowRebalance() // after every poll, the empty and the failed ones too
		fetches.EachError(func(topic string, partition int32, err error) {
			if errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled) {
				return
			}
			if key := topic + err.Error(); time.Since(logged[key]) > quietErrors {
				logged[key] = time.Now()
				p.opts.Log.Warn("fetch failed, it goes on", obs.KeyTopic, topic, obs.KeyPartition, partition, obs.KeyError, err)
			}
		})
	}
	return nil
}

// errExpelled ends the polling of a member that must join the group anew.
var errExpelled = errors.New("processor: the group had given this member up")

// rebalanceBlocked is called when a rebalance waits for the poll under way.
func (p *Processor) rebalanceBlocked(context.Context, *kgo.Client) { p.wake() }

// wake ends the poll under way.
func (p *Processor) wake() {
	if cancel := p.interrupt.Load(); cancel != nil {
		(*cancel)()
	}
}

// handOver charges records to the memory budget and gives them to their unit.
func (p *Processor) handOver(topic string, partition int32, log unit.Log, records []*kgo.Record) {
	if len(records) == 0 {
		return
	}
	u := p.ownership.unit(partition)
	if u == nil {
		return // lost a moment ago; its next owner reads them again
	}
	var cost int64
	for _, r := range records {
		cost += unit.Cost(r)
	}
	p.memory.Charge(cost)
	u.Take(topic, log, records)
}
