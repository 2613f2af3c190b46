package endpoint_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/barnabas-webhooks/barnabas/internal/secret"
	"github.com/barnabas-webhooks/barnabas/processor/deliver"
	"github.com/barnabas-webhooks/barnabas/processor/egress"
	"github.com/barnabas-webhooks/barnabas/processor/endpoint"
	"github.com/barnabas-webhooks/barnabas/schemas"
)

const topic = "barnabas.endpoints"

// keyA and keyB are sealing keys.
var (
	keyA = secret.String(strings.Repeat("0a", 32))
	keyB = secret.String(strings.Repeat("0b", 32))
)

// cluster is an in-memory Kafka with the endpoints topic.
func cluster(t *testing.T, partitions int32, more ...kfake.Opt) *kfake.Cluster {
	t.Helper()
	c, err := kfake.NewCluster(append([]kfake.Opt{kfake.NumBrokers(1)}, more...)...)
	require.NoError(t, err)
	t.Cleanup(c.Close)
	if partitions > 0 {
		require.NoError(t, c.CreateTopic(topic, partitions, compacted()))
	}
	return c
}

func compacted() map[string]string {
	return map[string]string{"cleanup.policy": "compact", "retention.ms": "-1"}
}

func dial(c *kfake.Cluster) func(...kgo.Opt) (*kgo.Client, error) {
	return func(more ...kgo.Opt) (*kgo.Client, error) {
		return kgo.NewClient(append([]kgo.Opt{
			kgo.SeedBrokers(c.ListenAddrs()...), kgo.MetadataMinAge(10 * time.Millisecond), kgo.FetchMaxWait(100 * time.Millisecond),
		}, more...)...)
	}
}

func client(t *testing.T, c *kfake.Cluster, more ...kgo.Opt) *kgo.Client {
	t.Helper()
	cl, err := dial(c)(more...)
	require.NoError(t, err)
	t.Cleanup(cl.Close)
	return cl
}

func sealer(t *testing.T, key secret.String) *endpoint.Sealer {
	t.Helper()
	s, err := endpoint.NewSealer(key)
	require.NoError(t, err)
	return s
}

// start runs a table; it ends with the test.
func start(t *testing.T, c *kfake.Cluster, key secret.String) *endpoint.Table {
	t.Helper()
	table := endpoint.NewTable(endpoint.TableOptions{Topic: topic, Client: dial(c), Sealer: sealer(t, key)})
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- table.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		require.NoError(t, <-done)
	})
	return table
}

// ready runs a table and waits until it has caught up.
func ready(t *testing.T, c *kfake.Cluster, key secret.String) *endpoint.Table {
	t.Helper()
	table := start(t, c, key)
	waitReady(t, table)
	return table
}

func waitReady(t *testing.T, table *endpoint.Table) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	require.NoError(t, table.WaitReady(ctx))
}

// eventually waits for something that another goroutine brings about.
func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	require.Eventually(t, ok, 30*time.Second, 5*time.Millisecond, what)
}

// registry makes one with the rules of a real deployment that is closed to private addresses.
func registry(t *testing.T, c *kfake.Cluster, table *endpoint.Table) *endpoint.Registry {
	t.Helper()
	return endpoint.NewRegistry(options(t, c, table))
}

func options(t *testing.T, c *kfake.Cluster, table *endpoint.Table) endpoint.RegistryOptions {
	t.Helper()
	guard, err := egress.NewGuard(egress.DefaultConfig())
	require.NoError(t, err)
	return endpoint.RegistryOptions{
		Table: table, Client: client(t, c), Topic: topic, Sealer: sealer(t, keyA),
		CheckURL: func(u string) error {
			_, err := egress.CheckURL(u, egress.URLOptions{Guard: guard})
			return err
		},
		CheckHeaders: deliver.ValidateHeaders,
		WriteTimeout: 30 * time.Second,
	}
}

// record is an endpoint as someone else's process would write it.
func record(t *testing.T, id, url string, key []byte) *kgo.Record {
	t.Helper()
	rec := &schemas.Endpoint{ID: id, Tenant: "acme", URL: url, State: schemas.EndpointEnabled, Order: schemas.OrderOrdered}
	if key != nil {
		rec.Secrets = []schemas.SealedSecret{{ID: "sec_1", Ciphertext: sealer(t, keyA).Seal(id, key), CreatedAt: time.Now()}}
	}
	value, err := schemas.EncodeEndpoint(rec)
	require.NoError(t, err)
	return &kgo.Record{Topic: topic, Key: []byte(id), Value: value}
}

func produce(t *testing.T, cl *kgo.Client, recs ...*kgo.Record) {
	t.Helper()
	require.NoError(t, cl.ProduceSync(t.Context(), recs...).FirstErr())
}

// dump reads all values of the topic so far.
func dump(t *testing.T, c *kfake.Cluster) (all []byte) {
	t.Helper()
	cl := client(t, c, kgo.ConsumeTopics(topic))
	end := int64(0)
	for _, p := range c.PartitionInfos(topic) {
		end += p.HighWatermark
	}
	for seen := int64(0); seen < end; {
		fs := cl.PollFetches(t.Context())
		require.NoError(t, fs.Err())
		fs.EachRecord(func(r *kgo.Record) {
			seen++
			all = append(append(all, r.Key...), r.Value...)
		})
	}
	return all
}

// key32 is a signing key of 32 equal bytes.
func key32(b byte) []byte { return []byte(strings.Repeat(string(rune(b)), 32)) }
