package claim

import "sync/atomic"

// Memory gives each unit a store that is gone with its owner. Safe for concurrent use.
type Memory struct{ held atomic.Int64 }

// Open gives an empty store: the whole log is to be read.
func (m *Memory) Open(int32, Log) (Store, error) {
	return &inMemory{held: &m.held, generations: map[int64]map[Fingerprint]Owner{}}, nil
}

// Renew does nothing: what is in memory does not fail.
func (m *Memory) Renew() error { return nil }

// Stats reads how many claims are held.
func (m *Memory) Stats() Stats { return Stats{Held: m.held.Load()} }

// NewMemory makes a store by itself.
func NewMemory() Store {
	s, _ := new(Memory).Open(0, Log{})
	return s
}

// inMemory is a Store in maps. Not safe for concurrent use.
type inMemory struct {
	held        *atomic.Int64 // of all units
	generations map[int64]map[Fingerprint]Owner
	position    int64
}

// Generations implements Store.
func (m *inMemory) Generations() []int64 {
	numbers := make([]int64, 0, len(m.generations))
	for n := range m.generations {
		numbers = append(numbers, n)
	}
	return numbers
}

// Get implements Store.
func (m *inMemory) Get(generation int64, key Fingerprint) (Owner, bool, error) {
	o, held := m.generations[generation][key]
	return o, held, nil
}

// Put implements Store.
func (m *inMemory) Put(generation int64, key Fingerprint, o Owner) error {
	g := m.generations[generation]
	if g == nil {
		g = map[Fingerprint]Owner{}
		m.generations[generation] = g
	}
	before := len(g)
	g[key] = o
	m.held.Add(int64(len(g) - before))
	return nil
}

// DropBelow implements Store.
func (m *inMemory) DropBelow(generation int64) error {
	for n, g := range m.generations {
		if n < generation {
			m.held.Add(-int64(len(g)))
			delete(m.generations, n)
		}
	}
	return nil
}

// Position implements Store.
func (m *inMemory) Position() int64 { return m.position }

// SetPosition implements Store.
func (m *inMemory) SetPosition(next int64) error {
	m.position = next
	return nil
}

// Len implements Store.
func (m *inMemory) Len() int64 {
	var n int64
	for _, g := range m.generations {
		n += int64(len(g))
	}
	return n
}

// Close implements Store.
func (m *inMemory) Close() {
	m.held.Add(-m.Len())
	m.generations = nil
}
