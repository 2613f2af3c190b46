package caps

import (
	"sync"
	"time"
)

// Workers run functions on goroutines that are kept for a while for the next one: a request needs a deep stack, and a
// new goroutine would grow its own in every request. How many there are is bounded by who calls Go; the zero value is not ready.
type Workers struct {
	next  chan func() // unbuffered: whoever receives is free now
	ended chan struct{}
	end   func()
}

// keptIdle is how long a goroutine waits for its next function.
const keptIdle = 5 * time.Second

// NewWorkers makes workers of which none has begun yet.
func NewWorkers() *Workers {
	w := &Workers{next: make(chan func()), ended: make(chan struct{})}
	w.end = sync.OnceFunc(func() { close(w.ended) })
	return w
}

// Close lets go of the goroutines that are free, and of the others when they are. Go works still, on a new one each time.
func (w *Workers) Close() { w.end() }

// Go runs f on a goroutine that is free, or else on a new one. It never blocks.
func (w *Workers) Go(f func()) {
	select {
	case w.next <- f:
	default:
		go w.work(f)
	}
}

// work runs one function after the other until none comes for keptIdle, or the end.
func (w *Workers) work(f func()) {
	idle := time.NewTimer(keptIdle)
	defer idle.Stop()
	for {
		f()
		idle.Reset(keptIdle)
		select {
		case f = <-w.next:
		case <-idle.C:
			return
		case <-w.ended:
			return
		}
	}
}
