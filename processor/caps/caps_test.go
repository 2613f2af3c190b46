package caps_test

import (
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/barnabas-webhooks/barnabas/processor/caps"
)

func TestInFlight_NeverMoreThanItsLimit(t *testing.T) {
	t.Parallel()
	c := caps.NewInFlight(2)
	never := func() { t.Error("called without need") }
	require.True(t, c.TryAcquire(never))
	require.True(t, c.TryAcquire(never))
	require.Equal(t, 2, c.Used())
	called := 0
	require.False(t, c.TryAcquire(func() { called++ }))
	c.Pass()
	require.Zero(t, called, "there is no slot to pass on")
	c.Release()
	require.Equal(t, 1, called)
	require.Equal(t, 1, c.Used(), "being called is not having")
	c.Release()
	require.Equal(t, 1, called, "once")
	require.Zero(t, c.Used())
}

// Waiters are called in the order in which they came, one for each slot.
func TestInFlight_WaitersTakeTurns(t *testing.T) {
	t.Parallel()
	c := caps.NewInFlight(1)
	require.True(t, c.TryAcquire(nil))
	var order []int
	var wait func(i int)
	wait = func(i int) {
		if !c.TryAcquire(func() { order = append(order, i) }) {
			return
		}
		t.Error("there was no slot")
	}
	for i := range 5 {
		wait(i)
	}
	for i := range 5 {
		c.Release()
		require.Len(t, order, i+1)
		require.True(t, c.TryAcquire(nil))
	}
	require.Equal(t, []int{0, 1, 2, 3, 4}, order)
}

// A turn that is not used is passed on, until somebody uses it or nobody waits.
func TestInFlight_UnusedTurnsArePassedOn(t *testing.T) {
	t.Parallel()
	c := caps.NewInFlight(1)
	require.True(t, c.TryAcquire(nil))
	used := false
	for range 3 {
		c.TryAcquire(c.Pass)
	}
	c.TryAcquire(func() { used = c.TryAcquire(nil) })
	later := false
	c.TryAcquire(func() { later = true })
	c.Release()
	require.True(t, used)
	require.False(t, later)
	c.Release()
	require.True(t, later)
	c.Pass()
	require.Zero(t, c.Used())
}

// Any number of users: the limit holds, everybody gets his turns, nothing is left over.
func TestInFlight_Concurrently(t *testing.T) {
	t.Parallel()
	const limit, users, turns = 3, 16, 300
	c := caps.NewInFlight(limit)
	var now, most atomic.Int64
	var wg sync.WaitGroup
	for range users {
		wg.Go(func() {
			for range turns {
				free := make(chan struct{}, 1)
				for !c.TryAcquire(func() { free <- struct{}{} }) {
					<-free
				}
				n := now.Add(1)
				for m := most.Load(); n > m && !most.CompareAndSwap(m, n); m = most.Load() {
				}
				now.Add(-1)
				c.Release()
			}
		})
	}
	wg.Wait()
	require.LessOrEqual(t, most.Load(), int64(limit))
	require.Zero(t, c.Used())
}

func TestMemory_FullAndHalfFull(t *testing.T) {
	t.Parallel()
	m := caps.NewMemory(100)
	for _, step := range []struct {
		change     int64
		half, full bool
	}{{49, false, false}, {1, true, false}, {49, true, false}, {1, true, true}, {500, true, true}, {-501, true, false}, {-50, false, false}} {
		if step.change > 0 {
			m.Charge(step.change)
		} else {
			m.Release(-step.change)
		}
		require.Equal(t, step.half, m.HalfFull(), "%d", m.Used())
		require.Equal(t, step.full, m.Full(), "%d", m.Used())
	}
	require.Equal(t, int64(49), m.Used())
}
