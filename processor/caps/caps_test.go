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
	c.Release()
	require.Equal(t, 1, called)
	require.Equal(t, 2, c.Used(), "who is called has the slot")
	c.Release()
	c.Release()
	require.Equal(t, 1, called, "once")
	require.Zero(t, c.Used())
}

// Waiters are given slots in the order in which they came, and nobody takes one past them.
func TestInFlight_WaitersTakeTurns(t *testing.T) {
	t.Parallel()
	c := caps.NewInFlight(1)
	require.True(t, c.TryAcquire(nil))
	var order []int
	for i := range 5 {
		require.False(t, c.TryAcquire(func() { order = append(order, i) }))
	}
	for i := range 4 {
		c.Release()
		require.Len(t, order, i+1)
		require.False(t, c.TryAcquire(func() { order = append(order, 5+i) }), "others wait")
	}
	for range 5 {
		c.Release()
	}
	require.Equal(t, []int{0, 1, 2, 3, 4, 5, 6, 7, 8}, order)
	c.Release()
	require.Zero(t, c.Used())
}

// A slot that is given and not used goes on to the next, until somebody uses it or nobody waits.
func TestInFlight_UnusedSlotsAreHandedOn(t *testing.T) {
	t.Parallel()
	c := caps.NewInFlight(1)
	require.True(t, c.TryAcquire(nil))
	for range 3 {
		c.TryAcquire(c.Release)
	}
	used, later := false, false
	c.TryAcquire(func() { used = true })
	c.TryAcquire(func() { later = true })
	c.Release()
	require.True(t, used)
	require.False(t, later)
	c.Release()
	require.True(t, later)
	c.Release()
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
				granted := make(chan struct{}, 1)
				if !c.TryAcquire(func() { granted <- struct{}{} }) {
					<-granted
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
