package topics_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/barnabas-webhooks/barnabas/schemas"
	"github.com/barnabas-webhooks/barnabas/topics"
)

func TestCatalogue_Names(t *testing.T) {
	t.Parallel()
	c := topics.DefaultCatalogue()
	require.NoError(t, c.Validate())
	require.Equal(t, []string{
		"barnabas.events", "barnabas.retry.1m", "barnabas.retry.10m", "barnabas.retry.1h", "barnabas.retry.6h", "barnabas.replay",
	}, c.Consumed())
	require.Equal(t, append(c.Consumed(), "barnabas.idempotency", "barnabas.breakers", "barnabas.lines", "barnabas.dlq", "barnabas.dlq.state", "barnabas.attempts"), c.Units())
	require.Equal(t, append(c.Units(), "barnabas.endpoints"), c.All())
}

func TestCatalogue_TierNamesAreShortAndExact(t *testing.T) {
	t.Parallel()
	for d, want := range map[time.Duration]string{
		time.Minute: "1m", 10 * time.Minute: "10m", time.Hour: "1h", 6 * time.Hour: "6h", 90 * time.Second: "1m30s",
		200 * time.Millisecond: "200ms", 10 * time.Second: "10s", 1500 * time.Millisecond: "1.5s", 100 * time.Hour: "100h",
		90 * time.Minute: "1h30m", time.Hour + time.Second: "1h0m1s", time.Hour + 10*time.Second: "1h0m10s",
		20 * time.Minute: "20m", 10*time.Minute + 10*time.Second: "10m10s", 20 * time.Hour: "20h",
	} {
		name := topics.Catalogue{Tiers: []time.Duration{d}}.Tier(0)
		require.Equal(t, "retry."+want, name)
		back, err := time.ParseDuration(want)
		require.NoError(t, err)
		require.Equal(t, d, back)
	}
}

// C-203, C-095: broken configuration is named, all of it at once.
func TestCatalogue_Validate(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name   string
		change func(*topics.Catalogue)
		want   []string
	}{
		{"zero", func(c *topics.Catalogue) { *c = topics.Catalogue{} }, []string{"partitions 0", "tiers: at least one"}},
		{"prefix", func(c *topics.Catalogue) { c.Prefix = "a b/" }, []string{`prefix "a b/"`}},
		{"inner character", func(c *topics.Catalogue) { c.Prefix = "a\nb" }, []string{`prefix "a\nb"`}},
		{"long prefix", func(c *topics.Catalogue) { c.Prefix = strings.Repeat("x", 240) }, []string{"longer than 249"}},
		{"partitions", func(c *topics.Catalogue) { c.Partitions = 10_001 }, []string{"partitions 10001"}},
		{"unsorted", func(c *topics.Catalogue) { slices.Reverse(c.Tiers) }, []string{"1h0m0s comes after 6h0m0s"}},
		{"twice", func(c *topics.Catalogue) { c.Tiers = []time.Duration{time.Second, time.Second} }, []string{"must ascend"}},
		{"nothing", func(c *topics.Catalogue) { c.Tiers = []time.Duration{0, -1} }, []string{"0s is not a whole", "-1ns is not a whole"}},
		{"microseconds", func(c *topics.Catalogue) { c.Tiers = []time.Duration{1500 * time.Microsecond} }, []string{"1.5ms is not a whole"}},
		{"several", func(c *topics.Catalogue) { c.Prefix, c.Partitions, c.Tiers = "?", -1, nil }, []string{"prefix", "partitions -1", "tiers"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			c := topics.DefaultCatalogue()
			tt.change(&c)
			err := c.Validate()
			for _, want := range tt.want {
				require.ErrorContains(t, err, want)
			}
		})
	}
	require.NoError(t, topics.Catalogue{Partitions: 1, Tiers: []time.Duration{time.Millisecond}}.Validate(), "no prefix is a prefix")
}

func TestPartition_IsKafkas(t *testing.T) {
	t.Parallel()
	rnd := rand.New(rand.NewPCG(1, 2))
	kafka := kgo.StickyKeyPartitioner(nil).ForTopic("t")
	for i := range 20_000 {
		key := make([]byte, 1+rnd.IntN(40))
		for j := range key {
			key[j] = byte(rnd.Uint32())
		}
		n := 1 + rnd.IntN(300)
		if i%2 == 0 {
			key = fmt.Appendf(nil, "ep_%d", rnd.Uint64())
		}
		require.Equal(t, kafka.Partition(&kgo.Record{Key: key}, n), int(topics.Partition(string(key), n)), "%q of %d", key, n)
	}
}

// The hashes are those of Apache Kafka's own test (UtilsTest.testMurmur2), masked to be positive.
func TestPartition_KnownHashes(t *testing.T) {
	t.Parallel()
	for key, hash := range map[string]int32{
		"21": -973932308, "foobar": -790332482, "a-little-bit-long-string": -985981536,
		"a-little-bit-longer-string": -1486304829, "lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8": -58897971, "abc": 479470107,
	} {
		require.Equal(t, hash&0x7fffffff%1000, topics.Partition(key, 1000), key)
	}
}

// The names in this package are those that package schemas reads.
func TestHeaders_AreThoseThatAreRead(t *testing.T) {
	t.Parallel()
	got, err := schemas.ReadEvent([]byte("ep"), []byte("x"), []schemas.Header{
		{Key: topics.HeaderEventType, Value: []byte("t")},
		{Key: topics.HeaderContentType, Value: []byte("text/plain")},
		{Key: topics.HeaderIdempotencyKey, Value: []byte("k")},
		{Key: topics.HeaderTraceParent, Value: []byte("00-p")},
		{Key: topics.HeaderTraceState, Value: []byte("s")},
	})
	require.NoError(t, err)
	require.Equal(t, schemas.Event{
		EndpointID: "ep", EventType: "t", ContentType: "text/plain", IdempotencyKey: "k", Payload: []byte("x"),
		TraceParent: "00-p", TraceState: "s",
	}, got)
}

// C-014
func TestCatalogue_MessageSizesNeverFall(t *testing.T) {
	t.Parallel()
	c := topics.DefaultCatalogue()
	last := int32(schemas.MaxPayloadBytes)
	for _, topic := range append(c.Consumed(), c.DLQ()) {
		size := c.MaxMessageBytes(topic)
		require.GreaterOrEqual(t, size, last, topic)
		last = size
	}
	require.GreaterOrEqual(t, c.MaxMessageBytes(c.Events()), int32(1_000_012), "what clients fill their batches up to by default")
	require.Greater(t, c.MaxMessageBytes(c.DLQ()), c.MaxMessageBytes(c.Replay()))
	require.Positive(t, c.MaxMessageBytes(""), "franz-go asks for no topic when a client is made")
}
