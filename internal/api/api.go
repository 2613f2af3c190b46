package api

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/twmb/franz-go/pkg/kgo"
	"golang.org/x/sync/errgroup"
	"golang.org/x/sync/semaphore"

	"github.com/barnabas-webhooks/barnabas/internal/obs"
	"github.com/barnabas-webhooks/barnabas/processor/endpoint"
	"github.com/barnabas-webhooks/barnabas/schemas"
	"github.com/barnabas-webhooks/barnabas/topics"
)

// Config is what an operator may set.
type Config struct {
	// Addr is what the server listens on, host:port. It is looked at to refuse an open API without keys.
	Addr string
	// Keys may call. None: loopback only, everybody is an admin.
	Keys []Key
	// MaxBodyBytes bounds a request body of POST /v1/deliveries; at most schemas.MaxSendBodyBytes, which is what holds
	// the largest payload in base64. The payload's own limit is schemas.MaxPayloadBytes.
	MaxBodyBytes int64
	// MaxConcurrent bounds the requests that are handled at a time; more get 503.
	MaxConcurrent int
	// MaxBufferedBytes bounds the bodies held in memory at a time; more get 503. At least MaxBodyBytes.
	MaxBufferedBytes int64
	// ProduceTimeout is how long Kafka may take to make an event durable; then the answer is 503.
	ProduceTimeout time.Duration
	// VerdictTimeout is how long the verdict is waited for; then the answer is 202 "pending".
	VerdictTimeout time.Duration
	// RotationOverlap is how long a rotated-out signing secret goes on signing where the call does not say.
	RotationOverlap time.Duration
	// RecentDeliveries is how many deliveries GET /v1/deliveries/{id} remembers, at about 500 bytes each.
	RecentDeliveries int
	// SearchTimeout is how long the topics are searched for a delivery that is not remembered, and SearchBytes how much
	// is read of each of the four.
	SearchTimeout time.Duration
	SearchBytes   int64
	// Tenant bounds each tenant, and Tenants those of its keys instead.
	Tenant  TenantLimits
	Tenants map[string]TenantLimits
	// MaxLag is how many events of one partition may wait; sends to endpoints of a partition with more get 503. An upper
	// bound is what is read, see topics.PartitionLag: up to 131,072 that are done may be counted. 0: any number.
	MaxLag int64
}

// DefaultConfig has the defaults: 127.0.0.1:8080 without keys, bodies of 1.2 MiB, 256 requests and 64 MiB of bodies
// at a time, 5 s for Kafka, 500 ms for the verdict, 50,000 deliveries remembered and 3 s and 16 MiB a topic of search for others, no rate per tenant
// and half of the requests each, a million events of a partition waiting.
func DefaultConfig() Config {
	return Config{
		Addr:             "127.0.0.1:8080",
		MaxBodyBytes:     schemas.MaxSendBodyBytes,
		MaxConcurrent:    256,
		MaxBufferedBytes: 64 << 20,
		ProduceTimeout:   5 * time.Second,
		VerdictTimeout:   500 * time.Millisecond,
		RotationOverlap:  endpoint.DefaultOverlap,
		RecentDeliveries: 50_000,
		SearchTimeout:    3 * time.Second,
		SearchBytes:      16 << 20,
		MaxLag:           1_000_000,
	}
}

// Validate reports all problems at once.
func (c Config) Validate() error {
	var problems []error
	that := func(ok bool, format string, args ...any) {
		if !ok {
			problems = append(problems, fmt.Errorf("api: "+format, args...))
		}
	}
	that(c.MaxBodyBytes >= 1<<10 && c.MaxBodyBytes <= schemas.MaxSendBodyBytes,
		"max body is %d bytes; want 1024 to %d", c.MaxBodyBytes, schemas.MaxSendBodyBytes)
	that(c.MaxConcurrent > 0, "max concurrent is %d; want at least 1", c.MaxConcurrent)
	that(c.MaxBufferedBytes >= c.MaxBodyBytes,
		"max buffered is %d bytes, less than one body of %d", c.MaxBufferedBytes, c.MaxBodyBytes)
	that(c.ProduceTimeout > 0 && c.ProduceTimeout <= time.Minute,
		"produce timeout is %s; want above 0 and at most 1m", c.ProduceTimeout)
	that(c.VerdictTimeout >= 0 && c.VerdictTimeout <= 30*time.Second,
		"verdict timeout is %s; want 0 to 30s", c.VerdictTimeout)
	that(c.RecentDeliveries > 0, "recent deliveries is %d; want at least 1", c.RecentDeliveries)
	that(c.SearchTimeout > 0 && c.SearchTimeout <= 30*time.Second,
		"search timeout is %s; want above 0 and at most 30s", c.SearchTimeout)
	that(c.SearchBytes > 0, "search bytes is %d; want at least 1", c.SearchBytes)
	that(c.MaxLag >= 0, "max lag is %d; want 0 or more", c.MaxLag)
	problems = append(problems, c.Tenant.validate("a tenant", c.MaxConcurrent))
	for name, limits := range c.Tenants {
		problems = append(problems, limits.validate(fmt.Sprintf("tenant %q", name), c.MaxConcurrent))
	}
	keys, err := newKeyring(c.Keys, c.Addr)
	if err == nil {
		err = keys.limited(c.Tenants)
	}
	problems = append(problems, err)
	return errors.Join(problems...)
}

// Endpoints is the registry as the API uses it.
type Endpoints interface {
	Put(ctx context.Context, scope string, s endpoint.Settings) (endpoint.Saved, error)
	Get(scope, id string) (*endpoint.Endpoint, error)
	List(scope, after string, limit int) []*endpoint.Endpoint
	Delete(ctx context.Context, scope, id string) error
	SetState(ctx context.Context, scope, id string, state schemas.EndpointState, reason string) (*endpoint.Endpoint, error)
	ResetBreaker(ctx context.Context, scope, id string) (*endpoint.Endpoint, error)
	RotateSecret(ctx context.Context, scope, id string, r endpoint.Rotation) (endpoint.Saved, error)
	EnsureForURL(ctx context.Context, tenant, url string) (*endpoint.Endpoint, error)
}

var _ Endpoints = (*endpoint.Registry)(nil)

// Table is the endpoint table as the API uses it.
type Table interface {
	Get(id string) (*endpoint.Endpoint, bool)
	Ready() bool
}

var _ Table = (*endpoint.Table)(nil)

// Options is what an API needs. Logger and Metrics may be nil.
type Options struct {
	Config
	Log       Log
	Endpoints Endpoints
	Table     Table
	// Topics names the topics that Run follows.
	Topics topics.Catalogue
	// Client makes the Kafka client that Run follows topics with: the deployment's options, then the given ones.
	Client func(more ...kgo.Opt) (*kgo.Client, error)
	// Lag reads how many events wait in each partition; Run asks it now and then. Nil: MaxLag is of no effect.
	Lag func(ctx context.Context) (map[int32]int64, error)
	// Verdicts takes the arbiter's answers; nil: a new one. Run fills it from the topic.
	Verdicts *Verdicts
	Logger   *slog.Logger
	Metrics  prometheus.Registerer
}

// API serves HTTP requests. Safe for concurrent use.
type API struct {
	opts      Options
	log       *slog.Logger
	keys      *keyring
	gates     map[string]*gate // by scope; not changed after New
	verdicts  *Verdicts
	recent    *recentDeliveries
	backlog   *backlog
	metrics   *metrics
	slots     chan struct{}
	searching chan struct{}
	bytes     *semaphore.Weighted
	handler   http.Handler
}

// New checks the configuration and makes an API. It starts nothing: Run follows the topics, Server or Handler serve.
func New(o Options) (*API, error) {
	if err := o.Validate(); err != nil {
		return nil, err
	}
	keys, err := newKeyring(o.Keys, o.Addr)
	if err != nil {
		return nil, err
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	// A Kafka that is away for an hour must not write a line per request.
	o.Logger = slog.New(obs.NewQuiet(o.Logger.Handler(), obs.QuietOptions{}))
	if o.Verdicts == nil {
		o.Verdicts = NewVerdicts()
	}
	a := &API{
		opts: o, log: o.Logger, keys: keys, verdicts: o.Verdicts,
		gates:     o.gates(keys, o.Logger),
		recent:    newRecentDeliveries(o.RecentDeliveries),
		backlog:   &backlog{most: o.MaxLag, partitions: o.Topics.Partitions},
		metrics:   newMetrics(o.Metrics),
		slots:     make(chan struct{}, o.MaxConcurrent),
		searching: make(chan struct{}, searchSlots),
		bytes:     semaphore.NewWeighted(o.MaxBufferedBytes),
	}
	a.handler = a.routes()
	return a, nil
}

// Handler serves everything below /v1/, and the OpenAPI document.
func (a *API) Handler() http.Handler { return a.handler }

// Run follows the idempotency and attempts topics, and reads the lag, until ctx ends; it returns nil then.
func (a *API) Run(ctx context.Context) error {
	work, ctx := errgroup.WithContext(ctx)
	work.Go(func() error { return a.runTail(ctx) })
	work.Go(func() error { a.watchBacklog(ctx); return nil })
	return work.Wait()
}

// Server makes an HTTP server with the API's time and size limits for a handler, which is a.Handler() or one that
// holds it beside others.
func Server(addr string, h http.Handler) *http.Server {
	return &http.Server{
		Addr:              addr,
		Handler:           h,
		ReadHeaderTimeout: 5 * time.Second,
		ReadTimeout:       30 * time.Second, // bounds who sends a body byte by byte, too
		WriteTimeout:      60 * time.Second,
		IdleTimeout:       2 * time.Minute,
		MaxHeaderBytes:    16 << 10,
	}
}
