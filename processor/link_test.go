package processor_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/twmb/franz-go/pkg/kfake"
)

// link is how a process reaches the brokers: it can be broken.
type link struct {
	network *kfake.VirtualNetwork
	names   func(addr string) string // resolves; nil: addresses are what they say
	dials   atomic.Int64

	mu    sync.Mutex // guards what follows
	fails error      // of every dial; nil: none
	conns map[*linkConn]struct{}
}

type linkConn struct {
	net.Conn
	link *link
}

func (c *linkConn) Close() error {
	c.link.mu.Lock()
	delete(c.link.conns, c)
	c.link.mu.Unlock()
	return c.Conn.Close()
}

var (
	errRefused = &net.OpError{Op: "dial", Net: "tcp", Err: syscall.ECONNREFUSED}
	errNoName  = &net.OpError{Op: "dial", Net: "tcp", Err: &net.DNSError{Err: "no such host", Name: "kafka.example", IsNotFound: true}}
	errSilent  = errors.New("nothing is answered")
)

func (l *link) dial(ctx context.Context, network, addr string) (net.Conn, error) {
	l.dials.Add(1)
	l.mu.Lock()
	fails := l.fails
	l.mu.Unlock()
	switch {
	case errors.Is(fails, errSilent):
		<-ctx.Done()
		return nil, fmt.Errorf("dial %s: %w", addr, context.Cause(ctx))
	case fails != nil:
		select { // a refusal takes its time too
		case <-time.After(time.Millisecond):
		case <-ctx.Done():
		}
		return nil, fails
	}
	if l.names != nil {
		addr = l.names(addr)
	}
	conn, err := l.network.DialContext(ctx, network, addr)
	if err != nil {
		return nil, err
	}
	c := &linkConn{Conn: conn, link: l}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.conns == nil {
		l.conns = map[*linkConn]struct{}{}
	}
	l.conns[c] = struct{}{}
	return c, nil
}

// breaks cuts every connection, and lets dials fail so; nil: it is whole again.
func (l *link) breaks(err error) {
	l.mu.Lock()
	l.fails = err
	var cut []*linkConn
	for c := range l.conns {
		cut = append(cut, c)
	}
	l.mu.Unlock()
	for _, c := range cut {
		_ = c.Close()
	}
}
