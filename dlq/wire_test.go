package dlq_test

import (
	"context"
	"encoding/binary"
	"io"
	"net"
	"sync"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// wire is a network between a replay and its brokers that tampers with the ends
// of transactions, from the nth on.
type wire struct {
	nth    int
	tamper tampering
	lost   func() // called when the nth answer is there and nobody has heard of it

	mu   sync.Mutex // guards what follows
	ends int        // so many ends were asked for
	told bool
}

type tampering int

const (
	loseRequest  tampering = iota + 1 // the broker never sees it
	loseAnswer                        // the broker acts on it, and nobody hears of it
	loseOne                           // as loseAnswer, but of the nth only
	commitAborts                      // the nth arrives as an abort: an end without an error, and nothing was written
)

// Dial connects through the wire.
func (w *wire) Dial(ctx context.Context, network, addr string) (net.Conn, error) {
	conn, err := (&net.Dialer{}).DialContext(ctx, network, addr)
	if err != nil {
		return nil, err
	}
	return &wireConn{Conn: conn, wire: w}, nil
}

// end is what is to be done with the end of a transaction that is asked for now.
func (w *wire) end() tampering {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.ends++
	only := w.tamper == loseOne || w.tamper == commitAborts
	if w.ends < w.nth || only && w.ends > w.nth {
		return 0
	}
	return w.tamper
}

// hear calls lost, once.
func (w *wire) hear() {
	w.mu.Lock()
	told := w.told
	w.told = true
	w.mu.Unlock()
	if !told && w.lost != nil {
		w.lost()
	}
}

type wireConn struct {
	net.Conn
	wire *wire

	mu    sync.Mutex // guards loses
	loses bool       // the next answer
}

// Write sends one request: a client writes each as a whole, length, key and version first.
func (c *wireConn) Write(b []byte) (int, error) {
	const head = 6
	if len(b) < head || binary.BigEndian.Uint16(b[4:head]) != uint16(kmsg.EndTxn) {
		return c.Conn.Write(b)
	}
	switch c.wire.end() {
	case loseRequest:
		_ = c.Close()
		return len(b), nil
	case loseAnswer, loseOne:
		c.mu.Lock()
		c.loses = true
		c.mu.Unlock()
	case commitAborts:
		aborting := append([]byte{}, b...)
		aborting[len(b)-2] = 0 // the last field, "committed"; behind it is the count of tags, of which there are none
		return c.Conn.Write(aborting)
	}
	return c.Conn.Write(b)
}

// Read loses the answer when it is there: by then the broker has acted.
func (c *wireConn) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.loses {
		_ = c.Close()
		c.wire.hear()
		return 0, io.EOF
	}
	return n, err
}
