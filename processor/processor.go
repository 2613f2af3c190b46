package processor

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/barnabas-webhooks/barnabas/internal/obs"
	"github.com/barnabas-webhooks/barnabas/processor/balance"
	"github.com/barnabas-webhooks/barnabas/processor/breaker"
	"github.com/barnabas-webhooks/barnabas/processor/caps"
	"github.com/barnabas-webhooks/barnabas/processor/claim"
	"github.com/barnabas-webhooks/barnabas/processor/endpoint"
	"github.com/barnabas-webhooks/barnabas/processor/facts"
	"github.com/barnabas-webhooks/barnabas/processor/metrics"
	"github.com/barnabas-webhooks/barnabas/processor/settle"
	"github.com/barnabas-webhooks/barnabas/processor/unit"
	"github.com/barnabas-webhooks/barnabas/retry"
	"github.com/barnabas-webhooks/barnabas/topics"
)

// Options of a processor.
type Options struct {
	Config
	Kafka     []kgo.Opt // how to reach the cluster; every client of the processor starts from these
	Catalogue topics.Catalogue
	Policy    retry.Policy
	Breaker   breaker.Config
	Unit      unit.Config
	Settle    settle.Config
	Sender    unit.Sender
	Endpoints unit.Endpoints
	// Claims keeps what arbiters remember; nil: in memory.
	Claims Claims
	// Disable switches an endpoint off that answered 410. It must not block.
	Disable  func(seen *endpoint.Endpoint, reason string)
	Log      *slog.Logger
	Registry prometheus.Registerer
}

// Processor is one process's share of the delivering.
type Processor struct {
	opts      Options
	memory    *caps.Memory
	workers   *caps.Workers
	metrics   *metrics.Metrics
	ownership *ownership
	interrupt atomic.Pointer[context.CancelFunc] // of the poll under way
	journal   atomic.Pointer[facts.Journal]      // nil until Run has made it
}

// New checks the options and makes a processor; Run starts it.
func New(o Options) (*Processor, error) {
	if err := errors.Join(o.Validate(), o.Policy.Validate(), o.Breaker.Validate(), o.Unit.Validate(), o.Settle.Validate()); err != nil {
		return nil, fmt.Errorf("processor: %w", err)
	}
	if o.Claims == nil {
		o.Claims = new(claim.Memory)
	}
	memory, inFlight := caps.NewMemory(o.MaxMemory), caps.NewInFlight(o.MaxInFlight)
	p := &Processor{opts: o, memory: memory, workers: caps.NewWorkers()}
	m := metrics.New(o.Registry, metrics.Gauges{
		InFlight:    func() float64 { return float64(inFlight.Used()) },
		MemoryBytes: func() float64 { return float64(memory.Used()) },
		Claims:      o.Claims.Stats,
		Facts: func() (int, time.Duration) {
			if j := p.journal.Load(); j != nil {
				return j.Unwritten(time.Now())
			}
			return 0, 0
		},
	}, o.Catalogue.Consumed()...)
	p.metrics = m
	p.ownership = newOwnership(&unit.Shared{
		Config: o.Unit, Catalogue: o.Catalogue, Policy: o.Policy, Breaker: o.Breaker,
		Sender: o.Sender, Endpoints: o.Endpoints, Disable: o.Disable, FetchWait: o.FetchWait,
		InFlight: inFlight, Workers: p.workers, Rate: caps.NewRate(o.Rate), Memory: memory, Rand: rand.Float64, Log: o.Log, Metrics: m,
		Quiet: slog.New(obs.NewQuiet(o.Log.Handler(), obs.QuietOptions{})),
	}, o.Config, p.wake)
	return p, nil
}

// Ready is nil when the process is in the group and all its units work, and says why not otherwise.
func (p *Processor) Ready() error { return p.ownership.ready() }

// Run works until ctx ends, then stops in order: it fetches no more, lets its
// units drain, settles, leaves the group.
func (p *Processor) Run(ctx context.Context) error {
	defer p.workers.Close()
	var leasing sync.WaitGroup
	defer leasing.Wait()
	// What settles and writes outlives ctx until the drain is over.
	life, end := context.WithCancel(context.WithoutCancel(ctx))
	defer end()

	admin, err := kgo.NewClient(p.opts.Kafka...)
	if err != nil {
		return fmt.Errorf("processor: %w", err)
	}
	defer admin.Close()
	ids, err := p.topicIDs(ctx, kadm.NewClient(admin))
	if ctx.Err() != nil {
		return nil //nolint:nilerr // told to stop before it had begun
	}
	if err != nil {
		return err
	}
	// Facts, whose repetition changes nothing: they need no producer id, so that none can be refused. While one request is
	// under way what comes gathers for the next; an idempotent producer has five under way, each with a record or two.
	writer, err := p.client(kgo.RecordPartitioner(kgo.ManualPartitioner()), kgo.ProducerLinger(0),
		kgo.DisableIdempotentWrite(), kgo.MaxProduceRequestsInflightPerBroker(1))
	if err != nil {
		return fmt.Errorf("processor: %w", err)
	}
	defer writer.Close()

	settler := settle.New(settle.Options{
		Config: p.opts.Settle, Group: p.opts.Group, Members: p.ownership, TopicIDs: ids, Log: p.opts.Log,
		NewClient: func(transactionalID string) (*kgo.Client, error) {
			return p.client(
				kgo.TransactionalID(transactionalID), kgo.TransactionTimeout(p.opts.Settle.TransactionTimeout),
				kgo.RecordPartitioner(kgo.ManualPartitioner()), kgo.ProducerLinger(0), kgo.BrokerMaxWriteBytes(writeBytes),
				kgo.RecordDeliveryTimeout(p.opts.Settle.TransactionTimeout), kgo.UnknownTopicRetries(1),
			)
		},
		Observer: settle.Observer{Settled: p.metrics.SettledBeat, Failed: func(error) { p.metrics.SettleFailures.Inc() }},
	})
	journal := facts.NewJournal(life, writer, p.opts.Catalogue, p.opts.Log)
	p.journal.Store(journal)
	p.ownership.begin(life, ids, settler, journal, &facts.Restorer{
		NewClient: p.client,
		Admin:     kadm.NewClient(admin), Catalogue: p.opts.Catalogue, Claims: p.opts.Claims, Window: p.opts.Window, Log: p.opts.Log,
	})
	leasing.Go(func() { p.ownership.lease.Run(life) })
	settled := make(chan error, 1)
	settling, stopSettling := context.WithCancel(life)
	defer stopSettling()
	go func() { settled <- settler.Run(settling) }()

	err = p.consume(ctx, life)
	stopSettling()
	return errors.Join(err, <-settled)
}

// consume is a member of the group until ctx ends, and then leaves it in order.
func (p *Processor) consume(ctx, life context.Context) error {
	for {
		group, err := p.group()
		if err != nil {
			return err
		}
		p.ownership.client.Store(group)
		err = p.poll(ctx, group)
		if !errors.Is(err, errExpelled) {
			p.opts.Log.Info("stopping: draining", obs.KeyDeadline, p.opts.DrainTimeout)
			p.ownership.drainAll()
			p.leave(life, group)
			return err
		}
		p.leave(life, group)
		if p.ownership.spoiled.Swap(false) {
			if err := p.opts.Claims.Renew(); err != nil {
				return fmt.Errorf("processor: renew the claims: %w", err)
			}
		}
	}
}

// leave closes the group's client, in bounded time.
func (p *Processor) leave(life context.Context, group *kgo.Client) {
	leave, cancel := context.WithTimeout(life, settleMargin)
	defer cancel()
	if err := group.LeaveGroupContext(leave); err != nil {
		p.opts.Log.Warn("the group was not left in time; it gives this member up by itself", obs.KeyError, err)
	}
	group.CloseAllowingRebalance()
	// Close polls what is buffered away, and that poll would block for ever the goroutine in which Close itself leaves
	// a group that was left before (franz-go 1.22.3).
	group.AllowRebalance()
}

// client makes a client with the processor's connection settings and more. A broker, or what stands before it, that takes
// connections and closes them is tried again after a wait: without the option it is taken for a sign of wrong settings for TLS, which
// were right when the process started, and a producer that has written before asks again at once and for ever (franz-go 1.22.3).
func (p *Processor) client(more ...kgo.Opt) (*kgo.Client, error) {
	return kgo.NewClient(append(append([]kgo.Opt{kgo.AlwaysRetryEOF()}, p.opts.Kafka...), more...)...)
}

// group makes the group's client.
func (p *Processor) group() (*kgo.Client, error) {
	o := p.ownership
	return p.client(
		kgo.ConsumerGroup(p.opts.Group), kgo.ConsumeTopics(p.opts.Catalogue.Consumed()...), kgo.Balancers(balance.Balancer{}),
		kgo.SessionTimeout(p.opts.SessionTimeout), kgo.RebalanceTimeout(p.opts.RebalanceTimeout),
		kgo.HeartbeatInterval(p.opts.Heartbeat), kgo.WithHooks(heartbeats{o.lease}),
		kgo.BlockRebalanceOnPoll(), kgo.DisableAutoCommit(), // offsets are read stable: franz-go always does
		kgo.FetchIsolationLevel(kgo.ReadCommitted()),
		// A new group, and one whose offsets retention has overtaken, starts at what there is: nothing is skipped.
		kgo.ConsumeStartOffset(kgo.NewOffset().AtStart()), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()),
		kgo.MaxDecompressBatchBytes(maxBatch), kgo.FetchMaxWait(p.opts.FetchWait),
		kgo.FetchMaxBytes(fetchBytes(p.opts.MaxMemory)), kgo.FetchMaxPartitionBytes(partitionBytes),
		kgo.OnPartitionsAssigned(o.assigned), kgo.OnPartitionsRevoked(o.revoked), kgo.OnPartitionsLost(o.lost),
		kgo.OnOffsetsFetched(o.fetched), kgo.OnPartitionsCallbackBlocked(p.rebalanceBlocked),
	)
}

// fetchBytes bounds one fetch from one broker. What was fetched and not polled yet is not charged to the memory budget,
// one such fetch for each broker; and it is compressed, as it comes.
func fetchBytes(memory int64) int32 { return int32(min(max(memory/32, 1<<20), 16<<20)) }

// partitionBytes bounds what one fetch brings of a partition. The next one is under way before its unit can say that it has
// enough, so that with the client's own 1 MiB, and hundreds of partitions, a backlog would fill the memory in the first second.
const partitionBytes = 256 << 10

// writeBytes bounds one produce request of the settler. The client keeps the buffers that requests are made in.
const writeBytes = 4 << 20

// topicIDs looks up the ids of the consumed topics: offset commits name them by id as well. It waits for a
// cluster that cannot be asked until ctx ends; a topic that is not there is an error.
func (p *Processor) topicIDs(ctx context.Context, admin *kadm.Client) (map[string][16]byte, error) {
	for wait := time.Second; ; wait = min(2*wait, 30*time.Second) {
		details, err := admin.ListTopics(ctx, p.opts.Catalogue.Consumed()...)
		if err == nil {
			err = missing(details)
		}
		if err == nil {
			ids := map[string][16]byte{}
			for _, d := range details {
				ids[d.Topic] = d.ID
			}
			return ids, nil
		}
		var answer *kerr.Error
		if errors.Is(err, kerr.UnknownTopicOrPartition) || errors.As(err, &answer) && !answer.Retriable {
			return nil, fmt.Errorf("processor: look up topics: %w", err)
		}
		p.opts.Log.Warn("topics cannot be looked up yet", obs.KeyWait, wait, obs.KeyError, err)
		select {
		case <-ctx.Done():
			return nil, fmt.Errorf("processor: look up topics: %w", err)
		case <-time.After(wait):
		}
	}
}

// missing joins what is wrong with topics, each with its name.
func missing(details kadm.TopicDetails) error {
	var errs []error
	for _, d := range details.Sorted() {
		if d.Err != nil {
			errs = append(errs, fmt.Errorf("topic %s: %w", d.Topic, d.Err))
		}
	}
	return errors.Join(errs...)
}
