package sim_test

import (
	"fmt"
	"io"
	"net/http"
	"strconv"
	"sync"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/barnabas-webhooks/barnabas/processor/sign"
)

// Post is one POST as a receiver saw it.
type Post struct {
	ID        string // webhook-id
	Timestamp time.Time
	Arrived   time.Time
	Attempt   int
	Header    http.Header
	Body      string
	Answer    int
}

// Receiver is a scripted subscriber.
type Receiver struct {
	URL string

	mu     sync.Mutex // guards what follows
	posts  []Post
	script func(n int, p *Post) (status int, delay time.Duration)
}

// Receiver starts one. script says what it answers to its nth POST, from 1.
func (w *World) Receiver(script func(n int, p *Post) (int, time.Duration)) *Receiver {
	w.t.Helper()
	w.ports++
	listener, err := w.receivers.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", w.ports))
	require.NoError(w.t, err)
	r := &Receiver{URL: fmt.Sprintf("http://localhost:%d/hook", w.ports), script: script}
	server := &http.Server{Handler: r, ReadHeaderTimeout: time.Minute}
	go func() { _ = server.Serve(listener) }()
	w.t.Cleanup(func() { _ = server.Close() })
	return r
}

// ServeHTTP implements http.Handler.
func (r *Receiver) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	body, err := io.ReadAll(req.Body)
	if err != nil {
		return // cut off: the outcome is the sender's to find out
	}
	seconds, _ := strconv.ParseInt(req.Header.Get(sign.HeaderTimestamp), 10, 64)
	attempt, _ := strconv.Atoi(req.Header.Get("barnabas-attempt"))
	p := Post{
		ID: req.Header.Get(sign.HeaderID), Timestamp: time.Unix(seconds, 0), Arrived: time.Now(),
		Attempt: attempt, Header: req.Header.Clone(), Body: string(body),
	}
	r.mu.Lock()
	n := len(r.posts) + 1
	status, delay := r.script(n, &p)
	p.Answer = status
	r.posts = append(r.posts, p)
	r.mu.Unlock()
	if delay > 0 {
		select {
		case <-time.After(delay):
		case <-req.Context().Done():
			return
		}
	}
	w.WriteHeader(status)
}

// Posts is what it saw so far.
func (r *Receiver) Posts() []Post {
	r.mu.Lock()
	defer r.mu.Unlock()
	return append([]Post(nil), r.posts...)
}

// Answers is a script that gives the same answer to everything.
func Answers(status int) func(int, *Post) (int, time.Duration) {
	return func(int, *Post) (int, time.Duration) { return status, 0 }
}

// FailsFirst answers status to the first n POSTs and 204 from then on.
func FailsFirst(n, status int) func(int, *Post) (int, time.Duration) {
	return func(i int, _ *Post) (int, time.Duration) {
		if i <= n {
			return status, 0
		}
		return http.StatusNoContent, 0
	}
}
