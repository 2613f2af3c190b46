package realkafka

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/barnabas-webhooks/barnabas/internal/testkit"
)

// stopTimeout is what a broker gets for its orderly shutdown before it is killed.
const stopTimeout = 30 * time.Second

// ErrStopped is the answer to a signal for a broker that is not running.
var ErrStopped = errors.New("the broker is not running")

// BrokerConfig says how a [Broker] runs; its zero value is good for tests.
type BrokerConfig struct {
	Dir      string            // data and log, kept by Close; empty: a temporary folder that Close removes
	Port     int               // 0: a free one, the same over restarts
	Settings map[string]string // more lines of server.properties, over those of deploy/kafka-local/run
	Heap     int               // of Java, in MiB, all of it from the start on; 0: it grows to what a test needs
}

// Broker is one Apache Kafka process of our own. Its port and its data stay over any number of stops and restarts.
// Safe for concurrent use, though a test will want its own order of events.
type Broker struct {
	script    string
	dir       string
	temporary bool
	port      int
	quorum    int // the controller's port
	settings  map[string]string
	heap      int // MiB

	mu   sync.Mutex // guards proc
	proc *process   // the last one started; nil before the first
}

// StartBroker starts a broker and returns when it answers. ctx bounds the start only.
func StartBroker(ctx context.Context, cfg BrokerConfig) (*Broker, error) {
	root, err := testkit.Root()
	if err != nil {
		return nil, err
	}
	b := &Broker{
		script:   filepath.Join(root, "deploy", "kafka-local", "run"),
		dir:      cfg.Dir,
		port:     cfg.Port,
		settings: cfg.Settings,
		heap:     cfg.Heap,
	}
	if b.port == 0 {
		if b.port, err = freePort(); err != nil {
			return nil, err
		}
	}
	if b.quorum, err = freePort(b.port); err != nil {
		return nil, err
	}
	if b.dir == "" {
		if b.dir, err = os.MkdirTemp("", "barnabas-kafka-"); err != nil {
			return nil, fmt.Errorf("folder for a broker: %w", err)
		}
		b.temporary = true
	}
	if err := b.Restart(ctx); err != nil {
		return nil, errors.Join(err, b.Close())
	}
	return b, nil
}

// StartBrokerT is [StartBroker] for one test, which it fails where no broker can be had; the broker ends with the
// test, and a failed test's log shows the end of the broker's.
func StartBrokerT(t testing.TB, cfg BrokerConfig) *Broker {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), startTimeout)
	defer cancel()
	b, err := StartBroker(ctx, cfg)
	if err != nil {
		t.Fatalf("real Kafka: %v", err)
	}
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("the broker's log ends:\n%s", tail(b.logFile()))
		}
		if err := b.Close(); err != nil {
			t.Errorf("real Kafka: close: %v", err)
		}
	})
	return b
}

// Addr is where the broker listens, "127.0.0.1:port", running or not.
func (b *Broker) Addr() string { return net.JoinHostPort("127.0.0.1", strconv.Itoa(b.port)) }

// PID is the broker's process id, 0 while none runs.
func (b *Broker) PID() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	if !b.proc.running() {
		return 0
	}
	return b.proc.pid
}

// Stop shuts the broker down in order, and kills it when that takes too long or ctx ends.
func (b *Broker) Stop(ctx context.Context) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if !b.proc.running() {
		return nil
	}
	// A frozen process acts on SIGTERM only when it goes on.
	if err := errors.Join(b.proc.signal(syscall.SIGTERM), b.proc.signal(syscall.SIGCONT)); err != nil {
		return err
	}
	timeout := time.NewTimer(stopTimeout)
	defer timeout.Stop()
	select {
	case <-b.proc.ended:
		return nil
	case <-timeout.C:
	case <-ctx.Done():
	}
	return errors.Join(fmt.Errorf("broker %d did not stop in order", b.proc.pid), b.proc.kill())
}

// Kill ends the broker as kill -9 does and returns when it is gone. Its data stays.
func (b *Broker) Kill() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if !b.proc.running() {
		return nil
	}
	return b.proc.kill()
}

// Restart stops the broker if it runs, starts it again on its port and its data, and returns when it answers.
func (b *Broker) Restart(ctx context.Context) error {
	if err := b.Stop(ctx); err != nil {
		return err
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	args := []string{
		"--data", filepath.Join(b.dir, "data"),
		"--port", strconv.Itoa(b.port), "--controller-port", strconv.Itoa(b.quorum),
	}
	if b.heap > 0 {
		args = append(args, "--heap", strconv.Itoa(b.heap)+"m")
	}
	for k, v := range b.settings {
		args = append(args, "--set", k+"="+v)
	}
	proc, err := startProcess(b.logFile(), b.script, args...)
	if err != nil {
		return err
	}
	b.proc = proc
	if err := waitReady(ctx, []string{b.Addr()}, proc.ended); err != nil {
		return errors.Join(fmt.Errorf("start a broker: %w; its log ends:\n%s", err, tail(b.logFile())), proc.kill())
	}
	return nil
}

// Freeze stops the broker's process where it stands (SIGSTOP): its connections stay open and nothing answers.
func (b *Broker) Freeze() error { return b.signal(syscall.SIGSTOP) }

// Thaw lets a frozen broker go on (SIGCONT).
func (b *Broker) Thaw() error { return b.signal(syscall.SIGCONT) }

func (b *Broker) signal(s syscall.Signal) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if !b.proc.running() {
		return ErrStopped
	}
	return b.proc.signal(s)
}

// Close kills the broker and drops its data, but for a folder that was given.
func (b *Broker) Close() error {
	err := b.Kill()
	if b.temporary {
		err = errors.Join(err, os.RemoveAll(b.dir))
	}
	return err
}

func (b *Broker) logFile() string { return filepath.Join(b.dir, "broker.log") }

// freePort draws a port below the range from which the system takes the ports of outgoing connections: one from
// there could be gone when a stopped broker comes back for it.
func freePort(not ...int) (int, error) {
	const lowest, highest, tries = 20000, 30000, 100
	for range tries {
		port := lowest + rand.IntN(highest-lowest)
		l, err := net.Listen("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(port)))
		if err != nil {
			continue
		}
		if err := l.Close(); err != nil {
			return 0, fmt.Errorf("try port %d: %w", port, err)
		}
		if len(not) == 0 || port != not[0] {
			return port, nil
		}
	}
	return 0, fmt.Errorf("no free port in %d tries between %d and %d", tries, lowest, highest)
}
