package api

import (
	"context"
	"sync"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/barnabas-webhooks/barnabas/schemas"
)

// recentVerdicts is how many of the latest answers are kept for each partition: those that may arrive between an
// event's produce and its producer's learning where it went. At 64 partitions and 150 bytes each, 10 MB.
const recentVerdicts = 1024

// Answer is the arbiter's word on one event.
type Answer struct {
	Verdict schemas.Verdict
	OwnerID string // the delivery that owns the key; the event's own if it is the first
}

// Verdicts holds the arbiter's latest answers and who waits for one. Safe for concurrent use.
//
// A caller learns its event's offset only after the produce, when the answer may have come already: so Put keeps each
// answer for a while, and Wait looks there and registers under one lock. An answer that is neither there nor comes in
// time is late, which costs the caller a "pending" and nothing else.
type Verdicts struct {
	mu         sync.Mutex // guards what follows
	partitions map[int32]*recentAnswers
	waiting    map[position][]chan Answer
}

type position struct {
	partition int32
	offset    int64
}

// recentAnswers is a ring of the latest answers of a partition, with an index by offset.
type recentAnswers struct {
	ring []int64 // offsets, oldest at next once full
	next int
	by   map[int64]Answer
}

// NewVerdicts makes an empty set.
func NewVerdicts() *Verdicts {
	return &Verdicts{partitions: map[int32]*recentAnswers{}, waiting: map[position][]chan Answer{}}
}

// Put takes an answer to the event at an offset of a partition.
func (v *Verdicts) Put(partition int32, offset int64, a Answer) {
	v.mu.Lock()
	defer v.mu.Unlock()
	recent := v.partitions[partition]
	if recent == nil {
		recent = &recentAnswers{by: map[int64]Answer{}}
		v.partitions[partition] = recent
	}
	recent.put(offset, a)
	at := position{partition, offset}
	for _, ch := range v.waiting[at] {
		ch <- a // buffered, and each is written to once
	}
	delete(v.waiting, at)
}

func (r *recentAnswers) put(offset int64, a Answer) {
	if _, again := r.by[offset]; again {
		r.by[offset] = a // re-read after a crash: the verdict is the same
		return
	}
	if len(r.ring) < recentVerdicts {
		r.ring = append(r.ring, offset)
	} else {
		delete(r.by, r.ring[r.next])
		r.ring[r.next] = offset
		r.next = (r.next + 1) % recentVerdicts
	}
	r.by[offset] = a
}

// Wait returns the answer to the event at an offset of a partition, or false when ctx ends before it is known.
func (v *Verdicts) Wait(ctx context.Context, partition int32, offset int64) (Answer, bool) {
	at := position{partition, offset}
	v.mu.Lock()
	if recent := v.partitions[partition]; recent != nil {
		if a, ok := recent.by[offset]; ok {
			v.mu.Unlock()
			return a, true
		}
	}
	ch := make(chan Answer, 1)
	v.waiting[at] = append(v.waiting[at], ch)
	v.mu.Unlock()
	select {
	case a := <-ch:
		return a, true
	case <-ctx.Done():
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	for i, c := range v.waiting[at] {
		if c == ch {
			v.waiting[at] = append(v.waiting[at][:i:i], v.waiting[at][i+1:]...)
		}
	}
	if len(v.waiting[at]) == 0 {
		delete(v.waiting, at)
	}
	select {
	case a := <-ch: // it came while ctx ended
		return a, true
	default:
		return Answer{}, false
	}
}

// take reads one record of the idempotency topic. Tombstones and what does not decode answer nobody.
func (v *Verdicts) take(r *kgo.Record) (schemas.Claim, error) {
	claim, err := schemas.DecodeClaim(r.Value)
	if err != nil {
		return schemas.Claim{}, err
	}
	v.Put(r.Partition, claim.AnsweredOffset, Answer{Verdict: claim.Verdict, OwnerID: claim.DeliveryID})
	return claim, nil
}
