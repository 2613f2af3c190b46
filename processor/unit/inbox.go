package unit

import "sync"

// inbox is the unit's queue of things to do. Putting never blocks; what bounds
// it is what bounds its senders: the memory budget, the cap on requests in
// flight, and the beat.
type inbox struct {
	arrived chan struct{} // holds a token while there may be something

	mu     sync.Mutex // guards what follows
	queue  []func()
	closed bool
}

func newInbox() *inbox { return &inbox{arrived: make(chan struct{}, 1)} }

// put queues f, to be run on the unit's goroutine. It returns false when the
// unit has ended and f will never run.
func (b *inbox) put(f func()) bool {
	b.mu.Lock()
	if b.closed {
		b.mu.Unlock()
		return false
	}
	b.queue = append(b.queue, f)
	b.mu.Unlock()
	select {
	case b.arrived <- struct{}{}:
	default:
	}
	return true
}

// take empties the inbox.
func (b *inbox) take() []func() {
	b.mu.Lock()
	defer b.mu.Unlock()
	q := b.queue
	b.queue = nil
	return q
}

// close refuses everything from now on and returns what was left.
func (b *inbox) close() []func() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.closed = true
	q := b.queue
	b.queue = nil
	return q
}
