package dlq

import (
	"fmt"
	"io"
	"os"
	"time"

	"github.com/schollz/progressbar/v3"
	"golang.org/x/term"
)

// Phase is what a call is busy with.
type Phase string

// Phases.
const (
	PhaseCount  Phase = "counting"  // reading; Done and Total are offsets
	PhaseReplay Phase = "replaying" // Done and Total are letters
)

// Progress is how far a call has come. Total is an estimate: letters may be
// refused meanwhile, and then Done ends below it.
type Progress struct {
	Phase   Phase
	Done    int64
	Total   int64
	Refused int
}

// lineEvery is how far apart lines of progress are where no terminal is.
const lineEvery = 5 * time.Second

// Reporter shows progress: a bar with rate and ETA on a terminal, else a line
// every five seconds. It belongs to one goroutine.
type Reporter struct {
	w     io.Writer
	tty   bool
	phase Phase
	bar   *progressbar.ProgressBar
	began time.Time
	last  time.Time
	shown Progress
}

// NewReporter makes a Reporter that writes to w, in practice os.Stderr, so that
// the result on stdout stays clean.
func NewReporter(w io.Writer, tty bool) *Reporter { return &Reporter{w: w, tty: tty} }

// IsTerminal says whether f is one.
func IsTerminal(f *os.File) bool { return term.IsTerminal(int(f.Fd())) }

// Update shows p; pass it as ReplayOptions.Progress.
func (r *Reporter) Update(p Progress) {
	now := time.Now()
	if p.Phase != r.phase {
		r.Close()
		r.phase, r.began, r.last = p.Phase, now, now
		if r.tty {
			r.bar = progressbar.NewOptions64(max(p.Total, 1),
				progressbar.OptionSetWriter(r.w),
				progressbar.OptionSetDescription(string(p.Phase)),
				progressbar.OptionShowCount(),
				progressbar.OptionShowIts(),
				progressbar.OptionSetPredictTime(true),
				progressbar.OptionThrottle(100*time.Millisecond),
				progressbar.OptionClearOnFinish(),
			)
		}
	}
	r.shown = p
	if r.bar != nil {
		_ = r.bar.Set64(min(p.Done, max(p.Total, 1)))
		return
	}
	if now.Sub(r.last) >= lineEvery {
		r.last = now
		fmt.Fprintln(r.w, r.line(now))
	}
}

// Close ends what is shown, so that other output can follow.
func (r *Reporter) Close() {
	if r.bar != nil {
		_ = r.bar.Finish()
		r.bar = nil
	}
}

func (r *Reporter) line(now time.Time) string {
	p := r.shown
	s := fmt.Sprintf("%s: %d of %d", p.Phase, p.Done, p.Total)
	if p.Total > 0 {
		s += fmt.Sprintf(" (%d%%)", 100*min(p.Done, p.Total)/p.Total)
	}
	if p.Refused > 0 {
		s += fmt.Sprintf(", %d refused", p.Refused)
	}
	if gone := now.Sub(r.began); p.Done > 0 && p.Done < p.Total && gone > 0 {
		left := time.Duration(float64(gone) / float64(p.Done) * float64(p.Total-p.Done))
		s += fmt.Sprintf(", %v left", left.Round(time.Second))
	}
	return s
}
