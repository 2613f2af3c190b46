package chaos

import (
	"fmt"
	"io"
	"text/tabwriter"
	"time"

	"github.com/barnabas-webhooks/barnabas/test/process"
)

// Summary is what was done, beside what became of it.
type Summary struct {
	Seed       uint64         `json:"seed"`
	Faults     map[string]int `json:"faults"` // done, by kind
	Planned    int            `json:"faults_planned"`
	Minutes    float64        `json:"minutes"`       // under load and faults
	Total      float64        `json:"total_minutes"` // start, quiet and replay included
	Calls      int            `json:"api_calls"`     // calls of the API, those without an answer included
	Shed       int            `json:"shed"`          // sends that were not begun, because too many were under way
	InFlight   int            `json:"in_flight_limit"`
	BeatMillis int64          `json:"beat_ms"`
	Stopped    int            `json:"stopped_by_sigterm"` // worker processes
	GaveUp     []string       `json:"gave_up,omitempty"`  // what producers had to give up
	Misbehaved []string       `json:"misbehaved,omitempty"`
}

// Result is what a run came to.
type Result struct {
	Summary
	Sent int `json:"sent"` // sends that were answered
	Finding
}

// summary is what was done.
func (c *chaos) summary(planned int, under time.Duration) Summary {
	s := Summary{
		Seed: c.Seed, Faults: map[string]int{}, Planned: planned, Minutes: under.Minutes(), Total: time.Since(c.began).Minutes(),
		Calls: c.load.tries, Shed: c.load.shed, InFlight: c.site.timing.inFlight, BeatMillis: c.site.timing.beat.Milliseconds(),
		GaveUp: c.load.failed, Misbehaved: c.fleet.broken,
	}
	for kind, n := range c.mayhem.done {
		s.Faults[string(kind)] = n
	}
	s.Stopped = s.Faults[string(rollWorkers)]*workers + workers
	return s
}

// NewResult judges the evidence of a run.
func NewResult(e *Evidence) *Result {
	r := &Result{Summary: e.Summary, Sent: len(e.Sent), Finding: *Judge(e)}
	var more []string
	done := 0
	for _, n := range r.Faults {
		done += n
	}
	if done < r.Planned {
		more = append(more, fmt.Sprintf("%s only %d of %d faults were done within the limit", harness, done, r.Planned))
	}
	if r.LeftDead+r.Live > 0 {
		more = append(more, fmt.Sprintf("%s %d deliveries are dead letters and %d wait at the end, with all receivers healthy", harness, r.LeftDead, r.Live))
	}
	for _, what := range r.GaveUp {
		more = append(more, harness+" "+what)
	}
	for _, what := range r.Misbehaved {
		more = append(more, wrong+" "+what)
	}
	r.Violations = append(shorten(more), r.Violations...)
	return r
}

// Held says whether nothing was violated.
func (r *Result) Held() bool { return len(r.Violations) == 0 }

// WriteJSON prints the result as JSON.
func (r *Result) WriteJSON(w io.Writer) error { return process.WriteJSON(w, r) }

// WriteTable prints the result for people.
func (r *Result) WriteTable(w io.Writer) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	row := func(name string, n int, note string, args ...any) {
		fmt.Fprintf(t, "  %s\t%d\t\t%s\n", name, n, fmt.Sprintf(note, args...))
	}
	for _, kind := range []faultKind{killWorker, freezeWorker, killBroker, freezeBroker, rollWorkers, killAPI, replayDead} {
		note := ""
		switch kind {
		case killWorker:
			note = fmt.Sprintf("in %.1f minutes; %d of them with requests in flight", r.Minutes, r.Cuts[CutKill].Busy)
		case rollWorkers:
			note = fmt.Sprintf("%d workers stopped by SIGTERM, those of the end included", r.Stopped)
		case replayDead:
			note = "under load, half of them killed"
		default:
		}
		row(string(kind), r.Faults[string(kind)], "%s", note)
	}
	row("sends answered", r.Sent, "%d calls of the API, the others through Kafka; %d not begun, too many were under way", r.Calls, r.Shed)
	row("events", r.Events, "%d repeats, %d conflicts, %d in a wrong partition", r.Repeats, r.Conflicts, r.Strays)
	row("deliveries owed", r.Deliveries, "one for each key and endpoint, and each event without a key")
	row("landed", r.Landed, "a receiver answered 2xx")
	row("dead letters", r.Dead, "%d replayed, %d left", r.Replayed, r.LeftDead)
	row("lost", r.Lost, "")
	row("forked", r.Forked, "")
	row("POSTs", r.Posts, "%d settled", r.Settled)
	row("POSTs hidden", r.Hidden-r.Unasked, "a fault came before their outcome was settled, so that they were made again")
	for _, kind := range []CutKind{CutKill, CutFreeze, CutLost, CutUndrained} {
		c := r.Cuts[kind]
		if c.Cuts == 0 {
			continue
		}
		row("by "+string(kind), c.Hidden, "%d times; half of them hid at most %d, 90 %% at most %d, one %d, where %d were in flight or not settled yet; the oldest had been done for %d ms; %d begun after it",
			c.Cuts, c.Median, c.Most90, c.MostHidden, c.BoundOfMost, c.OldestMillis, c.After)
	}
	row("POSTs unasked", r.Unasked, "not settled although no fault hid their outcome, so by SIGTERM")
	row("duplicate POSTs", r.Duplicates, "the same id again after it had landed")
	if err := t.Flush(); err != nil {
		return fmt.Errorf("print result: %w", err)
	}
	for _, v := range r.Violations {
		fmt.Fprintf(w, "VIOLATED: %s\n", v)
	}
	verdict := "All held"
	if !r.Held() {
		verdict = fmt.Sprintf("%d violations", len(r.Violations))
	}
	_, err := fmt.Fprintf(w, "%s; seed %d, %.1f minutes.\n", verdict, r.Seed, r.Total)
	return err
}
