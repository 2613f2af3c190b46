package processor

import (
	"context"
	"errors"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/barnabas-webhooks/barnabas/internal/obs"
	"github.com/barnabas-webhooks/barnabas/processor/unit"
)

const (
	// troubleMin and troubleMax bound the wait after a fetch that failed. The client itself asks again at once
	// after an error that it takes for the caller's, and would do so as fast as the network allows (C-236).
	troubleMin = 500 * time.Millisecond
	troubleMax = 15 * time.Second
	// damagedAfter is how often a batch must have been unreadable to be given up: it may have been damaged on its way.
	damagedAfter = 4
)

// trouble is the partitions whose fetches fail. It belongs to the poller.
type trouble struct {
	at    map[place]*failing
	found chan finding // by those that look into what cannot be read
}

// failing is one of them.
type failing struct {
	tries  int
	until  time.Time // it stands still; zero: it is being fetched
	looked bool      // somebody looks into it
}

func newTrouble() *trouble {
	return &trouble{at: map[place]*failing{}, found: make(chan finding, 64)}
}

// next is when the poll must end to fetch a partition again; zero: no need.
func (t *trouble) next() (at time.Time) {
	for _, f := range t.at {
		if !f.until.IsZero() && (at.IsZero() || f.until.Before(at)) {
			at = f.until
		}
	}
	return at
}

// retry lets partitions be fetched again whose wait is over.
func (p *Processor) retry(group *kgo.Client, t *trouble, now time.Time) {
	for at, f := range t.at {
		switch {
		case p.ownership.unit(at.partition) == nil:
			delete(t.at, at) // not ours any more, and its pause is gone with it
		case !f.until.IsZero() && !f.until.After(now):
			f.until = time.Time{}
			p.ownership.still(group, at, fetchFails, false)
		}
	}
}

// failed lets a partition stand still for a while whose fetch failed, and has what cannot be read looked into.
func (p *Processor) failed(ctx context.Context, group *kgo.Client, t *trouble, at place, err error) {
	if errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled) {
		return
	}
	p.ownership.shared.Quiet.Warn("fetch failed, it goes on", obs.KeyTopic, at.topic, obs.KeyPartition, at.partition, obs.KeyError, err)
	u := p.ownership.unit(at.partition)
	var loss *kgo.ErrDataLoss
	if u == nil || at.topic == "" || errors.As(err, &loss) { // the last says only that the client goes on elsewhere
		return
	}
	f := t.at[at]
	if f == nil {
		f = &failing{}
		t.at[at] = f
	}
	f.tries++
	f.until = time.Now().Add(min(troubleMax, troubleMin<<min(f.tries-1, 10)))
	p.ownership.still(group, at, fetchFails, true)

	var large *kgo.ErrDecompressTooLarge // not fetched again, so not to be waited for
	if isLarge := errors.As(err, &large); !f.looked && (isLarge || f.tries >= damagedAfter && !answered(err)) {
		f.looked = true
		go p.look(ctx, t.found, u, at, large)
	}
}

// answered says whether the broker itself answered with an error: then nothing was damaged.
func answered(err error) bool {
	var answer *kerr.Error
	return errors.As(err, &answer)
}

// fetched ends the trouble of a partition that was fetched, and says whether it stands still for it.
func (t *trouble) fetched(at place) (still bool) {
	f := t.at[at]
	delete(t.at, at)
	return f != nil && !f.until.IsZero()
}

// bury takes what was found damaged to its unit, and the client past it.
func (p *Processor) bury(group *kgo.Client, t *trouble) {
	for {
		select {
		case found := <-t.found:
			f := t.at[found.at]
			if f == nil || p.ownership.unit(found.at.partition) != found.unit {
				continue // its next owner finds it too
			}
			f.looked = false
			if found.record == nil {
				continue // not damaged, or not now: it is asked again
			}
			cost := unit.Cost(found.record)
			p.memory.Charge(cost)
			found.unit.TakeDamaged(found.at.topic, found.record, found.last, found.err)
			group.SetOffsets(map[string]map[int32]kgo.EpochOffset{found.at.topic: {found.at.partition: {Epoch: -1, Offset: found.last + 1}}})
			p.ownership.still(group, found.at, fetchFails, false)
			delete(t.at, found.at)
		default:
			return
		}
	}
}
