package settle_test

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
	"os"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/barnabas-webhooks/barnabas/processor/settle"
	"github.com/barnabas-webhooks/barnabas/processor/tracker"
)

// partitions of every topic of a rig.
const partitions = 3

// patience is how long anything may take that must happen, on a busy machine.
const patience = 40 * time.Second

// onBrokers runs a scenario on the fake broker, and on the real one that
// BARNABAS_TEST_KAFKA names, if it names one.
func onBrokers(t *testing.T, scenario func(t *testing.T, addrs []string)) {
	t.Helper()
	t.Run("kfake", func(t *testing.T) {
		t.Parallel()
		scenario(t, fake(t).ListenAddrs())
	})
	if cluster := os.Getenv("BARNABAS_TEST_KAFKA"); cluster != "" {
		t.Run("kafka", func(t *testing.T) {
			t.Parallel()
			scenario(t, strings.Split(cluster, ","))
		})
	}
}

func fake(t *testing.T) *kfake.Cluster {
	t.Helper()
	c, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.GroupMinSessionTimeout(time.Second))
	require.NoError(t, err)
	t.Cleanup(c.Close)
	return c
}

// rig is a settler with a real group member beside it, topics of its own, and units made of batches.
type rig struct {
	t       *testing.T
	addrs   []string
	prefix  string
	admin   *kadm.Client
	plain   *kgo.Client
	group   *kgo.Client
	members *members
	wire    *wire // of the settler's clients
	settler *settle.Settler
	stop    context.CancelFunc
}

func newRig(t *testing.T, addrs []string) *rig {
	t.Helper()
	r := &rig{t: t, addrs: addrs, prefix: "settle-" + uuid.NewString()[:8] + ".", wire: newWire()}
	r.plain = r.client(kgo.RecordPartitioner(kgo.ManualPartitioner()))
	r.admin = kadm.NewClient(r.plain)
	r.create(nil, "in", "also", "out", "dlq")
	r.group = r.client(kgo.ConsumerGroup(r.prefix+"g"), kgo.ConsumeTopics(r.prefix+"in", r.prefix+"also"),
		kgo.DisableAutoCommit(), kgo.SessionTimeout(10*time.Second), kgo.HeartbeatInterval(time.Second))
	poll, endPoll := context.WithCancel(t.Context())
	polled := make(chan struct{})
	go func() {
		defer close(polled)
		for poll.Err() == nil {
			r.group.PollFetches(poll)
		}
	}()
	t.Cleanup(func() { endPoll(); <-polled })
	require.Eventually(t, func() bool { m, _ := r.group.GroupMetadata(); return m != "" }, patience, 10*time.Millisecond)
	r.members = &members{client: r.group, gone: map[int32]bool{}}
	r.start()
	return r
}

// client connects without the faulty wire.
func (r *rig) client(more ...kgo.Opt) *kgo.Client {
	r.t.Helper()
	cl, err := kgo.NewClient(append([]kgo.Opt{kgo.SeedBrokers(r.addrs...)}, more...)...)
	require.NoError(r.t, err)
	r.t.Cleanup(cl.CloseAllowingRebalance)
	return cl
}

func (r *rig) create(configs map[string]*string, names ...string) {
	r.t.Helper()
	for _, name := range names {
		_, err := r.admin.CreateTopic(r.t.Context(), partitions, 1, configs, r.prefix+name)
		require.NoError(r.t, err)
	}
}

// start runs the settler as the processor does, but that requests give up sooner.
func (r *rig) start() {
	r.t.Helper()
	details, err := r.admin.ListTopics(r.t.Context(), r.prefix+"in", r.prefix+"also")
	require.NoError(r.t, err)
	ids := map[string][16]byte{}
	for _, d := range details {
		ids[d.Topic] = d.ID
	}
	const timeout = 10 * time.Second
	r.settler = settle.New(settle.Options{
		Config: settle.Config{Beat: 20 * time.Millisecond, TransactionTimeout: timeout, MaxBytes: 1 << 20, MaxBackoff: 200 * time.Millisecond},
		Group:  r.prefix + "g", Members: r.members, TopicIDs: ids, Log: log(),
		NewClient: func(id string) (*kgo.Client, error) {
			return kgo.NewClient(
				kgo.SeedBrokers(r.addrs...), kgo.Dialer(r.wire.Dial),
				kgo.TransactionalID(id), kgo.TransactionTimeout(timeout),
				kgo.RecordPartitioner(kgo.ManualPartitioner()), kgo.ProducerLinger(0),
				kgo.RecordDeliveryTimeout(2*time.Second), kgo.UnknownTopicRetries(1),
				kgo.RetryTimeout(time.Second), kgo.RequestRetries(2), kgo.MetadataMinAge(50*time.Millisecond),
			)
		},
	})
	ctx, cancel := context.WithCancel(r.t.Context())
	done := make(chan error, 1)
	go func() { done <- r.settler.Run(ctx) }()
	r.stop = sync.OnceFunc(func() {
		cancel()
		require.NoError(r.t, <-done)
	})
	r.t.Cleanup(r.stop)
}

func log() *slog.Logger {
	if os.Getenv("BARNABAS_TEST_LOG") != "" {
		return slog.New(slog.NewTextHandler(os.Stderr, nil))
	}
	return slog.New(slog.DiscardHandler)
}

// members is the group as the settler sees it, with lies of the test's.
type members struct {
	client *kgo.Client

	mu     sync.Mutex // guards what follows
	behind int32      // so many generations
	out    bool       // not in the group
	gone   map[int32]bool
}

func (m *members) Membership() (string, int32) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.out {
		return "", -1
	}
	member, generation := m.client.GroupMetadata()
	return member, generation - m.behind
}

func (m *members) Owns(o settle.Owner) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return !m.gone[o.Unit]
}

func (m *members) set(change func()) {
	m.mu.Lock()
	defer m.mu.Unlock()
	change()
}

// source is a unit that has one batch.
type source struct {
	unit     int32
	outcomes []*settle.Outcome
	commits  []settle.Commit // metadata is made with the beat's tag
	answers  chan error
	sealed   chan sealed // how often it was asked
}

// sealed is how a batch was asked for.
type sealed struct {
	tag   string
	limit int64
}

// want hands a batch over: outcomes of a unit that is at offset in both consumed topics.
func (r *rig) want(unit int32, offset int64, outcomes ...*settle.Outcome) *source {
	s := &source{unit: unit, outcomes: outcomes, answers: make(chan error, 8), sealed: make(chan sealed, 8)}
	for _, topic := range []string{"in", "also"} {
		s.commits = append(s.commits, settle.Commit{Topic: r.prefix + topic, Partition: unit, Offset: offset})
	}
	r.settler.Want(s)
	return s
}

// Gathered implements settle.Source: more than it can have.
func (s *source) Gathered() int64 { return 1 << 30 }

// Seal implements settle.Source, as a unit does: from a goroutine of its own.
func (s *source) Seal(tag string, limit int64, reply chan<- *settle.Batch) bool {
	s.sealed <- sealed{tag, limit}
	b := &settle.Batch{
		Owner: settle.Owner{Unit: s.unit, Assignment: 1}, Tag: tag, Outcomes: s.outcomes,
		Settled: func(err error) { s.answers <- err },
	}
	for _, c := range s.commits {
		_, c.Metadata = tracker.New(c.Offset, "").CommitWith(nil, tag)
		b.Commits = append(b.Commits, c)
	}
	go func() { reply <- b }()
	return true
}

// answer waits for what the settler says of the batch; there must be one answer only.
func (s *source) answer(t *testing.T) error {
	t.Helper()
	select {
	case err := <-s.answers:
		require.Empty(t, s.answers, "answered twice")
		return err
	case <-time.After(patience):
		require.Fail(t, "no answer")
		return nil
	}
}

func (s *source) unanswered(t *testing.T) {
	t.Helper()
	require.Empty(t, s.answers)
}

// outcome is one record.
func (r *rig) outcome(topic string, partition int32, value string) *settle.Outcome {
	return &settle.Outcome{Records: []*kgo.Record{{
		Topic: r.prefix + topic, Partition: partition, Key: []byte("k"), Value: []byte(value),
		Headers: []kgo.RecordHeader{{Key: "h", Value: []byte("v")}},
	}}}
}

// visible is what a reader of committed records sees of a topic, once everything in it is decided.
func (r *rig) visible(topic string) []string {
	r.t.Helper()
	end := uuid.NewString()
	at := map[int32]kgo.Offset{}
	for p := range int32(partitions) {
		at[p] = kgo.NewOffset().AtStart()
		require.NoError(r.t, r.plain.ProduceSync(r.t.Context(), &kgo.Record{
			Topic: r.prefix + topic, Partition: p, Value: []byte(end), Headers: []kgo.RecordHeader{{Key: "sentinel"}},
		}).FirstErr())
	}
	reader := r.client(kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{r.prefix + topic: at}),
		kgo.FetchIsolationLevel(kgo.ReadCommitted()), kgo.FetchMaxWait(100*time.Millisecond))
	defer reader.Close()
	ctx, cancel := context.WithTimeout(r.t.Context(), patience)
	defer cancel()
	values, ends := []string{}, map[int32]bool{}
	for len(ends) < partitions {
		fetches := reader.PollFetches(ctx)
		require.NoError(r.t, fetches.Err0())
		fetches.EachRecord(func(rec *kgo.Record) {
			switch {
			case string(rec.Value) == end:
				require.False(r.t, ends[rec.Partition], "the end of %s[%d] comes twice", topic, rec.Partition)
				ends[rec.Partition] = true
			case len(rec.Headers) == 1 && rec.Headers[0].Key == "sentinel": // of an earlier look
			default:
				values = append(values, string(rec.Value))
			}
		})
	}
	slices.Sort(values)
	return values
}

// committed is where the group stands: topic[partition] to offset, and whether the metadata is ours.
func (r *rig) committed() map[string]int64 {
	r.t.Helper()
	offsets, err := r.admin.FetchOffsets(r.t.Context(), r.prefix+"g")
	require.NoError(r.t, err)
	at := map[string]int64{}
	offsets.Each(func(o kadm.OffsetResponse) {
		require.NoError(r.t, o.Err)
		require.NotEmpty(r.t, tracker.Tag(o.Metadata), "metadata %q", o.Metadata)
		at[fmt.Sprintf("%s[%d]", strings.TrimPrefix(o.Topic, r.prefix), o.Partition)] = o.At
	})
	return at
}

// requireCommitted compares where the group stands: units by offset. What was committed is
// to be seen a moment after the end of its transaction.
func (r *rig) requireCommitted(units map[int32]int64) {
	r.t.Helper()
	want := map[string]int64{}
	for unit, offset := range units {
		want[fmt.Sprintf("in[%d]", unit)], want[fmt.Sprintf("also[%d]", unit)] = offset, offset
	}
	at := time.Now()
	for !maps.Equal(want, r.committed()) && time.Since(at) < 5*time.Second {
		runtime.Gosched()
	}
	require.Equal(r.t, want, r.committed())
}
