package settle_test

import (
	"context"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// wire is the network between a client and its brokers. It can lose things.
type wire struct {
	mu    sync.Mutex // guards what follows
	down  bool
	lose  map[int16]loss // by request key
	lost  int
	conns map[net.Conn]struct{}
}

// loss is what the wire loses of a request.
type loss int

const (
	loseRequest loss = iota + 1 // the broker never sees it
	loseAnswer                  // the broker acts on it, and nobody hears of it
)

var errDown = errors.New("the wire is down")

func newWire() *wire { return &wire{lose: map[int16]loss{}, conns: map[net.Conn]struct{}{}} }

// Lose loses every request of a kind from now on.
func (w *wire) Lose(key kmsg.Key, what loss) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.lose[int16(key)] = what
}

// Lost is how many requests or answers were lost.
func (w *wire) Lost() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.lost
}

// Heal loses nothing any more.
func (w *wire) Heal() {
	w.mu.Lock()
	defer w.mu.Unlock()
	clear(w.lose)
	w.down = false
}

// Cut breaks all connections and lets none be made.
func (w *wire) Cut() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.down = true
	for c := range w.conns {
		_ = c.Close()
	}
	clear(w.conns)
}

// Dial connects through the wire.
func (w *wire) Dial(ctx context.Context, network, addr string) (net.Conn, error) {
	w.mu.Lock()
	down := w.down
	w.mu.Unlock()
	if down {
		return nil, errDown
	}
	d := net.Dialer{Timeout: 5 * time.Second}
	conn, err := d.DialContext(ctx, network, addr)
	if err != nil {
		return nil, err
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.conns[conn] = struct{}{}
	return &wireConn{Conn: conn, wire: w}, nil
}

type wireConn struct {
	net.Conn
	wire *wire

	mu    sync.Mutex // guards loses
	loses bool       // the next answer
}

// Write sends one request: a client writes each as a whole, length and key first.
func (c *wireConn) Write(b []byte) (int, error) {
	const head = 6
	if len(b) < head {
		return c.Conn.Write(b)
	}
	c.wire.mu.Lock()
	what := c.wire.lose[int16(binary.BigEndian.Uint16(b[4:head]))]
	if what != 0 {
		c.wire.lost++
	}
	c.wire.mu.Unlock()
	switch what {
	case loseRequest:
		_ = c.Conn.Close()
		return len(b), nil
	case loseAnswer:
		c.mu.Lock()
		c.loses = true
		c.mu.Unlock()
	}
	return c.Conn.Write(b)
}

// Read loses the answer when it is there: by then the broker has acted.
func (c *wireConn) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.loses {
		_ = c.Conn.Close()
		return 0, io.EOF
	}
	return n, err
}

func (c *wireConn) Close() error {
	c.wire.mu.Lock()
	delete(c.wire.conns, c.Conn)
	c.wire.mu.Unlock()
	return c.Conn.Close()
}
