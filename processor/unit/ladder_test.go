package unit_test

import (
	"fmt"
	"math/rand/v2"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/barnabas-webhooks/barnabas/processor/deliver"
	"github.com/barnabas-webhooks/barnabas/retry"
	"github.com/barnabas-webhooks/barnabas/schemas"
	"github.com/barnabas-webhooks/barnabas/topics"
)

// ladder makes a rig with a schedule of its own, and with chance.
func ladder(t *testing.T, caps, tiers []time.Duration) *rig {
	t.Helper()
	r := newRig(t, func(r *rig) {
		r.Policy.Caps, r.Policy.Tiers, r.Catalogue.Tiers = caps, tiers, tiers
		rnd := rand.New(rand.NewPCG(1, 2)) // of the unit's goroutine only
		r.Rand = rnd.Float64
	})
	return r.start()
}

// byDelivery groups posts, in their order.
func byDelivery(posts []post) map[string][]post {
	groups := map[string][]post{}
	for _, p := range posts {
		groups[p.ID] = append(groups[p.ID], p)
	}
	return groups
}

// C-082: a receiver that always asks to be left alone for a year. The wait is cut, which can be seen, and the ladder still ends.
func TestUnit_RetryAfterOfAYearIsCut(t *testing.T) {
	t.Parallel()
	for _, code := range []int{http.StatusTooManyRequests, http.StatusServiceUnavailable, http.StatusInternalServerError} {
		synctest.Test(t, func(t *testing.T) {
			r := newRig(t).start()
			r.endpoint("ep")
			r.sender.answer(func(deliver.Request) (deliver.Result, time.Duration) {
				res := status(code)
				res.RetryAfter = 31_536_000 * time.Second
				return res, 0
			})
			r.event("ep", "", `{}`)
			time.Sleep(r.Policy.Lifetime + time.Hour)
			r.idle()
			posts := r.sender.seen()
			require.Len(t, posts, 2)
			require.GreaterOrEqual(t, posts[1].At.Sub(posts[0].At), r.Policy.MaxRetryAfter)
			require.Len(t, r.letters(), 1)
			require.Equal(t, schemas.ReasonExpired, r.letters()[0].Reason)
			require.InDelta(t, 2, r.metric("barnabas_retry_after_cut_total", ""), 0)
			r.end()
		})
	}
}

// C-083: two hours are asked for where a minute at most would be drawn: not before. Half a minute is asked for where hours are
// drawn: the schedule wins. Attempts count as always.
func TestUnit_TheLaterOfScheduleAndRetryAfter(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, func(r *rig) { r.Policy.Caps = []time.Duration{time.Minute, 6 * time.Hour} }).start()
		r.endpoint("ep")
		asked := []time.Duration{7200 * time.Second, 30 * time.Second}
		r.sender.answer(func(req deliver.Request) (deliver.Result, time.Duration) {
			if req.Number > len(asked) {
				return status(204), 0
			}
			res := status(429)
			res.RetryAfter = asked[req.Number-1]
			return res, 0
		})
		r.event("ep", "", `{}`)
		time.Sleep(12 * time.Hour)
		r.idle()
		posts := r.sender.seen()
		require.Len(t, posts, 3)
		require.GreaterOrEqual(t, posts[1].At.Sub(posts[0].At), 2*time.Hour)
		require.Less(t, posts[1].At.Sub(posts[0].At), 2*time.Hour+time.Minute)
		require.GreaterOrEqual(t, posts[2].At.Sub(posts[1].At), 3*time.Hour, "what was drawn")
		require.Equal(t, 3, posts[2].Number)
		require.Zero(t, r.metric("barnabas_retry_after_cut_total", ""))
		r.end()
	})
}

// C-085: 2,000 failures of one second come back spread over their whole wait, after the first tier and after the second, none
// early, however the log hands them over.
func TestUnit_FailuresOfOneOutageComeBackSpread(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const n = 2000
		r := ladder(t, []time.Duration{time.Minute, 10 * time.Minute}, retry.DefaultPolicy().Tiers)
		r.sender.answer(func(req deliver.Request) (deliver.Result, time.Duration) {
			if req.Number <= 2 {
				return status(500), 0
			}
			return status(204), 0
		})
		for i := range n {
			r.endpoint(fmt.Sprintf("ep-%d", i))
			r.event(fmt.Sprintf("ep-%d", i), "", `{}`)
		}
		time.Sleep(15 * time.Minute)
		r.idle()
		groups := byDelivery(r.sender.seen())
		for retried, limit := range []time.Duration{time.Minute, 10 * time.Minute} {
			const bins = 20
			var count [bins]int
			for id, posts := range groups {
				require.Len(t, posts, 3)
				wait := posts[retried+1].At.Sub(posts[retried].At)
				require.Positive(t, wait)
				require.LessOrEqual(t, wait, limit+time.Second, id)
				count[min(int(float64(wait)/float64(limit)*bins), bins-1)]++
			}
			for _, c := range count {
				require.InDelta(t, n/bins, c, n/bins*0.4, "a twentieth of the wait, in %v", count)
			}
		}
		for _, a := range r.attempts() {
			if !a.NextAt.IsZero() {
				require.False(t, groups[a.DeliveryID][a.Number].At.Before(a.NextAt), "early")
			}
		}
		r.end()
	})
}

// C-087: five attempts and no more, whatever the failure, then one dead letter; what comes behind it, at the same endpoint, is delivered meanwhile.
func TestUnit_LimitsEndTheLadder(t *testing.T) {
	t.Parallel()
	for name, fails := range map[string]func() (deliver.Result, time.Duration){
		"always 500":     func() (deliver.Result, time.Duration) { return status(500), time.Millisecond },
		"always timeout": func() (deliver.Result, time.Duration) { return failed(retry.Timeout), time.Second },
		"always refused": func() (deliver.Result, time.Duration) { return failed(retry.Connect), time.Millisecond },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				caps := []time.Duration{10 * time.Second, 10 * time.Second, 20 * time.Second, time.Minute}
				r := ladder(t, caps, retry.DefaultPolicy().Tiers)
				r.endpoint("ep")
				r.sender.answer(func(req deliver.Request) (deliver.Result, time.Duration) {
					if string(req.Delivery.Payload) == `"bad"` {
						return fails()
					}
					return status(204), time.Millisecond
				})
				r.event("ep", "", `"bad"`)
				for range 120 { // good ones in between, all the time
					r.event("ep", "", `"good"`)
					time.Sleep(time.Second)
				}
				r.idle()
				bad, good := 0, 0
				for _, posts := range byDelivery(r.sender.seen()) {
					if posts[0].Payload == `"good"` {
						require.Len(t, posts, 1)
						good++
						continue
					}
					bad = len(posts)
				}
				require.Equal(t, 5, bad)
				require.Equal(t, 120, good)
				require.Len(t, r.letters(), 1)
				require.Equal(t, 5, r.letters()[0].Delivery.History.TotalAttempts)
				require.Equal(t, int64(121), r.committed(r.Catalogue.Events()))
				r.end()
			})
		})
	}
}

// C-088: waits of a second to half a minute, for 100 deliveries: each attempt comes at its due time and within a second of it;
// the topic that a wait goes to is that of its length, and record, header and metric tell the same.
func TestUnit_EveryWaitIsItsOwnTiers(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		steps := []time.Duration{time.Second, 3 * time.Second, 9 * time.Second, 27 * time.Second}
		r := ladder(t, steps, steps)
		r.sender.answer(func(req deliver.Request) (deliver.Result, time.Duration) {
			if req.Number <= len(steps) {
				return status(500), 0
			}
			return status(204), 0
		})
		for i := range 100 {
			r.endpoint(fmt.Sprintf("ep-%d", i))
			r.event(fmt.Sprintf("ep-%d", i), "", `{}`)
		}
		time.Sleep(2 * time.Minute)
		r.idle()
		groups := byDelivery(r.sender.seen())
		require.Len(t, groups, 100)
		records := 0
		for i := range steps {
			topic := r.Catalogue.Tier(i)
			require.True(t, strings.HasSuffix(topic, ".retry."+steps[i].String()), topic)
			for _, rec := range r.log.all(topic) {
				records++
				d, err := schemas.DecodeDelivery(rec.Value)
				require.NoError(t, err)
				headers := map[string]string{}
				for _, h := range rec.Headers {
					headers[h.Key] = string(h.Value)
				}
				require.Equal(t, strconv.FormatInt(d.DueAt.UnixMilli(), 10), headers[topics.HeaderDueAt])
				require.Equal(t, string(retry.HTTP5xx), headers[topics.HeaderReason])
				require.Equal(t, d.ID, headers[topics.HeaderDeliveryID])
				posts := groups[d.ID]
				before, next := posts[d.Attempts-1], posts[d.Attempts]
				wait := d.DueAt.Sub(before.At)
				require.LessOrEqual(t, wait, steps[d.Attempts-1]+time.Millisecond, "the wait of this attempt, not the next one's")
				require.LessOrEqual(t, wait, steps[i]+time.Millisecond, topic)
				if i > 0 {
					require.Greater(t, wait, steps[i-1], topic)
				}
				require.False(t, next.At.Before(d.DueAt), "early")
				require.Less(t, next.At.Sub(d.DueAt), time.Second, "nothing is added to it")
			}
		}
		require.Equal(t, 400, records)
		require.InDelta(t, 400, r.metric("barnabas_decisions_total", string(retry.Retry)), 0)
		require.InDelta(t, 100, r.metric("barnabas_decisions_total", string(retry.Delivered)), 0)
		r.end()
	})
}

// C-092, C-093: one event goes to three endpoints, as three events with one key. One is well: it gets one POST, whatever becomes
// of the others, and also when the service that fanned out crashed half way and did all of it again. The two that fail have a
// ladder each.
func TestUnit_FanOutIsThreeLadders(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := ladder(t, []time.Duration{time.Second, time.Second, time.Second, time.Second}, retry.DefaultPolicy().Tiers)
		endpoints := []string{"well", "fails", "fails-too"}
		for _, id := range endpoints {
			r.endpoint(id)
		}
		r.sender.answer(func(req deliver.Request) (deliver.Result, time.Duration) {
			if req.Endpoint.ID != "well" && req.Number <= 4 {
				return status(500), 10 * time.Millisecond
			}
			return status(204), 10 * time.Millisecond
		})
		for _, id := range endpoints[:2] { // ... and the service crashes
			r.event(id, "order-1", `{"order":1}`)
		}
		for _, id := range endpoints {
			r.event(id, "order-1", `{"order":1}`)
		}
		time.Sleep(time.Hour)
		r.idle()
		require.Len(t, r.sender.seen("well"), 1)
		ids := map[string]bool{}
		for _, id := range endpoints[1:] {
			posts := r.sender.seen(id)
			require.Len(t, posts, 5, "four failures of its own, then delivered")
			for i, p := range posts {
				require.Equal(t, posts[0].ID, p.ID)
				require.Equal(t, i+1, p.Number)
			}
			ids[posts[0].ID] = true
		}
		require.Len(t, ids, 2, "an id for each")
		require.Empty(t, r.letters())
		r.end()
	})
}
