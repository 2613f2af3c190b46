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
// Claims expire by generation and not by scanning. A generation holds what was
// claimed in one window's length of record time, counted from 1970; so a key has
// one owner at most in each, and the owner that binds a record is in the record's
// own generation or the one before. Older ones are dropped whole as the log is
// judged, and not as claims are restored: after a crash the log is read again from
// what is unsettled, which may lie any time back, and is judged by the owners of then.
type Arbiter struct {
	window      time.Duration
	generations map[int64]map[fingerprint]owner
	last        int64 // generation of the record that was judged last
	judged      bool
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
	return &Arbiter{window: window, generations: map[int64]map[fingerprint]owner{}}
}

// Judge gives the verdict on the event at q.Offset. Offsets must come in log
// order; a re-read of an offset that was judged before gives the same verdict.
// The returned claim is what goes to the idempotency topic: the owner, and the
// offset that this write answers.
func (a *Arbiter) Judge(q Question) schemas.Claim {
	fp := fingerprintOf(q.EndpointID, q.Key)
	content := half(q.ContentHash)
	a.expire(q.At)
	held, ok := a.before(fp, q.Offset)
	switch {
	case !ok || !a.holds(held, q.At):
		held = owner{deliveryID: q.DeliveryID, content: content, offset: q.Offset, at: q.At.UnixMilli()}
		a.put(fp, held)
		return a.answer(q, held, schemas.VerdictFirst)
	case held.offset == q.Offset: // our own record, read again
		return a.answer(q, held, schemas.VerdictFirst)
	case held.content != content:
		return a.answer(q, held, schemas.VerdictConflict)
	default:
		return a.answer(q, held, schemas.VerdictDuplicate)
	}
}

// Restore takes a claim as it was read from the idempotency topic, in any order.
func (a *Arbiter) Restore(c *schemas.Claim) {
	a.put(fingerprintOf(c.EndpointID, c.Key), owner{
		deliveryID: c.DeliveryID, content: half(c.PayloadHash),
		offset: c.ClaimedOffset, at: c.ClaimedAt.UnixMilli(),
	})
}

// Len is how many claims are remembered.
func (a *Arbiter) Len() int {
	n := 0
	for _, g := range a.generations {
		n += len(g)
	}
	return n
}

// holds says whether a claim still binds its key at the time of a later record.
func (a *Arbiter) holds(o owner, at time.Time) bool {
	return at.UnixMilli()-o.at < a.window.Milliseconds()
}

// before finds the last owner of a key at or before an offset. All generations
// are asked, of which there are two or three: a broker's clock may have been set back.
func (a *Arbiter) before(fp fingerprint, offset int64) (last owner, ok bool) {
	for _, g := range a.generations {
		if o, held := g[fp]; held && o.offset <= offset && (!ok || o.offset > last.offset) {
			last, ok = o, true
		}
	}
	return last, ok
}

// put notes an owner. Two in one generation cannot both be right; the log's order decides.
func (a *Arbiter) put(fp fingerprint, o owner) {
	number := a.generation(o.at)
	g := a.generations[number]
	if g == nil {
		g = map[fingerprint]owner{}
		a.generations[number] = g
	}
	if old, ok := g[fp]; !ok || o.offset < old.offset {
		g[fp] = o
	}
}

// expire drops the generations that can bind nothing any more: of two records in
// a row the older one's time counts, so that one wrong time drops nothing.
func (a *Arbiter) expire(at time.Time) {
	now := a.generation(at.UnixMilli())
	oldest := now - 1
	if a.judged {
		oldest = min(now, a.last) - 1
	}
	if now != a.last || !a.judged || len(a.generations) > 2 {
		for number := range a.generations {
			if number < oldest {
				delete(a.generations, number)
			}
		}
	}
	a.last, a.judged = now, true
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
