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

// TryAcquire takes a slot. When there is none, or others wait for one, it returns
// false and calls granted, once, when the caller has been given one: it must use it
// or release it. granted must not block. Who waits is served in the order in which
// they came, one slot each, so that no unit starves another.
func (c *InFlight) TryAcquire(granted func()) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.used < c.limit && len(c.waiters) == 0 {
		c.used++
		return true
	}
	c.waiters = append(c.waiters, granted)
	return false
}

// Release gives a slot back, or on to who has waited longest.
func (c *InFlight) Release() {
	c.mu.Lock()
	var granted func()
	if len(c.waiters) > 0 {
		granted = c.waiters[0]
		c.waiters = c.waiters[1:]
	} else {
		c.used--
	}
	c.mu.Unlock()
	if granted != nil {
		granted()
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
