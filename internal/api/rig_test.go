package api_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/barnabas-webhooks/barnabas/internal/api"
	"github.com/barnabas-webhooks/barnabas/internal/secret"
	"github.com/barnabas-webhooks/barnabas/processor/deliver"
	"github.com/barnabas-webhooks/barnabas/processor/egress"
	"github.com/barnabas-webhooks/barnabas/processor/endpoint"
	"github.com/barnabas-webhooks/barnabas/schemas"
	"github.com/barnabas-webhooks/barnabas/topics"
)

// Bearer keys of the rig.
const (
	acmeProducer   = "acme-producer-0123456789"
	acmeOperator   = "acme-operator-0123456789"
	globexOperator = "globex-operator-0123456789"
	admin          = "admin-0123456789abcdef"
)

func hashOf(token string) string {
	sum := sha256.Sum256([]byte(token))
	return hex.EncodeToString(sum[:])
}

func keys() []api.Key {
	return []api.Key{
		{Name: "acme producer", SHA256: hashOf(acmeProducer), Tenant: "acme", Role: api.RoleProducer},
		{Name: "acme operator", SHA256: hashOf(acmeOperator), Tenant: "acme", Role: api.RoleOperator},
		{Name: "globex operator", SHA256: strings.ToUpper(hashOf(globexOperator)), Tenant: "globex", Role: api.RoleOperator},
		{Name: "admin", SHA256: hashOf(admin), Role: api.RoleAdmin},
	}
}

// rig is an in-memory Kafka with an endpoint table and an arbiter that does in its simplest form what the processor's
// does: verdicts by log order, written to the idempotency topic.
type rig struct {
	t        *testing.T
	cluster  *kfake.Cluster
	addrs    []string // kept: a closed cluster does not tell any more
	topics   topics.Catalogue
	table    *endpoint.Table
	registry *endpoint.Registry
	producer *kgo.Client
}

const partitions = 4

func newRig(t *testing.T) *rig {
	t.Helper()
	c, err := kfake.NewCluster(kfake.NumBrokers(1))
	require.NoError(t, err)
	t.Cleanup(c.Close)
	r := &rig{t: t, cluster: c, addrs: c.ListenAddrs(), topics: topics.Catalogue{Prefix: "barnabas.", Partitions: partitions}}
	for name, n := range map[string]int32{
		r.topics.Events(): partitions, r.topics.Idempotency(): partitions, r.topics.Attempts(): partitions, r.topics.Endpoints(): 1,
		r.topics.DLQ(): partitions,
	} {
		require.NoError(t, c.CreateTopic(name, n, nil))
	}
	sealer, err := endpoint.NewSealer(secret.String(strings.Repeat("0a", 32)))
	require.NoError(t, err)
	r.producer = r.client()
	r.table = endpoint.NewTable(endpoint.TableOptions{Topic: r.topics.Endpoints(), Client: r.dial, Sealer: sealer})
	r.background(r.table.Run)
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	require.NoError(t, r.table.WaitReady(ctx))
	guard, err := egress.NewGuard(egress.DefaultConfig())
	require.NoError(t, err)
	r.registry = endpoint.NewRegistry(endpoint.RegistryOptions{
		Table: r.table, Client: r.client(), Topic: r.topics.Endpoints(), Sealer: sealer, CheckHeaders: deliver.ValidateHeaders,
		CheckURL: func(u string) error {
			_, err := egress.CheckURL(u, egress.URLOptions{Guard: guard})
			return err
		},
	})
	return r
}

func (r *rig) dial(more ...kgo.Opt) (*kgo.Client, error) {
	return kgo.NewClient(append([]kgo.Opt{
		kgo.SeedBrokers(r.addrs...), kgo.MetadataMinAge(10 * time.Millisecond), kgo.FetchMaxWait(100 * time.Millisecond),
	}, more...)...)
}

func (r *rig) client(more ...kgo.Opt) *kgo.Client {
	r.t.Helper()
	cl, err := r.dial(more...)
	require.NoError(r.t, err)
	r.t.Cleanup(cl.Close)
	return cl
}

// background runs something until the test ends.
func (r *rig) background(run func(context.Context) error) {
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- run(ctx) }()
	r.t.Cleanup(func() {
		cancel()
		require.NoError(r.t, <-done)
	})
}

// put makes an endpoint of a tenant.
func (r *rig) put(tenant, id string) {
	r.t.Helper()
	_, err := r.registry.Put(r.t.Context(), tenant, endpoint.Settings{ID: id, URL: "https://h.example/" + id})
	require.NoError(r.t, err)
}

// arbiter gives verdicts until the test ends. Hold keeps it from answering until it is closed; nil: it answers at once.
func (r *rig) arbiter(hold <-chan struct{}) {
	r.t.Helper()
	reader := r.client(kgo.ConsumeTopics(r.topics.Events()))
	writer := r.client(kgo.RecordPartitioner(kgo.ManualPartitioner()))
	owners := map[string]schemas.Claim{}
	r.background(func(ctx context.Context) error {
		for ctx.Err() == nil {
			reader.PollFetches(ctx).EachRecord(func(rec *kgo.Record) {
				if hold != nil {
					select {
					case <-hold:
					case <-ctx.Done():
						return
					}
				}
				event, err := schemas.DecodeEvent(rec.Value)
				if err != nil {
					return
				}
				at := event.EndpointID + "\x00" + event.IdempotencyKey
				claim, taken := owners[at]
				if !taken {
					claim = schemas.Claim{
						EndpointID: event.EndpointID, Key: event.IdempotencyKey, DeliveryID: event.DeliveryID, Verdict: schemas.VerdictFirst,
						PayloadHash: schemas.ContentHash(&event), ClaimedOffset: rec.Offset, ClaimedAt: rec.Timestamp,
					}
					owners[at] = claim
				} else if claim.Verdict = schemas.VerdictDuplicate; !bytes.Equal(claim.PayloadHash, schemas.ContentHash(&event)) {
					claim.Verdict = schemas.VerdictConflict
				}
				claim.AnsweredOffset = rec.Offset
				value, err := schemas.EncodeClaim(&claim)
				if err == nil {
					err = writer.ProduceSync(ctx, &kgo.Record{Topic: r.topics.Idempotency(), Partition: rec.Partition, Value: value}).FirstErr()
				}
				if err != nil && ctx.Err() == nil {
					r.t.Error(err)
				}
			})
		}
		return nil
	})
}

// events reads all of the events topic so far.
func (r *rig) events() (all []schemas.Event) {
	r.t.Helper()
	cl := r.client(kgo.ConsumeTopics(r.topics.Events()))
	defer cl.Close()
	end := int64(0)
	for _, p := range r.cluster.PartitionInfos(r.topics.Events()) {
		end += p.HighWatermark
	}
	for int64(len(all)) < end {
		fs := cl.PollFetches(r.t.Context())
		require.NoError(r.t, fs.Err())
		fs.EachRecord(func(rec *kgo.Record) {
			e, err := schemas.ReadEvent(rec.Key, rec.Value, nil)
			require.NoError(r.t, err)
			require.Equal(r.t, e.EndpointID, string(rec.Key))
			require.Equal(r.t, topics.Partition(e.EndpointID, partitions), rec.Partition)
			all = append(all, e)
		})
	}
	return all
}

// produce writes one record where its key belongs.
func (r *rig) produce(topic, key string, value []byte) {
	r.t.Helper()
	require.NoError(r.t, r.producer.ProduceSync(r.t.Context(), &kgo.Record{Topic: topic, Key: []byte(key), Value: value}).FirstErr())
}

func b64(s string) string { return base64.StdEncoding.EncodeToString([]byte(s)) }

func (r *rig) options() api.Options {
	o := api.Options{
		Config: api.DefaultConfig(), Log: api.NewEventLog(r.producer, r.topics.Events()),
		Endpoints: r.registry, Table: r.table, Topics: r.topics, Client: r.dial,
	}
	o.Keys = keys()
	o.VerdictTimeout = 20 * time.Second // a test that waits for it says so by its own
	return o
}

// serve starts an API with its tail; change may alter the options.
func (r *rig) serve(change func(*api.Options)) *node {
	r.t.Helper()
	o := r.options()
	if change != nil {
		change(&o)
	}
	n := serve(r.t, o)
	r.background(n.api.Run)
	return n
}

// node is one serving API.
type node struct {
	t   *testing.T
	api *api.API
	url string
	// host, if not empty, is what requests say that they go to.
	host string

	mu    sync.Mutex // guards given
	given map[given]bool
}

// serve starts an API without its tail.
func serve(t *testing.T, o api.Options) *node {
	t.Helper()
	a, err := api.New(o)
	require.NoError(t, err)
	n := &node{t: t, api: a, given: map[given]bool{}}
	handler := n.held(a.Handler())
	srv := httptest.NewUnstartedServer(handler)
	srv.Config = api.Server("", handler)
	srv.Start()
	t.Cleanup(srv.Close)
	n.url = srv.URL
	return n
}

// answer is what came back.
type answer struct {
	status  int
	header  http.Header
	text    string
	body    map[string]any
	problem string // the code, of a problem document
}

// call makes a request. Headers are name, value pairs.
func (n *node) call(method, path, token, body string, headers ...string) answer {
	n.t.Helper()
	return n.send(method, path, token, strings.NewReader(body), headers...)
}

func (n *node) send(method, path, token string, body io.Reader, headers ...string) answer {
	n.t.Helper()
	req, err := http.NewRequestWithContext(n.t.Context(), method, n.url+path, body)
	require.NoError(n.t, err)
	req.Host = n.host
	req.Header.Set("Content-Type", "application/json")
	if token != "" {
		req.Header.Set("Authorization", "Bearer "+token)
	}
	for i := 0; i < len(headers); i += 2 {
		req.Header.Add(headers[i], headers[i+1])
	}
	resp, err := http.DefaultClient.Do(req)
	require.NoError(n.t, err)
	defer func() { _ = resp.Body.Close() }()
	return read(n.t, resp)
}

func read(t *testing.T, resp *http.Response) answer {
	t.Helper()
	text, err := io.ReadAll(resp.Body)
	require.NoError(t, err)
	a := answer{status: resp.StatusCode, header: resp.Header, text: string(text)}
	if len(text) > 0 {
		require.NoError(t, json.Unmarshal(text, &a.body), string(text))
	}
	if resp.StatusCode >= 300 {
		require.Equal(t, "application/problem+json", resp.Header.Get("Content-Type"), a.text)
		require.EqualValues(t, resp.StatusCode, a.body["status"])
		require.NotEmpty(t, a.body["title"])
		kind, _ := a.body["type"].(string)
		a.problem = strings.TrimPrefix(kind, "urn:barnabas:problem:")
	}
	return a
}

// post sends an event with a key.
func (n *node) post(token, key, body string, headers ...string) answer {
	n.t.Helper()
	return n.call(http.MethodPost, "/v1/deliveries", token, body, append([]string{"Idempotency-Key", key}, headers...)...)
}

// event is a body for an endpoint.
func event(id, payload string) string {
	return `{"endpoint_id":"` + id + `","event_type":"order.paid","payload":` + payload + `}`
}

// fakeLog is a log whose behaviour a test sets.
type fakeLog struct {
	mu     sync.Mutex
	append func(ctx context.Context, e *schemas.Event) (int32, int64, error)
	events []schemas.Event
}

func (l *fakeLog) Append(ctx context.Context, e *schemas.Event) (int32, int64, error) {
	l.mu.Lock()
	behave := l.append
	l.mu.Unlock()
	if behave != nil {
		if p, o, err := behave(ctx, e); err != nil {
			return p, o, err
		}
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.events = append(l.events, *e)
	return 0, int64(len(l.events) - 1), nil
}

func (l *fakeLog) all() []schemas.Event {
	l.mu.Lock()
	defer l.mu.Unlock()
	return append([]schemas.Event(nil), l.events...)
}

// fakeTable has fixed endpoints.
type fakeTable struct {
	endpoints map[string]*endpoint.Endpoint
	notReady  bool
}

func (f *fakeTable) Get(id string) (*endpoint.Endpoint, bool) {
	ep, ok := f.endpoints[id]
	return ep, ok
}
func (f *fakeTable) Ready() bool { return !f.notReady }

// acme is a table with one endpoint of acme, "e1".
func acme() *fakeTable {
	return &fakeTable{endpoints: map[string]*endpoint.Endpoint{
		"e1": {Endpoint: schemas.Endpoint{
			ID: "e1", Tenant: "acme", URL: "https://h.example/", State: schemas.EndpointEnabled, Order: schemas.OrderOrdered,
		}},
	}}
}

// fakes are options without Kafka: all events go to the log, nobody gives verdicts.
func fakes(log api.Log, table api.Table) api.Options {
	o := api.Options{
		Config: api.DefaultConfig(), Log: log, Table: table, Topics: topics.Catalogue{Prefix: "barnabas.", Partitions: partitions},
	}
	o.Keys, o.VerdictTimeout = keys(), 0
	return o
}

// safeBuffer takes a log from many goroutines.
type safeBuffer struct {
	mu sync.Mutex // guards b
	b  bytes.Buffer
}

func (s *safeBuffer) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.Write(p)
}

func (s *safeBuffer) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.String()
}

// quoted is a text as JSON.
func quoted(s string) string {
	b, _ := json.Marshal(s)
	return string(b)
}
