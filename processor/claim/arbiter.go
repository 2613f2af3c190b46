// Package claim decides which event owns an idempotency key.
//
// All events of one endpoint lie in one partition, in one order, and are read by
// one owner; so the partition's log is the unique index on (endpoint, key), and
// the arbiter only has to read it in order: of all events with the same key
// within the window, the one at the lowest offset is first, and no other. What
// it remembers is a cache of the idempotency topic, from which it is restored.
//
// How it remembers is behind [Store]: in memory here, on disk in package claimstore.
// The package is pure. Every time in it is a record's own, never the wall
// clock's, so that a re-read after a crash comes to the same verdict.
package claim

import (
	"math"
	"slices"
	"time"

	"github.com/barnabas-webhooks/barnabas/schemas"
)

// Question is one keyed event, as the arbiter sees it.
type Question struct {
	EndpointID  string
	Key         string
	DeliveryID  string    // what the delivery would be called if it is first
	ContentHash []byte    // schemas.ContentHash of the event
	Offset      int64     // in the partition's events log
	At          time.Time // the record's own timestamp
}

// Arbiter judges the events of one unit. Not safe for concurrent use: the unit's
// goroutine owns it.
//
// Claims expire by generation and not by scanning. A generation holds what was
// claimed in one window's length of record time, counted from 1970; so a key has
// one owner at most in each, and the owner that binds a record is in the record's
// own generation or the one before. Older ones are dropped whole, once the records
// that they could bind are settled for good: after a crash the log is read again
// from what is unsettled, which may lie any time back, and is judged by the owners of then.
//
// An error of the store ends the arbiter's use: it never answers by what it cannot see.
type Arbiter struct {
	window time.Duration
	store  Store

	last   int64 // generation of the record that was judged last
	offset int64 // and its offset
	judged bool
	newest int64  // generation that the log has reached
	turns  []turn // of generations that the log has reached and that is not settled yet

	written coverage
	saved   int64 // position that the store has been told
}

// turn is where the log reached a new generation: what lies from offset on is not
// bound by what was claimed before the generation oldest.
type turn struct{ offset, oldest int64 }

// saveEvery is how many covered records apart the position is written down: so many
// are read once more by the next owner.
const saveEvery = 1000

// NewArbiter makes an arbiter that remembers with the given store, and with what is in it.
// window is how long a key is remembered, counted from the record that claimed it (24 h by default).
func NewArbiter(window time.Duration, store Store) *Arbiter {
	at := store.Position()
	return &Arbiter{window: window, store: store, newest: math.MinInt64, written: coverage{next: at}, saved: at}
}

// Judge gives the verdict on the event at q.Offset. Offsets must come in log
// order; a re-read of an offset that was judged before gives the same verdict.
// The returned claim is what goes to the idempotency topic: the owner, and the
// offset that this write answers.
func (a *Arbiter) Judge(q Question) (schemas.Claim, error) {
	fp := fingerprintOf(q.EndpointID, q.Key)
	content := half(q.ContentHash)
	a.follow(q)
	held, ok, taken, err := a.before(fp, q)
	switch {
	case err != nil:
		return schemas.Claim{}, err
	case !ok || !a.holds(held, q.At):
		held = Owner{DeliveryID: q.DeliveryID, Content: content, Offset: q.Offset, At: q.At.UnixMilli()}
		if !taken {
			err = a.store.Put(a.generation(held.At), fp, held)
		}
		return a.answer(q, held, schemas.VerdictFirst), err
	case held.Offset == q.Offset: // our own record, read again
		return a.answer(q, held, schemas.VerdictFirst), nil
	case held.Content != content:
		return a.answer(q, held, schemas.VerdictConflict), nil
	default:
		return a.answer(q, held, schemas.VerdictDuplicate), nil
	}
}

// Restore takes a claim as it was read from the idempotency topic, in any order.
func (a *Arbiter) Restore(c *schemas.Claim) error {
	return a.put(fingerprintOf(c.EndpointID, c.Key), Owner{
		DeliveryID: c.DeliveryID, Content: half(c.PayloadHash),
		Offset: c.ClaimedOffset, At: c.ClaimedAt.UnixMilli(),
	})
}

// Covered says that the records at offsets from ... to-1 of the idempotency topic's partition
// are in the store: they were read and restored, or written after they were judged.
func (a *Arbiter) Covered(from, to int64) error {
	a.written.add(from, to)
	if a.written.next-a.saved < saveEvery {
		return nil
	}
	return a.Save()
}

// Save writes the position down: what is covered need not be read by the next owner.
func (a *Arbiter) Save() error {
	if a.written.next == a.saved {
		return nil
	}
	a.saved = a.written.next
	return a.store.SetPosition(a.saved)
}

// Position is the offset in the idempotency topic's partition below which nothing is missing.
func (a *Arbiter) Position() int64 { return a.written.next }

// Gap is the lowest offsets in the idempotency topic's partition that somebody else has
// written between what is covered. They are to be read, restored, and told to Covered.
func (a *Arbiter) Gap() (from, to int64, ok bool) { return a.written.gap() }

// Settled says that no event below an offset will ever be judged again: claims that bind
// none of the others are forgotten.
func (a *Arbiter) Settled(offset int64) error {
	n := 0
	for n < len(a.turns) && a.turns[n].offset <= offset {
		n++
	}
	if n == 0 {
		return nil
	}
	oldest := a.turns[n-1].oldest
	a.turns = slices.Delete(a.turns, 0, n)
	return a.store.DropBelow(oldest)
}

// Close saves the position and ends the use of the store.
func (a *Arbiter) Close() error {
	defer a.store.Close()
	return a.Save()
}

// Len is about how many claims are remembered.
func (a *Arbiter) Len() int64 { return a.store.Len() }

// holds says whether a claim still binds its key at the time of a later record.
func (a *Arbiter) holds(o Owner, at time.Time) bool {
	return at.UnixMilli()-o.At < a.window.Milliseconds()
}

// before finds the last owner of a key at or before a record. All generations are
// asked, of which there are two or three: a broker's clock may have been set back.
// taken says that there is one in the record's own generation.
func (a *Arbiter) before(fp Fingerprint, q Question) (last Owner, ok, taken bool, err error) {
	own := a.generation(q.At.UnixMilli())
	for _, g := range a.store.Generations() {
		o, held, err := a.store.Get(g, fp)
		if err != nil {
			return Owner{}, false, false, err
		}
		if !held || o.Offset > q.Offset {
			continue
		}
		taken = taken || g == own
		if !ok || o.Offset > last.Offset {
			last, ok = o, true
		}
	}
	return last, ok, taken, nil
}

// put notes an owner as it was read. Two in one generation cannot both be right; the log's order decides.
func (a *Arbiter) put(fp Fingerprint, o Owner) error {
	g := a.generation(o.At)
	old, held, err := a.store.Get(g, fp)
	if err != nil || held && old.Offset <= o.Offset {
		return err
	}
	return a.store.Put(g, fp, o)
}

// follow notes where the log reaches a new generation: of two records in a row the
// older one's time counts, so that one wrong time drops nothing.
func (a *Arbiter) follow(q Question) {
	now := a.generation(q.At.UnixMilli())
	if a.judged && q.Offset <= a.offset { // the log was made anew, or is read again: no turn of before can be settled
		a.turns, a.newest, a.judged = nil, math.MinInt64, false
	}
	if reached := min(now, a.last); a.judged && reached > a.newest {
		a.newest = reached
		a.turns = append(a.turns, turn{q.Offset, reached - 1})
	}
	a.last, a.offset, a.judged = now, q.Offset, true
}

// generation is the number of the window's length that a time is in.
func (a *Arbiter) generation(millis int64) int64 {
	length := max(a.window.Milliseconds(), 1)
	number := millis / length
	if millis%length < 0 {
		number--
	}
	return number
}

func (a *Arbiter) answer(q Question, o Owner, v schemas.Verdict) schemas.Claim {
	c := schemas.Claim{
		EndpointID: q.EndpointID, Key: q.Key, DeliveryID: o.DeliveryID, PayloadHash: o.Content[:],
		ClaimedOffset: o.Offset, ClaimedAt: time.UnixMilli(o.At).UTC(),
		AnsweredOffset: q.Offset, Verdict: v,
	}
	return c
}
