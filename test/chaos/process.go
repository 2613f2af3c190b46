package chaos

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

// process is one run of the binary.
type process struct {
	name string
	log  string // path of what it prints
	pid  int
	done chan struct{} // closed when it has ended
	// wanted says that its end is on purpose.
	wanted atomic.Bool
	ended  time.Time // valid once done is closed
	code   int       // valid once done is closed; -1: by a signal
}

// startProcess runs the binary with its output appended to a file.
func startProcess(name, binary, logFile string, args ...string) (*process, error) {
	log, err := os.OpenFile(logFile, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, fmt.Errorf("log of %s: %w", name, err)
	}
	p := &process{name: name, log: logFile, done: make(chan struct{})}
	started := make(chan error, 1)
	go func() {
		defer close(p.done)
		defer log.Close() //nolint:errcheck // the process writes it, not we
		// The kernel ties the parent-death signal to the thread that forked: so this one must live until the end.
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		cmd := exec.Command(binary, args...)
		cmd.Stdout, cmd.Stderr = log, log
		cmd.SysProcAttr = processAttributes()
		err := cmd.Start()
		if err == nil {
			p.pid = cmd.Process.Pid
		}
		started <- err
		if err == nil {
			_ = cmd.Wait() // how it ended is in its state
			p.code, p.ended = cmd.ProcessState.ExitCode(), time.Now()
		}
	}()
	if err := <-started; err != nil {
		return nil, fmt.Errorf("start %s: %w", name, err)
	}
	return p, nil
}

func (p *process) running() bool {
	select {
	case <-p.done:
		return false
	default:
		return true
	}
}

// signal sends one; to a process that has ended it does nothing.
func (p *process) signal(s syscall.Signal) error {
	if !p.running() {
		return nil
	}
	if err := syscall.Kill(p.pid, s); err != nil && !errors.Is(err, syscall.ESRCH) {
		return fmt.Errorf("%v to %s (pid %d): %w", s, p.name, p.pid, err)
	}
	return nil
}

// kill is kill -9.
func (p *process) kill() error {
	err := p.signal(syscall.SIGKILL)
	if err == nil {
		<-p.done
	}
	return err
}

// errStuck is a process that SIGTERM does not end.
var errStuck = errors.New("did not end by SIGTERM in time and was killed")

// terminate is SIGTERM; it returns the exit code.
func (p *process) terminate() (int, error) {
	if err := p.signal(syscall.SIGTERM); err != nil {
		return -1, err
	}
	patience := time.NewTimer(stopPatience)
	defer patience.Stop()
	select {
	case <-p.done:
		return p.code, nil
	case <-patience.C:
		return -1, errors.Join(fmt.Errorf("%s %w", p.name, errStuck), p.kill())
	}
}
