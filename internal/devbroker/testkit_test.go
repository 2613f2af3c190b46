package devbroker_test

import (
	"context"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/barnabas-webhooks/barnabas/internal/devbroker"
)

const topic = "t"

// broker is what clients need to know of one.
type broker interface{ Addr() string }

// addr is a broker that only its address is known of.
type addr string

func (a addr) Addr() string { return string(a) }

// start runs a broker on a directory; it is closed with the test at the latest.
func start(t *testing.T, dir string) *devbroker.Broker {
	t.Helper()
	b, err := devbroker.Start(devbroker.Options{Dir: dir})
	require.NoError(t, err)
	t.Cleanup(func() { _ = b.Close() })
	return b
}

func client(t *testing.T, b broker, opts ...kgo.Opt) *kgo.Client {
	t.Helper()
	cl, err := kgo.NewClient(append([]kgo.Opt{kgo.SeedBrokers(b.Addr()), kgo.MetadataMinAge(50 * time.Millisecond)}, opts...)...)
	require.NoError(t, err)
	t.Cleanup(cl.Close)
	return cl
}

func createTopic(t *testing.T, cl *kgo.Client, name string, partitions int32, configs map[string]string) {
	t.Helper()
	values := make(map[string]*string)
	for k, v := range configs {
		values[k] = kadm.StringPtr(v)
	}
	_, err := kadm.NewClient(cl).CreateTopic(t.Context(), partitions, 1, values, name)
	require.NoError(t, err)
}

// produce writes values to partition 0 of a topic, acknowledged by all.
func produce(t *testing.T, cl *kgo.Client, topic string, values ...string) {
	t.Helper()
	for _, v := range values {
		r := &kgo.Record{Topic: topic, Key: []byte(v[:1]), Value: []byte(v)}
		require.NoError(t, cl.ProduceSync(t.Context(), r).FirstErr())
	}
}

// readAll reads a topic from its start up to where it ends now, which must be
// something that its reader sees.
func readAll(t *testing.T, b broker, topic string, opts ...kgo.Opt) []*kgo.Record {
	t.Helper()
	cl := client(t, b, append([]kgo.Opt{kgo.ConsumeTopics(topic), kgo.ConsumeStartOffset(kgo.NewOffset().AtStart()), kgo.KeepControlRecords()}, opts...)...)
	defer cl.Close()
	adm := kadm.NewClient(cl)
	ends, err := adm.ListCommittedOffsets(t.Context(), topic) // the last stable offset
	require.NoError(t, err)
	require.NoError(t, ends.Error())
	left := make(map[int32]int64)
	ends.Each(func(o kadm.ListedOffset) {
		if o.Offset > 0 {
			left[o.Partition] = o.Offset
		}
	})
	var out []*kgo.Record
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	for len(left) > 0 {
		fetches := cl.PollFetches(ctx)
		require.NoError(t, fetches.Err(), "still to read up to: %v", left)
		fetches.EachRecord(func(r *kgo.Record) {
			if !r.Attrs.IsControl() {
				out = append(out, r)
			}
			if end, ok := left[r.Partition]; ok && r.Offset >= end-1 {
				delete(left, r.Partition)
			}
		})
	}
	return out
}

func committed() kgo.Opt { return kgo.FetchIsolationLevel(kgo.ReadCommitted()) }

func valuesOf(rs []*kgo.Record) []string {
	var out []string
	for _, r := range rs {
		out = append(out, string(r.Value))
	}
	return out
}

// crash is what kill -9 leaves behind: the directory as it is now, without a
// word to the broker. The copy is given; the broker goes on with the original.
func crash(t *testing.T, dir string) string {
	t.Helper()
	to := t.TempDir()
	require.NoError(t, filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(dir, path)
		if err != nil || rel == "lock" || rel == "clean" {
			return err
		}
		if d.IsDir() {
			return os.MkdirAll(filepath.Join(to, rel), 0o700)
		}
		b, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		return os.WriteFile(filepath.Join(to, rel), b, 0o600)
	}))
	return to
}

// request sends one raw request to the broker and wants its answer.
func request[T kmsg.Response](t *testing.T, cl *kgo.Client, req kmsg.Request) T {
	t.Helper()
	resp, err := cl.Request(t.Context(), req)
	require.NoError(t, err)
	out, ok := resp.(T)
	require.True(t, ok, "%T", resp)
	return out
}

// virtual is a broker and clients in a synctest bubble.
type virtual struct{ net kfake.VirtualNetwork }

func (v *virtual) start(t *testing.T, dir string) *devbroker.Broker {
	t.Helper()
	b, err := devbroker.Start(devbroker.Options{Dir: dir, Port: 9092, Listen: v.net.Listen})
	require.NoError(t, err)
	t.Cleanup(func() { _ = b.Close() })
	return b
}

func (v *virtual) dialer() kgo.Opt { return kgo.Dialer(v.net.DialContext) }

// gate is a dialer that can cut every connection it made, for ever: a client
// that dies without a word.
type gate struct {
	mu    sync.Mutex // guards conns, shut
	conns []net.Conn
	shut  bool
}

func (g *gate) dial(ctx context.Context, network, addr string) (net.Conn, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.shut {
		return nil, fmt.Errorf("the gate is shut: %w", net.ErrClosed)
	}
	conn, err := (&net.Dialer{}).DialContext(ctx, network, addr)
	if err == nil {
		g.conns = append(g.conns, conn)
	}
	return conn, err
}

func (g *gate) cut() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.shut = true
	for _, c := range g.conns {
		_ = c.Close()
	}
}
