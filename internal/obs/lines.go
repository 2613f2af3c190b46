package obs

import (
	"context"
	"io"
	"log/slog"
	"sync"
	"time"
)

const (
	// lineDelay is how late a line may be: at a few thousand lines a second, dozens go out in one write.
	lineDelay = 10 * time.Millisecond
	// linesFull is how many bytes go out at once, whatever their age.
	linesFull = 32 << 10
)

// BatchedLogger is Logger for a process that writes a line for each of thousands of attempts a second: a system call for
// each of them is as dear as the line itself. A line goes out 10 ms later at most, together with others; one of
// level warn or above at once, with all before it. Flush must be called before the process ends; one that is killed
// leaves out what it had to say in its last 10 ms.
func BatchedLogger(w io.Writer, format, level string) (log *slog.Logger, flush func(), err error) {
	out := &lines{w: w}
	log, err = Logger(out, format, level)
	if err != nil {
		return nil, nil, err
	}
	out.timer = time.AfterFunc(lineDelay, out.flush)
	return slog.New(prompt{log.Handler(), out}), out.flush, nil
}

// lines gathers what is written. An error of the writer below is nobody's business: there is nowhere to say it.
type lines struct {
	w     io.Writer
	timer *time.Timer // flushes; runs while there is something

	mu  sync.Mutex // guards buf
	buf []byte
}

func (l *lines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.buf) == 0 {
		l.timer.Reset(lineDelay)
	}
	if l.buf = append(l.buf, p...); len(l.buf) >= linesFull {
		l.writeOut()
	}
	return len(p), nil
}

func (l *lines) flush() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.writeOut()
}

func (l *lines) writeOut() {
	if len(l.buf) > 0 {
		_, _ = l.w.Write(l.buf)
		l.buf = l.buf[:0]
	}
}

// prompt has lines of level warn and above go out at once.
type prompt struct {
	slog.Handler
	out *lines
}

func (p prompt) Handle(ctx context.Context, r slog.Record) error {
	err := p.Handler.Handle(ctx, r)
	if r.Level >= slog.LevelWarn {
		p.out.flush()
	}
	return err
}

func (p prompt) WithAttrs(attrs []slog.Attr) slog.Handler {
	return prompt{p.Handler.WithAttrs(attrs), p.out}
}

func (p prompt) WithGroup(name string) slog.Handler { return prompt{p.Handler.WithGroup(name), p.out} }
