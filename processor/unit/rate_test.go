package unit_test

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/barnabas-webhooks/barnabas/processor/deliver"
	"github.com/barnabas-webhooks/barnabas/processor/unit"
	"github.com/barnabas-webhooks/barnabas/retry"
	"github.com/barnabas-webhooks/barnabas/schemas"
)

// takeover is for how long an endpoint gets nothing after its unit has moved, at most.
const takeover = time.Minute

// requireRate checks that no span of two seconds has more posts than the rate allows, and 10 %; and, what is more, that each
// keeps its distance to the one before.
func requireRate(t *testing.T, posts []post, perSecond float64) {
	t.Helper()
	most := int(2 * perSecond * 1.1)
	for i := most; i < len(posts); i++ {
		require.GreaterOrEqual(t, posts[i].At.Sub(posts[i-most].At)+time.Millisecond, 2*time.Second, "%d posts up to %d", most+1, i)
	}
	for i := 1; i < len(posts); i++ {
		require.GreaterOrEqual(t, posts[i].At.Sub(posts[i-1].At)+time.Millisecond, time.Duration(float64(time.Second)/perSecond), i)
	}
}

// C-110: an endpoint takes five requests a second and gets a flood of events, new, waiting in tiers, and replayed. Its unit is
// restarted in the middle, in order and by a crash, soon and late, several times in a row: no two seconds see more than five a
// second and 10 %, no attempt is spent by waiting, and all of it arrives.
func TestUnit_ARateHoldsOverRestarts(t *testing.T) {
	t.Parallel()
	for name, end := range map[string]func(u *unit.Unit){
		"in order":  func(u *unit.Unit) { u.Drain(time.Now().Add(time.Minute)) },
		"by a kill": func(u *unit.Unit) { u.Drop(unit.ErrLost) },
	} {
		for _, away := range []time.Duration{0, 50 * time.Millisecond, 3 * time.Second} {
			t.Run(fmt.Sprintf("%s, away for %s", name, away), func(t *testing.T) {
				t.Parallel()
				synctest.Test(t, func(t *testing.T) {
					const n = 1000
					r := newRig(t).start()
					r.endpoint("ep", parallel(8), func(e *schemas.Endpoint) { e.RatePerSecond = 5 })
					for i := range n {
						switch i % 10 {
						case 0:
							r.waiting(0, delivery(fmt.Sprintf("dlv_tier_%d", i), "ep", time.Second))
						case 1:
							d := delivery(fmt.Sprintf("dlv_replayed_%d", i), "ep", 0)
							d.Attempts, d.Replays = 0, 1
							value, err := schemas.EncodeDelivery(&d)
							require.NoError(t, err)
							r.log.append(record(r.Catalogue.Replay(), "ep", value))
						default:
							r.event("ep", "", `{}`)
						}
					}
					for i := range 20 {
						time.Sleep(2*time.Second + time.Duration(i)*37*time.Millisecond)
						end(r.unit)
						<-r.unit.Done()
						time.Sleep(away)
						r.restart()
					}
					time.Sleep(2 * time.Hour)
					r.idle()
					requireRate(t, r.sender.seen(), 5)
					ids := map[string]bool{}
					for _, p := range r.sender.seen() {
						ids[p.ID] = true
						want := 1
						if len(p.ID) > 8 && p.ID[:8] == "dlv_tier" {
							want = 2 // it had one behind it
						}
						require.Equal(t, want, p.Number, "waiting for its turn spends no attempt")
					}
					require.Len(t, ids, n)
					require.Empty(t, r.letters())
					r.end()
				})
			})
		}
	}
}

// C-110: rates of all sizes, each over restarts; a rate so low that its interval is longer than a minute does not keep the
// endpoint waiting for longer than that after each of them; and one that is set, changed or taken back counts at once.
func TestUnit_RatesOfAllSizes(t *testing.T) {
	t.Parallel()
	for _, perSecond := range []float64{0.005, 0.1, 0.5, 1, 3.3, 50, 400} {
		t.Run(fmt.Sprint(perSecond), func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				r := newRig(t).start()
				r.endpoint("ep", parallel(8), func(e *schemas.Endpoint) { e.RatePerSecond = perSecond })
				n := min(int(perSecond*100), 2000) + 3
				for range n {
					r.event("ep", "", `{}`)
				}
				for range 2 {
					time.Sleep(10 * time.Second)
					r.unit.Drain(time.Now().Add(time.Minute))
					<-r.unit.Done()
					r.restart()
				}
				begun, before := time.Now(), len(r.sender.seen())
				time.Sleep(6 * time.Hour)
				posts := r.sender.seen()
				require.Len(t, posts, n)
				if len(posts) > before {
					require.GreaterOrEqual(t, posts[before].At.Sub(begun), min(time.Duration(float64(time.Second)/perSecond), time.Minute))
				}
				if perSecond >= 0.5 {
					requireRate(t, posts, perSecond)
				}
				for i := 1; i < len(posts) && perSecond < 0.5; i++ {
					require.GreaterOrEqual(t, posts[i].At.Sub(posts[i-1].At)+time.Millisecond, min(time.Duration(float64(time.Second)/perSecond), time.Minute))
				}
				r.end()
			})
		})
	}
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t).start()
		r.endpoint("ep", func(e *schemas.Endpoint) { e.RatePerSecond = 0.005 })
		time.Sleep(takeover - time.Second)
		r.event("ep", "", `{}`)
		time.Sleep(900 * time.Millisecond)
		require.Empty(t, r.sender.seen())
		time.Sleep(200 * time.Millisecond)
		require.Len(t, r.sender.seen(), 1, "a minute after its unit has begun, at the latest")
		r.end()
	})
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t).start()
		flood := func(n int) (from int) {
			from = len(r.sender.seen())
			for range n {
				r.event("ep", "", `{}`)
			}
			return from
		}
		r.endpoint("ep", parallel(8))
		flood(100)
		time.Sleep(10 * time.Second)
		require.Len(t, r.sender.seen(), 100, "no rate")
		r.endpoint("ep", parallel(8), func(e *schemas.Endpoint) { e.RatePerSecond = 2 })
		from := flood(20)
		time.Sleep(10 * time.Minute)
		require.Len(t, r.sender.seen(), from+20)
		requireRate(t, r.sender.seen()[from:], 2)
		from = flood(200)
		time.Sleep(4 * time.Second)
		slow := len(r.sender.seen())
		require.LessOrEqual(t, slow-from, 9)
		r.endpoint("ep", parallel(8), func(e *schemas.Endpoint) { e.RatePerSecond = 20 })
		time.Sleep(2 * time.Second)
		require.Greater(t, len(r.sender.seen())-slow, 15, "faster at once")
		time.Sleep(10 * time.Minute)
		require.Len(t, r.sender.seen(), from+200)
		requireRate(t, r.sender.seen()[slow+1:], 20)
		r.endpoint("ep", parallel(8))
		from = flood(100)
		time.Sleep(10 * time.Second)
		require.Len(t, r.sender.seen(), from+100)
		r.end()
	})
}

// C-110: failures count to the rate like anything else, and so do the probes of a breaker.
func TestUnit_RetriesKeepToTheRate(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := ladder(t, []time.Duration{2 * time.Second, 2 * time.Second, 2 * time.Second}, retry.DefaultPolicy().Tiers)
		r.endpoint("ep", parallel(8), func(e *schemas.Endpoint) { e.RatePerSecond = 5 })
		n := 0
		r.sender.answer(func(req deliver.Request) (deliver.Result, time.Duration) {
			if n++; n%3 == 0 {
				return status(204), 0
			}
			return status(503), 0
		})
		for range 200 {
			r.event("ep", "", `{}`)
		}
		time.Sleep(28 * time.Hour)
		r.idle()
		requireRate(t, r.sender.seen(), 5)
		require.NotEmpty(t, r.journal.transitions(), "its breaker was open, too")
		r.end()
	})
}
