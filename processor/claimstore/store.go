package claimstore

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/barnabas-webhooks/barnabas/internal/obs"
	"github.com/barnabas-webhooks/barnabas/processor/claim"
)

// ErrInUse says that another process has the directory.
var ErrInUse = errors.New("claimstore: the directory is in use by another process: each needs one of its own")

// Options of a store.
type Options struct {
	Config
	Window time.Duration // of idempotency keys
	Log    *slog.Logger
	FS     vfs.FS // nil: the disk
}

// Store is the claims of a process's units. Safe for concurrent use.
type Store struct {
	opts Options
	path string // of the database
	lock io.Closer

	mu     sync.Mutex // guards what follows
	db     *database
	units  map[int32]*unit // owned now or earlier
	closed bool
}

// database is one opening of the files. Once it has failed it is only good for closing.
type database struct {
	*pebble.DB
	failure atomic.Pointer[error]
	broken  chan struct{} // closed when there is a failure
}

// Open opens the store, which is empty if there was none, or none that can be used.
func Open(o Options) (_ *Store, err error) {
	if err := o.Validate(); err != nil {
		return nil, fmt.Errorf("claimstore: %w", err)
	}
	if o.FS == nil {
		o.FS = vfs.Default
	}
	s := &Store{opts: o, path: o.FS.PathJoin(o.Directory, folder(o.Window.Milliseconds()))}
	if err := makeDirectory(o.FS, o.Directory); err != nil {
		return nil, fmt.Errorf("claimstore: %w", err)
	}
	if s.lock, err = o.FS.Lock(o.FS.PathJoin(o.Directory, "LOCK")); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrInUse, err)
	}
	if err = errors.Join(s.removeOthers(), s.open()); err != nil {
		return nil, errors.Join(err, s.lock.Close())
	}
	return s, nil
}

// makeDirectory makes the directory, so that it is still there when the power fails: the database syncs what is below.
func makeDirectory(fs vfs.FS, path string) error {
	if err := fs.MkdirAll(path, 0o700); err != nil {
		return err
	}
	if parent, err := fs.OpenDir(fs.PathDir(path)); err == nil { // where we may not look, it is only a cache
		return errors.Join(parent.Sync(), parent.Close())
	}
	return nil
}

// removeOthers removes databases of other layouts and windows.
func (s *Store) removeOthers() error {
	names, err := s.opts.FS.List(s.opts.Directory)
	if err != nil {
		return fmt.Errorf("claimstore: %w", err)
	}
	for _, name := range names {
		path := s.opts.FS.PathJoin(s.opts.Directory, name)
		if path == s.path || !strings.HasPrefix(name, folderPrefix) {
			continue
		}
		s.opts.Log.Warn("claims of another version or window are thrown away, units are restored from the topic", obs.KeyPath, path)
		if err := s.opts.FS.RemoveAll(path); err != nil {
			return fmt.Errorf("claimstore: %w", err)
		}
	}
	return nil
}

// open opens the database, or an empty one in place of one that cannot be read.
func (s *Store) open() error {
	err := s.load()
	if err == nil {
		return nil
	}
	s.opts.Log.Error("the claims on disk cannot be read: they are thrown away, units are restored from the topic",
		obs.KeyPath, s.path, obs.KeyError, err)
	if err := s.opts.FS.RemoveAll(s.path); err != nil {
		return fmt.Errorf("claimstore: %w", err)
	}
	if err := s.load(); err != nil {
		return fmt.Errorf("claimstore: %w", err)
	}
	return nil
}

// load opens the database and reads which units it holds.
func (s *Store) load() error {
	d := &database{broken: make(chan struct{})}
	cache := pebble.NewCache(s.opts.Cache)
	defer cache.Unref() // the database holds it from now on
	var err error
	if d.DB, err = pebble.Open(s.path, s.pebbleOptions(d, cache)); err != nil {
		return err
	}
	units, err := readUnits(d)
	if err != nil {
		return errors.Join(err, d.Close())
	}
	s.db, s.units = d, units
	s.sweep(time.Now())
	if err := d.failed(); err != nil {
		return errors.Join(err, d.Close())
	}
	return nil
}

// readUnits reads the heads of all units.
func readUnits(d *database) (_ map[int32]*unit, err error) {
	it, err := d.NewIter(nil)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, it.Close()) }()
	units := map[int32]*unit{}
	for next := int64(0); it.SeekGE(unitKey(next)); next++ {
		key := it.Key()
		if len(key) < unitSize+1 || key[unitSize] != kindHead {
			return nil, fmt.Errorf("%w: a unit without a head", errMalformed)
		}
		value, err := it.ValueAndErr()
		if err != nil {
			return nil, err
		}
		u := &unit{number: unitOf(key), closed: true}
		if u.head, err = readHead(value); err != nil {
			return nil, err
		}
		units[u.number], next = u, int64(u.number)
	}
	return units, it.Error()
}

// Open gives the store of a unit to a new owner; whoever had it before has it no more.
// It is empty unless it is a cache of the given log.
func (s *Store) Open(number int32, log claim.Log) (claim.Store, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return nil, claim.ErrClosed
	}
	u := &unit{store: s, db: s.db, number: number, head: head{topic: log.Topic, generations: map[int64]int64{}}}
	old := s.units[number]
	if old != nil {
		old.Close()
	}
	s.units[number] = u
	switch {
	case old == nil:
		return u, u.saveHead()
	case log.Topic != [16]byte{} && old.head.topic == log.Topic && old.head.position <= log.End:
		u.head = old.head.clone()
		return u, nil
	}
	s.opts.Log.Warn("claims on disk are of another topic, or of more than the topic has: they are thrown away, the unit is restored from the topic",
		obs.KeyUnit, number, obs.KeyOffset, old.head.position, obs.KeyTo, log.End)
	return u, errors.Join(drop(s.db, number), u.saveHead())
}

// sweep drops what can bind nothing any more of units that are not owned now. The caller holds mu.
func (s *Store) sweep(now time.Time) {
	current := now.UnixMilli() / max(s.opts.Window.Milliseconds(), 1)
	for number, u := range s.units {
		newest, ok := u.idle()
		if !ok || newest >= current-1 {
			continue
		}
		if drop(s.db, number) == nil {
			delete(s.units, number)
		}
	}
}

// Renew throws everything away and begins empty. What was handed out before is closed.
func (s *Store) Renew() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return claim.ErrClosed
	}
	s.closeUnits()
	if err := s.db.Close(); err != nil {
		s.opts.Log.Warn("claims on disk: closing before they are thrown away", obs.KeyError, err)
	}
	if err := s.opts.FS.RemoveAll(s.path); err != nil {
		s.closed = true
		return fmt.Errorf("claimstore: %w", err)
	}
	if err := s.load(); err != nil {
		s.closed = true
		return fmt.Errorf("claimstore: %w", err)
	}
	return nil
}

// Flush makes durable what is held.
func (s *Store) Flush() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return claim.ErrClosed
	}
	return s.db.flush()
}

// flush writes the memtables to disk, of a database that is good. Where that fails it does not wait: Pebble tries again
// and again, for as long as the disk is full.
func (d *database) flush() error {
	if d.failed() != nil {
		return nil
	}
	flushed, err := d.AsyncFlush()
	if err != nil {
		return d.fail(err)
	}
	select {
	case <-flushed:
		return nil
	case <-d.broken:
		return d.failed()
	}
}

// Close makes what is held durable and closes the store.
func (s *Store) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	var errs []error
	if !s.closed {
		s.closed = true
		s.closeUnits()
		errs = append(errs, s.db.flush(), s.db.Close())
	}
	if s.lock != nil {
		errs = append(errs, s.lock.Close())
		s.lock = nil
	}
	return errors.Join(errs...)
}

func (s *Store) closeUnits() {
	for _, u := range s.units {
		u.Close()
	}
}

// failed is what ended the use of the database; nil while it is good.
func (d *database) failed() error {
	if f := d.failure.Load(); f != nil {
		return *f
	}
	return nil
}

// fail ends the use of the database.
func (d *database) fail(cause error) error {
	failure := fmt.Errorf("%w: %w", claim.ErrFailed, cause)
	if d.failure.CompareAndSwap(nil, &failure) {
		close(d.broken)
	}
	return d.failed()
}

func unitOf(key []byte) int32 { return int32(binary.BigEndian.Uint32(key)) }

// Stats reads what is held, of units that are not owned now too. A closed store has nothing.
func (s *Store) Stats() claim.Stats {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return claim.Stats{}
	}
	m := s.db.Metrics()
	stats := claim.Stats{
		DiskBytes: int64(m.DiskSpaceUsage()), CacheHits: m.BlockCache.Hits, CacheMisses: m.BlockCache.Misses,
	}
	for _, u := range s.units {
		stats.Held += u.Len()
	}
	return stats
}
