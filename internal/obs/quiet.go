package obs

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"
)

// QuietOptions bound what a Quiet handler lets through.
type QuietOptions struct {
	Burst  int           // lines per cause and window; 0: 3
	Window time.Duration // 0: one minute
	Causes int           // causes remembered at a time; 0: 256. Beyond it, the rest share one
}

// causeLimit is how much of a cause's text tells causes apart, in bytes.
const causeLimit = 200

// Quiet is a slog.Handler that lets a few lines per cause through and drops the
// rest of the window, so that a client that retries against a dead broker for
// an hour leaves a readable log. The cause is level, message and error text,
// with digits folded: a reset connection names another local port each time and
// is the same cause. The first line after a window tells how many were left out.
//
// Safe for concurrent use.
type Quiet struct {
	next  slog.Handler
	attrs []slog.Attr // of WithAttrs: an error may be among them
	state *quietState
}

type quietState struct {
	opts QuietOptions

	mu     sync.Mutex // guards causes
	causes map[string]*quietCause
}

type quietCause struct {
	until      time.Time
	lines      int
	suppressed int
}

var _ slog.Handler = (*Quiet)(nil)

// NewQuiet wraps a handler.
func NewQuiet(next slog.Handler, o QuietOptions) *Quiet {
	if o.Burst <= 0 {
		o.Burst = 3
	}
	if o.Window <= 0 {
		o.Window = time.Minute
	}
	if o.Causes <= 0 {
		o.Causes = 256
	}
	return &Quiet{next: next, state: &quietState{opts: o, causes: make(map[string]*quietCause)}}
}

// Enabled implements slog.Handler.
func (q *Quiet) Enabled(ctx context.Context, l slog.Level) bool { return q.next.Enabled(ctx, l) }

// Handle implements slog.Handler.
func (q *Quiet) Handle(ctx context.Context, r slog.Record) error {
	ok, suppressed := q.state.admit(q.cause(r), r.Time)
	if !ok {
		return nil
	}
	if suppressed > 0 {
		r = r.Clone()
		r.AddAttrs(slog.Int(KeySuppressed, suppressed))
	}
	return q.next.Handle(ctx, r)
}

// WithAttrs implements slog.Handler; the budget is shared with the parent.
func (q *Quiet) WithAttrs(attrs []slog.Attr) slog.Handler {
	all := append(append([]slog.Attr(nil), q.attrs...), attrs...)
	return &Quiet{next: q.next.WithAttrs(attrs), attrs: all, state: q.state}
}

// WithGroup implements slog.Handler; the budget is shared with the parent.
func (q *Quiet) WithGroup(name string) slog.Handler {
	return &Quiet{next: q.next.WithGroup(name), attrs: q.attrs, state: q.state}
}

func (q *Quiet) cause(r slog.Record) string {
	cause := r.Level.String() + " " + r.Message
	add := func(a slog.Attr) bool {
		if a.Key == KeyError || a.Key == "error" {
			cause += " " + errText(a.Value)
		}
		return true
	}
	for _, a := range q.attrs {
		add(a)
	}
	r.Attrs(add)
	return foldDigits(cause)
}

// errText is the innermost error's text: what wraps it (addresses, counts of
// attempts) varies while the cause stays.
func errText(v slog.Value) string {
	err, ok := v.Resolve().Any().(error)
	if !ok {
		return v.String()
	}
	for inner := errors.Unwrap(err); inner != nil; inner = errors.Unwrap(err) {
		err = inner
	}
	return err.Error()
}

// foldDigits turns every run of digits into # and bounds the length.
func foldDigits(s string) string {
	out := make([]byte, 0, min(len(s), causeLimit))
	inDigits := false
	for i := 0; i < len(s) && len(out) < causeLimit; i++ {
		digit := s[i] >= '0' && s[i] <= '9'
		if digit && inDigits {
			continue
		}
		inDigits = digit
		if digit {
			out = append(out, '#')
		} else {
			out = append(out, s[i])
		}
	}
	return string(out)
}

func (s *quietState) admit(cause string, now time.Time) (ok bool, suppressed int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	c := s.causes[cause]
	if c == nil {
		if len(s.causes) >= s.opts.Causes {
			s.forget(now)
		}
		if len(s.causes) >= s.opts.Causes {
			cause = "" // too many at once: what is new shares one budget
			c = s.causes[cause]
		}
		if c == nil {
			c = &quietCause{until: now.Add(s.opts.Window)}
			s.causes[cause] = c
		}
	}
	if now.After(c.until) {
		suppressed = c.suppressed
		*c = quietCause{until: now.Add(s.opts.Window)}
	}
	if c.lines >= s.opts.Burst {
		c.suppressed++
		return false, 0
	}
	c.lines++
	return true, suppressed
}

// forget drops causes whose window is over; what they left out is not reported.
func (s *quietState) forget(now time.Time) {
	for k, c := range s.causes {
		if now.After(c.until) {
			delete(s.causes, k)
		}
	}
}
