package unit_test

import (
	"math/rand/v2"
	"slices"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/barnabas-webhooks/barnabas/processor/unit"
)

// Invariant 7, C-107: whose first event has been fetched and not been read, because intake stands still for a flooded
// lane, is a neighbour too, though no lane knows of it: a lane that would be done in time, but not at once, has its
// pause and no more.
func TestUnit_AnUnreadRecordIsANeighbour(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t).start()
		r.endpoint("flooded")
		r.endpoint("new")
		const takesFor = 20 * time.Millisecond
		require.Greater(t, time.Duration(r.LaneEntries/2)*takesFor, 4*r.LanePause, "it takes its time,")
		require.Less(t, time.Duration(r.LaneEntries/2)*takesFor, r.LaneAge, "but would be waited for")
		r.sender.answer(takes(map[string]time.Duration{"flooded": takesFor}))
		for range 2 * r.LaneEntries {
			r.event("flooded", "", `{}`)
		}
		time.Sleep(r.LanePause / 5)
		begun := time.Now()
		r.event("new", "", `{}`)
		time.Sleep(10 * time.Second)
		posts := r.sender.seen("new")
		require.Len(t, posts, 1)
		require.LessOrEqual(t, posts[0].At.Sub(begun), 2*r.LanePause)
		r.unit.Drop(unit.ErrLost)
		<-r.unit.Done()
		time.Sleep(time.Second)
	})
}

// After an outage every endpoint has a backlog, and all of them together are slower than each by itself. None waits for
// the others with nothing to do, so nothing goes round through the tiers: order is kept, and the last one is done when
// its endpoint has taken them all.
func TestUnit_BacklogsOfAllWaitInTheLog(t *testing.T) {
	t.Parallel()
	for name, takesFor := range map[string]time.Duration{"quick": 8 * time.Millisecond, "slow": 30 * time.Millisecond} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			backlogsOfAllWaitInTheLog(t, takesFor)
		})
	}
}

// The last of a full lane of the slow ones would wait for longer than anything may: it does not come to that.
func backlogsOfAllWaitInTheLog(t *testing.T, takesFor time.Duration) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t).start()
		n := int(20 * time.Second / takesFor)
		require.Greater(t, time.Duration(r.LaneEntries/2)*takesFor, 2*r.LanePause, "a full lane takes its time")
		require.Less(t, time.Duration(r.LaneEntries/2)*takesFor, r.LaneAge)
		names := []string{"a", "b", "c"}
		left := map[string]int{}
		each := map[string]time.Duration{}
		for _, name := range names {
			r.endpoint(name)
			left[name], each[name] = n, takesFor
		}
		r.sender.answer(takes(each))
		random := rand.New(rand.NewPCG(1, 2))
		begun := time.Now()
		for len(names) > 0 { // in any order, each to its end
			i := random.IntN(len(names))
			name := names[i]
			left[name]--
			r.event(name, "", strconv.Itoa(n-1-left[name]))
			if left[name] == 0 {
				names = slices.Delete(names, i, i+1)
			}
		}
		all := time.Duration(n) * takesFor
		time.Sleep(all + 2*time.Second)
		r.idle()
		for name := range each {
			posts := r.sender.seen(name)
			require.Len(t, posts, n)
			for i, p := range posts {
				require.Equal(t, strconv.Itoa(i), p.Payload, name)
			}
			require.LessOrEqual(t, posts[n-1].At.Sub(begun), all+time.Second)
		}
		require.Zero(t, r.log.inTiers())
		r.end()
	})
}

// Invariant 7: whose event is far behind in the log, and who has not been at work, is known to nobody. It waits for a backlog that is worked
// off in its order, but not for all of it: what is left goes round, and comes back about when it would have been worked off.
func TestUnit_WhoIsBehindABacklogIsNotStarved(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, withChance).start()
		r.endpoint("flooded")
		r.endpoint("quiet")
		const n, takesFor, patience = 20_000, 20 * time.Millisecond, 30 * time.Second
		r.sender.answer(takes(map[string]time.Duration{"flooded": takesFor}))
		begun := time.Now()
		for i := range n {
			r.event("flooded", "", `{}`)
			if i%100 == 0 {
				synctest.Wait() // it says when it has enough
			}
		}
		r.event("quiet", "", `{}`)
		time.Sleep(patience - time.Second)
		require.Zero(t, r.log.inTiers(), "in order")
		time.Sleep(5 * time.Second)
		posts := r.sender.seen("quiet")
		require.Len(t, posts, 1)
		require.Greater(t, posts[0].At.Sub(begun), patience/2, "it was behind")
		time.Sleep(n*takesFor*5/4 - time.Since(begun))
		require.Len(t, r.sender.seen("flooded"), n)
		r.end()
	})
}
