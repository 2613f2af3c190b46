package sim_test

import (
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
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
	Process   string // that sent it
	Header    http.Header
	Body      string
	Answer    int         // 0: the connection was broken instead
	Reply     http.Header // of the answer; a script may set it
	Beside    int         // how many others were being served when it arrived
	Ended     time.Time   // when it was answered or its connection had gone; zero: not yet
	Unheard   bool        // the connection had gone before the answer
}

// Reset is an answer that breaks the connection instead.
const Reset = 0

// Never is a delay that outlasts every sender's patience.
const Never = time.Hour

// Receiver is a scripted subscriber, on a host of its own.
type Receiver struct {
	URL  string
	host *Host

	mu     sync.Mutex // guards what follows
	posts  []*Post
	busy   int
	script func(n int, p *Post) (status int, delay time.Duration)
}

// Receiver starts one. script says what it answers to its nth POST, from 1.
func (w *World) Receiver(script func(n int, p *Post) (int, time.Duration)) *Receiver {
	w.t.Helper()
	w.ports++
	r := &Receiver{
		URL: fmt.Sprintf("http://localhost:%d/hook", w.ports), host: w.network.Host(fmt.Sprintf("receiver%d", w.ports)), script: script,
	}
	listener, err := r.host.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", w.ports))
	require.NoError(w.t, err)
	server := &http.Server{Handler: r, ReadHeaderTimeout: time.Minute}
	done := make(chan struct{})
	go func() { defer close(done); _ = server.Serve(listener) }()
	w.t.Cleanup(func() { _ = server.Close(); <-done })
	return r
}

// Script replaces what the receiver answers from now on.
func (r *Receiver) Script(script func(n int, p *Post) (int, time.Duration)) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.script = script
}

// ServeHTTP implements http.Handler.
func (r *Receiver) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	body, err := io.ReadAll(req.Body)
	if err != nil {
		return // cut off: the outcome is the sender's to find out
	}
	seconds, _ := strconv.ParseInt(req.Header.Get(sign.HeaderTimestamp), 10, 64)
	attempt, _ := strconv.Atoi(req.Header.Get("barnabas-attempt"))
	p := &Post{
		ID: req.Header.Get(sign.HeaderID), Timestamp: time.Unix(seconds, 0), Arrived: time.Now(),
		Attempt: attempt, Process: strings.TrimPrefix(req.UserAgent(), "Barnabas/"), Header: req.Header.Clone(), Body: string(body),
		Reply: http.Header{},
	}
	r.mu.Lock()
	n := len(r.posts) + 1
	status, delay := r.script(n, p)
	p.Answer, p.Beside = status, r.busy
	r.busy++
	r.posts = append(r.posts, p)
	reply := p.Reply
	r.mu.Unlock()
	unheard := false
	defer func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.busy--
		p.Ended, p.Unheard = time.Now(), unheard
	}()
	if delay > 0 {
		timer := time.NewTimer(delay)
		defer timer.Stop()
		select {
		case <-timer.C:
		case <-req.Context().Done():
			unheard = true
			return
		}
	}
	if status == Reset {
		panic(http.ErrAbortHandler)
	}
	for k, v := range reply {
		w.Header()[k] = v
	}
	w.WriteHeader(status)
}

// Posts is what it saw so far.
func (r *Receiver) Posts() []Post {
	r.mu.Lock()
	defer r.mu.Unlock()
	posts := make([]Post, len(r.posts))
	for i, p := range r.posts {
		posts[i] = *p
	}
	return posts
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
