package unit_test

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

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
