package memory

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/barnabas-webhooks/barnabas/internal/testkit/realkafka"
	"github.com/barnabas-webhooks/barnabas/test/process"
	"github.com/barnabas-webhooks/barnabas/topics"
)

const (
	// startPatience bounds the start of everything, a first fetch of Kafka's jars included.
	startPatience = 5 * time.Minute
	// landPatience is how long the last live events may take to arrive.
	landPatience = 30 * time.Second
	trimEvery    = 5 * time.Second
	sayEvery     = 10 * time.Second
)

// run is one run.
type run struct {
	Options
	site      *site
	broker    *realkafka.Broker
	receivers *receivers
	load      *load
	client    *kgo.Client
	admin     *kadm.Client
	worker    *process.Process
	began     time.Time
	started   time.Time       // the process that is measured
	ends      map[int32]int64 // of events, by partition, when all was preloaded
	positions []topics.PartitionLag
	drained   bool // everything that was preloaded has been taken in
	result    Result
}

// Run does all of it. The result is nil when the run could not be done; what was violated is in the result.
func Run(ctx context.Context, o Options) (result *Result, err error) {
	if err := o.Validate(); err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp(o.Dir, "barnabas-memory-")
	if err != nil {
		return nil, fmt.Errorf("memory: %w", err)
	}
	m := &run{Options: o, began: time.Now()}
	defer func() {
		err = errors.Join(err, m.close(), os.RemoveAll(filepath.Join(dir, "kafka")))
		if o.Keep || err != nil || result == nil || !result.Held() {
			m.say("the log and the heap profiles are in %s", dir)
			return
		}
		_ = os.RemoveAll(dir)
	}()
	if err := roomFor(dir, &o); err != nil {
		return nil, err
	}
	if err := m.setUp(ctx, dir); err != nil {
		return nil, err
	}
	if err := m.measure(ctx); err != nil {
		return nil, err
	}
	m.result.Judge(&m.Options)
	return &m.result, nil
}

// errNoRoom is a disk that is too small for the run.
var errNoRoom = errors.New("too little room on the disk")

// roomFor says whether the disk takes the preload, as much again in the tiers, and some that is not deleted yet.
func roomFor(dir string, o *Options) error {
	var fs syscall.Statfs_t
	if err := syscall.Statfs(dir, &fs); err != nil {
		return fmt.Errorf("room in %s: %w", dir, err)
	}
	free, need := int64(fs.Bavail)*int64(fs.Bsize), int64(o.Events)*int64(o.Size)*5/2+4<<30
	if free < need {
		return fmt.Errorf("%w: %d MiB are free in %s, %d are needed", errNoRoom, free/mib, dir, need/mib)
	}
	return nil
}

// setUp starts the broker and the receivers, saves the endpoints, and preloads.
func (m *run) setUp(ctx context.Context, dir string) (err error) {
	starting, cancel := context.WithTimeout(ctx, startPatience)
	defer cancel()
	m.say("starting Apache Kafka")
	if err := os.Mkdir(filepath.Join(dir, "kafka"), 0o700); err != nil {
		return fmt.Errorf("memory: %w", err)
	}
	if m.broker, err = realkafka.StartBroker(starting, realkafka.BrokerConfig{
		Dir: filepath.Join(dir, "kafka"),
		// Small segments, looked through often: what is deleted leaves the disk at once.
		Settings: map[string]string{
			"log.segment.bytes": "33554432", "log.segment.delete.delay.ms": "1000", "log.retention.check.interval.ms": "3000",
		},
	}); err != nil {
		return err
	}
	if m.client, err = kgo.NewClient(kgo.SeedBrokers(m.broker.Addr())); err != nil {
		return fmt.Errorf("memory: %w", err)
	}
	m.admin = kadm.NewClient(m.client)
	if m.site, err = newSite(dir, m.broker.Addr(), &m.Options); err != nil {
		return err
	}
	if m.receivers, err = openReceivers(ctx); err != nil {
		return err
	}
	m.say("saving %d dead endpoints and %d healthy ones", len(m.site.dead), len(m.site.near)+len(m.site.apart))
	api, err := m.site.start(m.Binary, "api", "api", nil) // it creates the topics, too
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, api.Kill()) }()
	if err := api.AwaitReady(starting, m.site.metrics); err != nil {
		return err
	}
	if err := m.site.saveEndpoints(starting, m.receivers); err != nil {
		return err
	}
	if _, err := api.Terminate(); err != nil {
		return err
	}
	return m.preload(ctx)
}

func (m *run) preload(ctx context.Context) (err error) {
	if m.load, err = newLoad(m.site, m.broker.Addr(), &m.Options); err != nil {
		return err
	}
	m.say("preloading %d events of %d bytes", m.Events, m.Size)
	done := make(chan error, 1)
	begun := time.Now()
	go func() { done <- m.load.preload(ctx, m.Events) }()
	tick := time.NewTicker(sayEvery)
	defer tick.Stop()
	for waiting := true; waiting; {
		select {
		case err := <-done:
			if err != nil {
				return err
			}
			waiting = false
		case <-tick.C:
			m.say("preloaded %d", m.load.loaded.Load())
		}
	}
	m.result.Preload = time.Since(begun).Seconds()
	ends, err := m.admin.ListEndOffsets(ctx, m.site.catalogue.Events())
	if err != nil {
		return fmt.Errorf("ends of the preload: %w", err)
	}
	m.ends = map[int32]int64{}
	ends.Each(func(o kadm.ListedOffset) { m.ends[o.Partition] = o.Offset })
	return nil
}

// measure starts the process and watches it.
func (m *run) measure(ctx context.Context) (err error) {
	m.say("starting the process")
	m.started = time.Now()
	if m.worker, err = m.site.start(m.Binary, "serve", "api,processor", m.Set); err != nil {
		return err
	}
	trickling, stop := context.WithCancel(ctx)
	defer stop()
	trickled := make(chan struct{})
	go func() {
		defer close(trickled)
		m.load.trickle(trickling, m.Rate)
	}()
	if err := m.watch(ctx); err != nil {
		return err
	}
	m.say("waiting for the last live events")
	stop()
	<-trickled
	if err := m.load.kafka.Flush(ctx); err != nil {
		return fmt.Errorf("live events: %w", err)
	}
	for until := time.Now().Add(landPatience); time.Now().Before(until) && m.landing(); {
		if !process.Pause(ctx, 100*time.Millisecond) {
			return ctx.Err()
		}
	}
	m.profile(ctx, "heap-end")
	m.worker.Wanted.Store(true)
	stopping := time.Now()
	code, err := m.worker.Terminate()
	m.result.Exit, m.result.Stopping = code, time.Since(stopping).Seconds()
	m.collect()
	return err
}

// landing says whether there are events for healthy endpoints that have not arrived.
func (m *run) landing() bool {
	sent, came := m.load.acknowledged(), m.receivers.delivered()
	return came[among] < sent[among] || came[near] < sent[near] || came[apart] < sent[apart]
}

// watch samples each second until the run is over.
func (m *run) watch(ctx context.Context) error {
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	var last Sample
	var said, trimmed, done time.Time
	highest := 0.0
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-m.worker.Done:
			return fmt.Errorf("the process %w with exit code %d, see %s", process.ErrEnded, m.worker.Code, m.worker.Log)
		case <-tick.C:
		}
		s, err := m.sample(ctx, last)
		if err != nil {
			return err
		}
		last = s
		m.result.Samples = append(m.result.Samples, s)
		if s.RSS > highest+16 { // each new height is looked at once
			highest = s.RSS
			m.profile(ctx, "heap-highest")
		}
		if time.Since(trimmed) > trimEvery {
			trimmed = time.Now()
			m.trim(ctx)
		}
		if m.drained && done.IsZero() {
			done = time.Now()
			m.result.Drained = done.Sub(m.started).Seconds()
			m.say("everything has been taken in; the run goes on for %s", m.After)
		}
		if time.Since(said) > sayEvery {
			said = time.Now()
			came := m.receivers.delivered()
			m.say("lag %d, waiting %d; RSS %.0f MiB (highest %.0f), held %.0f, heap %.0f; %d requests, %d in flight, %d breakers open; landed %d + %d + %d; holds %s",
				s.Lag, s.Waiting, s.RSS, s.Peak, s.Held, s.Heap, s.Attempts, s.InFlight, s.Breakers, came[among], came[near], came[apart], s.holds())
		}
		if !done.IsZero() && time.Since(done) >= m.After {
			return nil
		}
		if time.Since(m.started) > m.Patience {
			m.say("out of patience")
			return nil
		}
	}
}

// say prints one line of progress.
func (m *run) say(format string, args ...any) {
	fmt.Fprintf(m.Progress, "[%4.0f s] %s\n", time.Since(m.began).Seconds(), fmt.Sprintf(format, args...))
}

// close ends everything that still runs.
func (m *run) close() error {
	var errs []error
	if m.worker != nil {
		m.worker.Wanted.Store(true)
		errs = append(errs, m.worker.Kill())
	}
	if m.load != nil {
		m.load.kafka.Close()
	}
	if m.receivers != nil {
		errs = append(errs, m.receivers.close())
	}
	if m.client != nil {
		m.client.Close()
	}
	if m.broker != nil {
		errs = append(errs, m.broker.Close())
	}
	return errors.Join(errs...)
}
