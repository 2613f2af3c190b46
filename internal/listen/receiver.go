package listen

import (
	"errors"
	"io"
	"maps"
	"net/http"
	"strconv"
	"sync"
	"time"

	"github.com/barnabas-webhooks/barnabas/processor/deliver"
	"github.com/barnabas-webhooks/barnabas/processor/sign"
)

// Request is what one request came to.
type Request struct {
	At         time.Time
	DeliveryID string // as claimed; trust it only when Verified
	EventType  string
	Attempt    int  // as the sender counts; 0: it did not say
	Checked    bool // there were secrets to check with
	Verified   bool
	Problem    string // why not verified
	Body       []byte
	Status     int  // the answer
	Repeat     bool // this id had been answered with 2xx before
}

// Stats counts requests since the start. Ids count only with a verified signature, where secrets are set.
type Stats struct {
	Requests   int // all
	Distinct   int // delivery ids seen
	Delivered  int // delivery ids answered with 2xx
	Repeats    int // requests for an id that had been answered with 2xx before
	Failed     int // answered with something else than 2xx
	Unverified int // signature missing or wrong: answered 401
}

// Receiver is the handler. Safe for concurrent use.
type Receiver struct {
	opt  Options
	keys [][]byte

	mu     sync.Mutex // guards all below, and writing to opt.Out
	status int
	stats  Stats
	ids    map[string]tally
	oldest []string // ring of the ids in the map, in order of arrival
	next   int      // where the ring goes on once it is full
}

// tally counts the requests of one delivery id.
type tally struct{ seen, delivered int }

var _ http.Handler = (*Receiver)(nil)

// New makes a receiver; the error names every option that cannot be.
func New(o Options) (*Receiver, error) {
	keys, err := o.parse()
	if err != nil {
		return nil, err
	}
	return &Receiver{opt: o, keys: keys, status: o.Status, ids: map[string]tally{}}, nil
}

// Answer changes the status that is answered from now on: how a demonstration lets a receiver die and come back.
// It panics on anything outside of 200..599.
func (r *Receiver) Answer(status int) {
	if !validStatus(status) {
		panic("listen: status " + strconv.Itoa(status) + " is not in 200..599")
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.status = status
}

// Stats is a snapshot.
func (r *Receiver) Stats() Stats {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.stats
}

// Delivered says how often each delivery id was answered with 2xx; ids that never were are left out.
func (r *Receiver) Delivered() map[string]int {
	r.mu.Lock()
	defer r.mu.Unlock()
	out := make(map[string]int, len(r.ids))
	for id, t := range maps.All(r.ids) {
		if t.delivered > 0 {
			out[id] = t.delivered
		}
	}
	return out
}

// ServeHTTP takes one delivery.
func (r *Receiver) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	got := Request{
		At:         time.Now(),
		DeliveryID: req.Header.Get(sign.HeaderID),
		EventType:  req.Header.Get(deliver.HeaderEventType),
		Checked:    len(r.keys) > 0,
	}
	got.Attempt, _ = strconv.Atoi(req.Header.Get(deliver.HeaderAttempt)) // 0 when it is no number
	body, err := io.ReadAll(http.MaxBytesReader(w, req.Body, maxBody))
	got.Body = body
	var tooLarge *http.MaxBytesError
	switch {
	case errors.As(err, &tooLarge):
		got.Status = http.StatusRequestEntityTooLarge
	case err != nil:
		got.Status = http.StatusBadRequest // the sender is gone; nobody reads this
	case req.Method != http.MethodPost:
		w.Header().Set("Allow", http.MethodPost)
		got.Status = http.StatusMethodNotAllowed
	default:
		r.verify(&got, req.Header)
	}
	r.count(&got)
	if r.opt.OnRequest != nil {
		r.opt.OnRequest(got)
	}
	if r.opt.Delay > 0 {
		timer := time.NewTimer(r.opt.Delay)
		defer timer.Stop()
		select {
		case <-timer.C:
		case <-req.Context().Done():
		}
	}
	w.WriteHeader(got.Status)
}

func (r *Receiver) verify(got *Request, header http.Header) {
	if !got.Checked {
		return
	}
	if err := sign.Verify(header, got.Body, r.keys, got.At, r.opt.Tolerance); err != nil {
		got.Problem = err.Error()
		got.Status = http.StatusUnauthorized
		return
	}
	got.Verified = true
}

// count settles the answer and remembers it. The decision and the counting are one step, so that parallel requests
// of one id fail exactly as often as they should.
func (r *Receiver) count(got *Request) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.stats.Requests++
	if got.Status == 0 && got.DeliveryID != "" {
		t, known := r.ids[got.DeliveryID]
		if !known {
			r.remember(got.DeliveryID)
			r.stats.Distinct++
		}
		t.seen++
		got.Status = r.status
		if t.seen <= r.opt.FailFirst {
			got.Status = http.StatusInternalServerError
		}
		got.Repeat = t.delivered > 0
		if got.Repeat {
			r.stats.Repeats++
		}
		if got.Status < 300 {
			if t.delivered++; t.delivered == 1 {
				r.stats.Delivered++
			}
		}
		r.ids[got.DeliveryID] = t
	}
	switch {
	case got.Status == 0: // no id: not a Standard Webhook, but somebody wanted to see it
		got.Status = r.status
	case got.Status == http.StatusUnauthorized && got.Problem != "":
		r.stats.Unverified++
	}
	if got.Status >= 300 {
		r.stats.Failed++
	}
	r.print(*got)
}

// remember makes room for one more id.
func (r *Receiver) remember(id string) {
	if len(r.oldest) < maxTracked {
		r.oldest = append(r.oldest, id)
		return
	}
	delete(r.ids, r.oldest[r.next])
	r.oldest[r.next] = id
	r.next = (r.next + 1) % maxTracked
}
