package unit

import (
	"strconv"
	"time"

	"github.com/barnabas-webhooks/barnabas/processor/settle"
)

// Lanes is for how many endpoints a running unit keeps something.
func (u *Unit) Lanes() int {
	n := make(chan int, 1)
	u.inbox.put(func() { n <- len(u.lanes) })
	return <-n
}

// Visit makes the lanes of so many endpoints in a unit that does not run, as a delivery each that was
// taken would; Forget lets go of those that are idle at a time.
func Visit(shared *Shared, endpoints int) (forget func(now time.Time), lanes func() int) {
	u := &Unit{Shared: shared, owner: settle.Owner{}, lanes: map[string]*endpointLane{}}
	for i := range endpoints {
		u.laneOf("ep_" + strconv.Itoa(i))
	}
	return u.sweep, func() int { return len(u.lanes) }
}
