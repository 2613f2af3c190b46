package claimstore

import (
	"errors"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/cockroachdb/pebble/v2"

	"github.com/barnabas-webhooks/barnabas/processor/claim"
)

// unit is one unit's part of the store, for one owner; when there is another it is closed.
type unit struct {
	store  *Store
	db     *database
	number int32

	mu     sync.Mutex // guards what follows, and keeps a closed unit from the database
	closed bool
	head   head
	key    []byte
	value  []byte
}

var _ claim.Store = (*unit)(nil)

// Generations implements claim.Store.
func (u *unit) Generations() []int64 {
	u.mu.Lock()
	defer u.mu.Unlock()
	return slices.Collect(maps.Keys(u.head.generations))
}

// Get implements claim.Store.
func (u *unit) Get(generation int64, key claim.Fingerprint) (claim.Owner, bool, error) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if err := u.usable(); err != nil {
		return claim.Owner{}, false, err
	}
	u.key = ownerKey(u.key[:0], u.number, generation, key)
	value, closer, err := u.db.Get(u.key)
	if errors.Is(err, pebble.ErrNotFound) {
		return claim.Owner{}, false, nil
	}
	if err != nil {
		return claim.Owner{}, false, u.db.fail(err)
	}
	o, err := readOwner(value)
	if err = errors.Join(err, closer.Close()); err != nil {
		return claim.Owner{}, false, u.db.fail(err)
	}
	return o, true, nil
}

// Put implements claim.Store.
func (u *unit) Put(generation int64, key claim.Fingerprint, o claim.Owner) error {
	u.mu.Lock()
	defer u.mu.Unlock()
	if err := u.usable(); err != nil {
		return err
	}
	if _, known := u.head.generations[generation]; !known {
		// First the head, then what it speaks of: no owner is ever in a generation that nobody asks.
		u.head.generations[generation] = 0
		if err := u.saveHead(); err != nil {
			return err
		}
	}
	u.head.generations[generation]++
	u.key = ownerKey(u.key[:0], u.number, generation, key)
	u.value = appendOwner(u.value[:0], o)
	return u.set(u.key, u.value)
}

// DropBelow implements claim.Store.
func (u *unit) DropBelow(generation int64) error {
	err := u.dropBelow(generation)
	u.store.mu.Lock()
	defer u.store.mu.Unlock()
	if !u.store.closed {
		u.store.sweep(time.Now()) // once a window is often enough
	}
	return err
}

func (u *unit) dropBelow(generation int64) error {
	u.mu.Lock()
	defer u.mu.Unlock()
	if err := u.usable(); err != nil {
		return err
	}
	maps.DeleteFunc(u.head.generations, func(g, _ int64) bool { return g < generation })
	from, to := append(unitKey(int64(u.number)), kindOwner), generationKey(nil, u.number, generation)
	if err := u.db.DeleteRange(from, to, pebble.NoSync); err != nil {
		return u.db.fail(err)
	}
	return u.saveHead()
}

// Position implements claim.Store.
func (u *unit) Position() int64 {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.head.position
}

// SetPosition implements claim.Store.
func (u *unit) SetPosition(next int64) error {
	u.mu.Lock()
	defer u.mu.Unlock()
	if err := u.usable(); err != nil {
		return err
	}
	u.head.position = next
	return u.saveHead()
}

// Len implements claim.Store.
func (u *unit) Len() int64 {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.head.owners()
}

// usable is nil while the unit is this owner's and the database is good. The caller holds mu.
func (u *unit) usable() error {
	if u.closed {
		return claim.ErrClosed
	}
	return u.db.failed()
}

// saveHead writes the head. The caller holds mu, or is the only one to know the unit.
func (u *unit) saveHead() error {
	u.value = u.head.append(u.value[:0])
	return u.set(headKey(u.number), u.value)
}

func (u *unit) set(key, value []byte) error {
	if err := u.db.Set(key, value, pebble.NoSync); err != nil {
		return u.db.fail(err)
	}
	return nil
}

// Close implements claim.Store.
func (u *unit) Close() {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.usable() == nil {
		_ = u.saveHead() // for the counts in it; what else it says has been written
	}
	u.closed = true
}

// drop removes all that a unit holds.
func drop(d *database, unit int32) error {
	if err := d.DeleteRange(unitKey(int64(unit)), unitKey(int64(unit)+1), pebble.NoSync); err != nil {
		return d.fail(err)
	}
	return nil
}

// idle is the newest generation of a unit that nobody owns now; false of one that is owned, or empty.
func (u *unit) idle() (newest int64, ok bool) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if !u.closed {
		return 0, false
	}
	return u.head.newest()
}
