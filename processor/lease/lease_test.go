package lease_test

import (
	"context"
	"errors"
	"log/slog"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/barnabas-webhooks/barnabas/processor/lease"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const term = 15 * time.Second

// group is what the lease asks.
type group struct {
	asked atomic.Int32
	out   atomic.Bool
	takes atomic.Int64 // ns
}

func (g *group) confirm(ctx context.Context) error {
	g.asked.Add(1)
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(time.Duration(g.takes.Load())):
	}
	if g.out.Load() {
		return errors.New("not a member")
	}
	return nil
}

func run(t *testing.T, g *group) *lease.Lease {
	t.Helper()
	l := lease.New(term, g.confirm, slog.New(slog.DiscardHandler))
	go l.Run(t.Context())
	return l
}

// held waits for the lease, and says after how long it was there.
func held(l *lease.Lease) time.Duration {
	at := time.Now()
	for again := make(chan struct{}); !l.Held(func() { close(again) }); again = make(chan struct{}) {
		<-again
	}
	return time.Since(at)
}

// A process that was silent for a session starts nothing before the group has
// confirmed it, whatever answers come late (C-132).
func TestLease_SilenceEndsIt(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		g := &group{}
		l := run(t, g)
		never := func() { t.Error("confirmed") }

		g.out.Store(true)
		require.False(t, l.Held(func() {}), "nobody has confirmed it yet")
		time.Sleep(time.Minute)
		require.Greater(t, g.asked.Load(), int32(1), "it goes on asking")
		g.out.Store(false)
		require.LessOrEqual(t, held(l), time.Second)

		asked := g.asked.Load()
		for range 20 { // heartbeats that are answered: nobody need be asked
			time.Sleep(term - 1)
			require.True(t, l.Held(never))
			l.Heard(0)
		}
		require.Equal(t, asked, g.asked.Load())

		g.out.Store(true)
		time.Sleep(term)
		l.Heard(0) // the answer that was on its way when the process froze
		again := make(chan struct{})
		require.False(t, l.Held(func() { close(again) }))
		time.Sleep(term)
		l.Heard(0)
		select {
		case <-again:
			require.Fail(t, "confirmed")
		default:
		}
		g.out.Store(false)
		<-again
		require.True(t, l.Held(never))
	})
}

// The word counts from when it was asked for: the group counts from then too, at the latest.
func TestLease_CountsFromTheQuestion(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		g := &group{}
		g.takes.Store(int64(5 * time.Second))
		l := run(t, g)
		held(l)
		time.Sleep(term - 5*time.Second - 1)
		require.True(t, l.Held(nil))
		l.Heard(3 * time.Second)
		time.Sleep(term - 3*time.Second - 1)
		require.True(t, l.Held(nil))
		time.Sleep(time.Nanosecond)
		require.False(t, l.Held(func() {}))
	})
}

// All that wait are called, each once.
func TestLease_CallsAllThatWait(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		g := &group{}
		l := run(t, g)
		g.takes.Store(int64(time.Second))
		called := make([]int, 100)
		for i := range called {
			require.False(t, l.Held(func() { called[i]++ }))
			time.Sleep(10 * time.Millisecond)
		}
		time.Sleep(time.Minute)
		synctest.Wait()
		for _, n := range called {
			require.Equal(t, 1, n)
		}
		require.LessOrEqual(t, g.asked.Load(), int32(2))
	})
}

// A stopped process is told by its monotonic clock, a suspended machine by the wall clock, and a wall clock that was
// set back hides nothing.
func TestReading_TheLongerSilenceCounts(t *testing.T) {
	t.Parallel()
	wall := time.Date(2026, 11, 29, 12, 0, 0, 0, time.UTC)
	before := lease.Reading{Wall: wall, Mono: time.Hour}
	for name, c := range map[string]struct{ wall, mono, want time.Duration }{
		"both":               {time.Minute, time.Minute, time.Minute},
		"suspended":          {time.Minute, 0, time.Minute},
		"wall set back":      {-time.Hour, time.Minute, time.Minute},
		"wall set ahead":     {time.Hour, time.Second, time.Hour},
		"wall slower, a bit": {59 * time.Second, time.Minute, time.Minute},
	} {
		now := lease.Reading{Wall: wall.Add(c.wall), Mono: before.Mono + c.mono}
		require.Equal(t, c.want, now.Since(before), name)
	}
}
