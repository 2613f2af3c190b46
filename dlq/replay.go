package dlq

import (
	"context"
	"errors"
	"fmt"
	"math"

	"github.com/google/uuid"

	"github.com/barnabas-webhooks/barnabas/processor/endpoint"
)

const (
	// DefaultRate is the replay rate to offer, in deliveries per second.
	DefaultRate = 50
	maxOperator = 128
)

// Endpoints tells the current configuration of endpoints; *endpoint.Table does.
// It must have caught up before a replay is begun.
type Endpoints interface {
	Get(id string) (*endpoint.Endpoint, bool)
	Deleted(id string) bool
}

var _ Endpoints = (*endpoint.Table)(nil)

// ReplayOptions of [Queue.Replay].
type ReplayOptions struct {
	Filter Filter
	// DryRun counts, per endpoint, what would be replayed, and writes nothing.
	DryRun bool
	// Rate is how many deliveries per second are handed to the processor, over 0;
	// see DefaultRate. The endpoints' own limits and breakers hold beside it.
	Rate      float64
	Endpoints Endpoints
	// Run names this replay in the marks; empty: a UUID is made.
	Run string
	// Operator says who replays, for the marks; at most 128 bytes are kept.
	Operator string
	// TransactionalID is what replays fence each other by; empty: <prefix>dlq-replay.
	TransactionalID string
	// Progress, when set, is told how far the replay is: see [Reporter].
	Progress func(Progress)
	// OnRefusal, when set, is told of each letter that is refused.
	OnRefusal func(Refusal)
}

// Validate refuses options out of their range. The errors are ErrNoScope and *OptionError.
func (o ReplayOptions) Validate() error {
	if !o.Filter.Scoped() {
		return ErrNoScope
	}
	if err := o.Filter.Validate(); err != nil {
		return err
	}
	if o.Filter.IncludeReplayed {
		return &OptionError{"include-replayed", "a replayed letter is alive; it is not replayed twice"}
	}
	if !(o.Rate > 0) || math.IsInf(o.Rate, 0) {
		return &OptionError{"rate", "must be over 0 deliveries per second"}
	}
	if o.Endpoints == nil {
		return &OptionError{"endpoints", "is missing"}
	}
	return nil
}

// Replay feeds the dead letters of an explicit scope to the replay topic; see
// the package documentation for why each is replayed exactly once, whatever
// crashes and whoever else replays.
//
// It reads twice: first to count (for the dry run, the total of the progress,
// and ErrNoMatch before anything is touched), then to replay, up to the same
// end. The order per endpoint is the one in which the events were accepted,
// restored within 64 MiB of letters read ahead per partition; past that,
// windows follow one another in the order of death.
//
// The result is never nil but for bad options, and tells what was done also
// beside an error. Cancelling ctx stops between batches, or aborts the one
// under way.
func (q *Queue) Replay(ctx context.Context, o ReplayOptions) (*Result, error) {
	if err := o.Validate(); err != nil {
		return nil, err
	}
	if o.Run == "" {
		id, err := uuid.NewV7()
		if err != nil {
			return nil, fmt.Errorf("make run id: %w", err)
		}
		o.Run = id.String()
	}
	if o.Progress == nil {
		o.Progress = func(Progress) {}
	}
	if o.OnRefusal == nil {
		o.OnRefusal = func(Refusal) {}
	}
	o.Operator = cut(o.Operator, maxOperator)

	g, err := openLog(q.kafka)
	if err != nil {
		return nil, err
	}
	defer g.close()
	x, err := q.extent(ctx, g, o.Filter)
	if err != nil {
		return newResult(o.Run, o.DryRun), err
	}
	plan, err := q.plan(ctx, g, x, o)
	switch {
	case err != nil:
		plan.Interrupted = true
		return plan, err
	case plan.Matched == 0:
		return plan, ErrNoMatch
	case o.DryRun:
		return plan, nil
	case plan.Replayed == 0 && plan.Refused == 0:
		plan.DryRun = false // all were replayed before: nobody need be fenced for that
		return plan, nil
	}
	res := newResult(o.Run, false)
	r := &replayer{q: q, log: g, x: x, o: o, res: res, total: int64(plan.Replayed)}
	if err := r.run(ctx); err != nil {
		res.Interrupted = true
		return res, err
	}
	return res, nil
}

// plan counts what a replay of the extent would do.
func (q *Queue) plan(ctx context.Context, g *log, x extent, o ReplayOptions) (*Result, error) {
	res := newResult(o.Run, true)
	err := q.scan(ctx, g, x, o.Filter, func(s Scanned) {
		o.Progress(Progress{Phase: PhaseCount, Done: s.Done, Total: s.Span})
	}, func(l *Letter) error {
		if o.Filter.Limit > 0 && res.Replayed == o.Filter.Limit {
			return errStop
		}
		ok, refused := res.judge(l, o.Endpoints)
		switch {
		case ok:
			res.replayed(l)
		case refused != nil && o.DryRun:
			o.OnRefusal(*refused)
		}
		return nil
	})
	if errors.Is(err, errStop) {
		err = nil
	}
	return res, err
}

// judge counts a letter and says whether it is to be replayed. If it is not, it
// is either refused or was replayed before.
func (r *Result) judge(l *Letter, endpoints Endpoints) (ok bool, refused *Refusal) {
	r.count(l.Delivery.EndpointID, func(c *Counts) { c.Matched++ })
	if l.Replayed != nil {
		r.count(l.Delivery.EndpointID, func(c *Counts) { c.AlreadyReplayed++ })
		return false, nil
	}
	if reason := refusal(l, endpoints); reason != "" {
		f := r.refuse(l, reason)
		return false, &f
	}
	return true, nil
}
