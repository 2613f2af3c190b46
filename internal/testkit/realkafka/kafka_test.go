//go:build kafka

package realkafka_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/barnabas-webhooks/barnabas/internal/testkit/realkafka"
)

func TestStart_ServesATransactionWithOffsets(t *testing.T) {
	t.Parallel()
	addrs := realkafka.Start(t).Bootstrap()
	name := "realkafka-" + strings.ToLower(t.Name()) + time.Now().UTC().Format("-150405.000000")
	createTopics(t, addrs, name+"-in", name+"-out")
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()

	plain := client(t, addrs)
	require.NoError(t, plain.ProduceSync(ctx, &kgo.Record{Topic: name + "-in", Value: []byte("in")}).FirstErr())

	session, err := kgo.NewGroupTransactSession(
		kgo.SeedBrokers(addrs...), kgo.TransactionalID(name), kgo.ConsumerGroup(name), kgo.ConsumeTopics(name+"-in"),
		kgo.FetchIsolationLevel(kgo.ReadCommitted()), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()),
	)
	require.NoError(t, err)
	defer session.Close()
	require.Equal(t, "in", one(ctx, t, session.PollFetches))
	require.NoError(t, session.Begin())
	require.NoError(t, session.ProduceSync(ctx, &kgo.Record{Topic: name + "-out", Value: []byte("out")}).FirstErr())
	committed, err := session.End(ctx, kgo.TryCommit)
	require.NoError(t, err)
	require.True(t, committed)

	reader := client(t, addrs, kgo.ConsumeTopics(name+"-out"), kgo.FetchIsolationLevel(kgo.ReadCommitted()),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))
	require.Equal(t, "out", one(ctx, t, reader.PollFetches))
	offsets, err := kadm.NewClient(plain).FetchOffsets(ctx, name)
	require.NoError(t, err)
	at, ok := offsets.Lookup(name+"-in", 0)
	require.True(t, ok)
	require.Equal(t, int64(1), at.At)
}

func TestBroker_KeepsPortAndDataOverKillAndFreeze(t *testing.T) {
	t.Parallel()
	b := realkafka.StartBrokerT(t, realkafka.BrokerConfig{Settings: map[string]string{"message.max.bytes": "2000000"}})
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	createTopics(t, []string{b.Addr()}, "kept")
	producer := client(t, []string{b.Addr()})
	send := func(ctx context.Context, v string) error {
		return producer.ProduceSync(ctx, &kgo.Record{Topic: "kept", Value: []byte(v)}).FirstErr()
	}
	require.NoError(t, send(ctx, "before"))

	first := b.PID()
	require.NoError(t, b.Kill())
	require.Zero(t, b.PID())
	require.ErrorIs(t, b.Freeze(), realkafka.ErrStopped)
	require.NoError(t, b.Restart(ctx))
	require.NotEqual(t, first, b.PID())
	require.NoError(t, send(ctx, "after kill"))

	// A frozen broker takes connections and answers nothing; what was sent meanwhile arrives when it goes on.
	require.NoError(t, b.Freeze())
	sent := make(chan error, 1)
	go func() { sent <- send(ctx, "while frozen") }()
	short, done := context.WithTimeout(ctx, 500*time.Millisecond)
	defer done()
	require.ErrorIs(t, client(t, []string{b.Addr()}).Ping(short), context.DeadlineExceeded)
	require.NoError(t, b.Thaw())
	require.NoError(t, <-sent)

	require.NoError(t, b.Freeze())
	require.NoError(t, b.Stop(ctx), "a frozen broker is stopped in order")
	require.NoError(t, b.Restart(ctx))

	reader := client(t, []string{b.Addr()}, kgo.ConsumeTopics("kept"), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))
	var got []string
	for len(got) < 3 {
		fetches := reader.PollFetches(ctx)
		require.NoError(t, fetches.Err0())
		fetches.EachRecord(func(r *kgo.Record) { got = append(got, string(r.Value)) })
	}
	require.Equal(t, []string{"before", "after kill", "while frozen"}, got)
}

func client(t *testing.T, addrs []string, opts ...kgo.Opt) *kgo.Client {
	t.Helper()
	cl, err := kgo.NewClient(append(opts, kgo.SeedBrokers(addrs...))...)
	require.NoError(t, err)
	t.Cleanup(cl.Close)
	return cl
}

func createTopics(t *testing.T, addrs []string, names ...string) {
	t.Helper()
	resp, err := kadm.NewClient(client(t, addrs)).CreateTopics(t.Context(), 1, 1, nil, names...)
	require.NoError(t, err)
	require.NoError(t, resp.Error())
}

// one polls until there is a record and returns its value.
func one(ctx context.Context, t *testing.T, poll func(context.Context) kgo.Fetches) string {
	t.Helper()
	for {
		fetches := poll(ctx)
		require.NoError(t, fetches.Err0())
		if records := fetches.Records(); len(records) > 0 {
			return string(records[0].Value)
		}
	}
}
