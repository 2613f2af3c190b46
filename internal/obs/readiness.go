package obs

import (
	"errors"
	"slices"
	"strings"
	"sync"
)

// ErrStarting is the state of a check that was announced and has not reported yet.
var ErrStarting = errors.New("starting")

// Readiness gathers named checks. Parts report when something changes; asking
// reads what was reported last and calls nobody, so a probe never blocks.
//
// Safe for concurrent use. The zero value is ready: nothing was announced.
type Readiness struct {
	mu     sync.Mutex // guards checks
	checks map[string]error
}

// Check is one named condition, as last reported.
type Check struct {
	Name   string `json:"name"`
	Ready  bool   `json:"ready"`
	Reason string `json:"reason,omitempty"` // why not
}

// Announce names checks that must report before the process is ready.
func (r *Readiness) Announce(names ...string) {
	for _, n := range names {
		r.Report(n, ErrStarting)
	}
}

// Report tells a check's state: nil is ready, an error the reason why not. The
// error's text is shown to whoever can reach the listener.
func (r *Readiness) Report(name string, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.checks == nil {
		r.checks = make(map[string]error)
	}
	r.checks[name] = err
}

// Checks lists the checks by name, and whether all of them pass.
func (r *Readiness) Checks() (checks []Check, ready bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	ready = true
	for name, err := range r.checks {
		c := Check{Name: name, Ready: err == nil}
		if err != nil {
			c.Reason = err.Error()
			ready = false
		}
		checks = append(checks, c)
	}
	slices.SortFunc(checks, func(a, b Check) int { return strings.Compare(a.Name, b.Name) })
	return checks, ready
}
