package chaos

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os/exec"
	"slices"
	"sync"
	"syscall"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"

	"github.com/barnabas-webhooks/barnabas/internal/testkit/realkafka"
	"github.com/barnabas-webhooks/barnabas/test/process"
)

// faultKind is one thing that is done to the installation.
type faultKind string

const (
	killWorker   faultKind = "kill -9 worker"
	freezeWorker faultKind = "freeze worker"
	killBroker   faultKind = "kill -9 broker"
	freezeBroker faultKind = "freeze broker"
	rollWorkers  faultKind = "rolling restart"
	killAPI      faultKind = "kill -9 api"
	replayDead   faultKind = "replay dead letters"
)

// fault is one entry of the plan.
type fault struct {
	kind faultKind
	// calm faults wait until all workers share the units; the others come whatever is going on.
	calm bool
	wait time.Duration // then, before it is done
}

// plan draws the faults: the kills that were asked for, and of the others so many that each is there.
func plan(kills int, rnd *rand.Rand) []fault {
	var all []fault
	add := func(kind faultKind, n int) {
		for range n {
			all = append(all, fault{kind: kind})
		}
	}
	some := func(every int) int { return max(1, kills/every) }
	add(killWorker, kills)
	add(freezeWorker, some(12))
	add(killBroker, some(25))
	add(freezeBroker, some(25))
	add(rollWorkers, some(33))
	add(killAPI, some(25))
	add(replayDead, some(20))
	rnd.Shuffle(len(all), func(i, k int) { all[i], all[k] = all[k], all[i] })
	for i := range all {
		f := &all[i]
		f.calm = rnd.IntN(2) == 0 || f.kind == rollWorkers
		f.wait = time.Duration(rnd.Int64N(int64(2500 * time.Millisecond)))
	}
	return all
}

// mayhem carries the plan out.
type mayhem struct {
	fleet   *fleet
	site    *site
	broker  *realkafka.Broker
	admin   *kadm.Client
	session time.Duration
	rnd     *rand.Rand

	repairs sync.WaitGroup // what brings back what was taken down

	mu      sync.Mutex // guards what follows
	cuts    []Cut
	outages []Outage
	done    map[faultKind]int
	last    string
	errs    []error
}

// run does the faults one after the other; what each takes down comes back on its own while the next ones are done.
func (m *mayhem) run(ctx context.Context, faults []fault) error {
	for _, f := range faults {
		if f.calm {
			m.awaitCalm(ctx, 30*time.Second)
		}
		if !process.Pause(ctx, f.wait) {
			break
		}
		if err := m.do(ctx, f.kind); err != nil {
			return fmt.Errorf("%s: %w", f.kind, err)
		}
	}
	m.repairs.Wait()
	m.mu.Lock()
	defer m.mu.Unlock()
	return errors.Join(m.errs...)
}

func (m *mayhem) did(kind faultKind, format string, args ...any) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.done[kind]++
	m.last = fmt.Sprintf(string(kind)+format, args...)
}

func (m *mayhem) between(lowest, highest time.Duration) time.Duration {
	return lowest + time.Duration(m.rnd.Int64N(int64(highest-lowest)))
}

func (m *mayhem) do(ctx context.Context, kind faultKind) error {
	switch kind {
	case killWorker:
		return m.killOne(ctx, m.fleet.workers)
	case killAPI:
		return m.killOne(ctx, m.fleet.apis)
	case freezeWorker:
		return m.freezeOne(ctx)
	case killBroker:
		return m.outage(kind, m.between(0, 3*time.Second), m.broker.Kill, func() error { return m.restartBroker(ctx) })
	case freezeBroker:
		return m.outage(kind, m.between(time.Second, m.session+3*time.Second), m.broker.Freeze, m.broker.Thaw)
	case rollWorkers:
		return m.roll(ctx)
	case replayDead:
		return m.replay(ctx)
	}
	return nil
}

// outage takes the broker away for some time, in which nothing else is done. It does not end early: the broker comes
// back whatever becomes of the run.
func (m *mayhem) outage(kind faultKind, length time.Duration, down, up func() error) error {
	from := time.Now()
	if err := down(); err != nil {
		return err
	}
	m.did(kind, " for %s", length.Round(100*time.Millisecond))
	time.Sleep(length)
	err := up()
	m.mu.Lock()
	defer m.mu.Unlock()
	m.outages = append(m.outages, Outage{From: from, To: time.Now()})
	return err
}

// restartBroker brings the broker back, whatever becomes of the run.
func (m *mayhem) restartBroker(ctx context.Context) error {
	limited, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Minute)
	defer cancel()
	return m.broker.Restart(limited)
}

// killOne kills one that runs, and has another take its place some time later.
func (m *mayhem) killOne(ctx context.Context, of []*member) error {
	victim, p := m.pick(of)
	if victim == nil {
		// All are down at once: rare, and no reason to do without the kill.
		if !process.Pause(ctx, time.Second) {
			return nil
		}
		return m.killOne(ctx, of)
	}
	at := time.Now()
	if err := p.Kill(); err != nil {
		return err
	}
	if victim.role == "processor" {
		m.did(killWorker, " %s", victim.name)
		m.cut(Cut{Kind: CutKill, PID: p.PID, From: at, To: at})
	} else {
		m.did(killAPI, " %s", victim.name)
	}
	back := m.between(100*time.Millisecond, 2*time.Second)
	m.repair(func() error {
		time.Sleep(back)
		return m.fleet.start(victim)
	})
	return nil
}

// pick takes a running one; it is marked as taken down.
func (m *mayhem) pick(of []*member) (*member, *process.Process) {
	for _, i := range m.rnd.Perm(len(of)) {
		if p, ok := of[i].take(); ok {
			return of[i], p
		}
	}
	return nil, nil
}

func (m *mayhem) cut(c Cut) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.cuts = append(m.cuts, c)
}

func (m *mayhem) repair(f func() error) {
	m.repairs.Go(func() {
		if err := f(); err != nil {
			m.mu.Lock()
			m.errs = append(m.errs, err)
			m.mu.Unlock()
		}
	})
}

// freezeOne stops a worker for longer than its session lasts, and lets it go on in the belief that nothing happened.
func (m *mayhem) freezeOne(ctx context.Context) error {
	running := slices.DeleteFunc(slices.Clone(m.fleet.workers), func(w *member) bool { return !w.running() })
	if len(running) == 0 {
		return nil // all are down: they are being killed enough
	}
	victim := running[m.rnd.IntN(len(running))]
	from := time.Now()
	p, err := victim.freeze()
	if err != nil || p == nil {
		return err
	}
	length := m.session + m.between(time.Second, 4*time.Second)
	m.did(freezeWorker, " %s for %s", victim.name, length.Round(100*time.Millisecond))
	m.repair(func() error {
		process.Pause(ctx, length)
		err := victim.thaw()
		m.cut(Cut{Kind: CutFreeze, PID: p.PID, From: from, To: time.Now()})
		return err
	})
	return nil
}

// roll restarts every worker by SIGTERM, each when the one before works again.
func (m *mayhem) roll(ctx context.Context) error {
	for _, w := range m.fleet.workers {
		// A process that has only just begun does not handle signals yet.
		if !m.awaitRunning(ctx, w) || !m.awaitReady(ctx, w) {
			return ctx.Err()
		}
		m.fleet.terminate(w)
		if err := m.fleet.start(w); err != nil {
			return err
		}
		if !m.awaitReady(ctx, w) {
			return ctx.Err()
		}
	}
	m.did(rollWorkers, "")
	return nil
}

// awaitReady gives a worker a minute; one that needs longer is for the end of the run to find.
func (m *mayhem) awaitReady(ctx context.Context, w *member) bool {
	limited, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	return m.fleet.awaitReady(limited, w) == nil
}

func (m *mayhem) awaitRunning(ctx context.Context, w *member) bool {
	for !w.running() {
		if !process.Pause(ctx, 50*time.Millisecond) {
			return false
		}
	}
	return true
}

// replay replays what is dead by now; half of the times it is killed while it does.
func (m *mayhem) replay(ctx context.Context) error {
	limited, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	cmd := exec.CommandContext(limited, m.fleet.binary, "dlq", "replay", "--config", m.site.config, "--all", "--rate", "100")
	if err := cmd.Start(); err != nil {
		return err
	}
	killed := ""
	if m.rnd.IntN(2) == 0 {
		process.Pause(ctx, m.between(200*time.Millisecond, 3*time.Second))
		_ = cmd.Process.Signal(syscall.SIGKILL) // it may have ended
		killed = ", killed"
	}
	_ = cmd.Wait() // nothing to replay, partly done, Kafka away: all of it may be, and the judgement looks at what was written
	m.did(replayDead, "%s", killed)
	return nil
}

// awaitCalm waits until all workers share the units, for at most so long.
func (m *mayhem) awaitCalm(ctx context.Context, most time.Duration) {
	limited, cancel := context.WithTimeout(ctx, most)
	defer cancel()
	for !m.calm(limited) && process.Pause(limited, 200*time.Millisecond) {
	}
}

func (m *mayhem) calm(ctx context.Context) bool {
	short, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	groups, err := m.admin.DescribeGroups(short, m.site.group)
	if err != nil {
		return false
	}
	g, ok := groups[m.site.group]
	if !ok || g.Err != nil || g.State != "Stable" || len(g.Members) != len(m.fleet.workers) {
		return false
	}
	for i := range g.Members {
		assigned, ok := g.Members[i].Assigned.AsConsumer()
		if !ok || len(assigned.Topics) == 0 {
			return false
		}
	}
	return true
}
