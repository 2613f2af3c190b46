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
	require.True(t, c.TryAcquire(caps.Quick, never))
	require.True(t, c.TryAcquire(caps.Quick, never))
	require.Equal(t, 2, c.Used())
	called := 0
	require.False(t, c.TryAcquire(caps.Quick, func() { called++ }))
	c.Release(caps.Quick)
	require.Equal(t, 1, called)
	require.Equal(t, 2, c.Used(), "who is called has the slot")
	c.Release(caps.Quick)
	c.Release(caps.Quick)
	require.Equal(t, 1, called, "once")
	require.Zero(t, c.Used())
}

// Waiters are given slots in the order in which they came, and nobody takes one past them.
func TestInFlight_WaitersTakeTurns(t *testing.T) {
	t.Parallel()
	c := caps.NewInFlight(1)
	require.True(t, c.TryAcquire(caps.Quick, nil))
	var order []int
	for i := range 5 {
		require.False(t, c.TryAcquire(caps.Quick, func() { order = append(order, i) }))
	}
	for i := range 4 {
		c.Release(caps.Quick)
		require.Len(t, order, i+1)
		require.False(t, c.TryAcquire(caps.Quick, func() { order = append(order, 5+i) }), "others wait")
	}
	for range 5 {
		c.Release(caps.Quick)
	}
	require.Equal(t, []int{0, 1, 2, 3, 4, 5, 6, 7, 8}, order)
	c.Release(caps.Quick)
	require.Zero(t, c.Used())
}

// A slot that is given and not used goes on to the next, until somebody uses it or nobody waits.
func TestInFlight_UnusedSlotsAreHandedOn(t *testing.T) {
	t.Parallel()
	c := caps.NewInFlight(1)
	require.True(t, c.TryAcquire(caps.Quick, nil))
	for range 3 {
		c.TryAcquire(caps.Quick, func() { c.Release(caps.Quick) })
	}
	used, later := false, false
	c.TryAcquire(caps.Quick, func() { used = true })
	c.TryAcquire(caps.Quick, func() { later = true })
	c.Release(caps.Quick)
	require.True(t, used)
	require.False(t, later)
	c.Release(caps.Quick)
	require.True(t, later)
	c.Release(caps.Quick)
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
				if !c.TryAcquire(caps.Quick, func() { granted <- struct{}{} }) {
					<-granted
				}
				n := now.Add(1)
				for m := most.Load(); n > m && !most.CompareAndSwap(m, n); m = most.Load() {
				}
				now.Add(-1)
				c.Release(caps.Quick)
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

// When everything hangs, a quarter of the slots is left to what answers, and the order of those who wait is kept among
// those who may have the slot.
func TestInFlight_SlowOnesLeaveAQuarter(t *testing.T) {
	t.Parallel()
	c := caps.NewInFlight(8)
	var order []string
	note := func(who string) func() { return func() { order = append(order, who) } }
	for range 6 {
		require.True(t, c.TryAcquire(caps.Slow, nil))
	}
	require.False(t, c.TryAcquire(caps.Slow, note("slow 1")))
	require.True(t, c.TryAcquire(caps.Quick, nil), "passes who may not")
	require.True(t, c.TryAcquire(caps.Quick, nil))
	require.False(t, c.TryAcquire(caps.Quick, note("quick 1")))
	require.False(t, c.TryAcquire(caps.Slow, note("slow 2")))
	require.Equal(t, 8, c.Used())

	c.Release(caps.Quick)
	require.Equal(t, []string{"quick 1"}, order, "slow ones have theirs")
	c.Release(caps.Slow)
	require.Equal(t, []string{"quick 1", "slow 1"}, order)
	require.False(t, c.TryAcquire(caps.Quick, note("quick 2")))
	c.Release(caps.Slow)
	require.Equal(t, []string{"quick 1", "slow 1", "slow 2"}, order, "who came first, where both may")
	c.Release(caps.Quick)
	require.Equal(t, []string{"quick 1", "slow 1", "slow 2", "quick 2"}, order)
	for range 6 {
		c.Release(caps.Slow)
	}
	c.Release(caps.Quick)
	c.Release(caps.Quick)
	require.Zero(t, c.Used())
}

// Where slots can be counted on one hand, none is kept: slow requests are made, too.
func TestInFlight_FewSlotsAreForAll(t *testing.T) {
	t.Parallel()
	for limit := range 4 {
		c := caps.NewInFlight(limit)
		for range limit {
			require.True(t, c.TryAcquire(caps.Slow, nil), "of %d", limit)
		}
	}
}

// A unit that has its share of a memory of which half is used takes no more; who has less goes on, and so does anybody
// while there is plenty.
func TestMemory_ScarceForWhoHasHisShare(t *testing.T) {
	t.Parallel()
	m := caps.NewMemory(1000)
	require.False(t, m.Scarce(499), "one unit has it all")
	require.Equal(t, 1, m.Units())
	m.Divide(10)
	require.Equal(t, 10, m.Units())
	require.False(t, m.Scarce(400), "plenty")
	m.Charge(500)
	require.True(t, m.Scarce(50))
	require.False(t, m.Scarce(49))
	m.Divide(2)
	require.False(t, m.Scarce(249))
	require.True(t, m.Scarce(250))
	m.Divide(0)
	require.True(t, m.Scarce(500), "not yet divided: no unit divides by zero")
	m.Release(1)
	require.False(t, m.Scarce(500))
}
