package bench

import (
	"context"
	"errors"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/barnabas-webhooks/barnabas/internal/api"
	"github.com/barnabas-webhooks/barnabas/test/process"
	"github.com/barnabas-webhooks/barnabas/topics"
)

const (
	// isolationUnits is how many partitions the endpoints lie in, each with healthy ones and one that is not.
	isolationUnits   = 10
	healthyPerUnit   = 9
	isolationRate    = 500 // per second, for all; a tenth of it for the endpoints that hang
	isolationWarming = 5 * time.Second
	isolationLasting = 180 * time.Second
	// floodWait is how long the receiver of the endpoint takes that is flooded.
	floodWait = 20 * time.Millisecond
	// grace is how long healthy events may be late before they are called missing.
	grace = 30 * time.Second
)

// isolation is a scenario with endpoints beside the healthy ones that must not disturb them. The healthy ones get the
// same events at the same times in both variants.
type isolation struct {
	flood int // events for one endpoint at once; 0: a tenth of the endpoints hang instead
}

func (i isolation) measure(ctx context.Context, m *run, round int) (Round, error) {
	r := Round{}
	return r, inTurn(round,
		func() (err error) {
			r[Without], err = i.system(ctx, m, false)
			return err
		},
		func() (err error) {
			r[With], err = i.system(ctx, m, true)
			return err
		},
	)
}

// isolated are the endpoints: healthy ones, and beside them one in each partition that is not.
func (i isolation) isolated(m *run) (healthy, others []string, specs []api.EndpointSpec) {
	units := min(isolationUnits, m.Partitions)
	in := map[int32]int{}
	for n := 0; len(healthy)+len(others) < units*(healthyPerUnit+1); n++ {
		id := endpointID(n)
		unit := topics.Partition(id, m.Partitions)
		switch {
		case unit >= int32(units) || in[unit] > healthyPerUnit:
			continue
		case in[unit] == healthyPerUnit && i.flood > 0:
			others = append(others, id)
			specs = append(specs, m.endpoint(id, floodWait, 0))
		case in[unit] == healthyPerUnit:
			others = append(others, id)
			specs = append(specs, api.EndpointSpec{ID: id, URL: m.receiver.hangURL() + id})
		default:
			healthy = append(healthy, id)
			specs = append(specs, m.endpoint(id, 0, 0))
		}
		in[unit]++
	}
	return healthy, others, specs
}

// system measures the healthy endpoints, with or without others beside them.
func (i isolation) system(ctx context.Context, m *run, beside bool) (f Figures, err error) {
	healthy, others, specs := i.isolated(m)
	s, err := m.newSite(ctx, specs...)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, s.close(context.WithoutCancel(ctx))) }()
	processor, err := s.start("processor", "processor")
	if err != nil {
		return nil, err
	}
	if err := s.awaitReady(ctx, processor); err != nil {
		return nil, err
	}
	if err := m.receiver.reset(ctx); err != nil {
		return nil, err
	}
	measured, err := i.send(ctx, s, healthy, others, beside)
	if err != nil {
		return nil, err
	}
	report, err := i.landed(ctx, m, measured)
	if err != nil {
		return nil, err
	}
	f = arrived(report, measured)
	f[HungRequests] = float64(report.Hung)
	f[Peak], err = processor.peak()
	return f, err
}

// send paces the events. Every tenth is for one of the others: not sent where there are to be none, and where one of
// them is flooded, all at once instead.
func (i isolation) send(ctx context.Context, s *site, healthy, others []string, beside bool) (measured int, err error) {
	m := s.run
	p, err := m.newProducer(s.catalogue, 0)
	if err != nil {
		return 0, err
	}
	flooded := false
	var flooding errgroup.Group
	const turn = healthyPerUnit + 1
	pace(ctx, isolationRate, isolationWarming, m.lasting(isolationLasting, 2*time.Second), func(n int, class Class) {
		if n%turn < healthyPerUnit {
			if class == Measured {
				measured++
			}
			p.event(ctx, healthy[(n/turn*healthyPerUnit+n%turn)%len(healthy)], "", m.payloads.Make(class, uint64(n), time.Now()))
			return
		}
		switch {
		case !beside:
		case i.flood == 0:
			p.event(ctx, others[n/turn%len(others)], "", m.payloads.Make(Hung, uint64(n), time.Now()))
		case class == Measured && !flooded:
			flooded = true
			flooding.Go(func() error { return s.flood(ctx, others[0], m.events(i.flood, 100)) })
		}
	})
	return measured, errors.Join(ctx.Err(), p.finish(ctx), flooding.Wait())
}

// flood produces many events for one endpoint, as fast as Kafka takes them.
func (s *site) flood(ctx context.Context, endpoint string, events int) error {
	p, err := s.run.newProducer(s.catalogue, 5*time.Millisecond)
	if err != nil {
		return err
	}
	for n := 0; n < events && ctx.Err() == nil; n++ {
		p.event(ctx, endpoint, "", s.run.payloads.Make(Flooding, uint64(n), time.Now()))
	}
	return p.finish(ctx)
}

// landed waits until the measured events are there, but no longer than they may be late.
func (i isolation) landed(ctx context.Context, m *run, measured int) (*Report, error) {
	for until := time.Now().Add(grace); ; {
		report, err := m.receiver.report(ctx)
		if err != nil || report.Of(Measured).Events >= measured || time.Now().After(until) {
			return report, err
		}
		if !process.Pause(ctx, time.Second/4) {
			return nil, ctx.Err()
		}
	}
}
