package devbroker

import (
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/gofrs/flock"
	"github.com/twmb/franz-go/pkg/kfake"

	"github.com/barnabas-webhooks/barnabas/internal/obs"
)

// Entries of the data directory: kfake's own directory, and the file that says
// that the last run was closed in order.
const (
	dataDir   = "broker"
	cleanFile = "clean"
)

// clusterID is what clients are told.
const clusterID = "barnabas-dev"

// never is how long kfake waits before it cleans a log or expires an offset
// (limits 3 and 5 of the package doc). Not longer: kfake computes in nanoseconds,
// and would overflow to "at once".
const never = 100 * 365 * 24 * time.Hour

// ErrLocked is a data directory that another process uses.
var ErrLocked = errors.New("data directory is in use by another process")

// LockedError says whose data directory it is.
type LockedError struct {
	Dir string
	PID int // 0: unknown
}

func (e *LockedError) Error() string {
	by := "another process"
	if e.PID > 0 {
		by = fmt.Sprintf("process %d", e.PID)
	}
	return fmt.Sprintf("data directory %s is in use by %s: stop it, or give another directory", e.Dir, by)
}

// Unwrap returns ErrLocked.
func (*LockedError) Unwrap() error { return ErrLocked }

// Options say where the broker keeps its data and where it listens.
type Options struct {
	// Dir is the data directory. It is made if it is not there.
	Dir string
	// Port on 127.0.0.1. 0: any free one, so clients of an earlier run do not find it again.
	Port int
	// Partitions of topics that are created without saying how many. 0: 8.
	Partitions int
	// Logger takes what the broker says. nil: nothing.
	Logger *slog.Logger
	// Listen opens the listener in place of net.Listen, for virtual networks.
	Listen func(network, address string) (net.Listener, error)
}

// Broker is a running broker.
type Broker struct {
	cluster *kfake.Cluster
	lock    *flock.Flock
	dir     string
	addr    string
	close   sync.Once
}

// Start locks the directory, loads what is in it and listens. The error is a
// *LockedError where the directory is in use.
func Start(o Options) (*Broker, error) {
	if o.Partitions == 0 {
		o.Partitions = 8
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	if o.Listen == nil {
		o.Listen = net.Listen
	}
	lock, err := lockDir(o.Dir)
	if err != nil {
		return nil, err
	}
	if err := prepare(o.Dir, o.Logger); err != nil {
		return nil, errors.Join(err, lock.Unlock())
	}
	cluster, err := kfake.NewCluster(
		kfake.Ports(o.Port),
		kfake.ListenFn(o.Listen),
		kfake.ClusterID(clusterID),
		kfake.DataDir(filepath.Join(o.Dir, dataDir)),
		kfake.DefaultNumPartitions(o.Partitions),
		kfake.GroupMinSessionTimeout(time.Second),
		kfake.BrokerConfigs(map[string]string{
			"log.cleaner.backoff.ms":    strconv.FormatInt(never.Milliseconds(), 10),
			"offsets.retention.minutes": strconv.FormatInt(int64(never/time.Minute), 10),
		}),
		kfake.WithLogger(brokerLog{slog.New(obs.NewQuiet(o.Logger.Handler(), obs.QuietOptions{})).With(obs.KeyComponent, "devbroker")}),
	)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("start the embedded broker on 127.0.0.1:%d with data in %s: %w", o.Port, o.Dir, err), lock.Unlock())
	}
	WholeFetches(cluster)
	return &Broker{cluster: cluster, lock: lock, dir: o.Dir, addr: cluster.ListenAddrs()[0]}, nil
}

// Addr is the bootstrap address, host:port.
func (b *Broker) Addr() string { return b.addr }

// Close saves the state, stops listening and gives the directory back. Clients
// are best closed before. Further calls do nothing.
func (b *Broker) Close() error {
	var err error
	b.close.Do(func() {
		b.cluster.Close()
		err = errors.Join(
			os.WriteFile(filepath.Join(b.dir, cleanFile), nil, 0o600),
			b.lock.Unlock(),
		)
	})
	if err != nil {
		return fmt.Errorf("leave data directory: %w", err)
	}
	return nil
}

// prepare looks at how the last run ended: after anything but an orderly Close
// the files are repaired.
func prepare(dir string, log *slog.Logger) error {
	err := os.Remove(filepath.Join(dir, cleanFile))
	if errors.Is(err, fs.ErrNotExist) {
		return repair(filepath.Join(dir, dataDir), time.Now(), log)
	}
	if err != nil {
		return fmt.Errorf("prepare data directory: %w", err)
	}
	return nil
}

// lockDir takes the directory for this process; the lock ends with the process, however it ends.
func lockDir(dir string) (*flock.Flock, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("make data directory: %w", err)
	}
	path := filepath.Join(dir, "lock")
	lock := flock.New(path, flock.SetPermissions(0o600))
	ok, err := lock.TryLock()
	if err != nil {
		return nil, fmt.Errorf("lock data directory: %w", err)
	}
	if !ok {
		pid := 0
		if b, err := os.ReadFile(path); err == nil {
			pid, _ = strconv.Atoi(strings.TrimSpace(string(b)))
		}
		return nil, &LockedError{Dir: dir, PID: pid}
	}
	if err := os.WriteFile(path, []byte(strconv.Itoa(os.Getpid())+"\n"), 0o600); err != nil {
		return nil, errors.Join(fmt.Errorf("note owner of data directory: %w", err), lock.Unlock())
	}
	return lock, nil
}

// brokerLog takes kfake's log: its info lines are one per request, so they go to debug.
type brokerLog struct{ log *slog.Logger }

var _ kfake.Logger = brokerLog{}

func (l brokerLog) Logf(level kfake.LogLevel, format string, args ...any) {
	const says = "embedded broker" // what it says is the cause that Quiet tells lines apart by
	text := fmt.Sprintf(format, args...)
	switch level {
	case kfake.LogLevelError:
		l.log.Error(says, obs.KeyError, text)
	case kfake.LogLevelWarn:
		l.log.Warn(says, obs.KeyError, text)
	case kfake.LogLevelInfo, kfake.LogLevelDebug:
		l.log.Debug(says, obs.KeyCause, text)
	case kfake.LogLevelNone:
	}
}
