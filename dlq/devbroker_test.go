package dlq_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/barnabas-webhooks/barnabas/dlq"
	"github.com/barnabas-webhooks/barnabas/topics"
)

// boot starts an embedded broker on a data directory, as barnabas dev does.
func boot(t *testing.T, dir string) (*rig, func()) {
	t.Helper()
	fake, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.DataDir(dir), kfake.ClusterID("barnabas-dev"))
	require.NoError(t, err)
	r := &rig{t: t, fake: fake, seeds: fake.ListenAddrs(), endpoints: endpoints{}, cat: topics.Catalogue{Prefix: "b.", Partitions: partitions}}
	r.kafka = []kgo.Opt{kgo.SeedBrokers(r.seeds...)}
	r.producer, err = kgo.NewClient(append(r.kafka, kgo.RecordPartitioner(kgo.ManualPartitioner()))...)
	require.NoError(t, err)
	r.adm = kadm.NewClient(r.producer)
	r.queue = dlq.New(r.cat, r.kafka...)
	r.endpoints.enable("ep1")
	return r, func() {
		r.producer.Close()
		fake.Close()
	}
}

// The embedded broker is killed with a replay's transaction open, twice. It
// leaves no abort marker then, and would hide later commits of the same
// transactional id, marks among them, from who reads from the start.
func TestReplay_EmbeddedBrokerKilledWithATransactionOpen(t *testing.T) {
	t.Parallel()
	const n = 90
	root := t.TempDir()
	dir := filepath.Join(root, "0")
	r, stop := boot(t, dir)
	r.createTopics(partitions, r.cat.DLQ(), r.cat.DLQState(), r.cat.Replay())
	r.put(letters("ep1", n)...)
	done := 0
	for kill := range 2 {
		// What is on disk while a batch is written and not committed is what a
		// kill -9 leaves; the client does not know of the answer yet, so it cannot have ended it.
		next := filepath.Join(root, fmt.Sprint(kill+1))
		ctx, cancel := context.WithCancel(t.Context())
		q := dlq.New(r.cat, append(r.kafka, kgo.WithHooks(&trip{point: point{int16(kmsg.Produce), 4, true}, hit: func() {
			if err := os.CopyFS(next, os.DirFS(dir)); err != nil {
				t.Error(err)
			}
			cancel()
		}}))...)
		o := r.options(dlq.Filter{All: true})
		o.Rate = 50
		res, err := q.Replay(ctx, o)
		cancel()
		require.ErrorIs(t, err, context.Canceled)
		done += res.Replayed
		require.Equal(t, done, res.Replayed+res.AlreadyReplayed)
		stop()

		dir = next
		r, stop = boot(t, dir)
		require.Len(t, r.collect(dlq.Filter{}), n-done)
	}
	defer func() { stop() }()
	res, err := r.replay(dlq.Filter{All: true, Limit: 20})
	require.NoError(t, err)
	require.Equal(t, 20, res.Replayed)
	r.requireEachOnce(n)
}
