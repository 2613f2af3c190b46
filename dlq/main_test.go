package dlq_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"go.uber.org/goleak"

	"github.com/barnabas-webhooks/barnabas/dlq"
	"github.com/barnabas-webhooks/barnabas/processor/endpoint"
	"github.com/barnabas-webhooks/barnabas/schemas"
	"github.com/barnabas-webhooks/barnabas/topics"
)

// childEnv makes the test binary a replayer that its parent kills: see crash_test.go.
const childEnv = "BARNABAS_DLQ_TEST_CHILD"

func TestMain(m *testing.M) {
	if spec := os.Getenv(childEnv); spec != "" {
		os.Exit(child(spec))
	}
	goleak.VerifyTestMain(m)
}

// partitions of every unit topic in the tests.
const partitions = 4

// rig is one installation on a broker: Apache Kafka when BARNABAS_TEST_KAFKA
// gives its address, else kfake.
type rig struct {
	t         *testing.T
	fake      *kfake.Cluster // nil on real Kafka
	seeds     []string
	kafka     []kgo.Opt
	cat       topics.Catalogue
	adm       *kadm.Client
	producer  *kgo.Client
	queue     *dlq.Queue
	endpoints endpoints
}

func newRig(t *testing.T) *rig {
	t.Helper()
	r := &rig{t: t, endpoints: endpoints{}}
	if addr := os.Getenv("BARNABAS_TEST_KAFKA"); addr != "" {
		r.seeds = strings.Split(addr, ",")
	} else {
		fake, err := kfake.NewCluster(kfake.NumBrokers(1))
		require.NoError(t, err)
		t.Cleanup(fake.Close)
		r.fake, r.seeds = fake, fake.ListenAddrs()
	}
	r.kafka = []kgo.Opt{kgo.SeedBrokers(r.seeds...)}
	r.cat = topics.Catalogue{Prefix: fmt.Sprintf("dlqtest-%d-%s.", os.Getpid(), strconv.FormatInt(time.Now().UnixNano(), 36)), Partitions: partitions}
	producer, err := kgo.NewClient(append(r.kafka, kgo.RecordPartitioner(kgo.ManualPartitioner()))...)
	require.NoError(t, err)
	t.Cleanup(producer.Close)
	r.producer, r.adm = producer, kadm.NewClient(producer)
	r.createTopics(partitions, r.cat.DLQ(), r.cat.DLQState(), r.cat.Replay())
	r.queue = dlq.New(r.cat, r.kafka...)
	return r
}

func (r *rig) createTopics(n int32, names ...string) {
	r.t.Helper()
	created, err := r.adm.CreateTopics(r.t.Context(), n, 1, map[string]*string{"max.message.bytes": kadm.StringPtr("1048588")}, names...)
	require.NoError(r.t, err)
	require.NoError(r.t, created.Error())
	if r.fake == nil {
		require.Eventually(r.t, func() bool { // not every topic is known everywhere at once
			starts, err := r.adm.ListStartOffsets(r.t.Context(), names...)
			return err == nil && starts.Error() == nil
		}, 10*time.Second, 20*time.Millisecond)
		r.t.Cleanup(func() {
			_, _ = r.adm.DeleteTopics(context.Background(), names...)
		})
	}
}

// put writes dead letters, in order, and returns their references.
func (r *rig) put(letters ...*schemas.DeadLetter) []string {
	r.t.Helper()
	records := make([]*kgo.Record, len(letters))
	for i, l := range letters {
		rec, err := dlq.Record(r.cat.DLQ(), dlq.Partition(l, partitions), l)
		require.NoError(r.t, err)
		records[i] = rec
	}
	return r.produce(records...)
}

func (r *rig) produce(records ...*kgo.Record) []string {
	r.t.Helper()
	require.NoError(r.t, r.producer.ProduceSync(r.t.Context(), records...).FirstErr())
	refs := make([]string, len(records))
	for i, rec := range records {
		refs[i] = fmt.Sprintf("%d/%d", rec.Partition, rec.Offset)
	}
	return refs
}

// letter is a dead letter of a delivery that nine attempts could not land.
// n tells its origin's offset and its time; letters die in the order of n.
func letter(endpoint string, n int) *schemas.DeadLetter {
	accepted := time.Now().Add(-25 * time.Hour).Add(time.Duration(n) * time.Second).UTC().Truncate(time.Millisecond)
	id := fmt.Sprintf("dlv_%s_%d", endpoint, n)
	d := &schemas.Delivery{
		ID: id, EndpointID: endpoint, Tenant: "acme", EventType: "invoice.paid", ContentType: "application/json",
		IdempotencyKey: "key-" + id, Payload: fmt.Appendf(nil, `{"n":%d}`, n), AcceptedAt: accepted,
		Origin:      schemas.Coordinates{Topic: "barnabas.events", Partition: topics.Partition(endpoint, partitions), Offset: int64(1000 + n)},
		TraceParent: "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
		TraceState:  "vendor=1",
		Attempts:    9, Holds: 3, RunStartedAt: accepted, DueAt: accepted.Add(24 * time.Hour),
		History: schemas.History{
			TotalAttempts: 9, FirstAttemptAt: accepted.Add(time.Second), LastAttemptAt: accepted.Add(24 * time.Hour),
			LastClass: "http_5xx", LastStatus: 503, LastError: "503 Service Unavailable", LastExcerpt: []byte("down for repairs"),
		},
	}
	return dlq.FromDelivery(d, "http_5xx", "ninth attempt failed", schemas.Coordinates{Topic: "barnabas.retry.6h", Partition: 1, Offset: int64(n)}, accepted.Add(24*time.Hour))
}

func letters(endpoint string, n int) []*schemas.DeadLetter {
	out := make([]*schemas.DeadLetter, n)
	for i := range out {
		out[i] = letter(endpoint, i)
	}
	return out
}

// options of a replay of everything to the rig's endpoints, as fast as it goes.
func (r *rig) options(f dlq.Filter) dlq.ReplayOptions {
	return dlq.ReplayOptions{Filter: f, Rate: 1e6, Endpoints: r.endpoints, Operator: "tester"}
}

func (r *rig) replay(f dlq.Filter) (*dlq.Result, error) {
	return r.queue.Replay(r.t.Context(), r.options(f))
}

// replayed reads what replays have committed to the replay topic, by partition.
func (r *rig) replayed() map[int32][]*kgo.Record {
	r.t.Helper()
	return r.committed(r.cat.Replay())
}

// replayedIDs counts deliveries in the replay topic.
func (r *rig) replayedIDs() map[string]int {
	r.t.Helper()
	out := map[string]int{}
	for _, records := range r.replayed() {
		for _, rec := range records {
			d, err := schemas.DecodeDelivery(rec.Value)
			require.NoError(r.t, err)
			out[d.ID]++
		}
	}
	return out
}

// committed reads a topic as a read_committed consumer would, with nothing of
// the code under test: it waits until no transaction is open, then reads to the end.
func (r *rig) committed(topic string) map[int32][]*kgo.Record {
	r.t.Helper()
	ctx := r.t.Context()
	var ends kadm.ListedOffsets
	require.Eventually(r.t, func() bool {
		stable, err := r.adm.ListCommittedOffsets(ctx, topic)
		require.NoError(r.t, err)
		ends, err = r.adm.ListEndOffsets(ctx, topic)
		require.NoError(r.t, err)
		same := true
		ends.Each(func(o kadm.ListedOffset) {
			s, _ := stable.Lookup(topic, o.Partition)
			same = same && s.Offset == o.Offset
		})
		return same
	}, 30*time.Second, 20*time.Millisecond)
	from, last := map[int32]kgo.Offset{}, map[int32]int64{}
	ends.Each(func(o kadm.ListedOffset) {
		if o.Offset > 0 {
			from[o.Partition], last[o.Partition] = kgo.NewOffset().AtStart(), o.Offset-1
		}
	})
	out := map[int32][]*kgo.Record{}
	if len(from) == 0 {
		return out
	}
	cl, err := kgo.NewClient(append(r.kafka, kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{topic: from}),
		kgo.FetchIsolationLevel(kgo.ReadCommitted()), kgo.KeepControlRecords(), kgo.FetchMaxWait(100*time.Millisecond))...)
	require.NoError(r.t, err)
	defer cl.Close()
	for len(last) > 0 {
		fetches := cl.PollFetches(ctx)
		require.NoError(r.t, fetches.Err())
		fetches.EachRecord(func(rec *kgo.Record) {
			if !rec.Attrs.IsControl() {
				out[rec.Partition] = append(out[rec.Partition], rec)
			}
			if rec.Offset >= last[rec.Partition] {
				delete(last, rec.Partition)
			}
		})
	}
	return out
}

// collect reads all matching letters.
func (r *rig) collect(f dlq.Filter) []*dlq.Letter {
	r.t.Helper()
	var out []*dlq.Letter
	for l, err := range r.queue.Letters(r.t.Context(), f, dlq.ScanOptions{}) {
		require.NoError(r.t, err)
		out = append(out, l)
	}
	return out
}

// endpoints is a hand-made endpoint table; a nil entry was deleted.
type endpoints map[string]*endpoint.Endpoint

func (e endpoints) Get(id string) (*endpoint.Endpoint, bool) {
	v := e[id]
	return v, v != nil
}

func (e endpoints) Deleted(id string) bool {
	v, known := e[id]
	return known && v == nil
}

func (e endpoints) enable(ids ...string) {
	for _, id := range ids {
		e[id] = &endpoint.Endpoint{Endpoint: schemas.Endpoint{ID: id, Tenant: "acme", State: schemas.EndpointEnabled, URL: "https://example.test/hook"}}
	}
}

func (e endpoints) disable(id string) {
	e.enable(id)
	e[id].State = schemas.EndpointDisabled
}

// lockedBuffer is an io.Writer that several goroutines may use.
type lockedBuffer struct {
	mu sync.Mutex
	b  strings.Builder
}

func (b *lockedBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.Write(p)
}

func (b *lockedBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.String()
}

var _ io.Writer = (*lockedBuffer)(nil)

// refusedByBroker says that a replay was fenced, or cut while being so.
func refusedByBroker(err error) bool {
	return errors.Is(err, dlq.ErrFenced) || errors.Is(err, kerr.ProducerFenced)
}

func kadmOffsets(topic string, p int32, at int64) kadm.Offsets {
	var o kadm.Offsets
	o.Add(kadm.Offset{Topic: topic, Partition: p, At: at})
	return o
}
