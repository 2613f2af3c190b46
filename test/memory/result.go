package memory

import (
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/barnabas-webhooks/barnabas/test/process"
)

// Lateness is how long live events for healthy endpoints took from being made to arriving, in milliseconds.
type Lateness struct {
	Events  int     `json:"events"`
	Median  float64 `json:"median_ms"`
	P99     float64 `json:"p99_ms"`
	Longest float64 `json:"longest_ms"`
}

// Landed is what became of the events for healthy endpoints.
type Landed struct {
	Sent   int      `json:"sent"`
	Landed int      `json:"landed"`
	During Lateness `json:"during"` // of those that were made while the backlog was taken in
	After  Lateness `json:"after"`  // of those that were made after
}

// Result is what a run came to. Times are in seconds since the process was started.
type Result struct {
	Events     int     `json:"events"`
	Size       int     `json:"size"`
	Endpoints  int     `json:"endpoints"`
	Partitions int     `json:"partitions"`
	Limit      int     `json:"limit_mib"`
	Preload    float64 `json:"preload_seconds"`
	Drained    float64 `json:"drained_seconds"` // 0: not within the limit
	Stopping   float64 `json:"stopping_seconds"`
	Exit       int     `json:"exit_code"`
	Refused    int64   `json:"requests_refused_or_other"`
	Failed     int64   `json:"requests_answered_500"`
	Hung       int64   `json:"connections_never_answered"`
	Repeated   int     `json:"repeated"`
	Among      Landed  `json:"preloaded_among_the_dead"`
	Near       Landed  `json:"live_behind_the_backlog"`
	Apart      Landed  `json:"live_in_partitions_of_their_own"`

	Samples    []Sample `json:"samples"`
	Violations []string `json:"violations"`
}

// collect puts together what receivers and load know.
func (m *run) collect() {
	r := &m.result
	r.Events, r.Size, r.Endpoints, r.Partitions, r.Limit = m.Events, m.Size, m.Endpoints, m.Partitions, m.Limit
	r.Failed, r.Hung = m.receivers.failed.Load(), m.receivers.hung.Load()
	sent := m.load.acknowledged()
	m.receivers.mu.Lock()
	defer m.receivers.mu.Unlock()
	r.Repeated = m.receivers.repeated
	backlog := m.started.Add(time.Duration(r.Drained * float64(time.Second)))
	if r.Drained == 0 {
		backlog = time.Now()
	}
	landed := func(k kind) Landed {
		of := m.receivers.arrivals[k]
		l := Landed{Sent: sent[k], Landed: len(of)}
		var during, after []time.Duration
		for _, a := range of {
			if late := a.came.Sub(a.sent); a.sent.Before(backlog) {
				during = append(during, late)
			} else {
				after = append(after, late)
			}
		}
		l.During, l.After = latenessOf(during), latenessOf(after)
		return l
	}
	r.Among, r.Near, r.Apart = landed(among), landed(near), landed(apart)
	healthy := int64(r.Among.Landed + r.Near.Landed + r.Apart.Landed + r.Repeated)
	if n := len(r.Samples); n > 0 {
		r.Refused = max(0, r.Samples[n-1].Attempts-r.Failed-r.Hung-healthy)
	}
}

func latenessOf(d []time.Duration) Lateness {
	if len(d) == 0 {
		return Lateness{}
	}
	slices.Sort(d)
	ms := func(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }
	return Lateness{Events: len(d), Median: ms(d[len(d)/2]), P99: ms(d[len(d)*99/100]), Longest: ms(d[len(d)-1])}
}

// growth is what memory may gain from the middle third of a run to the last and still be called flat.
const growth = 1.15

// Judge holds the run against what is promised, and notes what is violated.
func (r *Result) Judge(o *Options) {
	bad := func(format string, args ...any) { r.Violations = append(r.Violations, fmt.Sprintf(format, args...)) }
	r.Violations = []string{}
	if r.Peak() > float64(r.Limit) {
		bad("at its peak the process had %.0f MiB resident, %d are allowed", r.Peak(), r.Limit)
	}
	if middle, last := r.third(1), r.third(2); last > growth*middle+16 {
		bad("memory is not flat: %.0f MiB in the middle third of the run, %.0f in the last", middle, last)
	}
	if r.Drained == 0 {
		bad("not everything was taken in within %s", o.Patience)
	}
	for name, l := range map[string]Landed{"preloaded among the dead": r.Among, "live behind the backlog": r.Near, "live in partitions of their own": r.Apart} {
		if l.Landed < l.Sent {
			bad("of %d events for healthy endpoints, %s, %d landed", l.Sent, name, l.Landed)
		}
	}
	if r.Exit != 0 {
		bad("the process ended by SIGTERM with exit code %d", r.Exit)
	}
	slices.Sort(r.Violations)
}

// Peak is the most that was resident, in MiB.
func (r *Result) Peak() float64 {
	peak := 0.0
	for _, s := range r.Samples {
		peak = max(peak, s.Peak, s.RSS)
	}
	return peak
}

// third is the median of the resident memory in one third of the run: 0, 1 or 2.
func (r *Result) third(n int) float64 {
	part := r.Samples[n*len(r.Samples)/3 : (n+1)*len(r.Samples)/3]
	if len(part) == 0 {
		return 0
	}
	values := make([]float64, len(part))
	for i, s := range part {
		values[i] = s.RSS
	}
	slices.Sort(values)
	return values[len(values)/2]
}

// Held says whether nothing was violated.
func (r *Result) Held() bool { return len(r.Violations) == 0 }

// WriteJSON prints the result as JSON, all samples included.
func (r *Result) WriteJSON(w io.Writer) error { return process.WriteJSON(w, r) }

// rows is how many moments the table shows.
const rows = 14

// WriteTable prints the result for people, in Markdown.
func (r *Result) WriteTable(w io.Writer) error {
	fmt.Fprintln(w, "| s | lag of events | wait in tiers | RSS MiB | peak | charged | heap | descriptors | in flight | requests | settled |")
	fmt.Fprintln(w, "|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|")
	n := len(r.Samples)
	for i := range min(rows, n) {
		s := r.Samples[(n-1)*i/max(1, min(rows, n)-1)]
		fmt.Fprintf(w, "| %.0f | %d | %d | %.0f | %.0f | %.0f | %.0f | %d | %d | %d | %d |\n",
			s.Seconds, s.Lag, s.Waiting, s.RSS, s.Peak, s.Held, s.Heap, s.Descriptors, s.InFlight, s.Attempts, s.Settled)
	}
	fmt.Fprintf(w, "\n| what | value |\n|---|---|\n")
	row := func(name, format string, args ...any) {
		fmt.Fprintf(w, "| %s | %s |\n", name, fmt.Sprintf(format, args...))
	}
	row("waiting at the start", "%d events of %d bytes (%.1f GiB) for %d dead endpoints in %d partitions",
		r.Events, r.Size, float64(r.Events)*float64(r.Size)/(1<<30), r.Endpoints, r.Partitions)
	if r.Drained > 0 {
		row("taken in once after", "%.0f s: %.0f events and %.0f MiB of payload per second", r.Drained,
			float64(r.Events)/r.Drained, float64(r.Events)*float64(r.Size)/mib/r.Drained)
	}
	if n > 0 {
		last := r.Samples[n-1]
		row("records moved in all", "%d in %.0f s, rounds through the tiers included: %.0f per second", last.Settled, last.Seconds,
			float64(last.Settled)/last.Seconds)
		row("of them waits without an attempt", "%s", last.holds())
		row("processor time", "%.0f s", last.CPU)
		row("requests", "%d: %d answered 500, %d never answered, %d refused, the rest to healthy endpoints", last.Attempts, r.Failed, r.Hung, r.Refused)
	}
	row("resident memory", "median of the thirds of the run: %.0f, %.0f, %.0f MiB", r.third(0), r.third(1), r.third(2))
	row("peak", "%.0f MiB of %d", r.Peak(), r.Limit)
	row("healthy, preloaded among the dead", "%d of %d landed", r.Among.Landed, r.Among.Sent)
	row("healthy, live, behind the backlog", "%s", r.Near)
	row("healthy, live, in partitions of their own", "%s", r.Apart)
	row("SIGTERM", "exit code %d after %.1f s", r.Exit, r.Stopping)
	fmt.Fprintln(w)
	for _, v := range r.Violations {
		fmt.Fprintf(w, "VIOLATED: %s\n", v)
	}
	verdict := "All held."
	if !r.Held() {
		verdict = fmt.Sprintf("%d violations.", len(r.Violations))
	}
	_, err := fmt.Fprintln(w, verdict)
	return err
}

// String says what became of live events.
func (l Landed) String() string {
	return fmt.Sprintf("%d of %d landed; made during the backlog: %s; after it: %s", l.Landed, l.Sent, l.During, l.After)
}

// String is median, 99th percentile and the longest.
func (l Lateness) String() string {
	if l.Events == 0 {
		return "none"
	}
	return fmt.Sprintf("half within %.0f ms, 99 %% within %.0f ms, all within %.0f ms", l.Median, l.P99, l.Longest)
}
