package endpoint

import (
	"context"
	"errors"
	"fmt"
	"hash/maphash"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/barnabas-webhooks/barnabas/internal/obs"
	"github.com/barnabas-webhooks/barnabas/schemas"
)

// maxRounds is how often a change is made again because another process's came between. Each round needs that
// process to write within the same few milliseconds.
const maxRounds = 5

// errUnchanged is what an operation returns when there is nothing to do.
var errUnchanged = errors.New("unchanged")

// An operation makes the next version of an endpoint of the present one (nil: there is none); nil is a deletion.
// It may be called several times.
type operation func(cur *Endpoint, now time.Time) (*schemas.Endpoint, error)

// change runs one operation and returns the version it left; nil after a deletion.
//
// Between processes, with R the version read and W the one written:
//
//	A reads R, writes W1                    log: R W1 W2 W3
//	B reads R, writes W2 without W1 in it
//	A sees W1 follow R: done
//	B sees W2 follow W1 and not R, so it runs its operation again on W1, writes W3, and sees it follow W2: done
func (r *Registry) change(ctx context.Context, id string, op operation) (*Endpoint, error) {
	if !ValidID(id) {
		return nil, ErrNotFound
	}
	ctx, cancel := context.WithTimeout(ctx, r.opts.WriteTimeout)
	defer cancel()
	unlock, err := r.locks.lock(ctx, id)
	if err != nil {
		return nil, unavailable(err)
	}
	defer unlock()
	if err := r.writes.await(ctx, r.opts.Table); err != nil {
		return nil, unavailable(err)
	}

	w := r.opts.Table.watch(id)
	defer r.opts.Table.unwatch(w)
	base, expect := w.base.ep, w.base.version
	for round := range maxRounds {
		next, err := op(base, clock(base))
		if err != nil {
			if round > 0 {
				// What was written by an earlier round stands on a version that was not the last: put that one back.
				r.restore(ctx, id, base)
			}
			if errors.Is(err, errUnchanged) {
				return base, nil
			}
			return nil, err
		}
		partition, offset, err := r.produce(ctx, id, next)
		if err != nil {
			return nil, err
		}
		if err := r.opts.Table.await(ctx, partition, offset); err != nil {
			// It is saved, and what it replaced is not known. Later changes by this process wait for it first.
			r.log.Warn("endpoint_write_not_seen_yet", obs.KeyEndpointID, id, obs.KeyError, err)
			return r.asEndpoint(next), nil
		}
		replaced, own, ok := r.opts.Table.around(w, offset)
		if !ok {
			return nil, unavailable(errors.New("the topic holds a version with a later timestamp in another partition"))
		}
		if replaced.version == expect {
			return own.ep, nil
		}
		base, expect = replaced.ep, own.version
	}
	return nil, unavailable(fmt.Errorf("changed by others %d times meanwhile", maxRounds))
}

// clock is the time of a change: whole milliseconds, as the topic keeps them, and after the present version's, so that
// UpdatedAt tells versions apart.
func clock(cur *Endpoint) time.Time {
	now := time.Now().UTC().Truncate(time.Millisecond)
	if cur != nil && !now.After(cur.UpdatedAt) {
		now = cur.UpdatedAt.Add(time.Millisecond)
	}
	return now
}

// restore writes a version again that was overwritten by mistake.
func (r *Registry) restore(ctx context.Context, id string, ep *Endpoint) {
	if isUndecodable(ep) {
		return // it cannot be written by who cannot read it
	}
	var rec *schemas.Endpoint
	if ep != nil {
		rec = &ep.Endpoint
	}
	if _, _, err := r.produce(ctx, id, rec); err != nil {
		r.log.Error("endpoint_restore_failed", obs.KeyEndpointID, id, obs.KeyError, err)
	}
}

// produce writes one version and returns where it is. On error the record may still be written later: franz-go
// cannot take back what is under way.
func (r *Registry) produce(ctx context.Context, id string, rec *schemas.Endpoint) (partition int32, offset int64, err error) {
	out := &kgo.Record{Topic: r.opts.Topic, Key: []byte(id)}
	if rec != nil {
		if out.Value, err = schemas.EncodeEndpoint(r.opts.Table.sealHeaders(rec)); err != nil {
			return 0, 0, fmt.Errorf("encode endpoint: %w", err)
		}
	}
	done := make(chan error, 1)
	r.opts.Client.Produce(ctx, out, func(_ *kgo.Record, err error) { done <- err })
	select {
	case err = <-done:
	case <-ctx.Done():
		err = context.Cause(ctx) // a promise of a request under way may be kept long after
	}
	if err != nil {
		return 0, 0, unavailable(err)
	}
	r.writes.note(out.Partition, out.Offset)
	return out.Partition, out.Offset, nil
}

// asEndpoint is what the table will make of a record.
func (r *Registry) asEndpoint(rec *schemas.Endpoint) *Endpoint {
	if rec == nil {
		return nil
	}
	return r.opts.Table.withKeys(*rec)
}

// stripes are locks by id: few, shared by ids that hash alike, and given up on when ctx ends.
type stripes struct {
	seed maphash.Seed
	held [64]chan struct{}
}

func newStripes() stripes {
	s := stripes{seed: maphash.MakeSeed()}
	for i := range s.held {
		s.held[i] = make(chan struct{}, 1)
	}
	return s
}

func (s *stripes) lock(ctx context.Context, id string) (unlock func(), err error) {
	held := s.held[maphash.String(s.seed, id)%uint64(len(s.held))]
	select {
	case held <- struct{}{}:
		return func() { <-held }, nil
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

// writes remembers how far this process has written, so that no change is made on a version before that.
type writes struct {
	mu   *sync.Mutex // guards last
	last map[int32]int64
}

func newWrites() writes { return writes{mu: new(sync.Mutex), last: map[int32]int64{}} }

func (w *writes) note(partition int32, offset int64) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if have, ok := w.last[partition]; !ok || have < offset {
		w.last[partition] = offset
	}
}

func (w *writes) await(ctx context.Context, t *Table) error {
	w.mu.Lock()
	want := make(map[int32]int64, len(w.last))
	for p, o := range w.last {
		want[p] = o
	}
	w.mu.Unlock()
	for p, o := range want {
		if err := t.await(ctx, p, o); err != nil {
			return err
		}
	}
	return nil
}
