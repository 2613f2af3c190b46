// Package lease says whether a process may still take its units for its own.
//
// The group gives a member up that it has not heard of for a session. A process
// that was frozen (SIGSTOP, a suspended machine, a network that swallows
// everything) goes on in the belief that nothing happened, and until the broker
// tells it otherwise it would start attempts that the units' next owner starts
// as well. So it watches its own silence: the group's word is good for one
// session from when it was asked for, and when that is over no attempt is
// started until the group has confirmed the member.
//
//	held ── no word for a session ──▶ lapsed ── somebody wants it ──▶ asking
//	  ▲                                                                 │
//	  └────────────────────── the group confirms ◀──────────────────────┘
//
// Any answer to a heartbeat renews a lease that is held: a member that is told
// that it is out drops its units at that moment. One that has lapsed is renewed
// only by an answer that was asked for and says yes.
//
// Silence is measured by two clocks, and the longer one counts. The monotonic
// clock goes on while a process is stopped, but may stand still while the whole
// machine is suspended; the wall clock jumps ahead then, but may be set. A wall
// clock that is set ahead costs one question.
package lease

import (
	"context"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/barnabas-webhooks/barnabas/internal/obs"
)

// askAgain is the wait after a question that was not answered with yes.
const askAgain = 100 * time.Millisecond

// Reading is both clocks at one moment.
type Reading struct {
	Wall time.Time     // without its monotonic part
	Mono time.Duration // since some fixed moment
}

// Since is the time between two readings: what the clock says that says more.
func (r Reading) Since(earlier Reading) time.Duration {
	return max(r.Mono-earlier.Mono, r.Wall.Sub(earlier.Wall))
}

// Lease is one process's membership of its group. Its methods may be called from any goroutine.
type Lease struct {
	term time.Duration
	ask  func(context.Context) error
	log  *slog.Logger
	base time.Time // what the monotonic clock is read against

	word   atomic.Pointer[Reading] // when the last answer that counts was asked for; nil: never
	wanted chan struct{}

	mu      sync.Mutex // guards waiting
	waiting []func()
}

// New makes a lease that nobody has confirmed yet. term is the group's session
// timeout; ask returns nil when the group confirms this process as the member
// that its units were assigned to.
func New(term time.Duration, ask func(context.Context) error, log *slog.Logger) *Lease {
	return &Lease{term: term, ask: ask, log: log, base: time.Now(), wanted: make(chan struct{}, 1)}
}

// Held says whether the units are this process's for all that is known here. If
// not, the group is asked, and again is called, once, from some goroutine, when it
// has confirmed. again must not block.
func (l *Lease) Held(again func()) bool {
	if l.held(l.now()) {
		return true
	}
	l.mu.Lock()
	l.waiting = append(l.waiting, again)
	l.mu.Unlock()
	// A confirmation that came in between has not seen this one: it is asked for once more.
	select {
	case l.wanted <- struct{}{}:
	default:
	}
	return false
}

// Heard renews a lease that is held: the group has answered a heartbeat that was sent so long ago.
func (l *Lease) Heard(ago time.Duration) {
	if now := l.now(); l.held(now) {
		l.word.Store(&Reading{Wall: now.Wall.Add(-ago), Mono: now.Mono - ago})
	}
}

// Run asks the group whenever somebody wants a lease that is not held, until ctx ends.
func (l *Lease) Run(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-l.wanted:
		}
		if !l.held(l.now()) && !l.renew(ctx) && !l.insist(ctx) {
			return
		}
		l.mu.Lock()
		waiting := l.waiting
		l.waiting = nil
		l.mu.Unlock()
		for _, again := range waiting {
			again()
		}
	}
}

// insist asks until the group has confirmed, or ctx ends: then it is false.
func (l *Lease) insist(ctx context.Context) bool {
	lapsed := l.word.Load()
	if lapsed != nil {
		l.log.Warn("nothing was heard of the group for longer than its session, and it does not confirm this member: no attempt is started until it does",
			obs.KeyDuration, l.now().Since(*lapsed))
	}
	for {
		select {
		case <-ctx.Done():
			return false
		case <-time.After(askAgain):
		}
		if l.renew(ctx) {
			break
		}
	}
	if lapsed != nil {
		l.log.Info("the group has confirmed this member")
	}
	return true
}

// renew asks once. That the group was silent is no sign of trouble by itself: it is
// while a rebalance waits for a member that has died.
func (l *Lease) renew(ctx context.Context) bool {
	ctx, cancel := context.WithTimeout(ctx, l.term)
	defer cancel()
	asked := l.now()
	if l.ask(ctx) != nil {
		return false
	}
	l.word.Store(&asked)
	return true
}

func (l *Lease) held(now Reading) bool {
	word := l.word.Load()
	return word != nil && now.Since(*word) < l.term
}

func (l *Lease) now() Reading {
	now := time.Now()
	return Reading{Wall: now.Round(0), Mono: now.Sub(l.base)}
}
