package bench

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/barnabas-webhooks/barnabas/internal/testkit/realkafka"
)

// brokerPatience bounds the broker's start, a first fetch of Kafka's jars included.
const brokerPatience = 5 * time.Minute

// run is one run.
type run struct {
	Options
	dir      string
	taken    map[int]bool // ports
	broker   *realkafka.Broker
	client   *kgo.Client
	admin    *kadm.Client
	receiver *child
	payloads *Payloads
	sites    int // so far
	began    time.Time
}

// Run measures. The result holds what was measured until an error; whether targets were missed is in it.
func Run(ctx context.Context, o Options) (result *Result, err error) {
	if err := o.Validate(); err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp(o.Dir, "barnabas-bench-")
	if err != nil {
		return nil, fmt.Errorf("bench: %w", err)
	}
	m := &run{Options: o, dir: dir, taken: map[int]bool{}, payloads: NewPayloads(o.Size), began: time.Now()}
	defer func() {
		err = errors.Join(err, m.close(), os.RemoveAll(filepath.Join(dir, "kafka")))
		if o.Keep || err != nil {
			m.say("the logs are in %s", dir)
			return
		}
		_ = os.RemoveAll(dir)
	}()
	conditions, err := readConditions(ctx, &o) // before there is load of our own
	if err != nil {
		return nil, err
	}
	m.say("%s", conditions)
	if err := m.setUp(ctx); err != nil {
		return nil, err
	}
	result = &Result{Conditions: conditions}
	defer result.Finish()
	for _, s := range o.chosen() {
		measured := Scenario{Name: s.name, What: s.what, Kind: s.kind}
		for round := range o.Rounds {
			m.say("%s, round %d of %d: %s", s.name, round+1, o.Rounds, s.what)
			r, err := s.measure(ctx, m, round)
			if err != nil {
				return result, fmt.Errorf("%s, round %d: %w", s.name, round+1, err)
			}
			for _, variant := range sortedKeys(r) {
				m.say("  %s: %s", variant, r[variant])
			}
			measured.Rounds = append(measured.Rounds, r)
		}
		result.Scenarios = append(result.Scenarios, measured)
	}
	if o.Profile != "" {
		return result, m.profile(ctx)
	}
	return result, nil
}

// setUp starts the broker and the receiver, and lets both get warm: a broker is a Java program.
func (m *run) setUp(ctx context.Context) (err error) {
	starting, cancel := context.WithTimeout(ctx, brokerPatience)
	defer cancel()
	m.say("starting Apache Kafka")
	data := filepath.Join(m.dir, "kafka")
	if err := os.Mkdir(data, 0o700); err != nil {
		return fmt.Errorf("bench: %w", err)
	}
	if m.broker, err = realkafka.StartBroker(starting, realkafka.BrokerConfig{
		Dir: data, Heap: m.Heap,
		// What a measurement leaves behind is to be gone before the next.
		Settings: map[string]string{"log.segment.delete.delay.ms": "1000"},
	}); err != nil {
		return err
	}
	if m.client, err = kgo.NewClient(kgo.SeedBrokers(m.broker.Addr())); err != nil {
		return fmt.Errorf("bench: %w", err)
	}
	m.admin = kadm.NewClient(m.client)
	if m.receiver, err = m.startChild(starting, "receiver"); err != nil {
		return err
	}
	m.say("warming up")
	warming := throughput{endpoints: 100, events: 30_000}
	if _, err := warming.measure(ctx, m, 0); err != nil {
		return fmt.Errorf("warm-up: %w", err)
	}
	return nil
}

// close ends everything that still runs.
func (m *run) close() error {
	var errs []error
	if m.receiver != nil {
		m.receiver.Wanted.Store(true)
		errs = append(errs, m.receiver.Kill())
	}
	if m.client != nil {
		m.client.Close()
	}
	if m.broker != nil {
		errs = append(errs, m.broker.Close())
	}
	return errors.Join(errs...)
}

// inTurn measures variants one after the other, in their order in even rounds and backwards in odd ones: what comes
// first is not always the same.
func inTurn(round int, variants ...func() error) error {
	for i := range variants {
		at := i
		if round%2 == 1 {
			at = len(variants) - 1 - i
		}
		if err := variants[at](); err != nil {
			return err
		}
	}
	return nil
}

// say prints one line of progress.
func (m *run) say(format string, args ...any) {
	fmt.Fprintf(m.Progress, "[%5.0f s] %s\n", time.Since(m.began).Seconds(), fmt.Sprintf(format, args...))
}

// String lists figures.
func (f Figures) String() string {
	text := ""
	for _, name := range sortedKeys(f) {
		text += fmt.Sprintf("%s %s  ", name, short(f[name]))
	}
	return text
}

// sortedKeys are a map's keys in order.
func sortedKeys[K ~string, V any](all map[K]V) []K {
	return slices.Sorted(maps.Keys(all))
}
