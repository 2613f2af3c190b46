package unit_test

import (
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
