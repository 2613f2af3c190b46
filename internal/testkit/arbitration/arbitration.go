// Package arbitration holds the arbiter of idempotency keys against the rule said
// naively, with whatever it remembers with: every claim.Store runs the same test.
package arbitration

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/barnabas-webhooks/barnabas/processor/claim"
	"github.com/barnabas-webhooks/barnabas/schemas"
)

// Window is how long the keys of the test are remembered.
const Window = 24 * time.Hour

// Start is when the test's log begins.
func Start() time.Time { return time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC) }

// Memory is where an arbiter remembers, over the crashes of its process.
type Memory interface {
	// Open gives the store to the next owner, who finds the claims' log as long as it says.
	Open(t *testing.T, log claim.Log) claim.Store
	// Sync makes durable what was put so far.
	Sync(t *testing.T)
	// Crash loses what a crash loses, at any moment.
	Crash(t *testing.T)
}

// Question is one keyed event of the endpoint ep_1, its delivery named after its offset.
func Question(key string, offset int64, at time.Duration, payload string) claim.Question {
	return claim.Question{
		EndpointID: "ep_1", Key: key, DeliveryID: DeliveryID(offset), Offset: offset, At: Start().Add(at),
		ContentHash: schemas.ContentHash(&schemas.Event{EventType: "test", Payload: []byte(payload)}),
	}
}

// DeliveryID is the id of the event at an offset: of some a producer's own, of others one that was minted.
func DeliveryID(offset int64) string {
	if offset%3 == 0 {
		return schemas.DeriveDeliveryID(schemas.Coordinates{Offset: offset}, 0)
	}
	return fmt.Sprintf("dlv_%d", offset)
}

// Verdict is the rule said naively: going through the log from its start, a record
// is first when no owner of its key is within the window before it.
func Verdict(log []claim.Question, at int) (schemas.Verdict, int64) {
	owner := map[string]claim.Question{}
	for i := range at + 1 {
		q := log[i]
		held, ok := owner[q.Key]
		if !ok || q.At.Sub(held.At) >= Window {
			owner[q.Key] = q
			if i == at {
				return schemas.VerdictFirst, q.Offset
			}
			continue
		}
		if i < at {
			continue
		}
		if string(held.ContentHash) != string(q.ContentHash) {
			return schemas.VerdictConflict, held.Offset
		}
		return schemas.VerdictDuplicate, held.Offset
	}
	panic("unreachable")
}

// run is one log of events, the log of claims that is written of it, and the owners that do.
type run struct {
	t       *testing.T
	rnd     *rand.Rand
	log     []claim.Question
	memory  Memory
	arbiter *claim.Arbiter
	claims  []schemas.Claim // the idempotency topic: offsets are indexes
	unacked []int64         // written and not yet known to be
	covered map[int64]bool  // of the claims: read, or written and known to be, by the present owner
	settled int             // what lies below is never read again
}

// AgreesWithTheWholeLog judges random logs over several windows, by owners that crash at random, go on
// from what their store and the claims' log say, and read again from anywhere that is not
// settled: windows back, after an outage. The claims' log is compacted, its acknowledgements are late,
// and owners that do not know that they are none any more write into it in between.
func AgreesWithTheWholeLog(t *testing.T, seed uint64, memory Memory) {
	t.Helper()
	rnd := rand.New(rand.NewPCG(seed, 7))
	r := &run{t: t, rnd: rnd, log: randomLog(rnd, 400), memory: memory}
	r.restore()
	for next := 0; next < len(r.log); next++ {
		r.judge(next)
		if rnd.IntN(4) == 0 {
			r.settle(next)
		}
		if rnd.IntN(20) == 0 {
			r.memory.Sync(t)
		}
		if rnd.IntN(30) > 0 {
			continue
		}
		r.memory.Crash(t)
		r.restore()
		if r.settled <= next && rnd.IntN(2) == 0 { // the owner before lives on somewhere, and finishes its sentence
			r.stale(next)
		}
		next = r.settled + rnd.IntN(next-r.settled+2) - 1
	}
}

// judge asks for the verdict on one event and writes it.
func (r *run) judge(at int) {
	r.t.Helper()
	want, owner := Verdict(r.log, at)
	c, err := r.arbiter.Judge(r.log[at])
	require.NoError(r.t, err)
	require.Equal(r.t, want, c.Verdict, "offset %d", r.log[at].Offset)
	require.Equal(r.t, DeliveryID(owner), c.DeliveryID, "offset %d", r.log[at].Offset)
	require.Equal(r.t, owner, c.ClaimedOffset, "offset %d", r.log[at].Offset)
	r.claims = append(r.claims, c)
	r.unacked = append(r.unacked, int64(len(r.claims)-1))
	r.rnd.Shuffle(len(r.unacked), func(i, j int) { r.unacked[i], r.unacked[j] = r.unacked[j], r.unacked[i] })
	for len(r.unacked) > 0 && r.rnd.IntN(3) > 0 {
		r.acknowledge()
	}
}

func (r *run) acknowledge() {
	at := r.unacked[0]
	r.unacked = r.unacked[1:]
	require.NoError(r.t, r.arbiter.Covered(at, at+1))
	r.covered[at] = true
	next := int64(0)
	for r.covered[next] {
		next++
	}
	require.Equal(r.t, next, r.arbiter.Position(), "no record is passed that was not read or written by this owner")
	if r.rnd.IntN(2) == 0 { // as it would be done after a thousand
		require.NoError(r.t, r.arbiter.Save())
	}
}

// settle moves the offset of the group, to what is judged and acknowledged at most.
func (r *run) settle(next int) {
	for len(r.unacked) > 0 {
		r.acknowledge()
	}
	r.settled += r.rnd.IntN(next + 1 - r.settled + 1)
	if r.settled > 0 {
		require.NoError(r.t, r.arbiter.Settled(r.log[r.settled-1].Offset+1))
	}
}

// stale lets an owner of another machine that was overtaken write some verdicts more: what it decided is what the log says.
func (r *run) stale(next int) {
	for range 1 + r.rnd.IntN(5) {
		at := r.settled + r.rnd.IntN(next-r.settled+1)
		verdict, owner := Verdict(r.log, at)
		q := r.log[at]
		i := at
		for r.log[i].Offset != owner {
			i--
		}
		r.claims = append(r.claims, schemas.Claim{
			EndpointID: q.EndpointID, Key: q.Key, DeliveryID: DeliveryID(owner), PayloadHash: r.log[i].ContentHash[:16],
			ClaimedOffset: owner, ClaimedAt: r.log[i].At, AnsweredOffset: q.Offset, Verdict: verdict,
		})
	}
}

// restore makes the next owner: from what the store has, and the log of claims from there, as compaction has left it.
func (r *run) restore() {
	r.t.Helper()
	r.unacked = nil
	end := int64(len(r.claims))
	store := r.memory.Open(r.t, claim.Log{Topic: [16]byte{1}, End: end})
	require.LessOrEqual(r.t, store.Position(), end)
	r.arbiter = claim.NewArbiter(Window, store)
	for _, c := range r.compacted(store.Position()) {
		require.NoError(r.t, r.arbiter.Restore(&c))
	}
	require.NoError(r.t, r.arbiter.Covered(0, end))
	r.covered = map[int64]bool{}
	for at := range end {
		r.covered[at] = true
	}
	require.NoError(r.t, r.arbiter.Save())
}

// compacted is what is left of the claims from an offset on: the last of each owner of each key, in any order.
func (r *run) compacted(from int64) []schemas.Claim {
	type owner struct {
		key string
		at  time.Time
	}
	last := map[owner]int{}
	for i, c := range r.claims {
		last[owner{c.Key, c.ClaimedAt}] = i
	}
	var left []schemas.Claim
	for i, c := range r.claims {
		if int64(i) >= from && last[owner{c.Key, c.ClaimedAt}] == i {
			left = append(left, c)
		}
	}
	r.rnd.Shuffle(len(left), func(i, j int) { left[i], left[j] = left[j], left[i] })
	return left
}

func randomLog(rnd *rand.Rand, n int) []claim.Question {
	log := make([]claim.Question, n)
	var at time.Duration
	var offset int64
	for i := range log {
		offset += 1 + rnd.Int64N(3) // markers leave gaps
		at += time.Duration(rnd.Int64N(int64(time.Hour)))
		log[i] = Question(fmt.Sprintf("k%d", rnd.IntN(12)), offset, at.Truncate(time.Millisecond), fmt.Sprintf("p%d", rnd.IntN(2)))
	}
	return log
}
