package endpoint

import (
	"context"
	"fmt"
)

// watch collects the versions of one id that the table applies, from its beginning on. Guarded by Table.mu.
type watch struct {
	id   string
	base sighting // what was current when the watch began; of a zero version when there was nothing
	seen []sighting
}

// sighting is one version of an id: ep is nil for a tombstone.
type sighting struct {
	version
	ep *Endpoint
}

func (w *watch) saw(id string, v version, ep *Endpoint) {
	if id == w.id {
		w.seen = append(w.seen, sighting{version: v, ep: ep})
	}
}

// watch begins to collect the versions of an id; unwatch ends it.
func (t *Table) watch(id string) *watch {
	t.mu.Lock()
	defer t.mu.Unlock()
	w := &watch{id: id}
	if e, ok := t.byID[id]; ok {
		w.base = sighting{version: e.version, ep: e.ep}
	}
	t.watches[w] = struct{}{}
	return w
}

func (t *Table) unwatch(w *watch) {
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.watches, w)
}

// await returns when the table has applied the record at offset of partition.
func (t *Table) await(ctx context.Context, partition int32, offset int64) error {
	for {
		t.mu.RLock()
		at, changed := t.applied[partition], t.changed
		t.mu.RUnlock()
		if at > offset {
			return nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return fmt.Errorf("wait for the endpoint table: %w", context.Cause(ctx))
		}
	}
}

// around returns the version at offset, and what it replaced: the last one seen ahead of it, or the watch's base.
// All versions of an id that the table takes are in one partition, so offsets compare. It is false when the table
// did not take the version.
func (t *Table) around(w *watch, offset int64) (replaced, own sighting, ok bool) {
	t.mu.RLock()
	defer t.mu.RUnlock()
	replaced = w.base
	for _, s := range w.seen {
		if s.offset == offset {
			return replaced, s, true
		}
		replaced = s
	}
	return sighting{}, sighting{}, false
}
