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
	"github.com/barnabas-webhooks/barnabas/schemas"
)

// tier puts n deliveries into a tier, due at random within (floor, cap], and returns when each is.
func (r *rig) tier(i, n int, seed uint64) map[string]time.Time {
	rnd := rand.New(rand.NewPCG(seed, uint64(i)))
	due := map[string]time.Time{}
	floor := r.Policy.TierFloor(i)
	for k := range n {
		wait := floor + time.Millisecond + time.Duration(rnd.Int64N(int64(r.Catalogue.Tiers[i]-floor)))
		id := fmt.Sprintf("dlv_%d_%d", i, k)
		d := delivery(id, "ep", wait.Truncate(time.Millisecond))
		due[id] = d.DueAt
		r.waiting(i, d)
	}
	return due
}

// requireDue checks that each delivery was attempted once, as the attempt it was waiting for, never early, and how late at most.
func (r *rig) requireDue(due map[string]time.Time, late time.Duration) {
	r.t.Helper()
	posts := r.sender.seen()
	require.Len(r.t, posts, len(due))
	for _, p := range posts {
		at, ok := due[p.ID]
		require.True(r.t, ok, p.ID)
		require.False(r.t, p.At.Before(at), "%s is early: %s before %s", p.ID, p.At, at)
		require.LessOrEqual(r.t, p.At.Sub(at), late, p.ID)
		require.Equal(r.t, 2, p.Number)
		delete(due, p.ID)
	}
}

// Invariant 5, C-090: from every tier, in order of due time and never early.
func TestUnit_WaitingDeliveriesComeWhenDue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t).start()
		r.endpoint("ep", parallel(100))
		due := map[string]time.Time{}
		for i := range r.Catalogue.Tiers {
			for id, at := range r.tier(i, 200, 1) {
				due[id] = at
			}
		}
		time.Sleep(7 * time.Hour)
		r.idle()
		r.requireDue(due, 100*time.Millisecond)
		r.end()
	})
}

// A restart in the middle: nothing comes early, nothing twice (C-090).
func TestUnit_WaitingDeliveriesSurviveARestart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t).start()
		r.endpoint("ep", parallel(100))
		due := r.tier(2, 300, 2)
		for range 3 {
			time.Sleep(17 * time.Minute)
			r.end()
			r.restart()
		}
		time.Sleep(time.Hour)
		r.idle()
		r.requireDue(due, time.Second)
		r.end()
	})
}

// What does not fit the look-ahead goes round again with its remaining wait: no
// attempt is spent, nothing is early, and each is rewritten a few times only.
func TestUnit_WaitingOverflowGoesRoundAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, func(r *rig) { r.WaitingRecords = 20 }).start()
		r.endpoint("ep", parallel(100))
		due := map[string]time.Time{}
		for i := 1; i < len(r.Catalogue.Tiers); i++ {
			for id, at := range r.tier(i, 300, 3) {
				due[id] = at
			}
		}
		time.Sleep(8 * time.Hour)
		r.idle()
		require.Positive(t, r.metric("barnabas_holds_total", metrics.HoldOverflow))
		require.LessOrEqual(t, r.log.inTiers(), 900*22, "an hour, ten minutes, a minute at least lie between two")
		r.requireDue(due, 90*time.Second)
		r.end()
	})
}

// The first tier has no smaller one: it stands still, and is worked off in due order as far as it was read.
func TestUnit_FirstTierStandsStillWhenFull(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, func(r *rig) { r.WaitingRecords = 20 }).start()
		r.endpoint("ep", parallel(100))
		due := map[string]time.Time{}
		for k := range 200 {
			id := fmt.Sprintf("dlv_%d", k)
			d := delivery(id, "ep", time.Duration(200-k)*100*time.Millisecond)
			due[id] = d.DueAt
			r.waiting(0, d)
			if k == 50 {
				synctest.Wait()
				require.True(t, r.log.isPaused(r.Catalogue.Tier(0)))
			}
		}
		time.Sleep(10 * time.Minute)
		r.idle()
		require.Equal(t, 200, r.log.inTiers(), "nothing was rewritten")
		r.requireDue(due, time.Minute)
		r.end()
	})
}

// What cannot be due yet is not read, and read when it can.
func TestUnit_QuietTiersArePaused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, func(r *rig) { r.WaitingRecords = 20 }).start()
		r.endpoint("ep", parallel(100))
		begun := time.Now()
		due := map[string]time.Time{}
		for k := range 30 {
			id := fmt.Sprintf("dlv_%d", k)
			d := delivery(id, "ep", 61*time.Minute)
			due[id] = d.DueAt
			r.waiting(3, d)
			synctest.Wait()
			time.Sleep(time.Second)
		}
		require.True(t, r.log.isPaused(r.Catalogue.Tier(3)))
		require.Len(t, r.log.all(r.Catalogue.Tier(3)), 30)
		time.Sleep(time.Until(begun.Add(time.Hour - time.Second)))
		require.True(t, r.log.isPaused(r.Catalogue.Tier(3)), "an hour has not passed since the last that was read")
		time.Sleep(time.Hour)
		r.idle()
		r.requireDue(due, time.Second)
		r.end()
	})
}

// While memory is scarce what waits is sent away rather than kept: once per cap of
// the next smaller tier, not as fast as it can be read.
func TestUnit_ScarceMemorySendsWaitingAwayOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t).start()
		r.endpoint("ep", parallel(100))
		r.Memory.Charge(40 << 20) // by others
		due := r.tier(1, 10, 4)
		for id, at := range r.tier(3, 10, 4) {
			due[id] = at
		}
		time.Sleep(2 * time.Minute)
		require.LessOrEqual(t, r.log.inTiers(), 70)
		require.LessOrEqual(t, r.Memory.Used(), int64(40<<20+20_000))
		time.Sleep(8 * time.Hour)
		r.Memory.Release(40 << 20)
		r.idle()
		require.LessOrEqual(t, r.log.inTiers(), 20*22)
		r.requireDue(due, 11*time.Minute)
		r.end()
	})
}

// A due time that no policy draws is not waited for.
func TestUnit_DueTimesBeyondThePolicyAreCut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t).start()
		r.endpoint("ep")
		d := delivery("dlv_far", "ep", 400*24*time.Hour)
		r.waiting(3, d)
		time.Sleep(27 * time.Hour)
		r.idle()
		letters := r.letters()
		require.Len(t, letters, 1)
		require.Equal(t, schemas.ReasonExpired, letters[0].Reason)
		r.end()
	})
}

// An endpoint that asks to be left alone for a day fills the window of the tier with what waits for it. The
// deliveries of others that lie behind are due in an hour, and are not kept for a day (invariant 7).
func TestUnit_LongWaitsKeepNobodyBehindThem(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, func(r *rig) { r.Memory = caps.NewMemory(1 << 30) }).start()
		r.endpoint("patient", parallel(1000))
		r.endpoint("ep", parallel(100))
		const flood = tracker.Window
		for k := range flood {
			r.waiting(3, delivery(fmt.Sprintf("dlv_patient_%d", k), "patient", 24*time.Hour+time.Duration(k%1000)*time.Second))
		}
		due := map[string]time.Time{}
		for k := range 100 {
			d := delivery(fmt.Sprintf("dlv_%d", k), "ep", 61*time.Minute+time.Duration(k)*time.Second)
			due[d.ID] = d.DueAt
			r.waiting(3, d)
		}
		time.Sleep(65 * time.Minute)
		synctest.Wait()
		r.requireDue(due, 2*time.Second)
		require.LessOrEqual(t, r.log.inTiers(), 3*flood+100, "once an hour at most: what overflows when it is read, and after an hour")

		time.Sleep(26 * time.Hour)
		r.idle()
		require.Len(t, r.sender.seen("patient"), flood)
		require.LessOrEqual(t, r.log.inTiers(), 28*flood, "once an hour at most")
		r.end()
	})
}

// A record of the first tier whose due time no wait for that tier has is sent to where it belongs: there
// nobody stands still for it.
func TestUnit_LongWaitsLeaveTheFirstTier(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t).start()
		r.endpoint("ep")
		d := delivery("dlv_long", "ep", 20*time.Hour)
		r.waiting(0, d)
		time.Sleep(time.Second)
		synctest.Wait()
		require.Equal(t, int64(1), r.committed(r.Catalogue.Tier(0)), "it is settled there")
		require.Len(t, r.log.all(r.Catalogue.Tier(3)), 1)
		time.Sleep(20 * time.Hour)
		r.idle()
		r.requireDue(map[string]time.Time{d.ID: d.DueAt}, time.Second)
		r.end()
	})
}
