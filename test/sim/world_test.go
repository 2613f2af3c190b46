package sim_test

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"net/netip"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/barnabas-webhooks/barnabas/internal/app"
	"github.com/barnabas-webhooks/barnabas/internal/config"
	"github.com/barnabas-webhooks/barnabas/internal/secret"
	"github.com/barnabas-webhooks/barnabas/processor/egress"
	"github.com/barnabas-webhooks/barnabas/topics"
)

// World is one simulated installation. It must be made and used inside a bubble.
type World struct {
	t       *testing.T
	ctx     context.Context
	network *kfake.VirtualNetwork
	broker  *kfake.Cluster
	cfg     config.Config
	client  *kgo.Client // produces as a service would
	ports   int
}

// sealingKey is the key of the endpoints' secrets in every world.
const sealingKey = "MDEyMzQ1Njc4OTAxMjM0NTY3ODkwMTIzNDU2Nzg5MDE="

// NewWorld starts a broker with all topics.
func NewWorld(t *testing.T) *World {
	t.Helper()
	w := &World{t: t, ctx: t.Context(), network: &kfake.VirtualNetwork{}, ports: 20000}
	broker, err := kfake.NewCluster(
		kfake.NumBrokers(1), kfake.Ports(9092), kfake.ListenFn(w.network.Listen), kfake.GroupMinSessionTimeout(time.Second),
	)
	require.NoError(t, err)
	t.Cleanup(broker.Close)
	w.broker = broker

	w.cfg = config.Default()
	w.cfg.Topics.Partitions, w.cfg.Topics.Replication, w.cfg.Topics.Create = 4, 1, true
	w.cfg.Kafka.Brokers = []string{"localhost:9092"}
	w.cfg.Kafka.Dialer = w.network.DialContext
	w.cfg.Endpoints.SecretKey = secret.String(sealingKey)
	w.cfg.Egress.AllowHTTP, w.cfg.Egress.AllowLoopback = true, true
	w.cfg.API.Listen, w.cfg.Metrics.Listen = "127.0.0.1:8080", ""

	opts, err := w.cfg.Kafka.Options(w.log())
	require.NoError(t, err)
	w.client, err = kgo.NewClient(opts...)
	require.NoError(t, err)
	t.Cleanup(w.client.Close)
	return w
}

// log is silent unless BARNABAS_SIM_LOG is set.
func (w *World) log() *slog.Logger {
	if os.Getenv("BARNABAS_SIM_LOG") == "" {
		return slog.New(slog.DiscardHandler)
	}
	return slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelDebug}))
}

// Catalogue names the world's topics.
func (w *World) Catalogue() topics.Catalogue { return app.Catalogue(&w.cfg) }

// Process is one running Barnabas.
type Process struct {
	stop context.CancelFunc
	done chan error
}

// Start runs a process with both roles; the first one serves the API.
func (w *World) Start(roles ...string) *Process {
	w.t.Helper()
	cfg := w.cfg
	if len(roles) > 0 {
		cfg.Roles = roles
	}
	a, err := app.New(&cfg, app.Options{
		Log: w.log(), Version: "sim", Listen: w.network.Listen, FetchWait: 30 * time.Second,
		Network: egress.Network{Resolver: everyName{}, Dial: w.network.DialContext},
	})
	require.NoError(w.t, err)
	ctx, cancel := context.WithCancel(w.ctx)
	p := &Process{stop: cancel, done: make(chan error, 1)}
	go func() { p.done <- a.Run(ctx) }()
	w.t.Cleanup(func() { cancel(); <-p.done; p.done <- nil })
	return p
}

// Stop ends a process in order and waits for it.
func (p *Process) Stop() error {
	p.stop()
	err := <-p.done
	p.done <- nil
	return err
}

// Endpoint saves an endpoint through the API and returns its id.
func (w *World) Endpoint(id, url string) {
	w.t.Helper()
	require.Eventually(w.t, func() bool {
		status, _ := w.call(http.MethodPut, "/v1/endpoints/"+id, fmt.Sprintf(`{"url":%q}`, url), nil)
		return status/100 == 2
	}, time.Minute, 100*time.Millisecond, "endpoint %s cannot be saved", id)
}

// Produce hands an event over as a plain Kafka record.
func (w *World) Produce(endpoint, key, payload string) {
	w.t.Helper()
	r := &kgo.Record{
		Topic: w.Catalogue().Events(), Key: []byte(endpoint), Value: []byte(payload),
		Headers: []kgo.RecordHeader{{Key: topics.HeaderEventType, Value: []byte("test.event")}},
	}
	if key != "" {
		r.Headers = append(r.Headers, kgo.RecordHeader{Key: topics.HeaderIdempotencyKey, Value: []byte(key)})
	}
	require.NoError(w.t, w.client.ProduceSync(w.ctx, r).FirstErr())
}

// everyName resolves every name to the loopback address: the network is virtual.
type everyName struct{}

func (everyName) LookupNetIP(context.Context, string, string) ([]netip.Addr, error) {
	return []netip.Addr{netip.MustParseAddr("127.0.0.1")}, nil
}
