package devbroker_test

import (
	"net"
	"os"
	"path/filepath"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/barnabas-webhooks/barnabas/internal/devbroker"
)

func TestStart_OneProcessPerDirectory(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "made", "by", "start")
	b := start(t, dir)
	_, err := devbroker.Start(devbroker.Options{Dir: dir})
	require.ErrorIs(t, err, devbroker.ErrLocked)
	var locked *devbroker.LockedError
	require.ErrorAs(t, err, &locked)
	require.Equal(t, os.Getpid(), locked.PID)
	require.ErrorContains(t, err, dir)

	require.NoError(t, b.Close())
	require.NoError(t, b.Close(), "a second Close does nothing")
	start(t, dir)
}

func TestStart_SaysWhatIsWrong(t *testing.T) {
	t.Parallel()
	ln, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer func() { _ = ln.Close() }()
	_, port, err := net.SplitHostPort(ln.Addr().String())
	require.NoError(t, err)
	n, err := strconv.Atoi(port)
	require.NoError(t, err)
	dir := t.TempDir()
	_, err = devbroker.Start(devbroker.Options{Dir: dir, Port: n})
	require.ErrorContains(t, err, "127.0.0.1:"+port)
	require.ErrorContains(t, err, "address already in use")
	start(t, dir) // the directory is free again

	file := filepath.Join(t.TempDir(), "file")
	require.NoError(t, os.WriteFile(file, nil, 0o600))
	_, err = devbroker.Start(devbroker.Options{Dir: file})
	require.ErrorContains(t, err, "make data directory")

	broken := t.TempDir()
	require.NoError(t, os.MkdirAll(filepath.Join(broken, "broker"), 0o700))
	require.NoError(t, os.WriteFile(filepath.Join(broken, "broker", "meta.json"), []byte("{"), 0o600))
	_, err = devbroker.Start(devbroker.Options{Dir: broken})
	require.ErrorContains(t, err, "meta.json")
	_, err = devbroker.Start(devbroker.Options{Dir: broken})
	require.NotErrorIs(t, err, devbroker.ErrLocked, "a failed start gives the directory back")
}

func TestBroker_ListensOnLoopbackOnly(t *testing.T) {
	t.Parallel()
	host, _, err := net.SplitHostPort(start(t, t.TempDir()).Addr())
	require.NoError(t, err)
	require.True(t, net.ParseIP(host).IsLoopback(), host)
}

func TestBroker_KeepsEverythingOverARestart(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	b := start(t, dir)
	cl := client(t, b)
	createTopic(t, cl, topic, 3, map[string]string{"cleanup.policy": "compact", "retention.ms": "-1", "max.message.bytes": "2097152"})
	produce(t, cl, topic, "a1", "a2", "b1")
	commitOffset(t, cl, "group", topic, 0, 2, "some metadata")
	cl.Close()
	require.NoError(t, b.Close())

	b = start(t, dir)
	cl = client(t, b)
	require.ElementsMatch(t, []string{"a1", "a2", "b1"}, valuesOf(readAll(t, b, topic)))
	adm := kadm.NewClient(cl)
	configs, err := adm.DescribeTopicConfigs(t.Context(), topic)
	require.NoError(t, err)
	got := make(map[string]string)
	for _, c := range configs[0].Configs {
		got[c.Key] = c.MaybeValue()
	}
	require.Equal(t, "compact", got["cleanup.policy"])
	require.Equal(t, "-1", got["retention.ms"])
	require.Equal(t, "2097152", got["max.message.bytes"])
	details, err := adm.ListTopics(t.Context(), topic)
	require.NoError(t, err)
	require.Len(t, details[topic].Partitions, 3)
	offsets, err := adm.FetchOffsets(t.Context(), "group")
	require.NoError(t, err)
	at, ok := offsets.Lookup(topic, 0)
	require.True(t, ok)
	require.Equal(t, int64(2), at.At)
	require.Equal(t, "some metadata", at.Metadata)
}

// Clients of a broker on a fixed port find it again after its restart.
func TestBroker_ClientsReconnect(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var v virtual
		dir := t.TempDir()
		b := v.start(t, dir)
		cl := client(t, b, v.dialer())
		createTopic(t, cl, topic, 1, nil)
		produce(t, cl, topic, "a1")
		require.NoError(t, b.Close())
		time.Sleep(time.Minute)
		b = v.start(t, dir)
		produce(t, cl, topic, "a2")
		require.Equal(t, []string{"a1", "a2"}, valuesOf(readAll(t, b, topic, v.dialer())))
		cl.Close()
		require.NoError(t, b.Close())
	})
}

// A short session, so that a killed processor's units are taken over soon.
func TestBroker_AllowsShortSessions(t *testing.T) {
	t.Parallel()
	b := start(t, t.TempDir())
	admin := client(t, b)
	createTopic(t, admin, topic, 1, nil)
	produce(t, admin, topic, "a1")
	cl := client(t, b, kgo.ConsumerGroup("g"), kgo.ConsumeTopics(topic), kgo.ConsumeStartOffset(kgo.NewOffset().AtStart()),
		kgo.SessionTimeout(time.Second), kgo.HeartbeatInterval(200*time.Millisecond), kgo.RebalanceTimeout(time.Second))
	fetches := cl.PollFetches(t.Context())
	require.NoError(t, fetches.Err())
	require.Equal(t, 1, fetches.NumRecords())
}
