package sim_test

import (
	"io"
	"net"
	"os"
	"sync"
	"time"
)

// conn is one end of a connection.
type conn struct {
	host          *Host
	in, out       *stream
	local, remote net.Addr
	port          string // dialled; empty at the accepting end
	tap           func(to string, p []byte) Fate
	closed        bool // guarded by the network's mu
}

func (c *conn) Read(p []byte) (int, error) { return c.in.read(p) }

func (c *conn) Write(p []byte) (int, error) {
	if c.tap == nil {
		return c.out.write(p)
	}
	fate := c.tap(c.port, p)
	if fate.Lose {
		c.sever(fate.Silent)
		if fate.Silent {
			return len(p), nil
		}
		return 0, errReset
	}
	n, err := c.out.write(p)
	switch {
	case fate.Mute:
		c.sever(fate.Silent)
	case fate.Late > 0:
		c.in.lag(fate.Late)
	}
	return n, err
}

func (c *conn) Close() error {
	c.host.net.mu.Lock()
	if c.closed = true; c.host.frozen == nil { // else what it has buffered leaves when the machine thaws
		delete(c.host.conns, c)
	}
	c.host.net.mu.Unlock()
	c.in.closeReader(net.ErrClosed)
	c.out.closeWriter(io.EOF, net.ErrClosed)
	return nil
}

// sever ends the connection for what comes after the last write: the peer reads to
// it and then the end; nothing comes back.
func (c *conn) sever(silent bool) {
	c.out.closeWriter(io.EOF, nil)
	c.in.drop()
	if !silent {
		c.in.closeWriter(errReset, nil)
	}
}

// kill breaks both directions: this end has nothing any more, the other gets
// what is on the wire and then a reset.
func (c *conn) kill() {
	c.out.dropHeld()
	c.out.closeWriter(errReset, errReset)
	c.in.closeReader(errReset)
}

func (c *conn) freeze() { c.in.hold(true, false); c.out.hold(false, true) }
func (c *conn) thaw()   { c.in.release(); c.out.release() }

func (c *conn) LocalAddr() net.Addr  { return c.local }
func (c *conn) RemoteAddr() net.Addr { return c.remote }

func (c *conn) SetDeadline(t time.Time) error {
	c.in.reading.set(t)
	c.out.writing.set(t)
	return nil
}
func (c *conn) SetReadDeadline(t time.Time) error  { c.in.reading.set(t); return nil }
func (c *conn) SetWriteDeadline(t time.Time) error { c.out.writing.set(t); return nil }

// stream is one direction: what was written and has not been read.
type stream struct {
	net              *Network
	reading, writing deadline
	wake             chan struct{} // one token: look again

	mu        sync.Mutex // guards what follows
	chunks    []chunk
	last      time.Time // nothing arrives before what was written before it
	readErr   error     // the reader's own end is closed
	writeErr  error     // the writer's is
	end       error     // what comes behind the last chunk; nil: more may come
	endAt     time.Time // zero with an end: held
	muted     bool      // what is written is lost
	readHeld  bool      // the reader is frozen
	writeHeld bool      // the writer is
}

// chunk is one write.
type chunk struct {
	data []byte
	at   time.Time // when it arrives; zero: when the writer thaws
}

func newStream(n *Network) *stream { return &stream{net: n, wake: make(chan struct{}, 1)} }

func (s *stream) signal() {
	select {
	case s.wake <- struct{}{}:
	default:
	}
}

func (s *stream) write(p []byte) (int, error) {
	if s.writing.passed() {
		return 0, os.ErrDeadlineExceeded
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.writeErr != nil:
		return 0, s.writeErr
	case s.muted || s.end != nil:
		return len(p), nil
	}
	s.chunks = append(s.chunks, chunk{append([]byte(nil), p...), s.arrival()})
	s.signal()
	return len(p), nil
}

// arrival is when something that is written now is there; s.mu is held.
func (s *stream) arrival() time.Time {
	if s.writeHeld {
		return time.Time{}
	}
	at := time.Now().Add(s.net.delay())
	if at.Before(s.last) {
		at = s.last
	}
	s.last = at
	return at
}

func (s *stream) read(p []byte) (int, error) {
	for {
		n, err, wait := s.take(p)
		if n > 0 || err != nil || len(p) == 0 {
			return n, err
		}
		expired := s.reading.channel()
		if wait == 0 {
			select {
			case <-s.wake:
			case <-expired:
			}
			continue
		}
		timer := time.NewTimer(wait)
		select {
		case <-s.wake:
		case <-expired:
		case <-timer.C:
		}
		timer.Stop()
	}
}

// take reads what is there; otherwise it says how long until more arrives, 0: nobody knows.
func (s *stream) take(p []byte) (n int, err error, wait time.Duration) { //nolint:revive,staticcheck // the error is of the read, the wait of the next
	s.mu.Lock()
	defer s.mu.Unlock()
	now := time.Now()
	switch {
	case s.readErr != nil:
		return 0, s.readErr, 0
	case s.reading.passed():
		return 0, os.ErrDeadlineExceeded, 0
	case s.readHeld:
		return 0, nil, 0
	case len(s.chunks) > 0:
		c := &s.chunks[0]
		if c.at.IsZero() {
			return 0, nil, 0
		}
		if c.at.After(now) {
			return 0, nil, c.at.Sub(now)
		}
		n = copy(p, c.data)
		if c.data = c.data[n:]; len(c.data) == 0 {
			s.chunks[0] = chunk{}
			if s.chunks = s.chunks[1:]; len(s.chunks) == 0 {
				s.chunks = nil
			}
		}
		return n, nil, 0
	case s.end != nil && !s.endAt.IsZero():
		if s.endAt.After(now) {
			return 0, nil, s.endAt.Sub(now)
		}
		return 0, s.end, 0
	}
	return 0, nil, 0
}

// closeWriter ends the direction: the reader gets end behind what was written,
// the writer own from now on (nil: its writes are lost).
func (s *stream) closeWriter(end, own error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.writeErr == nil {
		s.writeErr = own
	}
	if s.end == nil {
		s.end, s.endAt = end, s.arrival()
	}
	s.signal()
}

func (s *stream) closeReader(own error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.readErr == nil {
		s.readErr = own
	}
	s.muted, s.chunks = true, nil
	s.signal()
}

// drop loses what is on the way and what will be written.
func (s *stream) drop() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.muted, s.chunks = true, nil
}

// dropHeld loses what has not left the writer.
func (s *stream) dropHeld() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.writeHeld = false
	for i := range s.chunks {
		if s.chunks[i].at.IsZero() {
			s.chunks = s.chunks[:i]
			break
		}
	}
	if s.end != nil && s.endAt.IsZero() {
		s.endAt = time.Now()
	}
	s.signal()
}

// lag lets what is written from now on arrive late.
func (s *stream) lag(d time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if at := time.Now().Add(d); at.After(s.last) {
		s.last = at
	}
}

func (s *stream) hold(reader, writer bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.readHeld, s.writeHeld = s.readHeld || reader, s.writeHeld || writer
}

// release lets a held direction go on. Only one host is frozen at a time on a
// connection: brokers and receivers never are.
func (s *stream) release() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.readHeld, s.writeHeld = false, false
	for i := range s.chunks {
		if s.chunks[i].at.IsZero() {
			s.chunks[i].at = s.arrival()
		}
	}
	if s.end != nil && s.endAt.IsZero() {
		s.endAt = s.arrival()
	}
	s.signal()
}

// deadline is that of net.Pipe: a channel that is closed when it has passed.
type deadline struct {
	mu     sync.Mutex // guards what follows
	timer  *time.Timer
	cancel chan struct{}
}

func (d *deadline) set(t time.Time) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.timer != nil && !d.timer.Stop() {
		<-d.cancel // it has fired: wait until it is closed
	}
	d.timer = nil
	if d.cancel == nil {
		d.cancel = make(chan struct{})
	}
	closed := closedNow(d.cancel)
	if t.IsZero() {
		if closed {
			d.cancel = make(chan struct{})
		}
		return
	}
	if left := time.Until(t); left > 0 {
		if closed {
			d.cancel = make(chan struct{})
		}
		cancel := d.cancel
		d.timer = time.AfterFunc(left, func() { close(cancel) })
		return
	}
	if !closed {
		close(d.cancel)
	}
}

func (d *deadline) channel() chan struct{} {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.cancel == nil {
		d.cancel = make(chan struct{})
	}
	return d.cancel
}

func (d *deadline) passed() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.cancel != nil && closedNow(d.cancel)
}

func closedNow(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}
