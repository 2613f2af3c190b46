package processor_test

import (
	"context"
	"net"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/barnabas-webhooks/barnabas/processor"
)

// swallower is a network that takes everything and delivers nothing while it is shut, in both directions: what a
// frozen process and its broker have of one another.
type swallower struct {
	dial func(context.Context, string, string) (net.Conn, error)

	mu   sync.Mutex // guards open
	open chan struct{}
}

func newSwallower(dial func(context.Context, string, string) (net.Conn, error)) *swallower {
	s := &swallower{dial: dial, open: make(chan struct{})}
	close(s.open)
	return s
}

func (s *swallower) shut() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.open = make(chan struct{})
}

func (s *swallower) reopen() {
	s.mu.Lock()
	defer s.mu.Unlock()
	select {
	case <-s.open:
	default:
		close(s.open)
	}
}

func (s *swallower) pass() {
	s.mu.Lock()
	open := s.open
	s.mu.Unlock()
	<-open
}

func (s *swallower) Dial(ctx context.Context, network, addr string) (net.Conn, error) {
	s.pass()
	conn, err := s.dial(ctx, network, addr)
	if err != nil {
		return nil, err
	}
	return &swallowed{Conn: conn, by: s}, nil
}

type swallowed struct {
	net.Conn
	by *swallower
}

func (c *swallowed) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	c.by.pass()
	return n, err
}

func (c *swallowed) Write(b []byte) (int, error) {
	c.by.pass()
	return c.Conn.Write(b)
}

// C-132: a process that hears nothing of its group for a session starts no attempt any more, though it has a queue to
// work off and nobody has told it that its units are somebody else's; what it starts afterwards is its own again.
func TestProcessor_SilenceStartsNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.createTopics()
		w.takes = 2 * time.Second
		network := newSwallower(w.network.DialContext)
		w.more = func(o *processor.Options) { o.Kafka = append(o.Kafka, kgo.Dialer(network.Dial)) }
		_, stop := w.process("a")
		w.more = nil              // the other hears everything
		t.Cleanup(network.reopen) // of a test that has failed: stopping needs it
		const endpoints, each = 10, 40
		for range each {
			w.send(endpoints)
		}
		time.Sleep(20 * time.Second)
		n, again := w.delivered()
		require.Positive(t, n)
		require.Zero(t, again)

		network.shut()
		shut := time.Now()
		w.process("b")
		session := processor.DefaultConfig().SessionTimeout
		time.Sleep(session + 20*time.Second)
		for _, at := range w.startedBy("a") {
			require.Less(t, at.Sub(shut), session, "started by a process that its group has given up")
		}
		require.NotEmpty(t, w.startedBy("b"), "its units are with the other")

		network.reopen()
		time.Sleep(3 * time.Minute)
		n, again = w.delivered()
		require.Equal(t, endpoints*each, n)
		// What it had done and could not settle, a session's worth: ten at once, each takes two seconds.
		require.LessOrEqual(t, again, endpoints*int(session/w.takes+2))
		require.NoError(t, stop())
	})
}
