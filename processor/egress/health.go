package egress

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/sync/singleflight"
)

// Cause is what of this side of the network is out of order.
type Cause string

// The causes.
const (
	CauseResolver Cause = "resolver" // it answers nothing, not even that a name does not exist
	CauseNetwork  Cause = "network"  // nobody is reached any more
	CauseProxy    Cause = "proxy"    // the egress proxy is not reached
)

// Causes are all of them.
func Causes() []Cause { return []Cause{CauseResolver, CauseNetwork, CauseProxy} }

// UnhealthyError is a connection that failed, or was not tried, because this side of the network is out of order: no
// endpoint is to blame.
type UnhealthyError struct {
	Cause Cause
	For   time.Duration // how long it has been so
	Err   error         // what failed; nil: it was not tried
}

func (e *UnhealthyError) Error() string {
	says := map[Cause]string{
		CauseResolver: "the resolver does not answer",
		CauseNetwork:  "nobody is reached",
		CauseProxy:    "the egress proxy is not reached",
	}[e.Cause]
	if e.Err == nil {
		return "egress is unhealthy: " + says
	}
	return fmt.Sprintf("egress is unhealthy: %s: %v", says, e.Err)
}

func (e *UnhealthyError) Unwrap() error { return e.Err }

const (
	// canary exists nowhere (RFC 6761 section 6.4), and a resolver that works says so without asking anybody.
	canary = "barnabas-egress-check.invalid."
	// canaryTime is how long it may take; it adds to the time that a lookup takes that fails.
	canaryTime = time.Second
	// probeEvery is how often one connection is tried while a cause stands; all others fail at once.
	probeEvery = time.Second
	// enough hosts that were reached a while ago and are no longer, with nobody reached in between, are no chance.
	enough = 3
	// evidence is for how long a host that was not reached counts.
	evidence = 5 * time.Minute
	// recently is for how long a host counts as one that can be reached.
	recently = 10 * time.Minute
	// mostHosts bounds the hosts that are remembered as reached.
	mostHosts = 4096
)

// Health tells faults of this side from faults of endpoints, by what connections come to:
//
//   - A lookup that fails otherwise than by "no such host" is the resolver's fault if it has answered nobody since then,
//     and does not answer for a name either that every resolver knows not to exist; else it is the name's.
//   - A host that is not reached, no packet of which came back, is the network's fault if it is the third host that
//     was reached within ten minutes and is not any more, and nobody was reached since the first of them. Before
//     anybody was reached, any three hosts will do.
//   - A proxy that is not reached is always this side's.
//
// While a cause stands, one connection a second is tried; the others fail at once with *UnhealthyError. What answers
// ends it. Safe for concurrent use.
type Health struct {
	lookup func(ctx context.Context, host string) error
	checks singleflight.Group
	heard  atomic.Int64 // when a packet last came back, in Unix nanoseconds; 0: never
	told   atomic.Int64 // when the resolver last answered, likewise
	cutOff atomic.Bool  // CauseNetwork stands

	mu       sync.Mutex          // guards what follows
	down     map[Cause]time.Time // since when
	healed   map[Cause]time.Time // until when it was
	probe    map[Cause]time.Time // when the next connection may be tried
	checked  time.Time
	answered bool                 // what the check came to
	missed   map[string]time.Time // hosts that were not reached lately
	reached  map[string]time.Time // hosts that were, the last time
	changed  func(Cause, error)
}

func newHealth(lookup func(context.Context, string) error) *Health {
	return &Health{
		lookup: lookup, down: map[Cause]time.Time{}, healed: map[Cause]time.Time{}, probe: map[Cause]time.Time{},
		missed: map[string]time.Time{}, reached: map[string]time.Time{}, changed: func(Cause, error) {},
	}
}

// OnChange has f called whenever a cause begins, with what showed it, and ends, with nil. f must not block.
func (h *Health) OnChange(f func(Cause, error)) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.changed = f
}

// Down says whether a cause stands.
func (h *Health) Down(c Cause) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	_, down := h.down[c]
	return down
}

// Heard tells that a packet of a receiver came back.
func (h *Health) Heard() {
	h.heard.Store(time.Now().UnixNano())
	if h.cutOff.Load() {
		h.works(CauseNetwork)
	}
}

// admit lets a connection be tried that depends on the given things, or says why not.
func (h *Health) admit(causes ...Cause) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if len(h.down) == 0 {
		return nil
	}
	now := time.Now()
	for _, c := range causes {
		if _, down := h.down[c]; !down {
			continue
		}
		if now.Before(h.probe[c]) {
			return &UnhealthyError{Cause: c, For: now.Sub(h.down[c])}
		}
		h.probe[c] = now.Add(probeEvery)
	}
	return nil
}

// works ends a cause.
func (h *Health) works(c Cause) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if _, down := h.down[c]; down {
		delete(h.down, c)
		h.healed[c] = time.Now()
		h.cutOff.Store(c != CauseNetwork && h.cutOff.Load())
		h.changed(c, nil)
	}
}

// fails begins a cause, or keeps it.
func (h *Health) fails(c Cause, err error) *UnhealthyError {
	h.mu.Lock()
	defer h.mu.Unlock()
	now := time.Now()
	if _, down := h.down[c]; !down {
		h.down[c], h.probe[c] = now, now.Add(probeEvery)
		h.cutOff.Store(c == CauseNetwork || h.cutOff.Load())
		h.changed(c, err)
	}
	return &UnhealthyError{Cause: c, For: now.Sub(h.down[c]), Err: err}
}

// caughtBy says that what began then was under way while a cause stood, though it may be over by now.
func (h *Health) caughtBy(c Cause, began time.Time) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return began.Before(h.healed[c])
}

// resolved judges a lookup, and gives the error that it is to have.
func (h *Health) resolved(ctx context.Context, began time.Time, err error) error {
	switch {
	case err == nil || isNotFound(err):
		h.told.Store(time.Now().UnixNano())
		h.works(CauseResolver)
		return err
	case errors.Is(ctx.Err(), context.Canceled): // given up by the caller: says nothing
		return err
	case h.caughtBy(CauseResolver, began):
		return &UnhealthyError{Cause: CauseResolver, Err: err}
	case h.told.Load() > began.UnixNano(), h.resolverAnswers(): //nolint:contextcheck // one check for all that wait, whoever gives up
		h.works(CauseResolver)
		return err
	}
	return h.fails(CauseResolver, err)
}

// resolverAnswers asks for the name that does not exist, once at a time and a second.
func (h *Health) resolverAnswers() bool {
	answered, _, _ := h.checks.Do("", func() (any, error) {
		h.mu.Lock()
		checked, answered := h.checked, h.answered
		h.mu.Unlock()
		if time.Since(checked) < probeEvery {
			return answered, nil
		}
		ctx, cancel := context.WithTimeout(context.Background(), canaryTime)
		defer cancel()
		err := h.lookup(ctx, canary)
		answered = err == nil || isNotFound(err)
		h.mu.Lock()
		defer h.mu.Unlock()
		h.checked, h.answered = time.Now(), answered
		return answered, nil
	})
	return answered.(bool)
}

func isNotFound(err error) bool {
	var dns *net.DNSError
	return errors.As(err, &dns) && dns.IsNotFound
}

// connected judges what connecting to a host came to, and gives the error that it is to have.
func (h *Health) connected(ctx context.Context, host string, began time.Time, err error) error {
	if err != nil && !unreached(err) {
		if answeredBy(err) {
			h.Heard()
		}
		return err
	}
	now := time.Now()
	if err == nil {
		h.Heard()
		h.remember(host, now)
		return nil
	}
	switch {
	case errors.Is(ctx.Err(), context.Canceled):
		return err
	case h.caughtBy(CauseNetwork, began):
		return &UnhealthyError{Cause: CauseNetwork, Err: err}
	case h.miss(host, now):
		return h.fails(CauseNetwork, err)
	}
	return err
}

// remember keeps a host as one that can be reached.
func (h *Health) remember(host string, now time.Time) {
	h.mu.Lock()
	defer h.mu.Unlock()
	clear(h.missed)
	if _, known := h.reached[host]; !known && len(h.reached) >= mostHosts {
		for whichever := range h.reached {
			delete(h.reached, whichever)
			break
		}
	}
	h.reached[host] = now
}

// miss counts a host as not reached, and says whether that is the network's fault.
func (h *Health) miss(host string, now time.Time) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	if _, down := h.down[CauseNetwork]; down {
		return true
	}
	heard := h.heard.Load()
	if heard > 0 && now.Sub(h.reached[host]) > recently {
		return false
	}
	for m, at := range h.missed {
		if at.UnixNano() < heard || now.Sub(at) > evidence {
			delete(h.missed, m)
		}
	}
	h.missed[host] = now
	return len(h.missed) >= enough
}

// unreached says that no address answered anything.
func unreached(err error) bool {
	var connect *ConnectError
	if !errors.As(err, &connect) {
		return false
	}
	for _, one := range connect.Errs {
		var timeout net.Error
		silent := errors.Is(one, errNoAnswer) || errors.Is(one, context.DeadlineExceeded) ||
			errors.As(one, &timeout) && timeout.Timeout() || errors.Is(one, syscall.ENETUNREACH) ||
			errors.Is(one, syscall.EHOSTUNREACH) || errors.Is(one, syscall.ENETDOWN)
		if !silent {
			return false
		}
	}
	return true
}

// answeredBy says that a failed connection was at least refused: its packets come and go.
func answeredBy(err error) bool {
	return errors.Is(err, syscall.ECONNREFUSED) || errors.Is(err, syscall.ECONNRESET)
}
