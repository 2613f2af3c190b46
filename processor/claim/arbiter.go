// Package claim decides which event owns an idempotency key.
//
// All events of one endpoint lie in one partition, in one order, and are read by
// one owner; so the partition's log is the unique index on (endpoint, key), and
// the arbiter only has to read it in order: of all events with the same key
// within the window, the one at the lowest offset is first, and no other. What
// it remembers is a cache of the idempotency topic, from which it is restored.
//
// The package is pure. Every time in it is a record's own, never the wall
// clock's, so that a re-read after a crash comes to the same verdict.
package claim

import (
	"crypto/sha256"
	"encoding/binary"
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

// Arbiter remembers the claims of one unit. Not safe for concurrent use: the
// unit's goroutine owns it.
//
// Claims expire by generation and not by scanning: two maps, of which the older
// is dropped whole once everything in it is past the window. Whether a claim
// still holds is decided by its own time, so the maps only bound memory.
type Arbiter struct {
	window  time.Duration
	current map[fingerprint]owner
	older   map[fingerprint]owner
	opened  time.Time // when the current generation began, in record time
	// before holds the owners whose key was claimed anew after their window, in two
	// generations like the above. A repeat at the end of a window that is read again
	// after a crash, when the key has its next owner already, is judged by them.
	before, olderBefore map[fingerprint]owner
}

// fingerprint is the first half of a SHA-256 over endpoint and key: 16 bytes a
// key, whatever the key's length, and no collision to expect in 2^64 keys.
type fingerprint [16]byte

type owner struct {
	deliveryID string
	content    [16]byte // first half of the content hash
	offset     int64
	at         int64 // Unix milliseconds
}

// NewArbiter makes an empty arbiter. window is how long a key is remembered,
// counted from the record that claimed it (24 h by default).
func NewArbiter(window time.Duration) *Arbiter {
	return &Arbiter{window: window, current: map[fingerprint]owner{}, before: map[fingerprint]owner{}}
}

// Judge gives the verdict on the event at q.Offset. Offsets must come in log
// order; a re-read of an offset that was judged before gives the same verdict.
// The returned claim is what goes to the idempotency topic: the owner, and the
// offset that this write answers.
func (a *Arbiter) Judge(q Question) schemas.Claim {
	fp := fingerprintOf(q.EndpointID, q.Key)
	content := half(q.ContentHash)
	held, ok := a.find(fp)
	if ok && held.offset > q.Offset {
		if earlier, known := a.findBefore(fp); known && earlier.offset <= q.Offset && a.holds(earlier, q.At) {
			held = earlier
		}
	}
	switch {
	case !ok || !a.holds(held, q.At):
		held = owner{deliveryID: q.DeliveryID, content: content, offset: q.Offset, at: q.At.UnixMilli()}
		a.put(fp, held)
		return a.answer(q, held, schemas.VerdictFirst)
	case held.offset >= q.Offset:
		// Our own record read again after a crash, or one that owned the key in
		// a window before the present owner's: it was first then and is first now.
		// (What repeated that one is known as long as the topic has not been compacted.)
		return a.answer(q, held, schemas.VerdictFirst)
	case held.content != content:
		return a.answer(q, held, schemas.VerdictConflict)
	default:
		return a.answer(q, held, schemas.VerdictDuplicate)
	}
}

// Restore takes a claim as it was read from the idempotency topic.
func (a *Arbiter) Restore(c *schemas.Claim) {
	fp := fingerprintOf(c.EndpointID, c.Key)
	held := owner{
		deliveryID: c.DeliveryID, content: half(c.PayloadHash),
		offset: c.ClaimedOffset, at: c.ClaimedAt.UnixMilli(),
	}
	// The newest claim of a key wins; a repeat's write carries its owner unchanged.
	if old, ok := a.find(fp); ok && old.offset > held.offset {
		a.keepBefore(fp, held)
		return
	}
	a.put(fp, held)
}

// Len is how many keys are remembered.
func (a *Arbiter) Len() int { return len(a.current) + len(a.older) }

// holds says whether a claim still binds its key at the time of a later record.
func (a *Arbiter) holds(o owner, at time.Time) bool {
	return at.UnixMilli()-o.at < a.window.Milliseconds()
}

func (a *Arbiter) find(fp fingerprint) (owner, bool) {
	if o, ok := a.current[fp]; ok {
		return o, true
	}
	o, ok := a.older[fp]
	return o, ok
}

func (a *Arbiter) put(fp fingerprint, o owner) {
	at := time.UnixMilli(o.at)
	switch {
	case a.opened.IsZero():
		a.opened = at
	case at.Sub(a.opened) >= a.window:
		// All of older was claimed before this generation opened, a whole
		// window ago: none of it can bind a key any more.
		a.older, a.current, a.opened = a.current, map[fingerprint]owner{}, at
		a.olderBefore, a.before = a.before, map[fingerprint]owner{}
	}
	if old, ok := a.find(fp); ok && old.offset < o.offset {
		a.keepBefore(fp, old)
	}
	a.current[fp] = o
}

// keepBefore remembers the last owner before the present one.
func (a *Arbiter) keepBefore(fp fingerprint, o owner) {
	if known, ok := a.findBefore(fp); !ok || known.offset < o.offset {
		a.before[fp] = o
	}
}

func (a *Arbiter) findBefore(fp fingerprint) (owner, bool) {
	if o, ok := a.before[fp]; ok {
		return o, true
	}
	o, ok := a.olderBefore[fp]
	return o, ok
}

func (a *Arbiter) answer(q Question, o owner, v schemas.Verdict) schemas.Claim {
	c := schemas.Claim{
		EndpointID: q.EndpointID, Key: q.Key, DeliveryID: o.deliveryID, PayloadHash: o.content[:],
		ClaimedOffset: o.offset, ClaimedAt: time.UnixMilli(o.at).UTC(),
		AnsweredOffset: q.Offset, Verdict: v,
	}
	return c
}

func fingerprintOf(endpointID, key string) fingerprint {
	h := sha256.New()
	var n [8]byte
	binary.BigEndian.PutUint64(n[:], uint64(len(endpointID)))
	h.Write(n[:])
	h.Write([]byte(endpointID))
	h.Write([]byte(key))
	var sum [sha256.Size]byte
	h.Sum(sum[:0])
	return half(sum[:])
}

// half is the first 16 bytes of a hash; of a shorter one, what there is.
func half(hash []byte) (h [16]byte) {
	copy(h[:], hash)
	return h
}
