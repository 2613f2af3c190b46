package bench

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/barnabas-webhooks/barnabas/test/process"
)

const (
	// pollEvery is how often it is asked how many events have arrived.
	pollEvery = 20 * time.Millisecond
	// stalled is how long no event may arrive while some are missing.
	stalled = 90 * time.Second
)

// errStalled is a run that does not go on.
var errStalled = errors.New("nothing arrives any more")

// watch looks on while events arrive.
type watch struct {
	at   *child // where they arrive
	want int    // so many
	by   *process.Process
	// pids are whose processor time counts, from the first arrival until everything is settled.
	pids map[Figure]int
	// broken says why nothing more can arrive, if that is known; or it is nil.
	broken func() error
	// begun is called at the first arrival, or is nil.
	begun func()
	// settled returns when what has arrived is settled, too; nil: there is nothing to settle.
	settled func(context.Context) error
}

// run returns the processor time per 1,000 arrivals, by figure.
func (w *watch) run(ctx context.Context) (Figures, error) {
	first, err := w.until(ctx, 1)
	if err != nil {
		return nil, err
	}
	before, err := usages(w.pids)
	if err != nil {
		return nil, err
	}
	if w.begun != nil {
		w.begun()
	}
	last, err := w.until(ctx, w.want)
	if err != nil {
		return nil, err
	}
	if w.settled != nil {
		if err := w.settled(ctx); err != nil {
			return nil, err
		}
	}
	after, err := usages(w.pids)
	if err != nil {
		return nil, err
	}
	f := Figures{}
	if n := last - first; n > 0 {
		for figure := range w.pids {
			f[figure] = (after[figure] - before[figure]).Seconds() / float64(n) * 1000
		}
	}
	return f, nil
}

// until waits for n arrivals and returns how many there are.
func (w *watch) until(ctx context.Context, n int) (int, error) {
	seen, since := -1, time.Now()
	for {
		c, err := w.at.count(ctx)
		switch {
		case err != nil:
			return 0, err
		case c.Events >= n:
			return c.Events, nil
		case c.Events > seen:
			seen, since = c.Events, time.Now()
		case time.Since(since) > stalled:
			return 0, fmt.Errorf("%w: %d of %d, see %s", errStalled, c.Events, w.want, w.by.Log)
		}
		if w.broken != nil {
			if err := w.broken(); err != nil {
				return 0, err
			}
		}
		if !w.by.Running() {
			return 0, fmt.Errorf("%s %w with exit code %d, see %s", w.by.Name, process.ErrEnded, w.by.Code, w.by.Log)
		}
		if !process.Pause(ctx, pollEvery) {
			return 0, ctx.Err()
		}
	}
}

// usages reads the processor time of each.
func usages(pids map[Figure]int) (map[Figure]time.Duration, error) {
	all := map[Figure]time.Duration{}
	for figure, pid := range pids {
		u, err := process.ReadUsage(pid)
		if err != nil {
			return nil, err
		}
		all[figure] = u.CPU
	}
	return all, nil
}

// settled waits until the processor has settled so many decisions.
func (n *node) settled(decisions int) func(context.Context) error {
	return func(ctx context.Context) error {
		for until := time.Now().Add(stalled); ; {
			values, err := process.Scrape(ctx, n.metrics)
			if err != nil {
				return err
			}
			if int(values["barnabas_decisions_total"]) >= decisions && values["barnabas_held_bytes"] == 0 {
				return nil
			}
			if time.Now().After(until) || !process.Pause(ctx, 5*pollEvery) {
				return fmt.Errorf("%w: %s has settled %v of %d", errStalled, n.Name, values["barnabas_decisions_total"], decisions)
			}
		}
	}
}

const mb = 1e6

// peak is the most that was resident, in MB.
func (n *node) peak() (float64, error) {
	u, err := process.ReadUsage(n.PID)
	return float64(u.Peak) / mb, err
}

// arrived gathers what a report says of the measured events.
func arrived(r *Report, sent int) Figures {
	s := r.Of(Measured)
	f := Figures{
		Sent: float64(sent), Missing: float64(sent - s.Events), Repeats: float64(s.Repeats),
		P50: s.P50, P99: s.P99, Max: s.Max,
	}
	if took := time.Duration(s.Last - s.First).Seconds(); took > 0 {
		f[PerSecond] = float64(s.Events-1) / took
	}
	return f
}
