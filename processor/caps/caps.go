// Package caps holds what all units of a process share and must not exceed:
// requests in flight, and bytes of records in memory. Neither ever blocks its
// caller: a unit that finds no slot is called when one is free, and the poller
// that finds no room stops fetching.
package caps

import (
	"sync"
	"sync/atomic"
)

// InFlight bounds the requests under way in the whole process.
type InFlight struct {
	limit int

	mu      sync.Mutex // guards what follows
	used    int
	waiters []func()
}

// NewInFlight allows limit requests at once.
func NewInFlight(limit int) *InFlight { return &InFlight{limit: limit} }

// TryAcquire takes a slot. When there is none it returns false and calls free,
// once, when one may be had; free must not block. Waiters are called in the
// order in which they came, one for each slot that is released, so that no unit
// starves another.
func (c *InFlight) TryAcquire(free func()) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.used < c.limit {
		c.used++
		return true
	}
	c.waiters = append(c.waiters, free)
	return false
}

// Release gives a slot back.
func (c *InFlight) Release() {
	c.mu.Lock()
	c.used--
	c.mu.Unlock()
	c.Pass()
}

// Pass calls the next waiter, if a slot is free. A waiter that does not use its
// turn passes it on.
func (c *InFlight) Pass() {
	c.mu.Lock()
	var free func()
	if c.used < c.limit && len(c.waiters) > 0 {
		free = c.waiters[0]
		c.waiters = c.waiters[1:]
	}
	c.mu.Unlock()
	if free != nil {
		free()
	}
}

// Used is how many slots are taken now.
func (c *InFlight) Used() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.used
}

// Memory bounds the bytes of records that the process holds, from the poll that
// brought them until they are settled.
type Memory struct {
	limit int64
	used  atomic.Int64
}

// NewMemory allows limit bytes.
func NewMemory(limit int64) *Memory { return &Memory{limit: limit} }

// Charge counts n bytes in. It never refuses: records that were fetched are
// here already. Intake looks at Full before it fetches more.
func (m *Memory) Charge(n int64) { m.used.Add(n) }

// Release counts n bytes out.
func (m *Memory) Release(n int64) { m.used.Add(-n) }

// Full says that no more should be fetched.
func (m *Memory) Full() bool { return m.used.Load() >= m.limit }

// HalfFull says that records which only wait should be sent away rather than kept.
func (m *Memory) HalfFull() bool { return 2*m.used.Load() >= m.limit }

// Used is how many bytes are held now.
func (m *Memory) Used() int64 { return m.used.Load() }
