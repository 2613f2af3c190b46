package processor_test

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"maps"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/sasl/scram"

	"github.com/barnabas-webhooks/barnabas/internal/kafka"
	"github.com/barnabas-webhooks/barnabas/processor"
	"github.com/barnabas-webhooks/barnabas/processor/breaker"
	"github.com/barnabas-webhooks/barnabas/processor/deliver"
	"github.com/barnabas-webhooks/barnabas/processor/endpoint"
	"github.com/barnabas-webhooks/barnabas/processor/settle"
	"github.com/barnabas-webhooks/barnabas/processor/unit"
	"github.com/barnabas-webhooks/barnabas/retry"
	"github.com/barnabas-webhooks/barnabas/schemas"
	"github.com/barnabas-webhooks/barnabas/topics"
)

func TestConfig_Validate(t *testing.T) {
	t.Parallel()
	require.NoError(t, processor.DefaultConfig().Validate())
	for name, change := range map[string]func(*processor.Config){
		"group":           func(c *processor.Config) { c.Group = "" },
		"session_timeout": func(c *processor.Config) { c.SessionTimeout = 999 * time.Millisecond; c.Heartbeat = time.Millisecond },
		"heartbeat":       func(c *processor.Config) { c.Heartbeat = c.SessionTimeout/3 + 1 },
		"drain_timeout":   func(c *processor.Config) { c.DrainTimeout = c.RebalanceTimeout }, // C-132: with the numbers
		"fetch_wait":      func(c *processor.Config) { c.FetchWait = 0 },
		"max_in_flight":   func(c *processor.Config) { c.MaxInFlight = 0 },
		"max_memory":      func(c *processor.Config) { c.MaxMemory = 8<<20 - 1 },
		"window":          func(c *processor.Config) { c.Window = 0 },
	} {
		c := processor.DefaultConfig()
		change(&c)
		require.ErrorContains(t, c.Validate(), name+":")
	}
	err := processor.Config{}.Validate()
	for _, name := range []string{"group", "session_timeout", "heartbeat", "drain_timeout", "fetch_wait", "max_in_flight", "max_memory", "window"} {
		require.ErrorContains(t, err, name+":", "all at once")
	}
}

// world is a broker with the topics, and processes beside it, in a bubble.
type world struct {
	t         *testing.T
	network   *kfake.VirtualNetwork
	cluster   *kfake.Cluster
	client    *kgo.Client
	catalogue topics.Catalogue

	mu       sync.Mutex // guards posts
	posts    map[string][]time.Time
	by       map[string]map[string]bool // processes that posted a delivery
	at       map[string][]time.Time     // when each process started a post
	takes    time.Duration
	script   func(deliver.Request) (deliver.Result, time.Duration) // in place of a 204 that takes takes; nil: none
	active   map[string]int                                        // under way, by delivery
	overlaps int                                                   // times that one was under way twice
	regs     []*prometheus.Registry                                // of all processes
	log      slog.Handler                                          // of processes from here on; nil: none
	more     func(*processor.Options)
	links    map[string]*link         // by process
	names    func(addr string) string // of the links; nil: addresses are what they say
	seed     string
	secured  bool // by SASL; the test itself is admin
}

func newWorld(t *testing.T, more ...kfake.Opt) *world {
	t.Helper()
	w := &world{
		t: t, network: &kfake.VirtualNetwork{}, catalogue: topics.DefaultCatalogue(),
		posts: map[string][]time.Time{}, by: map[string]map[string]bool{}, at: map[string][]time.Time{}, takes: 10 * time.Millisecond,
		active: map[string]int{}, links: map[string]*link{},
	}
	w.catalogue.Partitions = 8
	cluster, err := kfake.NewCluster(append([]kfake.Opt{
		kfake.NumBrokers(1), kfake.Ports(9092), kfake.ListenFn(w.network.Listen), kfake.GroupMinSessionTimeout(time.Second),
	}, more...)...)
	require.NoError(t, err)
	t.Cleanup(cluster.Close)
	w.cluster = cluster
	w.secured = len(more) > 0
	w.newClient()
	return w
}

// newClient makes the client with which the test itself works.
func (w *world) newClient() {
	w.t.Helper()
	client, err := kgo.NewClient(w.kafka()...)
	require.NoError(w.t, err)
	w.t.Cleanup(client.Close)
	w.client = client
}

func (w *world) kafka() []kgo.Opt {
	opts := []kgo.Opt{kgo.SeedBrokers(cmp.Or(w.seed, "localhost:9092")), kgo.Dialer(w.network.DialContext)}
	if w.secured {
		opts = append(opts, kgo.SASL(scram.Auth{User: "admin", Pass: "admin"}.AsSha256Mechanism()))
	}
	return opts
}

func (w *world) createTopics() {
	w.t.Helper()
	resp, err := kadm.NewClient(w.client).CreateTopics(w.t.Context(), int32(w.catalogue.Partitions), 1, nil, w.catalogue.Units()...)
	require.NoError(w.t, err)
	require.NoError(w.t, resp.Error())
}

// process starts one, with the world's options; stop ends it in order and returns what Run returned.
func (w *world) process(name string) (p *processor.Processor, stop func() error) {
	w.t.Helper()
	log := slog.New(slog.DiscardHandler)
	if os.Getenv("BARNABAS_TEST_LOG") != "" {
		log = slog.New(slog.NewTextHandler(os.Stderr, nil)).With("process", name)
	}
	if w.log != nil {
		log = slog.New(w.log)
	}
	l := &link{network: w.network, names: w.names}
	w.links[name] = l
	cfg := kafka.DefaultConfig()
	cfg.Dialer = l.dial
	connection, err := cfg.Options(log)
	require.NoError(w.t, err)
	connection = append(connection, kgo.SeedBrokers("localhost:9092"))
	reg := prometheus.NewRegistry()
	w.regs = append(w.regs, reg)
	o := processor.Options{
		Config: processor.DefaultConfig(), Catalogue: w.catalogue, Policy: retry.DefaultPolicy(),
		Kafka:   connection,
		Breaker: breaker.DefaultConfig(), Unit: unit.DefaultConfig(), Settle: settle.DefaultConfig(),
		Sender: sender{w, name}, Endpoints: everyEndpoint{}, Disable: func(*endpoint.Endpoint, string) {},
		Log: log, Registry: reg,
	}
	if w.more != nil {
		w.more(&o)
	}
	p, err = processor.New(o)
	require.NoError(w.t, err)
	ctx, cancel := context.WithCancel(w.t.Context())
	done := make(chan error, 1)
	go func() { done <- p.Run(ctx) }()
	stop = sync.OnceValue(func() error {
		cancel()
		return <-done
	})
	w.t.Cleanup(func() { _ = stop() })
	return p, stop
}

// counter is a slog.Handler that counts the lines from warnings up.
type counter struct {
	mu    sync.Mutex // guards lines
	lines map[string]int
}

func (*counter) Enabled(_ context.Context, l slog.Level) bool { return l >= slog.LevelWarn }
func (c *counter) WithAttrs([]slog.Attr) slog.Handler         { return c }
func (c *counter) WithGroup(string) slog.Handler              { return c }
func (c *counter) Handle(_ context.Context, r slog.Record) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.lines[r.Message]++
	return nil
}

func (c *counter) reset() {
	c.mu.Lock()
	defer c.mu.Unlock()
	clear(c.lines)
}

func (c *counter) counts() map[string]int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return maps.Clone(c.lines)
}

// send produces n events of as many endpoints.
func (w *world) send(n int) {
	w.t.Helper()
	for i := range n {
		require.NoError(w.t, w.client.ProduceSync(w.t.Context(), &kgo.Record{
			Topic: w.catalogue.Events(), Key: []byte(fmt.Sprintf("ep-%d", i)), Value: []byte(`{}`),
			Headers: []kgo.RecordHeader{{Key: topics.HeaderEventType, Value: []byte("t")}},
		}).FirstErr())
	}
}

// counted adds a counter up over processes and series that have a label value.
func (w *world) counted(name, label string) (sum float64) {
	w.t.Helper()
	for _, reg := range w.regs {
		families, err := reg.Gather()
		require.NoError(w.t, err)
		for _, f := range families {
			for _, m := range f.GetMetric() {
				has := label == ""
				for _, l := range m.GetLabel() {
					has = has || l.GetValue() == label
				}
				if f.GetName() == name && has {
					sum += m.GetCounter().GetValue()
				}
			}
		}
	}
	return sum
}

// letters reads the dead letters.
func (w *world) letters() (letters []schemas.DeadLetter) {
	w.t.Helper()
	for _, r := range w.read(w.catalogue.DLQ()) {
		l, err := schemas.DecodeDeadLetter(r.Value)
		require.NoError(w.t, err)
		letters = append(letters, l)
	}
	return letters
}

// read reads a topic from its start, committed records only.
func (w *world) read(topic string) (records []*kgo.Record) {
	w.t.Helper()
	reader, err := kgo.NewClient(append(w.kafka(), kgo.ConsumeTopics(topic), kgo.FetchIsolationLevel(kgo.ReadCommitted()),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()), kgo.FetchMaxWait(100*time.Millisecond))...)
	require.NoError(w.t, err)
	defer reader.Close()
	for {
		ctx, cancel := context.WithTimeout(w.t.Context(), 5*time.Second)
		fetched := reader.PollFetches(ctx).Records()
		cancel()
		if len(fetched) == 0 {
			return records
		}
		records = append(records, fetched...)
	}
}

// delivered is how many deliveries were posted, and how many posts there were beyond one each.
func (w *world) delivered() (n, again int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, posts := range w.posts {
		again += len(posts) - 1
	}
	return len(w.posts), again
}

// startedBy is when a process started its posts.
func (w *world) startedBy(name string) []time.Time {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Clone(w.at[name])
}

// taking changes how long a POST takes; processes may be at work.
func (w *world) taking(t time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.takes = t
}

type sender struct {
	w    *world
	name string
}

func (s sender) Attempt(ctx context.Context, r deliver.Request) deliver.Result {
	s.w.mu.Lock()
	res, takes := deliver.Result{Outcome: retry.Outcome{Class: retry.OK, Status: 204}, Sent: true}, s.w.takes
	if s.w.script != nil {
		res, takes = s.w.script(r)
	}
	res.StartedAt = time.Now()
	id := r.Delivery.ID
	s.w.posts[id] = append(s.w.posts[id], res.StartedAt)
	s.w.at[s.name] = append(s.w.at[s.name], res.StartedAt)
	if s.w.by[s.name] == nil {
		s.w.by[s.name] = map[string]bool{}
	}
	s.w.by[s.name][id] = true
	if s.w.active[id]++; s.w.active[id] > 1 {
		s.w.overlaps++
	}
	s.w.mu.Unlock()
	select {
	case <-time.After(takes):
	case <-ctx.Done():
		res.Class = retry.Cancelled
	}
	res.Duration = time.Since(res.StartedAt)
	s.w.mu.Lock()
	s.w.active[id]--
	s.w.mu.Unlock()
	return res
}

// kill is kill -9: nothing of the process reaches Kafka any more. What is left of it in memory ends by itself.
func (w *world) kill(name string, stop func() error) {
	w.t.Helper()
	w.links[name].breaks(errRefused)
	go func() { _ = stop() }()
}

// everyEndpoint knows all ids; those that say so are strict.
type everyEndpoint struct{}

func (everyEndpoint) Get(id string) (*endpoint.Endpoint, bool) {
	order := schemas.OrderOrdered
	if strings.HasPrefix(id, "strict") {
		order = schemas.OrderStrict
	}
	return &endpoint.Endpoint{Endpoint: schemas.Endpoint{ID: id, State: schemas.EndpointEnabled, Order: order}}, true
}
func (everyEndpoint) Deleted(string) bool { return false }

// Processes come and go in order while events flow: each event is delivered once, and
// all units are worked by somebody (C-121, C-134, C-230).
func TestProcessor_SharesUnitsInOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.createTopics()
		a, stopA := w.process("a")
		time.Sleep(10 * time.Second)
		require.NoError(t, a.Ready())
		w.send(100)
		b, stopB := w.process("b")
		w.send(100)
		time.Sleep(time.Minute)
		require.NoError(t, b.Ready())
		w.send(100)
		time.Sleep(10 * time.Second)
		n, again := w.delivered()
		require.Equal(t, 300, n)
		require.Zero(t, again, "orderly moves repeat nothing")
		require.NotEmpty(t, w.by["a"])
		require.NotEmpty(t, w.by["b"])

		w.send(100)
		require.NoError(t, stopA())
		w.send(100)
		time.Sleep(time.Minute)
		n, again = w.delivered()
		require.Equal(t, 500, n)
		require.Zero(t, again)
		require.NoError(t, stopB())
		offsets, err := kadm.NewClient(w.client).FetchOffsets(t.Context(), processor.DefaultConfig().Group)
		require.NoError(t, err)
		var committed int64
		for p := range int32(8) {
			o, ok := offsets.Lookup(w.catalogue.Events(), p)
			require.True(t, ok)
			committed += o.At
		}
		require.Equal(t, int64(500), committed)
	})
}

// C-230: what hangs is cut off at the drain's deadline, the process ends, and the next one posts it again with the same id.
func TestProcessor_StopsWithinItsDrainTimeout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.createTopics()
		w.taking(time.Hour)
		_, stop := w.process("a")
		w.send(20)
		time.Sleep(10 * time.Second)
		begun := time.Now()
		require.NoError(t, stop())
		require.LessOrEqual(t, time.Since(begun), processor.DefaultConfig().DrainTimeout+5*time.Second)
		w.taking(time.Millisecond)
		w.process("b")
		time.Sleep(time.Minute)
		n, again := w.delivered()
		require.Equal(t, 20, n)
		require.Equal(t, 20, again)
	})
}

// C-234: without its topics it does not hang but says which is missing.
func TestProcessor_MissingTopics(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		_, stop := w.process("a")
		time.Sleep(time.Minute)
		require.ErrorContains(t, stop(), "look up topics")
	})
}

// metric reads a counter, a gauge or the sum of a histogram, added up over its labels or of the label's one value.
func metric(t *testing.T, registry *prometheus.Registry, name, label string) (v float64) {
	t.Helper()
	families, err := registry.Gather()
	require.NoError(t, err)
	for _, f := range families {
		for _, m := range f.GetMetric() {
			if f.GetName() == name && (label == "" || m.GetLabel()[0].GetValue() == label) {
				v += m.GetCounter().GetValue() + m.GetGauge().GetValue() + m.GetHistogram().GetSampleSum()
			}
		}
	}
	return v
}

// gauged adds a metric up over processes.
func (w *world) gauged(name string) (sum float64) {
	w.t.Helper()
	for _, reg := range w.regs {
		sum += metric(w.t, reg, name, "")
	}
	return sum
}
