package demo

import (
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/schollz/progressbar/v3"
)

// progress shows how far the demo is: a bar on a terminal, a line every two
// seconds elsewhere.
type progress struct {
	w   io.Writer
	tty bool

	mu     sync.Mutex // guards what follows
	name   string
	total  int
	bar    *progressbar.ProgressBar
	shown  time.Time
	closed bool
}

func newProgress(w io.Writer, tty bool) *progress { return &progress{w: w, tty: tty} }

// phase begins a part of the demo; total 0 has no measure.
func (p *progress) phase(name string, total int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.finish()
	p.name, p.total, p.shown = name, total, time.Now()
	if !p.tty || total == 0 {
		fmt.Fprintf(p.w, "%s ...\n", name)
		return
	}
	p.bar = progressbar.NewOptions(total,
		progressbar.OptionSetWriter(p.w), progressbar.OptionSetDescription(name), progressbar.OptionShowCount(),
		progressbar.OptionSetPredictTime(true), progressbar.OptionThrottle(100*time.Millisecond), progressbar.OptionFullWidth())
}

// set says how much is done.
func (p *progress) set(n int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case p.closed:
	case p.bar != nil:
		_ = p.bar.Set(min(n, p.total))
	case time.Since(p.shown) > 2*time.Second:
		p.shown = time.Now()
		fmt.Fprintf(p.w, "  %d of %d\n", n, p.total)
	}
}

// end takes the bar away.
func (p *progress) end() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.finish()
	p.closed = true
}

func (p *progress) finish() {
	if p.bar != nil {
		_ = p.bar.Finish()
		fmt.Fprintln(p.w)
		p.bar = nil
	}
}
