// Package caps holds what all units of a process share and must not exceed:
// requests in flight, and bytes of records in memory. Neither ever blocks its
// caller: a unit that finds no slot is called when one is free, and the poller
// that finds no room stops fetching.
package caps

import (
	"sync"
	"sync/atomic"
)

// Pace says how long a request is thought to keep its slot.
type Pace uint8

// The paces.
const (
	Quick Pace = iota
	Slow       // one that may hang, for all that is known
)

// Paces is how many there are.
const Paces = 2

// keptForQuick is the share of the slots that slow requests do not get: a quarter. When more endpoints hang than
// there are slots, those that answer go on.
const keptForQuick = 4

// InFlight bounds the requests under way in the whole process.
type InFlight struct {
	limit int

	mu      sync.Mutex // guards what follows
	used    [Paces]int
	waiters [Paces][]waiter
	came    uint64 // waiters so far
}

// waiter is who is called when there is a slot.
type waiter struct {
	number  uint64
	granted func()
}

// NewInFlight allows limit requests at once, of which a quarter, rounded down, is for quick ones.
func NewInFlight(limit int) *InFlight { return &InFlight{limit: limit} }

// TryAcquire takes a slot for a request of the given pace. When there is none it returns false and calls granted, once,
// when the caller has been given one: it must use it or release it. granted must not block. Who waits is served in the
// order in which they came, one slot each, so that no unit starves another; but that slow ones wait, and are passed,
// while they have all the slots that they may have.
func (c *InFlight) TryAcquire(p Pace, granted func()) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	// Where there is a slot for somebody, nobody waits who may have it: Release has seen to that.
	if c.room(p) {
		c.used[p]++
		return true
	}
	c.came++
	c.waiters[p] = append(c.waiters[p], waiter{c.came, granted})
	return false
}

// room says whether there is a slot for a request of the pace.
func (c *InFlight) room(p Pace) bool {
	if c.used[Quick]+c.used[Slow] >= c.limit {
		return false
	}
	return p == Quick || c.used[Slow] < c.limit-c.limit/keptForQuick
}

// Release gives a slot back, or on to who has waited longest of those who may have it.
func (c *InFlight) Release(p Pace) {
	c.mu.Lock()
	c.used[p]--
	var next *waiter
	var of Pace
	for q := range Pace(Paces) {
		if len(c.waiters[q]) > 0 && c.room(q) && (next == nil || c.waiters[q][0].number < next.number) {
			next, of = &c.waiters[q][0], q
		}
	}
	var granted func()
	if next != nil {
		granted = next.granted
		c.waiters[of][0] = waiter{}
		c.waiters[of] = c.waiters[of][1:]
		c.used[of]++
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
	return c.used[Quick] + c.used[Slow]
}

// Memory bounds the bytes of records that the process holds, from the poll that
// brought them until they are settled.
type Memory struct {
	limit int64
	used  atomic.Int64
	units atomic.Int64
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

// Divide says among how many units the memory is shared.
func (m *Memory) Divide(units int) { m.units.Store(int64(units)) }

// Units is among how many the memory is shared; at least one.
func (m *Memory) Units() int { return int(max(1, m.units.Load())) }

// Scarce says that a unit that holds so many bytes should take no new work: half is used, and it has half of its even
// share or more. The other half is for what was fetched already, and for units that have less, so that one whose endpoints
// are dead does not keep the others' events out.
func (m *Memory) Scarce(held int64) bool {
	return m.HalfFull() && 2*held*int64(m.Units()) >= m.limit
}

// Used is how many bytes are held now.
func (m *Memory) Used() int64 { return m.used.Load() }
