package chaos

import (
	"context"
	"crypto/sha256"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/barnabas-webhooks/barnabas/processor/deliver"
	"github.com/barnabas-webhooks/barnabas/processor/sign"
)

// mood is how a receiver behaves until all are healed.
type mood int

const (
	healthy  mood = iota
	slow          // answers after slowAnswer
	flapping      // turns between healthy and 503 every few seconds
	dead          // for a third of the run cuts the connection or answers 500
	hanging       // does not answer at all
)

func (m mood) String() string {
	return [...]string{"healthy", "slow", "flapping", "dead", "hanging"}[m]
}

// moodOf gives each endpoint its mood: of 40 endpoints 25 healthy, 6 slow, 4 flapping, 4 dead, 1 hanging.
func moodOf(i int) mood {
	switch n := i % 40; {
	case n == 7:
		return hanging
	case n%10 == 3:
		return dead
	case n%10 == 5:
		return flapping
	case n%6 == 2:
		return slow
	default:
		return healthy
	}
}

const (
	slowAnswer = 200 * time.Millisecond
	// flapEvery is the length of one phase of a flapping receiver.
	flapEvery = 4 * time.Second
)

// Post is one request that a receiver saw.
type Post struct {
	Delivery string // webhook-id
	Endpoint string // of the URL
	Attempt  int    // as the sender counts
	Body     [sha256.Size]byte
	Verified bool
	Partial  bool // the body ended early: the sender was gone
	Start    time.Time
	End      time.Time // when it was answered, or given up on
	Status   int       // what was decided to answer; 0: nothing
}

// landed says that the receiver took it. That the answer reached the sender is another matter.
func (p *Post) landed() bool { return p.Status >= 200 && p.Status < 300 }

// receivers are all of them, in one server.
type receivers struct {
	url    string
	server *http.Server
	key    []byte
	start  time.Time
	flaps  map[string]time.Duration // shifts the phases of flapping receivers
	moods  map[string]mood
	health chan struct{} // closed: all are healthy from now on
	sick   atomic.Int64  // dead receivers are dead from here ...
	sound  atomic.Int64  // ... to here, in nanoseconds after start

	mu     sync.Mutex // guards what follows
	posts  []Post
	landed map[string]struct{}
	open   int
}

// openReceivers starts them on a loopback port.
func openReceivers(key []byte, endpoints []string, rnd *rand.Rand) (*receivers, error) {
	r := &receivers{
		key: key, start: time.Now(), flaps: map[string]time.Duration{}, moods: map[string]mood{},
		health: make(chan struct{}), landed: map[string]struct{}{},
	}
	for i, id := range endpoints {
		r.moods[id] = moodOf(i)
		r.flaps[id] = time.Duration(rnd.Int64N(int64(2 * flapEvery)))
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("receivers: %w", err)
	}
	r.url = "http://" + l.Addr().String() + "/"
	r.server = &http.Server{
		Handler: r, ReadHeaderTimeout: 10 * time.Second,
	}
	go func() { _ = r.server.Serve(l) }() // ends with close
	return r, nil
}

// die says when the dead receivers are dead.
func (r *receivers) die(from, to time.Duration) {
	r.sick.Store(int64(from))
	r.sound.Store(int64(to))
}

// heal makes all receivers healthy for good.
func (r *receivers) heal() { close(r.health) }

func (r *receivers) close() { _ = r.server.Close() }

// ServeHTTP takes one POST.
func (r *receivers) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	p := Post{
		Delivery: req.Header.Get(sign.HeaderID), Endpoint: strings.TrimPrefix(req.URL.Path, "/"), Start: time.Now(),
	}
	p.Attempt, _ = strconv.Atoi(req.Header.Get(deliver.HeaderAttempt)) // 0 is no attempt's number, and is found
	r.count(1)
	defer r.count(-1)
	body, err := io.ReadAll(http.MaxBytesReader(w, req.Body, 1<<20))
	p.Body = sha256.Sum256(body)
	p.Partial = err != nil
	p.Verified = err == nil && sign.Verify(req.Header, body, [][]byte{r.key}, time.Now(), 0) == nil
	if err == nil {
		p.Status = r.answer(req.Context(), p.Endpoint)
	}
	p.End = time.Now()
	r.note(&p)
	if p.Status == 0 {
		panic(http.ErrAbortHandler) // cuts the connection, as somebody who is dead does
	}
	w.WriteHeader(p.Status)
}

func (r *receivers) count(n int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.open += n
}

func (r *receivers) note(p *Post) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.posts = append(r.posts, *p)
	if p.landed() {
		r.landed[p.Delivery] = struct{}{}
	}
}

// answer decides by the receiver's mood, and takes the time that it takes. 0 is no answer.
func (r *receivers) answer(ctx context.Context, endpoint string) int {
	select {
	case <-r.health:
		return http.StatusOK
	default:
	}
	now := time.Since(r.start)
	switch r.moods[endpoint] {
	case slow:
		// Whoever has gone meanwhile: a receiver that has begun goes on.
		r.sleep(context.WithoutCancel(ctx), slowAnswer)
	case flapping:
		if (now+r.flaps[endpoint])/flapEvery%2 == 1 {
			return http.StatusServiceUnavailable
		}
	case dead:
		if since := int64(now); since >= r.sick.Load() && since < r.sound.Load() {
			if r.flaps[endpoint]%2 == 0 {
				return 0
			}
			return http.StatusInternalServerError
		}
	case hanging:
		r.sleep(ctx, time.Minute)
		return 0
	default:
	}
	return http.StatusOK
}

// sleep waits for d, or until the sender is gone, or all are healed.
func (r *receivers) sleep(ctx context.Context, d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
	case <-ctx.Done():
	case <-r.health:
	}
}

// progress is how many deliveries have landed, and how many requests are open.
func (r *receivers) progress() (landed, open int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.landed), r.open
}

// log is every POST so far.
func (r *receivers) log() []Post {
	r.mu.Lock()
	defer r.mu.Unlock()
	return append([]Post(nil), r.posts...)
}
