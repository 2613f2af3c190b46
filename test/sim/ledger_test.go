package sim_test

import (
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/barnabas-webhooks/barnabas/schemas"
)

// Sent is one event as its producer sees it.
type Sent struct {
	At       time.Duration
	Endpoint string
	Key      string
	Payload  string
	// Acked says that the producer was told it is safe: acknowledged by Kafka, or a 2xx of the API.
	Acked bool
	Where schemas.Coordinates // by Kafka's acknowledgement; zero: the API was asked
	// Of the API: the answer.
	Status     int
	Word       string // accepted, duplicate, pending
	DeliveryID string
}

// Disturbance is a time in which a process, or everybody, could not work as it
// should: what is posted twice because of it is excused.
type Disturbance struct {
	Process  string // empty: everybody
	What     string
	From, To time.Time
}

// Ledger is what the world outside knows: everything that was handed over, and
// everything that was done to the installation. What receivers saw, they know.
type Ledger struct {
	mu           sync.Mutex // guards what follows
	sent         []*Sent
	disturbances []*Disturbance
	trace        []string
	violations   []string
	moves        []*Disturbance // times in which units may have gone from one process to another
}

// Note writes a line of what happened.
func (l *Ledger) Note(at time.Duration, format string, args ...any) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.trace = append(l.trace, fmt.Sprintf("%12s  %s", at.Round(time.Millisecond), fmt.Sprintf(format, args...)))
}

// Violated notes a broken promise.
func (l *Ledger) Violated(invariant int, format string, args ...any) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.violations = append(l.violations, fmt.Sprintf("invariant %d: %s", invariant, fmt.Sprintf(format, args...)))
}

// Broken takes over what another judged, once: what is broken stays so.
func (l *Ledger) Broken(problem string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !slices.Contains(l.violations, problem) {
		l.violations = append(l.violations, problem)
	}
}

// Sends notes an event that is being handed over.
func (l *Ledger) Sends(s *Sent) *Sent {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.sent = append(l.sent, s)
	return s
}

// Answered lets f note the producer's answer.
func (l *Ledger) Answered(f func()) {
	l.mu.Lock()
	defer l.mu.Unlock()
	f()
}

// Disturb notes a disturbance that begins now; the end is set by Over.
func (l *Ledger) Disturb(process, what string) *Disturbance {
	l.mu.Lock()
	defer l.mu.Unlock()
	d := &Disturbance{Process: process, What: what, From: time.Now()}
	l.disturbances = append(l.disturbances, d)
	return d
}

// Moves notes a time in which units may go to other processes. It disturbs nobody
// whose work is in order, but each new owner counts failures anew.
func (l *Ledger) Moves() *Disturbance {
	l.mu.Lock()
	defer l.mu.Unlock()
	d := &Disturbance{From: time.Now()}
	l.moves = append(l.moves, d)
	return d
}

// Over ends a disturbance.
func (l *Ledger) Over(d *Disturbance) {
	l.mu.Lock()
	defer l.mu.Unlock()
	d.To = time.Now()
}

// Disturbed says whether a process may have lost track of what it did between two times.
func (l *Ledger) Disturbed(process string, from, to time.Time) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, d := range l.disturbances {
		if d.Process != "" && d.Process != process {
			continue
		}
		if !d.From.After(to) && (d.To.IsZero() || !d.To.Before(from)) {
			return true
		}
	}
	return false
}
