package unit_test

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/barnabas-webhooks/barnabas/processor/deliver"
	"github.com/barnabas-webhooks/barnabas/processor/metrics"
	"github.com/barnabas-webhooks/barnabas/processor/unit"
	"github.com/barnabas-webhooks/barnabas/retry"
	"github.com/barnabas-webhooks/barnabas/schemas"
)

// takes is a script: every endpoint answers 204 after its time.
func takes(times map[string]time.Duration) func(deliver.Request) (deliver.Result, time.Duration) {
	return func(req deliver.Request) (deliver.Result, time.Duration) { return status(204), times[req.Endpoint.ID] }
}

// A flood for an endpoint that keeps up waits in the log, not in a tier, and starts in log order, one at a time.
func TestUnit_FloodOfAFastOrderedEndpointStaysInTheLog(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t).start()
		r.endpoint("ep")
		r.endpoint("other")
		r.sender.answer(takes(map[string]time.Duration{"ep": time.Millisecond, "other": time.Millisecond}))
		const n = 5000
		for i := range n {
			r.event("ep", "", fmt.Sprint(i))
		}
		r.event("other", "", `{}`)
		begun := time.Now()
		time.Sleep(time.Minute)
		r.idle()
		posts := r.sender.seen("ep")
		require.Len(t, posts, n)
		for i, p := range posts {
			require.Equal(t, fmt.Sprint(i), p.Payload, "log order")
		}
		require.Equal(t, 1, r.sender.width("ep"))
		require.Zero(t, r.log.inTiers())
		require.LessOrEqual(t, posts[n-1].At.Sub(begun), 8*time.Second)
		require.Equal(t, int64(n+1), r.committed(r.Catalogue.Events()))
		r.end()
	})
}

// Invariant 7, C-107: a slow endpoint's flood does not keep the events of others
// in the same partition; what does not fit its lane waits in the tiers, and all of it arrives.
func TestUnit_FloodOfASlowEndpointSpills(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t).start()
		r.endpoint("slow")
		r.endpoint("other")
		r.sender.answer(takes(map[string]time.Duration{"slow": time.Second}))
		const n = 2000
		r.event("other", "", `{}`) // it is at work
		time.Sleep(time.Second)
		for range n / 2 {
			r.event("slow", "", `{}`)
		}
		for range 19 {
			r.event("other", "", `{}`)
			for range n / 38 {
				r.event("slow", "", `{}`)
			}
		}
		for range n/2 - 19*(n/38) {
			r.event("slow", "", `{}`)
		}
		begun := time.Now()
		time.Sleep(3 * time.Second)
		require.Len(t, r.sender.seen("other"), 20)
		for _, p := range r.sender.seen("other") {
			require.LessOrEqual(t, p.At.Sub(begun), r.LanePause+200*time.Millisecond)
		}
		require.Equal(t, 1, r.sender.width("slow"))
		require.Positive(t, r.metric("barnabas_holds_total", metrics.HoldLaneFull))
		time.Sleep(10 * time.Second)
		require.Equal(t, int64(n+20), r.committed(r.Catalogue.Events()), "the partition moves on")
		require.Positive(t, r.metric("barnabas_holds_total", metrics.HoldLaneAge))

		time.Sleep(4 * time.Hour)
		r.idle()
		ids := map[string]int{}
		for _, p := range r.sender.seen("slow") {
			ids[p.ID]++
			require.Equal(t, 1, p.Number)
		}
		require.Len(t, ids, n)
		require.Len(t, r.sender.seen("slow"), n, "each once")
		require.LessOrEqual(t, r.log.inTiers(), 6*n, "how often what waits is rewritten")
		r.end()
	})
}

// Invariant 7, C-107: the same for a neighbour of which nothing was seen before the flood, and whose first event is
// in the log behind it: what drains too slowly, or shows no sign of draining, is not waited for.
func TestUnit_FloodDoesNotHideNewNeighbours(t *testing.T) {
	for name, takesFor := range map[string]time.Duration{"hanging": 15 * time.Second, "slow": 300 * time.Millisecond} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newRig(t).start()
				r.endpoint("flooded")
				r.endpoint("new")
				r.sender.answer(takes(map[string]time.Duration{"flooded": takesFor}))
				for range 5000 {
					r.event("flooded", "", `{}`)
				}
				time.Sleep(50 * time.Millisecond)
				begun := time.Now()
				r.event("new", "", `{}`)
				time.Sleep(10 * time.Second)
				posts := r.sender.seen("new")
				require.Len(t, posts, 1)
				require.LessOrEqual(t, posts[0].At.Sub(begun), 5*r.LanePause)
				r.unit.Drop(unit.ErrLost)
				<-r.unit.Done()
			})
		})
	}
}

// Nothing stays unsettled behind a hanging request for longer than LaneAge and that request.
func TestUnit_AgedDeliveriesLeaveTheLane(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t).start()
		r.endpoint("ep")
		r.sender.answer(takes(map[string]time.Duration{"ep": 15 * time.Second}))
		for range 10 {
			r.event("ep", "", `{}`)
		}
		time.Sleep(r.LaneAge + 500*time.Millisecond)
		require.Len(t, r.log.all(r.Catalogue.Tier(0)), 9)
		require.InDelta(t, 9, r.metric("barnabas_holds_total", metrics.HoldLaneAge), 0)
		time.Sleep(10 * time.Second)
		require.Equal(t, int64(10), r.committed(r.Catalogue.Events()))
		time.Sleep(2 * time.Hour)
		r.idle()
		require.Len(t, r.sender.seen(), 10)
		r.end()
	})
}

// What leaves a short lane for age comes back when the few in front of it will be done, and not as if the lane had
// been full: an endpoint that hung and works again has its deliveries soon.
func TestUnit_AgedDeliveriesComeBackSoon(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, func(r *rig) { r.Rand = func() float64 { return 0 } }).start() // the longest wait is drawn
		r.endpoint("ep")
		begun := time.Now()
		r.sender.answer(func(deliver.Request) (deliver.Result, time.Duration) {
			if time.Since(begun) < 40*time.Second {
				return failed(retry.Timeout), 15 * time.Second
			}
			return status(204), 0
		})
		for range 3 {
			r.event("ep", "", `{}`)
		}
		time.Sleep(3 * time.Minute)
		require.Positive(t, r.metric("barnabas_holds_total", metrics.HoldLaneAge))
		delivered := map[string]bool{}
		for _, a := range r.attempts() {
			delivered[a.DeliveryID] = delivered[a.DeliveryID] || a.Decision == string(retry.Delivered)
		}
		require.Len(t, delivered, 3)
		for id, ok := range delivered {
			require.True(t, ok, id)
		}
		r.end()
	})
}

// A replay that waits behind live work for too long goes round by itself; it does not push fresh live work out.
func TestUnit_AnAgedReplayDoesNotSpillLiveWork(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t).start()
		r.endpoint("ep")
		r.sender.answer(takes(map[string]time.Duration{"ep": 100 * time.Millisecond}))
		for i := range 60 {
			d := delivery(fmt.Sprintf("dlv_%d", i), "ep", 0)
			value, err := schemas.EncodeDelivery(&d)
			require.NoError(t, err)
			r.log.append(record(r.Catalogue.Replay(), "ep", value))
		}
		for i := range 200 { // as much live work as the endpoint bears
			r.event("ep", "", fmt.Sprint(i))
			time.Sleep(100 * time.Millisecond)
		}
		time.Sleep(time.Hour)
		r.idle()
		live := 0
		for _, p := range r.sender.seen() {
			if p.Payload != `{}` {
				require.Equal(t, fmt.Sprint(live), p.Payload, "live work keeps its order")
				live++
			}
		}
		require.Equal(t, 200, live)
		require.Len(t, r.sender.seen(), 260)
		require.InDelta(t, 0, r.metric("barnabas_holds_total", metrics.HoldLaneFull), 0)
		for _, tier := range r.Catalogue.TierTopics() {
			for _, rec := range r.log.all(tier) {
				d, err := schemas.DecodeDelivery(rec.Value)
				require.NoError(t, err)
				require.Equal(t, `{}`, string(d.Payload), "live work was spilled")
			}
		}
		r.end()
	})
}

func TestUnit_ParallelEndpointsHaveTheirWidth(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t).start()
		r.endpoint("own", parallel(3))
		r.endpoint("default", parallel(0))
		r.sender.answer(takes(map[string]time.Duration{"own": 100 * time.Millisecond, "default": 100 * time.Millisecond}))
		for range 100 {
			r.event("own", "", `{}`)
			r.event("default", "", `{}`)
		}
		time.Sleep(time.Hour)
		r.idle()
		require.Equal(t, 3, r.sender.width("own"))
		require.Equal(t, r.MaxInFlight, r.sender.width("default"))
		require.Len(t, r.sender.seen(), 200)
		r.end()
	})
}

// C-110: an endpoint's rate is never exceeded; waiting for it spends no attempt; and
// what does not fit its lane is not rewritten over and over.
func TestUnit_RateOfAnEndpoint(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t).start()
		r.endpoint("ep", parallel(8), func(e *schemas.Endpoint) { e.RatePerSecond = 5 })
		r.endpoint("other")
		const n = 1000
		for i := range n {
			r.event("ep", "", `{}`)
			if i%100 == 0 {
				r.event("other", "", `{}`)
			}
		}
		begun := time.Now()
		time.Sleep(2 * time.Hour)
		r.idle()
		posts := r.sender.seen("ep")
		require.Len(t, posts, n)
		for i, p := range posts {
			require.Equal(t, 1, p.Number)
			if i >= 11 { // any 2 s: 10 and 10 %
				require.GreaterOrEqual(t, p.At.Sub(posts[i-11].At), 2*time.Second)
			}
		}
		require.LessOrEqual(t, posts[n-1].At.Sub(begun), 15*time.Minute)
		require.LessOrEqual(t, r.log.inTiers(), 8*n)
		for _, p := range r.sender.seen("other") {
			require.LessOrEqual(t, p.At.Sub(begun), 2*r.LanePause)
		}

		// A rate near zero is a rate.
		r.endpoint("ep", func(e *schemas.Endpoint) { e.RatePerSecond = 1e-12 })
		for range 1000 {
			r.event("ep", "", `{}`)
		}
		time.Sleep(27 * time.Hour)
		r.idle()
		require.LessOrEqual(t, len(r.sender.seen("ep")), n+2)
		r.end()
	})
}

// more makes another unit of the same process, with its own log.
func (r *rig) more() *rig {
	other := newRig(r.t)
	other.InFlight, other.Memory, other.sender = r.InFlight, r.Memory, r.sender
	other.Sender = r.sender
	return other
}

// The process's cap holds over units, and a unit with a backlog does not starve another.
func TestUnit_UnitsShareTheCapFairly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := newRig(t, func(r *rig) { setInFlight(r, 4) })
		b := a.more()
		a.start()
		b.start()
		times := map[string]time.Duration{}
		for i := range 20 {
			id := fmt.Sprintf("ep-%d", i)
			a.endpoint(id, parallel(8))
			times[id] = 10 * time.Millisecond
		}
		b.endpoint("rare")
		times["rare"] = 10 * time.Millisecond
		a.sender.answer(takes(times))
		for i := range 2000 {
			a.event(fmt.Sprintf("ep-%d", i%20), "", `{}`)
		}
		time.Sleep(100 * time.Millisecond)
		for range 10 {
			sent := time.Now()
			before := len(a.sender.seen("rare"))
			b.event("rare", "", `{}`)
			time.Sleep(100 * time.Millisecond)
			require.Len(t, a.sender.seen("rare"), before+1)
			require.LessOrEqual(t, a.sender.seen("rare")[before].At.Sub(sent), 50*time.Millisecond)
		}
		time.Sleep(time.Hour)
		a.idle()
		require.Equal(t, 4, a.sender.atOnce(), "the cap is used and not exceeded")
		require.Len(t, a.sender.seen(), 2010)
		a.end()
		b.end()
	})
}

// A unit that is called for a free slot and has no use for it any more passes it on.
func TestUnit_AnUnusedTurnIsPassedOn(t *testing.T) {
	for name, spoil := range map[string]func(a *rig){
		"its endpoint was switched off": func(a *rig) {
			a.endpoint("ep-a", func(e *schemas.Endpoint) { e.State = schemas.EndpointDisabled })
		},
		"it drains":   func(a *rig) { a.unit.Drain(time.Now().Add(time.Hour)) },
		"it has gone": func(a *rig) { a.unit.Drop(unit.ErrLost) },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				a := newRig(t, func(r *rig) { setInFlight(r, 1) })
				b, c := a.more(), a.more()
				for _, r := range []*rig{a, b, c} {
					r.start()
				}
				a.settler.set(func(s *settler) { s.stopped = true }) // so that it stays, draining
				a.endpoint("ep-a")
				b.endpoint("ep-b")
				c.endpoint("ep-c")
				a.sender.answer(takes(map[string]time.Duration{"ep-c": time.Second}))
				c.event("ep-c", "", `{}`)
				synctest.Wait()
				a.event("ep-a", "", `{}`)
				synctest.Wait()
				b.event("ep-b", "", `{}`)
				synctest.Wait()
				spoil(a)
				time.Sleep(2 * time.Second)
				require.Empty(t, a.sender.seen("ep-a"))
				require.Len(t, a.sender.seen("ep-b"), 1)
				a.unit.Drop(unit.ErrLost)
				<-a.unit.Done()
				b.end()
				c.end()
			})
		})
	}
}

// Thousands of endpoints share a unit: nobody waits for the others.
func TestUnit_ManyEndpoints(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, func(r *rig) { setInFlight(r, 1024) }).start()
		const n = 3000
		for i := range n {
			r.endpoint(fmt.Sprintf("ep-%d", i))
		}
		r.sender.answer(func(req deliver.Request) (deliver.Result, time.Duration) {
			if req.Endpoint.ID == "ep-7" {
				return status(500), 10 * time.Second
			}
			return status(204), 100 * time.Millisecond
		})
		for i := range 2 * n {
			r.event(fmt.Sprintf("ep-%d", i%n), fmt.Sprint(i), `{}`)
		}
		time.Sleep(30 * time.Second)
		others := 0
		for _, p := range r.sender.seen() {
			if p.EndpointID != "ep-7" {
				others++
			}
		}
		require.Equal(t, 2*n-2, others)
		require.LessOrEqual(t, r.sender.atOnce(), 1024)
		r.end()
	})
}
