package unit_test

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/barnabas-webhooks/barnabas/processor/caps"
	"github.com/barnabas-webhooks/barnabas/processor/metrics"
	"github.com/barnabas-webhooks/barnabas/processor/tracker"
	"github.com/barnabas-webhooks/barnabas/processor/unit"
	"github.com/barnabas-webhooks/barnabas/schemas"
)

// A lane that live work and a replay flood, of an endpoint for which a round of shares takes longer than anything may
// wait in a lane: its retries have their share all the same, and none goes round for ever (invariant 7, C-107).
func TestUnit_AFloodedLaneServesItsRetries(t *testing.T) {
	t.Parallel()
	for name, takesFor := range map[string]time.Duration{"fast": 20 * time.Millisecond, "slow": time.Second, "hanging": 14 * time.Second} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				r := newRig(t).start()
				r.endpoint("ep")
				r.endpoint("other")
				r.sender.answer(takes(map[string]time.Duration{"ep": takesFor}))
				const retries, replays = 5, 1000
				due := time.Now().Add(30 * time.Second)
				for i := range retries {
					r.waiting(0, delivery(fmt.Sprintf("dlv_retry_%d", i), "ep", 30*time.Second))
				}
				for i := range replays {
					d := delivery(fmt.Sprintf("dlv_replay_%d", i), "ep", 0)
					d.Attempts, d.Replays = 0, 1
					value, err := schemas.EncodeDelivery(&d)
					require.NoError(t, err)
					r.log.append(record(r.Catalogue.Replay(), "ep", value))
				}
				// For each a round, and as long again since it may be away when its turn comes.
				const round = 25
				last := due.Add(retries * (2*round*takesFor + r.LaneAge))
				served := func() (n int) {
					for _, p := range r.sender.seen("ep") {
						if len(p.ID) > 9 && p.ID[:9] == "dlv_retry" {
							n++
						}
					}
					return n
				}
				for time.Now().Before(last) && served() < retries {
					for range 3 { // more than even the fast one can do
						r.event("ep", "", `{}`)
					}
					r.event("other", "", `{}`) // a neighbour at work: intake does not stand still for the flood
					time.Sleep(takesFor / 2)
				}
				t.Logf("%d served %s after they were due, %d of others", served(), time.Since(due), len(r.sender.seen("ep"))-served())
				require.Equal(t, retries, served(), "after %s", time.Since(due))
				require.GreaterOrEqual(t, len(r.sender.seen("ep")), retries*4, "others first")
				r.unit.Drop(unit.ErrLost)
				<-r.unit.Done()
				time.Sleep(time.Second) // a beat that was wanted finds nobody
			})
		})
	}
}

// What is spilled comes back about as fast as it can be worked off: a flood that comes back faster is spilled again and again, and each
// time written anew.
func TestUnit_AFloodComesBackAtItsPace(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, withChance).start()
		const n, takesFor = 5000, 20 * time.Millisecond
		r.flood(n, takesFor)
		time.Sleep(n * takesFor * 3 / 2)
		require.Len(t, r.sender.seen("flooded"), n, "in little more than it takes")
		spilled := r.metric("barnabas_holds_total", metrics.HoldLaneFull) + r.metric("barnabas_holds_total", metrics.HoldLaneAge)
		require.Greater(t, spilled, 0.9*n)
		require.Less(t, spilled, 1.1*n)
		r.end()
	})
}

// Invariant 6: what would not have its turn in its lifetime, by the pace that the lane has now, is not given up before: it may get faster.
func TestUnit_AFloodIsNotGivenUpEarly(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const n, takesFor, lifetime = 2000, time.Second, 10 * time.Minute
		r := newRig(t, withChance, func(r *rig) { r.Policy.Lifetime = lifetime }).start()
		r.flood(n, takesFor)
		time.Sleep(lifetime / 2)
		require.Empty(t, r.letters())
		r.sender.always(204)
		time.Sleep(lifetime / 2)
		require.Empty(t, r.letters())
		require.Len(t, r.sender.seen("flooded"), n)
		r.end()
	})
}

// Who comes behind a flood in the log waits until it is read, and no longer: what a slow lane took of it does not keep the window
// where it is for long, and what fills it up is settled without waiting for the beat.
func TestUnit_AFloodIsReadAsFastAsItIsSettled(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, withChance, func(r *rig) { r.Memory = caps.NewMemory(1 << 30) }).start()
		const n = 6 * tracker.Window
		r.flood(n, 20*time.Millisecond)
		begun := time.Now()
		const worthABatch = tracker.FarOpen / 2
		most := r.LanePause + n/worthABatch*r.settler.beat/10
		time.Sleep(3 * most)
		posts := r.sender.seen("other")
		require.Len(t, posts, 2)
		require.LessOrEqual(t, posts[1].At.Sub(begun), most)
		r.unit.Drop(unit.ErrLost)
		<-r.unit.Done()
		time.Sleep(time.Second) // a beat that was wanted finds nobody
	})
}

// flood makes two endpoints and appends n events for the one, which takes a while for each, between two for the other.
func (r *rig) flood(n int, takesFor time.Duration) {
	r.endpoint("flooded")
	r.endpoint("other")
	r.sender.answer(takes(map[string]time.Duration{"flooded": takesFor}))
	r.event("other", "", `{}`)
	for range n {
		r.event("flooded", "", `{}`)
	}
	r.event("other", "", `{}`)
}

// withChance draws anew each time, the same in each run.
func withChance(r *rig) { r.Rand = rand.New(rand.NewPCG(1, 2)).Float64 }

// What is not urgent waits for the beat: fewer than a batch, with room in the window.
func TestUnit_HurriesForWholeBatchesOnly(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		outcomes int
		bytes    int64
		want     time.Duration
	}{
		"a few":                      {10, 8 << 20, 100 * time.Millisecond},
		"as many as a batch may be":  {20, 8 << 20, 10 * time.Millisecond},
		"as large as a batch may be": {10, 1 << 10, 10 * time.Millisecond},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				r := newRig(t, func(r *rig) { r.BatchOutcomes, r.BatchBytes = 20, c.bytes }).start()
				r.endpoint("ep", parallel(100))
				begun := time.Now()
				for range c.outcomes {
					r.event("ep", "", `{}`)
				}
				for settled := 0; settled < c.outcomes; r.settler.set(func(s *settler) { settled = s.outcomes }) {
					time.Sleep(time.Millisecond)
				}
				require.GreaterOrEqual(t, time.Since(begun), c.want)
				require.LessOrEqual(t, time.Since(begun), c.want+5*time.Millisecond)
				r.end()
			})
		})
	}
}
