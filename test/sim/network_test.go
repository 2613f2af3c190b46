package sim_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"syscall"
	"time"
)

// Network is the wire of one world: in memory, so that a bubble's clock can go
// on while everybody waits for everybody. It does what kfake.VirtualNetwork does,
// and beside it what a simulation of faults needs: connections buffer as the
// kernel does, so a write never waits for its reader; every host can be cut off
// or frozen by itself; bytes may take their time; and single requests and answers
// can be lost.
type Network struct {
	// latency is how long a write takes to arrive; nil: no time. Safe for concurrent use.
	latency func() time.Duration

	mu        sync.Mutex // guards what follows; taken before a stream's
	listeners map[string]*listener
}

// Host is one machine on the network.
type Host struct {
	Name string
	net  *Network
	// tap sees each write of a connection that this host dialled; nil: nobody does.
	tap func(to string, p []byte) Fate

	// What follows is guarded by net.mu.

	conns  map[*conn]struct{}
	down   bool          // nothing reaches it, nothing leaves it
	frozen chan struct{} // closed when it thaws; nil: it is not frozen
}

// Fate is what becomes of one write.
type Fate struct {
	Lose   bool          // it never arrives, and the connection breaks
	Mute   bool          // it arrives, but the connection breaks before its answer
	Silent bool          // Lose or Mute, but the connection only falls silent: the writer must give up by itself
	Late   time.Duration // the answer takes so long
}

var errRefused = fmt.Errorf("dial: %w", syscall.ECONNREFUSED)

// Host makes a machine.
func (n *Network) Host(name string) *Host {
	return &Host{Name: name, net: n, conns: map[*conn]struct{}{}}
}

// Listen takes a port. Addresses are those of one machine: the port says it all.
func (h *Host) Listen(_, address string) (net.Listener, error) {
	_, port, err := net.SplitHostPort(address)
	if err != nil {
		return nil, err
	}
	h.net.mu.Lock()
	defer h.net.mu.Unlock()
	if h.net.listeners == nil {
		h.net.listeners = map[string]*listener{}
	}
	if h.net.listeners[port] != nil {
		return nil, fmt.Errorf("port %s is taken", port)
	}
	l := &listener{host: h, port: port, backlog: make(chan *conn, 1024), closed: make(chan struct{})}
	h.net.listeners[port] = l
	return l, nil
}

// DialContext connects to a port. A frozen machine waits, a dead one is refused.
func (h *Host) DialContext(ctx context.Context, _, address string) (net.Conn, error) {
	_, port, err := net.SplitHostPort(address)
	if err != nil {
		return nil, err
	}
	for {
		h.net.mu.Lock()
		frozen := h.frozen
		if frozen == nil {
			break
		}
		h.net.mu.Unlock()
		select {
		case <-frozen:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
	if c := h.connect(port); c != nil {
		h.net.mu.Unlock()
		return c, nil
	}
	h.net.mu.Unlock()
	// A refusal takes its time. franz-go asks for a producer id again at once, and in no time would do so for ever.
	select {
	case <-time.After(refusal):
		return nil, errRefused
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// refusal is how long it takes to be refused.
const refusal = 10 * time.Millisecond

// connect makes a connection to a port; nil when nobody is there. net.mu is held.
func (h *Host) connect(port string) *conn {
	l := h.net.listeners[port]
	if h.down || l == nil || l.host.down {
		return nil
	}
	here, there := h.net.connect(h, l.host, port)
	select {
	case l.backlog <- there:
	default:
		return nil
	}
	h.conns[here], l.host.conns[there] = struct{}{}, struct{}{}
	return here
}

// Down cuts the machine off at once: its connections break at both ends, what it
// wrote and what has not left it yet is gone, and it is refused everything.
func (h *Host) Down() {
	h.net.mu.Lock()
	defer h.net.mu.Unlock()
	h.down = true
	for c := range h.conns {
		c.kill()
	}
	clear(h.conns)
	h.thaw()
}

// Up lets the machine back in.
func (h *Host) Up() {
	h.net.mu.Lock()
	defer h.net.mu.Unlock()
	h.down = false
}

// Freeze stalls everything between the machine and the others: it reads nothing,
// and what it writes stays in its buffers.
func (h *Host) Freeze() {
	h.net.mu.Lock()
	defer h.net.mu.Unlock()
	if h.frozen != nil || h.down {
		return
	}
	h.frozen = make(chan struct{})
	for c := range h.conns {
		c.freeze()
	}
}

// Thaw lets go: what was buffered arrives now.
func (h *Host) Thaw() {
	h.net.mu.Lock()
	defer h.net.mu.Unlock()
	h.thaw()
}

func (h *Host) thaw() {
	if h.frozen == nil {
		return
	}
	close(h.frozen)
	h.frozen = nil
	for c := range h.conns {
		if c.thaw(); c.closed {
			delete(h.conns, c)
		}
	}
}

// Reset breaks every connection of the machine, once.
func (h *Host) Reset() {
	h.net.mu.Lock()
	defer h.net.mu.Unlock()
	for c := range h.conns {
		c.kill()
	}
	clear(h.conns)
}

// connect makes the two ends of a connection.
func (n *Network) connect(from, to *Host, port string) (here, there *conn) {
	out, in := newStream(n), newStream(n)
	here = &conn{host: from, in: in, out: out, local: addr(from.Name), remote: addr("localhost:" + port), port: port}
	there = &conn{host: to, in: out, out: in, local: addr("localhost:" + port), remote: addr(from.Name)}
	if from.tap != nil {
		here.tap = from.tap
	}
	if to.frozen != nil {
		there.freeze()
	}
	return here, there
}

// delay is how long a write takes.
func (n *Network) delay() time.Duration {
	if n.latency == nil {
		return 0
	}
	return n.latency()
}

type addr string

func (addr) Network() string  { return "sim" }
func (a addr) String() string { return string(a) }

// listener is a port that somebody listens on.
type listener struct {
	host    *Host
	port    string
	backlog chan *conn
	once    sync.Once
	closed  chan struct{}
}

func (l *listener) Accept() (net.Conn, error) {
	select {
	case c := <-l.backlog:
		return c, nil
	case <-l.closed:
		return nil, net.ErrClosed
	}
}

func (l *listener) Close() error {
	l.once.Do(func() {
		close(l.closed)
		l.host.net.mu.Lock()
		defer l.host.net.mu.Unlock()
		delete(l.host.net.listeners, l.port)
		for {
			select {
			case c := <-l.backlog:
				c.kill()
			default:
				return
			}
		}
	})
	return nil
}

func (l *listener) Addr() net.Addr { return addr("localhost:" + l.port) }

var errReset = &net.OpError{Op: "read", Net: "sim", Err: errors.Join(syscall.ECONNRESET)}
