package bench

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/barnabas-webhooks/barnabas/internal/api"
	"github.com/barnabas-webhooks/barnabas/test/process"
)

const (
	sendingEndpoints = 100
	sendingWarming   = 15 * time.Second // until the broker's compiler has nothing left to do for requests of this kind
	sendingLasting   = 10 * time.Second
	// sameKeys is how many keys are sent, each so many times at once.
	sameKeys = 200
	atOnce   = 20
)

// measureSending is one round of the API's scenario: callers that send the next event as soon as the last one is
// answered, and then keys that are sent many times at once.
func measureSending(ctx context.Context, m *run, _ int) (r Round, err error) {
	s, err := m.newSite(ctx, m.endpoints(sendingEndpoints, 0, 0)...)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, s.close(context.WithoutCancel(ctx))) }()
	processor, err := s.start("processor", "processor")
	if err != nil {
		return nil, err
	}
	var fronts []*node
	for i := range m.Nodes {
		front, err := s.start("api", fmt.Sprintf("api-%d", i+1))
		if err != nil {
			return nil, err
		}
		fronts = append(fronts, front)
	}
	if err := s.awaitReady(ctx, append(fronts, processor)...); err != nil {
		return nil, err
	}
	if err := m.receiver.reset(ctx); err != nil {
		return nil, err
	}
	r = Round{}
	if r[System], err = s.saturate(ctx, processor, fronts); err != nil {
		return nil, err
	}
	r[Repeated], err = s.repeat(ctx, processor, fronts)
	return r, err
}

// saturate sends as fast as the API answers.
func (s *site) saturate(ctx context.Context, processor *node, fronts []*node) (Figures, error) {
	m := s.run
	c := s.newCallers(m.Connections, fronts...)
	defer c.http.CloseIdleConnections()
	lasting := m.lasting(sendingLasting, time.Second)
	counts := time.Now().Add(sendingWarming)
	ends := counts.Add(lasting)
	var number, owed atomic.Int64
	var counted answers
	var sending errgroup.Group
	for range m.Connections {
		sending.Go(func() error {
			for time.Now().Before(ends) && ctx.Err() == nil {
				n := number.Add(1)
				began := time.Now()
				a, err := c.send(ctx, call{
					endpoint: endpointID(int(n % sendingEndpoints)), key: "key-" + strconv.FormatInt(n, 10),
					payload: m.payloads.Make(Measured, uint64(n), began),
				})
				if err != nil {
					return err
				}
				if a.status/100 == 2 {
					owed.Add(1)
				}
				if began.After(counts) && time.Now().Before(ends) {
					counted.note(a)
				}
			}
			return nil
		})
	}
	cpu, err := s.frontsCPU(ctx, fronts, time.Until(counts), lasting)
	if err := errors.Join(sending.Wait(), err, ctx.Err()); err != nil {
		return nil, err
	}
	w := watch{at: m.receiver, want: int(owed.Load()), by: processor.Process}
	if _, err := w.until(ctx, w.want); err != nil {
		return nil, err
	}
	report, err := m.receiver.report(ctx)
	if err != nil {
		return nil, err
	}
	f := counted.figures()
	accepted := float64(counted.by[api.StatusAccepted])
	f[Accepted] = accepted / lasting.Seconds()
	f[Missing], f[Repeats] = float64(w.want-report.Of(Measured).Events), float64(report.Of(Measured).Repeats)
	f[Workers] = float64(m.Connections)
	if accepted > 0 {
		f[APICPU] = cpu.Seconds() / accepted * 1000
	}
	for _, n := range fronts {
		peak, err := n.peak()
		if err != nil {
			return nil, err
		}
		f[APIPeak] = max(f[APIPeak], peak)
	}
	f[Peak], err = processor.peak()
	return f, err
}

// frontsCPU waits and then says what the API processes needed together meanwhile.
func (s *site) frontsCPU(ctx context.Context, fronts []*node, wait, lasting time.Duration) (time.Duration, error) {
	sum := func() (all time.Duration, err error) {
		for _, n := range fronts {
			u, err := process.ReadUsage(n.PID)
			if err != nil {
				return 0, err
			}
			all += u.CPU
		}
		return all, nil
	}
	process.Pause(ctx, wait)
	before, err := sum()
	if err != nil {
		return 0, err
	}
	process.Pause(ctx, lasting)
	after, err := sum()
	return after - before, err
}

// repeat sends each key many times at once: how long those are kept waiting that are not the first.
func (s *site) repeat(ctx context.Context, processor *node, fronts []*node) (Figures, error) {
	m := s.run
	if err := m.receiver.reset(ctx); err != nil {
		return nil, err
	}
	c := s.newCallers(atOnce, fronts...)
	defer c.http.CloseIdleConnections()
	var repeats answers
	keys := m.events(sameKeys, 10)
	for n := range keys {
		payload := m.payloads.Make(SameKey, uint64(n), time.Now())
		var sending errgroup.Group
		for range atOnce {
			sending.Go(func() error {
				a, err := c.send(ctx, call{endpoint: endpointID(n % sendingEndpoints), key: "same-" + strconv.Itoa(n), payload: payload})
				if err != nil {
					return err
				}
				if a.said != api.StatusAccepted { // that one is the first
					repeats.note(a)
				}
				return nil
			})
		}
		if err := sending.Wait(); err != nil {
			return nil, err
		}
	}
	w := watch{at: m.receiver, want: keys, by: processor.Process}
	if _, err := w.until(ctx, keys); err != nil {
		return nil, err
	}
	if err := processor.idle(ctx); err != nil { // a second delivery would have come by then
		return nil, err
	}
	report, err := m.receiver.report(ctx)
	if err != nil {
		return nil, err
	}
	f := repeats.figures()
	of := report.Of(SameKey)
	f[Missing], f[Extra] = float64(keys-of.Events), float64(of.Repeats)
	return f, nil
}

// idle waits until a processor holds nothing and has nothing in flight.
func (n *node) idle(ctx context.Context) error {
	return n.settled(0)(ctx)
}
