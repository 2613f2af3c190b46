package claim_test

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/barnabas-webhooks/barnabas/processor/claim"
	"github.com/barnabas-webhooks/barnabas/schemas"
)

// verdictOf is the rule said naively: going through the log from its start, a record
// is first when no owner of its key is within the window before it.
func verdictOf(log []claim.Question, at int) (schemas.Verdict, int64) {
	owner := map[string]claim.Question{}
	for i := range at + 1 {
		q := log[i]
		held, ok := owner[q.Key]
		if !ok || q.At.Sub(held.At) >= window {
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

// Against the naive rule: random logs over several windows, read by owners that
// crash at random, are restored from the claims in random order, and read again
// from anywhere before: what is unsettled may be windows old after an outage. Of the
// claims, the last of each owner is there, as compaction leaves it.
func TestArbiter_AgreesWithTheWholeLog(t *testing.T) {
	t.Parallel()
	for seed := range uint64(60) {
		t.Run(fmt.Sprintf("seed=%d", seed), func(t *testing.T) {
			t.Parallel()
			rnd := rand.New(rand.NewPCG(seed, 7))
			log := randomLog(rnd, 400)
			var written []schemas.Claim
			a := claim.NewArbiter(window)
			for next := 0; next < len(log); next++ {
				want, owner := verdictOf(log, next)
				c := a.Judge(log[next])
				require.Equal(t, want, c.Verdict, "offset %d", log[next].Offset)
				require.Equal(t, deliveryID(owner), c.DeliveryID, "offset %d", log[next].Offset)
				require.Equal(t, owner, c.ClaimedOffset, "offset %d", log[next].Offset)
				written = append(written, c)
				if rnd.IntN(100) > 0 {
					continue
				}
				a = claim.NewArbiter(window)
				for _, c := range compacted(rnd, written) {
					a.Restore(&c)
				}
				next -= rnd.IntN(min(next+1, 120) + 1)
			}
		})
	}
}

// compacted is what is left of the claims: the last of each owner of each key, in any order.
func compacted(rnd *rand.Rand, written []schemas.Claim) []schemas.Claim {
	type owner struct {
		key string
		at  time.Time
	}
	last := map[owner]int{}
	for i, c := range written {
		last[owner{c.Key, c.ClaimedAt}] = i
	}
	var left []schemas.Claim
	for i, c := range written {
		if last[owner{c.Key, c.ClaimedAt}] == i {
			left = append(left, c)
		}
	}
	rnd.Shuffle(len(left), func(i, j int) { left[i], left[j] = left[j], left[i] })
	return left
}

func randomLog(rnd *rand.Rand, n int) []claim.Question {
	log := make([]claim.Question, n)
	var at time.Duration
	var offset int64
	for i := range log {
		offset += 1 + rnd.Int64N(3) // markers leave gaps
		at += time.Duration(rnd.Int64N(int64(time.Hour)))
		log[i] = question(fmt.Sprintf("k%d", rnd.IntN(12)), offset, at.Truncate(time.Millisecond), fmt.Sprintf("p%d", rnd.IntN(2)))
	}
	return log
}
