package processor

import (
	"context"
	"errors"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/barnabas-webhooks/barnabas/processor/lease"
	"github.com/barnabas-webhooks/barnabas/processor/unit"
)

const (
	// pollFor is how long one poll may wait for records. A rebalance does not wait
	// for it: what wants to rebalance interrupts the poll.
	pollFor = 10 * time.Second
	// pollFull is the same while the memory budget is used up: how soon it is seen
	// that there is room again.
	pollFull = 50 * time.Millisecond
	// roomEvery is how often units are asked to make room while the memory budget is used up.
	roomEvery = 500 * time.Millisecond
	// pollRecords bounds one poll, so that memory is charged in steps.
	pollRecords = 5000
)

// poll fetches records and hands them to their units until ctx ends. Intake
// stands still while the memory budget is used up; the polling does not.
func (p *Processor) poll(ctx context.Context, group *kgo.Client) error {
	consumed := p.opts.Catalogue.Consumed()
	t := newTrouble()
	full, asked := false, time.Time{}
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
			if time.Since(asked) > roomEvery {
				asked = time.Now()
				for _, u := range p.ownership.all() {
					u.MakeRoom()
				}
			}
		}
		p.retry(group, t, time.Now())
		if next := t.next(); !next.IsZero() {
			wait = min(wait, max(time.Until(next), time.Millisecond))
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
			if at := (place{f.Topic, f.Partition}); f.Err == nil && t.fetched(at) {
				p.ownership.still(group, at, fetchFails, false)
			}
			p.handOver(f.Topic, f.Partition, unit.Log{Start: f.LogStartOffset, End: f.HighWatermark}, f.Records)
		})
		fetches.EachError(func(topic string, partition int32, err error) { p.failed(ctx, group, t, place{topic, partition}, err) })
		p.bury(group, t)       //nolint:contextcheck // reading an event waits for nothing
		group.AllowRebalance() // after every poll, the empty and the failed ones too
	}
	return nil
}

// heartbeats tells the lease of the answers to the group client's heartbeats.
type heartbeats struct{ lease *lease.Lease }

var _ kgo.HookBrokerE2E = heartbeats{}

func (h heartbeats) OnBrokerE2E(_ kgo.BrokerMetadata, key int16, e2e kgo.BrokerE2E) {
	if key == int16(kmsg.Heartbeat) && e2e.Err() == nil {
		h.lease.Heard(e2e.DurationE2E())
	}
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
