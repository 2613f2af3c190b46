package chaos

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"sync"
	"syscall"
	"time"

	"github.com/barnabas-webhooks/barnabas/test/process"
)

// member is one place in the fleet: a process, and the one that takes its place when it has ended.
type member struct {
	name    string
	role    string // of barnabas serve
	api     string // address; empty: none
	metrics string // address

	mu      sync.Mutex // guards what follows
	current *process.Process
	frozen  bool
	down    bool // it was ended on purpose and is started again by whoever ended it
}

// fleet is all processes of the installation.
type fleet struct {
	site    *site
	binary  string
	workers []*member
	apis    []*member

	mu     sync.Mutex         // guards what follows
	boots  []*process.Process // every worker that ever ran
	starts int
	broken []string // what processes did that they should not
}

func newFleet(s *site, binary string, workers, apis int) (*fleet, error) {
	f := &fleet{site: s, binary: binary}
	taken := map[int]bool{}
	place := func(name, role string) (*member, error) {
		addr, err := process.FreeAddr(taken)
		if err != nil {
			return nil, err
		}
		return &member{name: name, role: role, metrics: addr}, nil
	}
	for i := range workers {
		m, err := place(fmt.Sprintf("worker-%d", i+1), "processor")
		if err != nil {
			return nil, err
		}
		f.workers = append(f.workers, m)
	}
	for i := range apis {
		m, err := place(fmt.Sprintf("api-%d", i+1), "api")
		if err != nil {
			return nil, err
		}
		if m.api, err = process.FreeAddr(taken); err != nil {
			return nil, err
		}
		f.apis = append(f.apis, m)
	}
	return f, nil
}

func (f *fleet) all() []*member { return append(append([]*member{}, f.apis...), f.workers...) }

// start runs a member's process.
func (f *fleet) start(m *member) error {
	args := []string{
		"serve", "--config", f.site.config, "--roles", m.role, "--set", "kafka.client_id=" + m.name,
		"--set", "metrics.listen=" + m.metrics,
	}
	if m.api != "" {
		args = append(args, "--set", "api.listen="+m.api)
	}
	f.mu.Lock()
	f.starts++
	log := filepath.Join(f.site.dir, fmt.Sprintf("%s.%03d.log", m.name, f.starts))
	f.mu.Unlock()
	p, err := process.Start(m.name, f.binary, log, args...)
	if err != nil {
		return err
	}
	m.mu.Lock()
	m.current, m.down, m.frozen = p, false, false
	m.mu.Unlock()
	if m.role == "processor" {
		f.mu.Lock()
		f.boots = append(f.boots, p)
		f.mu.Unlock()
	}
	go f.watch(p)
	return nil
}

// watch notes a process that ends by itself. It is not started again: a run that has one shows nothing else.
func (f *fleet) watch(p *process.Process) {
	<-p.Done
	if !p.Wanted.Load() {
		f.breaks("%s (pid %d) ended by itself with exit code %d, see %s", p.Name, p.PID, p.Code, p.Log)
	}
}

func (f *fleet) breaks(format string, args ...any) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.broken = append(f.broken, fmt.Sprintf(format, args...))
}

// running says whether its process runs and is not frozen.
func (m *member) running() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.current != nil && !m.frozen && !m.down && m.current.Running()
}

// take marks a running member as ended on purpose.
func (m *member) take() (*process.Process, bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.current == nil || m.frozen || m.down || !m.current.Running() {
		return nil, false
	}
	m.down = true
	m.current.Wanted.Store(true)
	return m.current, true
}

// freeze stops a process where it stands; thaw lets it go on.
func (m *member) freeze() (*process.Process, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.current == nil || m.frozen || m.down {
		return nil, nil
	}
	m.frozen = true
	return m.current, m.current.Signal(syscall.SIGSTOP)
}

func (m *member) thaw() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.frozen = false
	return m.current.Signal(syscall.SIGCONT)
}

// awaitReady waits until the members say that they are ready.
func (f *fleet) awaitReady(ctx context.Context, members ...*member) error {
	for _, m := range members {
		for !process.IsReady(ctx, m.metrics) {
			select {
			case <-ctx.Done():
				return fmt.Errorf("%s is not ready, see its log in %s: %w", m.name, f.site.dir, ctx.Err())
			case <-time.After(50 * time.Millisecond):
			}
		}
	}
	return nil
}

// terminate ends a member by SIGTERM and holds it to exit code 0.
func (f *fleet) terminate(m *member) {
	p, ok := m.take()
	if !ok {
		f.breaks("%s was to be stopped and does not run", m.name)
		return
	}
	if code, err := p.Terminate(); err != nil || code != 0 {
		f.breaks("%s (pid %d) ended by SIGTERM with exit code %d: %v", p.Name, p.PID, code, err)
	}
}

// terminateAll ends everything in order: workers, then the API.
func (f *fleet) terminateAll() {
	for _, members := range [][]*member{f.workers, f.apis} {
		var stopping sync.WaitGroup
		for _, m := range members {
			stopping.Go(func() { f.terminate(m) })
		}
		stopping.Wait()
	}
}

// killAll leaves nothing behind, whatever happened.
func (f *fleet) killAll() error {
	var errs []error
	for _, m := range f.all() {
		m.mu.Lock()
		m.down = true
		p := m.current
		m.mu.Unlock()
		if p != nil {
			p.Wanted.Store(true)
			errs = append(errs, p.Kill())
		}
	}
	return errors.Join(errs...)
}
