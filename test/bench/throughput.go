package bench

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"time"

	"github.com/barnabas-webhooks/barnabas/test/process"
)

// throughput is a scenario with events that wait already: how many are delivered per second, from the first arrival to
// the last.
type throughput struct {
	endpoints int
	wait      time.Duration // of the receiver
	events    int           // for the full scale
	parallel  int           // requests at a time for one endpoint; 0: ordered, one
	keys      bool          // each event has an idempotency key
}

func (t throughput) name() string {
	order, keys := "ordered", ""
	if t.parallel > 0 {
		order = "parallel"
	}
	if t.keys {
		keys = "-keys"
	}
	return fmt.Sprintf("%s-%d-%s%s", order, t.endpoints, shortDuration(t.wait), keys)
}

func shortDuration(d time.Duration) string { return fmt.Sprintf("%dms", d.Milliseconds()) }

func (t throughput) what() string {
	order, keys := "ordered", ""
	if t.parallel > 0 {
		order = fmt.Sprintf("parallel (`max_in_flight` %d)", t.parallel)
	}
	if t.keys {
		keys = ", with idempotency keys"
	}
	return fmt.Sprintf("%d endpoints, %s, receiver %d ms%s", t.endpoints, order, t.wait.Milliseconds(), keys)
}

// crews are how many workers the bare loop is tried with; the one with the best median counts. One for each request that the system may
// have in flight too, and where the receiver does not wait, as many as keep two cores busy without queueing for them.
func (t throughput) crews() []int {
	crews := []int{t.endpoints}
	if t.parallel > 0 {
		crews = append(crews, t.endpoints*t.parallel)
	}
	if t.wait == 0 && t.endpoints > fewWorkers {
		crews = append(crews, fewWorkers)
	}
	return crews
}

const fewWorkers = 32

func (t throughput) measure(ctx context.Context, m *run, round int) (Round, error) {
	r := Round{}
	var variants []func() error
	for _, workers := range t.crews() {
		variants = append(variants, func() error {
			f, err := t.bare(ctx, m, workers)
			r[fmt.Sprintf("%s, %d workers", BareLoop, workers)] = f
			return err
		})
	}
	variants = append(variants, func() error {
		f, err := t.system(ctx, m, nil)
		r[System] = f
		return err
	})
	return r, inTurn(round, variants...)
}

// bare lets the bare loop send everything.
func (t throughput) bare(ctx context.Context, m *run, workers int) (Figures, error) {
	events := m.events(t.events, t.endpoints)
	if err := m.receiver.reset(ctx); err != nil {
		return nil, err
	}
	b := Bare{URL: m.receiver.url(t.wait) + "ep-", Endpoints: t.endpoints, Workers: workers, Events: events, Size: m.Size}
	loop, err := process.Start("bare", m.Self, filepath.Join(m.dir, "bare.log"), append([]string{"bare"}, b.args()...)...)
	if err != nil {
		return nil, err
	}
	defer loop.Kill() //nolint:errcheck // it has done what it was for
	w := watch{at: m.receiver, want: events, by: loop, pids: map[Figure]int{BareCPU: loop.PID}}
	f, err := w.run(ctx)
	if err != nil {
		return nil, err
	}
	return t.collect(ctx, m, f, Figures{Workers: float64(workers)})
}

// system lets the processor deliver everything. during is called at the first arrival, beside the measuring, or is nil.
func (t throughput) system(ctx context.Context, m *run, during func(*node) error) (f Figures, err error) {
	events := m.events(t.events, t.endpoints)
	s, err := m.newSite(ctx, m.endpoints(t.endpoints, t.wait, t.parallel)...)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, s.close(context.WithoutCancel(ctx))) }()
	if err := s.preload(ctx, events, t.endpoints, t.keys); err != nil {
		return nil, err
	}
	if err := m.receiver.reset(ctx); err != nil {
		return nil, err
	}
	n, err := s.start("processor", "processor")
	if err != nil {
		return nil, err
	}
	beside := make(chan error, 1)
	w := watch{
		at: m.receiver, want: events, by: n.Process, settled: n.settled(events),
		pids: map[Figure]int{ProcessorCPU: n.PID, BrokerCPU: m.broker.PID()},
		begun: func() {
			if during == nil {
				beside <- nil
				return
			}
			go func() { beside <- during(n) }()
		},
	}
	if f, err = w.run(ctx); err != nil {
		return nil, err
	}
	if err := <-beside; err != nil {
		return nil, err
	}
	peak, err := n.peak()
	if err != nil {
		return nil, err
	}
	values, err := process.Scrape(ctx, n.metrics)
	if err != nil {
		return nil, err
	}
	return t.collect(ctx, m, f, Figures{Peak: peak, Held: values["barnabas_holds_total"]})
}

// collect adds to figures what the receiver knows. How old an event was says nothing here: all of them waited.
func (t throughput) collect(ctx context.Context, m *run, figures ...Figures) (Figures, error) {
	report, err := m.receiver.report(ctx)
	if err != nil {
		return nil, err
	}
	f := arrived(report, m.events(t.events, t.endpoints))
	for _, of := range []Figure{P50, P99, Max} {
		delete(f, of)
	}
	for _, more := range figures {
		maps.Copy(f, more)
	}
	return f, nil
}
