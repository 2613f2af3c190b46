package realkafka

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"syscall"
)

// logTail is how much of a broker's log an error shows, in bytes.
const logTail = 4 << 10

// process is one run of a command in a process group of its own. The group is what gets signals: a script that has
// not yet become the broker has children (Maven, the formatter) that must not outlive it.
type process struct {
	pid   int
	ended chan struct{} // closed when the process is gone and has been waited for
}

// startProcess starts a command whose output is appended to logFile.
func startProcess(logFile, name string, args ...string) (*process, error) {
	out, err := os.OpenFile(logFile, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return nil, fmt.Errorf("broker's log: %w", err)
	}
	p := &process{ended: make(chan struct{})}
	started := make(chan error)
	go func() {
		defer close(p.ended)
		defer func() { _ = out.Close() }()
		// The kernel ties the parent-death signal to the thread that forked: so this one must live until the end.
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		// No context: the broker outlives the start's, and ends by Kill or Stop.
		cmd := exec.Command(name, args...)
		cmd.Stdout, cmd.Stderr = out, out
		cmd.SysProcAttr = processAttributes()
		if err := cmd.Start(); err != nil {
			started <- fmt.Errorf("start %s: %w", name, err)
			return
		}
		p.pid = cmd.Process.Pid
		started <- nil
		_ = cmd.Wait() // How a broker ended is in its log; here it only matters that it did.
	}()
	if err := <-started; err != nil {
		return nil, err
	}
	return p, nil
}

func (p *process) running() bool {
	if p == nil {
		return false
	}
	select {
	case <-p.ended:
		return false
	default:
		return true
	}
}

func (p *process) signal(s syscall.Signal) error {
	if err := syscall.Kill(-p.pid, s); err != nil && !errors.Is(err, syscall.ESRCH) {
		return fmt.Errorf("signal %v to broker %d: %w", s, p.pid, err)
	}
	return nil
}

// kill ends the process group and returns when the process is gone.
func (p *process) kill() error {
	if err := p.signal(syscall.SIGKILL); err != nil {
		return err
	}
	<-p.ended
	return nil
}

// tail is the end of a log, for an error to show.
func tail(file string) string {
	b, err := os.ReadFile(file)
	if err != nil {
		return err.Error()
	}
	return string(b[max(0, len(b)-logTail):])
}
