package memory

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
)

// kind is where an event for a healthy endpoint was put.
type kind byte

const (
	among kind = 'm' // preloaded, among those for dead endpoints
	near  kind = 'n' // live, in a partition with dead endpoints: behind the backlog
	apart kind = 'a' // live, in a partition without
)

// markBytes is how much of a payload for a healthy endpoint says which it is.
const markBytes = 17

// mark writes into a payload which event it is and when it was made.
func mark(payload []byte, k kind, number uint64, at time.Time) {
	payload[0] = byte(k)
	binary.BigEndian.PutUint64(payload[1:], number)
	binary.BigEndian.PutUint64(payload[9:], uint64(at.UnixNano()))
}

// arrival is one healthy delivery.
type arrival struct {
	sent time.Time
	came time.Time
}

// receivers are all of them.
type receivers struct {
	dead    []string // URLs without the id: refusing, hanging, failing
	healthy string   // likewise
	closers []func() error

	failed atomic.Int64 // requests answered with 500
	hung   atomic.Int64 // connections taken and never answered

	mu       sync.Mutex // guards what follows
	arrivals map[kind]map[uint64]arrival
	repeated int
}

// openReceivers starts them on loopback ports.
func openReceivers(ctx context.Context) (_ *receivers, err error) {
	r := &receivers{arrivals: map[kind]map[uint64]arrival{among: {}, near: {}, apart: {}}}
	defer func() {
		if err != nil {
			err = errors.Join(fmt.Errorf("receivers: %w", err), r.close())
		}
	}()
	refusing, err := r.refuse()
	if err != nil {
		return nil, err
	}
	hanging, err := r.hang(ctx)
	if err != nil {
		return nil, err
	}
	failing, err := r.serve(ctx, http.HandlerFunc(r.fail))
	if err != nil {
		return nil, err
	}
	r.dead = []string{refusing, hanging, failing}
	r.healthy, err = r.serve(ctx, http.HandlerFunc(r.take))
	return r, err
}

// refuse binds a port and does not listen: whoever connects is refused, and nobody else gets the port meanwhile.
func (r *receivers) refuse() (string, error) {
	fd, err := syscall.Socket(syscall.AF_INET, syscall.SOCK_STREAM, 0)
	if err != nil {
		return "", fmt.Errorf("socket: %w", err)
	}
	r.closers = append(r.closers, func() error { return syscall.Close(fd) })
	if err := syscall.Bind(fd, &syscall.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}}); err != nil {
		return "", fmt.Errorf("bind: %w", err)
	}
	bound, err := syscall.Getsockname(fd)
	if err != nil {
		return "", fmt.Errorf("bound address: %w", err)
	}
	return fmt.Sprintf("http://127.0.0.1:%d/", bound.(*syscall.SockaddrInet4).Port), nil
}

// hang takes connections and what is sent over them, and never answers.
func (r *receivers) hang(ctx context.Context) (string, error) {
	l, err := (&net.ListenConfig{}).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return "", fmt.Errorf("listen: %w", err)
	}
	r.closers = append(r.closers, l.Close)
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return // closed
			}
			r.hung.Add(1)
			go func() {
				_, _ = io.Copy(io.Discard, conn) // until the sender has had enough
				_ = conn.Close()
			}()
		}
	}()
	return "http://" + l.Addr().String() + "/", nil
}

func (r *receivers) serve(ctx context.Context, h http.Handler) (string, error) {
	l, err := (&net.ListenConfig{}).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return "", fmt.Errorf("listen: %w", err)
	}
	server := &http.Server{Handler: h, ReadHeaderTimeout: 10 * time.Second}
	r.closers = append(r.closers, server.Close)
	go func() { _ = server.Serve(l) }() // ends with close
	return "http://" + l.Addr().String() + "/", nil
}

func (r *receivers) close() error {
	var errs []error
	for _, c := range r.closers {
		errs = append(errs, c())
	}
	return errors.Join(errs...)
}

// fail answers 500.
func (r *receivers) fail(w http.ResponseWriter, req *http.Request) {
	r.failed.Add(1)
	_, _ = io.Copy(io.Discard, req.Body)
	w.WriteHeader(http.StatusInternalServerError)
}

// take is a healthy receiver.
func (r *receivers) take(w http.ResponseWriter, req *http.Request) {
	var head [markBytes]byte
	if _, err := io.ReadFull(req.Body, head[:]); err != nil {
		w.WriteHeader(http.StatusBadRequest)
		return
	}
	if _, err := io.Copy(io.Discard, req.Body); err != nil {
		w.WriteHeader(http.StatusBadRequest)
		return
	}
	number := binary.BigEndian.Uint64(head[1:])
	one := arrival{sent: time.Unix(0, int64(binary.BigEndian.Uint64(head[9:]))), came: time.Now()}
	r.mu.Lock()
	defer r.mu.Unlock()
	of := r.arrivals[kind(head[0])]
	if _, again := of[number]; again || of == nil {
		r.repeated++
		return
	}
	of[number] = one
}

// delivered is how many of each kind have arrived.
func (r *receivers) delivered() map[kind]int {
	r.mu.Lock()
	defer r.mu.Unlock()
	n := map[kind]int{}
	for k, of := range r.arrivals {
		n[k] = len(of)
	}
	return n
}
