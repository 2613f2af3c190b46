package app

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"slices"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
	"golang.org/x/sync/errgroup"

	"github.com/barnabas-webhooks/barnabas/internal/api"
	"github.com/barnabas-webhooks/barnabas/internal/config"
	"github.com/barnabas-webhooks/barnabas/internal/kafka"
	"github.com/barnabas-webhooks/barnabas/internal/obs"
	"github.com/barnabas-webhooks/barnabas/internal/secret"
	"github.com/barnabas-webhooks/barnabas/processor"
	"github.com/barnabas-webhooks/barnabas/processor/claim"
	"github.com/barnabas-webhooks/barnabas/processor/claimstore"
	"github.com/barnabas-webhooks/barnabas/processor/deliver"
	"github.com/barnabas-webhooks/barnabas/processor/egress"
	"github.com/barnabas-webhooks/barnabas/processor/endpoint"
	"github.com/barnabas-webhooks/barnabas/topics"
)

// stopAPI is how long requests that are being answered may take once the process stops.
const stopAPI = 10 * time.Second

// Options are what a process is given beside its configuration.
type Options struct {
	Log     *slog.Logger
	Version string
	// Network and Listen replace the real network; zero: the real one.
	Network egress.Network
	Listen  func(network, address string) (net.Listener, error)
	// FetchWait replaces the processor's default; zero: it does not. A simulation of
	// days need not ask an idle broker twice a second.
	FetchWait time.Duration
	// Kafka is added to the options of every Kafka client.
	Kafka []kgo.Opt
	// Registry is where metrics are registered; nil: one of the process's own, with the runtime's beside them.
	Registry *prometheus.Registry
}

// App is one process: the roles that its configuration names.
type App struct {
	cfg      *config.Config
	opts     Options
	log      *slog.Logger
	kafka    []kgo.Opt
	registry *prometheus.Registry
	ready    *obs.Readiness

	client    *kgo.Client     // plain: administration
	producer  *kafka.Producer // the API's and the registry's produces
	dialer    *egress.Dialer
	sender    *deliver.Sender
	table     *endpoint.Table
	endpoints *endpoint.Registry
	api       *api.API             // nil without the role
	processor *processor.Processor // nil without the role

	closers []func() // in the order in which they were opened; closed in reverse
}

// New builds a process and starts nothing. What it opened before an error is closed again.
func New(cfg *config.Config, o Options) (_ *App, err error) {
	if o.Listen == nil {
		o.Listen = net.Listen
	}
	if o.Registry == nil {
		o.Registry = obs.NewRegistry(obs.ReadBuild(o.Version))
	}
	a := &App{cfg: cfg, opts: o, log: o.Log, registry: o.Registry, ready: &obs.Readiness{}}
	defer func() {
		if err != nil {
			a.close()
		}
	}()
	if err = checkDescriptors(cfg); err != nil {
		return nil, err
	}
	if a.kafka, err = cfg.Kafka.Options(o.Log); err != nil {
		return nil, fmt.Errorf("kafka: %w", err)
	}
	// Each topic takes what its own limit allows; the client's default would refuse large dead letters.
	a.kafka = append(a.kafka, kgo.ProducerBatchMaxBytesFn(Catalogue(cfg).MaxMessageBytes))
	a.kafka = append(a.kafka, o.Kafka...)
	if a.client, err = a.newClient(); err != nil {
		return nil, err
	}
	a.closers = append(a.closers, a.client.Close)
	a.producer, err = kafka.NewProducer(func() (*kgo.Client, error) {
		return a.newClient(
			kgo.RecordDeliveryTimeout(produceTimeout), kgo.ProducerLinger(0), kgo.RecordPartitioner(topics.Partitioner(Catalogue(cfg))),
			// Requests give up before their records do: without a bound, what is under way to a Kafka that is away would grow.
			kgo.MaxBufferedBytes(produceBuffer),
			kgo.AlwaysRetryEOF(), // see processor.Processor.client
		)
	}, o.Log)
	if err != nil {
		return nil, err
	}
	a.closers = append(a.closers, a.producer.Close)
	for _, build := range []func() error{a.buildSender, a.buildEndpoints, a.buildProcessor, a.buildAPI} {
		if err := build(); err != nil {
			return nil, err
		}
	}
	return a, nil
}

// produceTimeout is how long a produce of the API or of the endpoint registry may take.
const produceTimeout = 10 * time.Second

// produceBuffer bounds the bytes that are under way to Kafka; what is over is refused at once.
const produceBuffer = 64 << 20

// newClient makes a Kafka client with the deployment's connection settings.
func (a *App) newClient(more ...kgo.Opt) (*kgo.Client, error) {
	client, err := kgo.NewClient(slices.Concat(a.kafka, more)...)
	if err != nil {
		return nil, fmt.Errorf("kafka client: %w", err)
	}
	return client, nil
}

func (a *App) has(role string) bool { return slices.Contains(a.cfg.Roles, role) }

func (a *App) buildSender() (err error) {
	if a.dialer, err = egress.NewDialer(egressConfig(a.cfg), a.opts.Network); err != nil {
		return fmt.Errorf("egress: %w", err)
	}
	if a.sender, err = deliver.New(deliverConfig(a.cfg, a.opts.Version), a.dialer); err != nil {
		return fmt.Errorf("deliver: %w", err)
	}
	a.closers = append(a.closers, a.sender.Close)
	a.watchEgress()
	if a.sender.RootsEmpty() {
		a.log.Warn("the system has no certificate authorities: every https delivery will fail; install ca-certificates or set egress.ca_file")
	}
	return nil
}

func (a *App) buildEndpoints() error {
	key, err := a.cfg.Endpoints.Key()
	if err != nil {
		return err
	}
	sealer, err := endpoint.NewSealer(secret.String(key.Reveal()))
	if err != nil {
		return fmt.Errorf("endpoints.secret_key: %w", err)
	}
	topic := Catalogue(a.cfg).Endpoints()
	a.table = endpoint.NewTable(endpoint.TableOptions{Topic: topic, Client: a.newClient, Sealer: sealer, Logger: a.log})
	a.endpoints = endpoint.NewRegistry(endpoint.RegistryOptions{
		Table: a.table, Client: a.producer, Topic: topic, Sealer: sealer, Logger: a.log,
		CheckURL:     func(url string) error { _, err := a.dialer.CheckURL(url); return err },
		CheckHeaders: deliver.ValidateHeaders,
	})
	return nil
}

func (a *App) buildProcessor() (err error) {
	if !a.has(config.RoleProcessor) {
		return nil
	}
	group := groupConfig(a.cfg)
	if a.opts.FetchWait > 0 {
		group.FetchWait = a.opts.FetchWait
	}
	claims, err := a.openClaims()
	if err != nil {
		return err
	}
	a.processor, err = processor.New(processor.Options{
		Config: group, Kafka: a.kafka, Catalogue: Catalogue(a.cfg),
		Policy: Policy(a.cfg), Breaker: Breaker(a.cfg), Unit: unitConfig(a.cfg), Settle: settleConfig(a.cfg),
		Sender: a.sender, Endpoints: a.table, Claims: claims, Disable: a.disable, Log: a.log, Registry: a.registry,
	})
	return err
}

// openClaims opens what arbiters remember with: on disk where there is a directory.
func (a *App) openClaims() (processor.Claims, error) {
	if a.cfg.Claims.Directory == "" {
		return new(claim.Memory), nil
	}
	store, err := claimstore.Open(claimstore.Options{
		Config: claimsConfig(a.cfg), Window: a.cfg.Idempotency.Window, Log: a.log,
	})
	if err != nil {
		return nil, fmt.Errorf("claims.directory: %w", err)
	}
	a.closers = append(a.closers, func() {
		if err := store.Close(); err != nil {
			a.log.Warn("claims on disk were not closed in order: more of them is read at the next start", obs.KeyError, err)
		}
	})
	a.log.Info("claims on disk", obs.KeyPath, a.cfg.Claims.Directory, obs.KeyClaims, store.Stats().Held)
	return store, nil
}

func (a *App) buildAPI() error {
	if !a.has(config.RoleAPI) {
		return nil
	}
	cfg, err := apiConfig(a.cfg)
	if err != nil {
		return err
	}
	catalogue := Catalogue(a.cfg)
	a.api, err = api.New(api.Options{
		Config: cfg, Log: api.NewEventLog(a.producer, catalogue.Events()), Endpoints: a.endpoints, Table: a.table,
		Topics: catalogue, Client: a.newClient, Logger: a.log, Metrics: a.registry,
		Lag: func(ctx context.Context) (map[int32]int64, error) {
			return topics.EventsLag(ctx, a.admin(), a.cfg.Processor.Group, catalogue)
		},
	})
	return err
}

// disable switches an endpoint off that answered 410, in a goroutine of its own:
// the unit that asks must not wait for Kafka. If it fails, the next 410 asks again.
func (a *App) disable(seen *endpoint.Endpoint, reason string) {
	go func() {
		ctx, cancel := context.WithTimeout(context.Background(), produceTimeout)
		defer cancel()
		if err := a.endpoints.Disable(ctx, seen, reason); err != nil {
			a.log.Error("endpoint not disabled", obs.KeyEndpointID, seen.ID, obs.KeyError, err)
		}
	}()
}

// Run starts the process and works until ctx ends, then stops in order. Any part
// that fails stops all of them.
func (a *App) Run(ctx context.Context) error {
	defer a.close()
	// The table and the operators' listener serve until everything else has stopped.
	base, stopBase := context.WithCancel(context.WithoutCancel(ctx))
	defer stopBase()
	below, baseFailed := errgroup.WithContext(base)
	stopObserving, err := a.observe(base)
	if err != nil {
		return err
	}
	defer stopObserving()
	if err := a.verifyTopics(ctx); err != nil {
		return err
	}
	below.Go(func() error { return a.table.Run(baseFailed) })

	work, workCtx := errgroup.WithContext(ctx)
	work.Go(func() error {
		select { // what lies below must not fail unseen
		case <-baseFailed.Done():
			return context.Cause(baseFailed)
		case <-workCtx.Done():
			return nil
		}
	})
	work.Go(func() error {
		if err := a.table.WaitReady(workCtx); err != nil {
			return nil //nolint:nilerr // the process stops; what stopped it is reported by its own part
		}
		a.log.Info("endpoints loaded", obs.KeyCount, a.table.Stats().Endpoints)
		if a.processor != nil {
			work.Go(func() error { return a.processor.Run(workCtx) })
		}
		if a.api != nil {
			work.Go(func() error { return a.api.Run(workCtx) })
			work.Go(func() error { return a.serveAPI(workCtx) })
		}
		return nil
	})
	if a.cfg.Metrics.Listen != "" { // else nobody can ask
		work.Go(func() error { return a.watchReadiness(workCtx) })
		work.Go(func() error { return a.watchLag(workCtx) })
	}
	err = work.Wait()
	a.log.Info("stopped", obs.KeyCause, context.Cause(ctx))
	stopBase()
	return errors.Join(err, ignoreCancel(below.Wait()))
}

// ignoreCancel drops the error of a part that ended because it was told to.
func ignoreCancel(err error) error {
	if errors.Is(err, context.Canceled) {
		return nil
	}
	return err
}

// serveAPI listens until ctx ends, then lets requests that are being answered finish.
func (a *App) serveAPI(ctx context.Context) error {
	listener, err := a.opts.Listen("tcp", a.cfg.API.Listen)
	if err != nil {
		return fmt.Errorf("api.listen: %w", err)
	}
	server := api.Server(a.cfg.API.Listen, a.api.Handler())
	failed := make(chan error, 1)
	go func() {
		if a.cfg.API.TLSCertFile != "" {
			failed <- server.ServeTLS(listener, a.cfg.API.TLSCertFile, a.cfg.API.TLSKeyFile)
			return
		}
		failed <- server.Serve(listener)
	}()
	a.log.Info("API listens", obs.KeyAddr, listener.Addr().String())
	select {
	case err := <-failed:
		return fmt.Errorf("api: %w", err)
	case <-ctx.Done():
	}
	stop, cancel := context.WithTimeout(context.WithoutCancel(ctx), stopAPI)
	defer cancel()
	if err := server.Shutdown(stop); err != nil {
		a.log.Warn("stopping: API requests were cut off", obs.KeyDuration, stopAPI, obs.KeyError, err)
	}
	if err := <-failed; !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("api: %w", err)
	}
	return nil
}

func (a *App) close() {
	for _, c := range slices.Backward(a.closers) {
		c()
	}
	a.closers = nil
}

// admin administers over the process's plain client.
func (a *App) admin() *kadm.Client { return kadm.NewClient(a.client) }
