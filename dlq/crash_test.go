package dlq_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/barnabas-webhooks/barnabas/dlq"
	"github.com/barnabas-webhooks/barnabas/topics"
)

// The requests of a replay's transactions.
var txnKeys = map[string]int16{
	"InitProducerID":     int16(kmsg.InitProducerID),
	"AddPartitionsToTxn": int16(kmsg.AddPartitionsToTxn),
	"Produce":            int16(kmsg.Produce),
	"EndTxn":             int16(kmsg.EndTxn),
}

// point is a place in the protocol where something happens: after the nth
// request of a key was written, or its answer was read.
type point struct {
	Key  int16
	Nth  int32
	Read bool
}

// trip is a client hook that calls hit once, at its point.
type trip struct {
	point
	seen atomic.Int32
	hit  func()
}

func (h *trip) OnBrokerWrite(_ kgo.BrokerMetadata, key int16, _ int, _, _ time.Duration, _ error) {
	if !h.Read && key == h.Key && h.seen.Add(1) == h.Nth {
		h.hit()
	}
}

func (h *trip) OnBrokerRead(_ kgo.BrokerMetadata, key int16, _ int, _, _ time.Duration, _ error) {
	if h.Read && key == h.Key && h.seen.Add(1) == h.Nth {
		h.hit()
	}
}

var (
	_ kgo.HookBrokerWrite = (*trip)(nil)
	_ kgo.HookBrokerRead  = (*trip)(nil)
)

// points of a replay of several batches: each request, its answer, the first
// and a later one. A point that is never reached is a run that ends by itself.
func points() map[string]point {
	out := map[string]point{}
	for name, key := range txnKeys {
		for _, nth := range []int32{1, 3} {
			if key == int16(kmsg.InitProducerID) && nth > 1 {
				continue // a replay takes its id once, and never recovers it
			}
			out[fmt.Sprintf("%s %d written", name, nth)] = point{key, nth, false}
			out[fmt.Sprintf("%s %d answered", name, nth)] = point{key, nth, true}
		}
	}
	return out
}

// requireEachOnce runs a replay to its end and checks that everything was
// replayed once, and is marked so.
func (r *rig) requireEachOnce(n int) {
	r.t.Helper()
	res, err := r.replay(dlq.Filter{All: true})
	if errors.Is(err, dlq.ErrFenced) { // by the last request of one that was killed, which the broker read late: run again, as it says
		res, err = r.replay(dlq.Filter{All: true})
	}
	require.NoError(r.t, err)
	require.Equal(r.t, n, res.Matched)
	require.Equal(r.t, n, res.Replayed+res.AlreadyReplayed)
	ids := r.replayedIDs()
	require.Len(r.t, ids, n)
	for id, times := range ids {
		require.Equal(r.t, 1, times, id)
	}
	require.Empty(r.t, r.collect(dlq.Filter{}))
	require.Len(r.t, r.collect(dlq.Filter{IncludeReplayed: true}), n)
}

// Ctrl-C at every point of the protocol: what the result says was replayed is
// replayed, a second run does the rest, nothing is replayed twice.
func TestReplay_CancelledAnywhere(t *testing.T) {
	t.Parallel()
	for name, at := range points() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t)
			r.endpoints.enable("ep1", "ep2", "ep3")
			const n = 90
			for _, e := range []string{"ep1", "ep2", "ep3"} {
				r.put(letters(e, n/3)...)
			}
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			cut := dlq.New(r.cat, append(r.kafka, kgo.WithHooks(&trip{point: at, hit: cancel}))...)
			o := r.options(dlq.Filter{All: true})
			o.Rate = 100 // batches of 20
			res, err := cut.Replay(ctx, o)
			if ctx.Err() != nil && err != nil {
				require.ErrorIs(t, err, context.Canceled)
				require.True(t, res.Interrupted)
				require.Equal(t, dlq.ExitInterrupted, dlq.ExitCode(res, err))
			} else {
				require.NoError(t, err)
			}
			require.Len(t, r.replayedIDs(), res.Replayed)
			r.requireEachOnce(n)
		})
	}
}

// childSpec is what a child process replays, and where it kills itself.
type childSpec struct {
	Seeds      []string
	Prefix     string
	At         point
	Partitions int
}

// child replays everything and dies by SIGKILL at its point: nothing is
// flushed, closed or aborted.
func child(spec string) int {
	var s childSpec
	if err := json.Unmarshal([]byte(spec), &s); err != nil {
		return 10
	}
	table := endpoints{}
	table.enable("ep1", "ep2", "ep3")
	kill := func() {
		_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
		select {}
	}
	q := dlq.New(topics.Catalogue{Prefix: s.Prefix, Partitions: s.Partitions}, kgo.SeedBrokers(s.Seeds...), kgo.WithHooks(&trip{point: s.At, hit: kill}))
	res, err := q.Replay(context.Background(), dlq.ReplayOptions{Filter: dlq.Filter{All: true}, Rate: 100, Endpoints: table})
	return dlq.ExitCode(res, err)
}

// kill -9 at every point of the protocol, then again, then a run to the end.
func TestReplay_KilledAnywhere(t *testing.T) {
	t.Parallel()
	self, err := os.Executable()
	require.NoError(t, err)
	for name, at := range points() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t)
			r.endpoints.enable("ep1", "ep2", "ep3")
			const n = 60
			for _, e := range []string{"ep1", "ep2", "ep3"} {
				r.put(letters(e, n/3)...)
			}
			spec, err := json.Marshal(childSpec{r.seeds, r.cat.Prefix, at, partitions})
			require.NoError(t, err)
			killed := 0
			for range 2 {
				cmd := exec.CommandContext(t.Context(), self)
				cmd.Env = append(os.Environ(), childEnv+"="+string(spec))
				err := cmd.Run()
				var exit *exec.ExitError
				if errors.As(err, &exit) && exit.Sys().(syscall.WaitStatus).Signaled() { //nolint:forcetypeassert // unix only
					killed++
				} else {
					require.NoError(t, err)
				}
			}
			if at.Key != int16(kmsg.AddPartitionsToTxn) { // newer brokers add partitions on produce
				require.Positive(t, killed)
			}
			r.requireEachOnce(n)
		})
	}
}

// Two operators replay the same letters: the newer takes over, the older is
// told so, and each letter is replayed once.
func TestReplay_TwoOperatorsFenceEachOther(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.endpoints.enable("ep1", "ep2")
	const n = 200
	r.put(letters("ep1", n/2)...)
	r.put(letters("ep2", n/2)...)

	started, takeOver := make(chan struct{}), make(chan struct{})
	var once sync.Once
	var older *dlq.Result
	var olderErr error
	done := make(chan struct{})
	go func() {
		defer close(done)
		o := r.options(dlq.Filter{All: true})
		o.Rate = 50
		o.Progress = func(p dlq.Progress) {
			if p.Phase == dlq.PhaseReplay {
				once.Do(func() {
					close(started)
					<-takeOver // it stands still while the newer one does some work
				})
			}
		}
		older, olderErr = r.queue.Replay(t.Context(), o)
	}()
	<-started
	o := r.options(dlq.Filter{All: true})
	o.Rate = 1000
	var release sync.Once
	o.Progress = func(p dlq.Progress) {
		if p.Phase == dlq.PhaseReplay {
			release.Do(func() { close(takeOver) })
		}
	}
	newer, err := r.queue.Replay(t.Context(), o)
	require.NoError(t, err)
	<-done
	require.ErrorIs(t, olderErr, dlq.ErrFenced)
	require.Equal(t, dlq.ExitFenced, dlq.ExitCode(older, olderErr))
	require.True(t, older.Interrupted)
	require.Equal(t, n, older.Replayed+newer.Replayed)
	require.Equal(t, older.Replayed, newer.AlreadyReplayed)
	r.requireEachOnce(n)
}

// A crowd of operators, started at once and at random, in rounds.
func TestReplay_ManyOperatorsAtOnce(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.endpoints.enable("ep1", "ep2", "ep3")
	const n = 150
	for _, e := range []string{"ep1", "ep2", "ep3"} {
		r.put(letters(e, n/3)...)
	}
	rnd := rand.New(rand.NewPCG(7, uint64(time.Now().UnixNano())))
	for range 4 {
		var wg sync.WaitGroup
		for range 3 {
			ctx, cancel := context.WithCancel(t.Context())
			keys := []int16{int16(kmsg.InitProducerID), int16(kmsg.Produce), int16(kmsg.EndTxn), int16(kmsg.Fetch)}
			at := point{keys[rnd.IntN(len(keys))], rnd.Int32N(8) + 1, rnd.IntN(2) == 0}
			q := dlq.New(r.cat, append(r.kafka, kgo.WithHooks(&trip{point: at, hit: cancel}))...)
			wg.Go(func() {
				defer cancel()
				o := r.options(dlq.Filter{All: true})
				o.Rate = 100
				_, err := q.Replay(ctx, o)
				if err != nil && !errors.Is(err, context.Canceled) && !errors.Is(err, dlq.ErrOutcomeUnknown) {
					if !refusedByBroker(err) {
						t.Errorf("unexpected: %v", err)
					}
				}
			})
		}
		wg.Wait()
	}
	for id, times := range r.replayedIDs() {
		require.Equal(t, 1, times, id)
	}
	r.requireEachOnce(n)
}

// The answer to a commit is lost for good: the outcome is said to be unknown,
// and the next run finds out.
func TestReplay_CommitAnswerLost(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.endpoints.enable("ep1")
	const n = 30
	r.put(letters("ep1", n)...)

	// The client can dial until its second EndTxn was written; from then on the
	// network is gone.
	var mu sync.Mutex
	var conns []net.Conn
	down := false
	dialer := func(ctx context.Context, network, addr string) (net.Conn, error) {
		mu.Lock()
		defer mu.Unlock()
		if down {
			return nil, &net.OpError{Op: "dial", Err: syscall.ECONNREFUSED}
		}
		c, err := (&net.Dialer{}).DialContext(ctx, network, addr)
		if err == nil {
			conns = append(conns, c)
		}
		return c, err
	}
	cut := func() {
		mu.Lock()
		defer mu.Unlock()
		down = true
		for _, c := range conns {
			_ = c.Close()
		}
	}
	q := dlq.New(r.cat, append(r.kafka, kgo.Dialer(dialer), kgo.RequestRetries(1), kgo.RetryTimeout(time.Second),
		kgo.WithHooks(&trip{point: point{int16(kmsg.EndTxn), 2, false}, hit: cut}))...)
	o := r.options(dlq.Filter{All: true})
	o.Rate = 50
	res, err := q.Replay(t.Context(), o)
	require.ErrorIs(t, err, dlq.ErrOutcomeUnknown)
	require.Equal(t, dlq.ExitError, dlq.ExitCode(res, err))
	require.Equal(t, 10, res.Replayed)
	require.Contains(t, []int{10, 20}, len(r.replayedIDs()))
	r.requireEachOnce(n)
}

// On the embedded broker a batch during which a connection broke is not
// committed: a restart may have torn it.
func TestReplay_EmbeddedBrokerConnectionBroke(t *testing.T) {
	t.Parallel()
	const n = 30
	r, stop := boot(t, t.TempDir())
	defer stop()
	r.createTopics(partitions, r.cat.DLQ(), r.cat.DLQState(), r.cat.Replay())
	r.put(letters("ep1", n)...)
	var mu sync.Mutex
	var conns []net.Conn
	dialer := func(ctx context.Context, network, addr string) (net.Conn, error) {
		c, err := (&net.Dialer{}).DialContext(ctx, network, addr)
		mu.Lock()
		defer mu.Unlock()
		if err == nil {
			conns = append(conns, c)
		}
		return c, err
	}
	cut := func() {
		mu.Lock()
		defer mu.Unlock()
		for _, c := range conns {
			_ = c.Close()
		}
	}
	q := dlq.New(r.cat, append(r.kafka, kgo.Dialer(dialer), kgo.WithHooks(&trip{point: point{int16(kmsg.Produce), 2, false}, hit: cut}))...)
	o := r.options(dlq.Filter{All: true})
	o.Rate = 50
	res, err := q.Replay(t.Context(), o)
	require.ErrorContains(t, err, "not committed")
	require.Less(t, res.Replayed, n) // the two topics of a batch take one request or two
	require.Len(t, r.replayedIDs(), res.Replayed)
	r.requireEachOnce(n)
}
