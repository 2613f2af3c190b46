package process

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"sync/atomic"
	"syscall"
	"time"
)

// stopPatience is how long a process may take to end by SIGTERM: its drain, its last transaction, and a slow machine.
const stopPatience = 40 * time.Second

// Process is one run of a command.
type Process struct {
	Name string
	Log  string // path of what it prints
	PID  int
	Done chan struct{} // closed when it has ended
	// Wanted says that its end is on purpose; set by who ends it.
	Wanted atomic.Bool
	Ended  time.Time // valid once Done is closed
	Code   int       // exit code, valid once Done is closed; -1: by a signal
}

// Start runs a command with its output appended to a file.
func Start(name, binary, logFile string, args ...string) (*Process, error) {
	log, err := os.OpenFile(logFile, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, fmt.Errorf("log of %s: %w", name, err)
	}
	p := &Process{Name: name, Log: logFile, Done: make(chan struct{})}
	started := make(chan error, 1)
	go func() {
		defer close(p.Done)
		defer log.Close() //nolint:errcheck // the process writes it, not we
		// The kernel ties the parent-death signal to the thread that forked: so this one must live until the end.
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		cmd := exec.Command(binary, args...)
		cmd.Stdout, cmd.Stderr = log, log
		cmd.SysProcAttr = processAttributes()
		err := cmd.Start()
		if err == nil {
			p.PID = cmd.Process.Pid
		}
		started <- err
		if err == nil {
			_ = cmd.Wait() // how it ended is in its state
			p.Code, p.Ended = cmd.ProcessState.ExitCode(), time.Now()
		}
	}()
	if err := <-started; err != nil {
		return nil, fmt.Errorf("start %s: %w", name, err)
	}
	return p, nil
}

// Running says whether it has not ended.
func (p *Process) Running() bool {
	select {
	case <-p.Done:
		return false
	default:
		return true
	}
}

// Signal sends one; to a process that has ended it does nothing.
func (p *Process) Signal(s syscall.Signal) error {
	if !p.Running() {
		return nil
	}
	if err := syscall.Kill(p.PID, s); err != nil && !errors.Is(err, syscall.ESRCH) {
		return fmt.Errorf("%v to %s (pid %d): %w", s, p.Name, p.PID, err)
	}
	return nil
}

// Kill is kill -9.
func (p *Process) Kill() error {
	err := p.Signal(syscall.SIGKILL)
	if err == nil {
		<-p.Done
	}
	return err
}

// ErrStuck is a process that SIGTERM does not end.
var ErrStuck = errors.New("did not end by SIGTERM in time and was killed")

// Terminate is SIGTERM; it returns the exit code.
func (p *Process) Terminate() (int, error) {
	if err := p.Signal(syscall.SIGTERM); err != nil {
		return -1, err
	}
	patience := time.NewTimer(stopPatience)
	defer patience.Stop()
	select {
	case <-p.Done:
		return p.Code, nil
	case <-patience.C:
		return -1, errors.Join(fmt.Errorf("%s %w", p.Name, ErrStuck), p.Kill())
	}
}
