package unit_test

import (
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/barnabas-webhooks/barnabas/processor/deliver"
	"github.com/barnabas-webhooks/barnabas/processor/metrics"
	"github.com/barnabas-webhooks/barnabas/processor/unit"
	"github.com/barnabas-webhooks/barnabas/schemas"
)

func strict(e *schemas.Endpoint) { e.Order = schemas.OrderStrict }

// inOrder checks that every attempt is of the delivery of the attempt before, or of the next one in the log, and that n
// deliveries were attempted. Their payloads are their numbers.
func inOrder(t *testing.T, posts []post, n int) {
	t.Helper()
	last := -1
	for i, p := range posts {
		var number int
		_, err := fmt.Sscan(p.Payload, &number)
		require.NoError(t, err)
		require.True(t, number == last || number == last+1, "attempt %d is of %d, after one of %d", i, number, last)
		last = number
	}
	require.Equal(t, n-1, last)
}

// failing is a script by which each payload named fails so many times first.
func failing(times map[string]int, takes time.Duration) func(deliver.Request) (deliver.Result, time.Duration) {
	return func(req deliver.Request) (deliver.Result, time.Duration) {
		if p := string(req.Delivery.Payload); times[p] > 0 {
			times[p]--
			return status(500), takes
		}
		return status(204), takes
	}
}

// The head fails three times while followers come in: nobody overtakes it, nobody behind it spends an attempt, and the neighbours do not notice.
func TestStrict_AFailingHeadHoldsItsLine(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t).start()
		r.endpoint("ep", strict)
		r.endpoint("other")
		r.sender.answer(failing(map[string]int{"3": 3}, 20*time.Millisecond))
		const n = 40
		for i := range n {
			r.event("ep", "", fmt.Sprint(i))
			sent := time.Now()
			r.event("other", "", "x")
			time.Sleep(time.Second)
			posts := r.sender.seen("other")
			require.Len(t, posts, i+1)
			require.LessOrEqual(t, posts[i].At.Sub(sent), 10*time.Millisecond, "a neighbour waits")
		}
		time.Sleep(2 * time.Hour)
		r.idle()
		posts := r.sender.seen("ep")
		inOrder(t, posts, n)
		require.Len(t, posts, n+3)
		require.Equal(t, 1, r.sender.width("ep"))
		require.Positive(t, r.metric("barnabas_holds_total", metrics.HoldLine))
		require.Zero(t, r.metric("barnabas_line_waiting", ""))
		require.Equal(t, int64(n), r.lines()["ep"].Done)
		r.end()
	})
}

// No attempt is made before all before it are settled: the next owner repeats at most the one that was under way.
func TestStrict_NextStartsWhenTheOneBeforeIsSettled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t).start()
		r.endpoint("ep", strict)
		r.settler.set(func(s *settler) { s.stopped = true })
		for i := range 3 {
			r.event("ep", "", fmt.Sprint(i))
		}
		time.Sleep(time.Second)
		require.Len(t, r.sender.seen("ep"), 1)
		r.unit.Drop(unit.ErrLost) // killed
		<-r.unit.Done()
		r.settler.set(func(s *settler) { s.stopped = false })
		r.restart()
		time.Sleep(time.Minute)
		r.idle()
		inOrder(t, r.sender.seen("ep"), 3)
		require.Len(t, r.sender.seen("ep"), 4)
		r.end()
	})
}

// Killed again and again, in the midst of failures and floods: every owner after it goes on with the same line.
func TestStrict_SurvivesKills(t *testing.T) {
	for _, every := range []time.Duration{130 * time.Millisecond, 700 * time.Millisecond, 4 * time.Second, 50 * time.Second} {
		t.Run(every.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newRig(t).start()
				r.LaneEntries = 8
				r.endpoint("ep", strict)
				fails := map[string]int{}
				const n = 60
				for i := range n {
					if i%7 == 3 {
						fails[fmt.Sprint(i)] = 1 + i%3
					}
				}
				r.sender.answer(failing(fails, 15*time.Millisecond))
				for i := range n {
					key := ""
					if i%2 == 0 {
						key = fmt.Sprint("key", i)
					}
					r.event("ep", key, fmt.Sprint(i))
					if i%5 == 0 {
						time.Sleep(every / 4)
					}
				}
				for range 12 {
					time.Sleep(every)
					r.unit.Drop(unit.ErrLost)
					<-r.unit.Done()
					r.restart()
				}
				time.Sleep(12 * time.Hour)
				r.idle()
				inOrder(t, r.sender.seen("ep"), n)
				require.Equal(t, int64(n), r.lines()["ep"].Done)
				r.end()
			})
		})
	}
}

// 10,000 wait behind a head that is down for an hour. They come out in order, and what waits is not rewritten over and over.
func TestStrict_ManyBehindAHeadThatIsDownForAnHour(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t).start()
		r.endpoint("ep", strict)
		r.endpoint("other")
		const n = 10_000
		back := time.Now().Add(time.Hour)
		r.sender.answer(func(req deliver.Request) (deliver.Result, time.Duration) {
			if req.Endpoint.ID == "ep" && time.Now().Before(back) {
				return status(500), 20 * time.Millisecond
			}
			return status(204), 20 * time.Millisecond
		})
		for i := range n {
			r.event("ep", "", fmt.Sprint(i))
			if i%100 == 99 {
				r.event("other", "", "x")
				time.Sleep(10 * time.Millisecond)
			}
		}
		time.Sleep(time.Second)
		require.Len(t, r.sender.seen("other"), n/100)
		require.InDelta(t, n-1, r.metric("barnabas_line_waiting", ""), 0)
		require.LessOrEqual(t, r.Memory.Used(), int64(32<<20))
		time.Sleep(time.Until(back))
		rewritten, again := r.log.inTiers(), r.metric("barnabas_holds_total", metrics.HoldLine)
		for len(r.sender.seen("ep")) < n {
			time.Sleep(time.Minute)
			require.Less(t, time.Since(back), 4*time.Hour, "%d attempts", len(r.sender.seen("ep")))
		}
		time.Sleep(time.Hour)
		r.idle()
		posts := r.sender.seen("ep")
		inOrder(t, posts, n)
		failed := len(posts) - n
		t.Logf("%d failed attempts of the head; %d records written to tiers while it was down, %.0f of them by the line; %d in all; the last landed %s after it was back",
			failed, rewritten, again, r.log.inTiers(), posts[len(posts)-1].At.Sub(back).Round(time.Second))
		// Once when they come and once for each failure; what the look-ahead of a tier sends round besides is not the line's doing.
		require.LessOrEqual(t, again, float64(n*(failed+1)))
		require.LessOrEqual(t, r.metric("barnabas_holds_total", metrics.HoldLine)-again, float64(5*n))
		r.end()
	})
}

// A dead head lets the line go on; its replay comes out of order, behind live work.
func TestStrict_ADeadHeadLetsTheLineGoOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t).start()
		r.endpoint("ep", strict, func(e *schemas.Endpoint) { e.PermanentStatuses = []int{422} })
		r.sender.answer(func(req deliver.Request) (deliver.Result, time.Duration) {
			if string(req.Delivery.Payload) == "1" {
				return status(422), 0
			}
			return status(204), 0
		})
		for i := range 4 {
			r.event("ep", "", fmt.Sprint(i))
		}
		time.Sleep(time.Minute)
		inOrder(t, r.sender.seen("ep"), 4)
		require.Len(t, r.letters(), 1)
		require.Equal(t, int64(4), r.lines()["ep"].Done)
		r.end()
	})
}

// A disabled, deleted endpoint: all of the line dies, in order, without waiting for a beat each; and when it is back, the line goes on.
func TestStrict_WhatDiesWithoutAnAttemptDiesInOrder(t *testing.T) {
	for name, off := range map[string]func(*rig){
		"disabled": func(r *rig) {
			r.endpoint("ep", strict, func(e *schemas.Endpoint) { e.State = schemas.EndpointDisabled })
		},
		"deleted": func(r *rig) { r.endpoints.remove("ep") },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newRig(t).start()
				r.endpoint("ep", strict)
				r.sender.always(500)
				const n = 500
				for i := range n {
					r.event("ep", "", fmt.Sprint(i))
				}
				time.Sleep(time.Minute)
				off(r)
				time.Sleep(20 * time.Hour)
				r.idle()
				letters := r.letters()
				require.Len(t, letters, n)
				require.True(t, slices.IsSortedFunc(letters, func(a, b schemas.DeadLetter) int {
					return int(a.Delivery.Origin.Offset - b.Delivery.Origin.Offset)
				}))
				r.endpoint("ep", strict)
				r.sender.always(204)
				tried := len(r.sender.seen("ep"))
				for i := range 10 {
					r.event("ep", "", fmt.Sprint(i))
				}
				time.Sleep(time.Minute)
				inOrder(t, r.sender.seen("ep")[tried:], 10)
				require.Equal(t, int64(n+10), r.lines()["ep"].Done)
				r.end()
			})
		})
	}
}

// The order may be switched at any time: nothing is lost, stalls or is delivered twice, with and without a crash in between.
func TestStrict_SwitchingTheOrder(t *testing.T) {
	for _, killed := range []bool{false, true} {
		t.Run(fmt.Sprintf("killed %t", killed), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newRig(t).start()
				r.endpoint("ep", strict)
				r.sender.always(500)
				for i := range 20 {
					r.event("ep", "", fmt.Sprint(i))
				}
				time.Sleep(10 * time.Minute)
				kill := func() {
					if killed {
						r.unit.Drop(unit.ErrLost)
						<-r.unit.Done()
						r.restart()
					}
				}
				r.endpoint("ep")
				r.sender.always(204)
				kill()
				for i := range 20 {
					r.event("ep", "", fmt.Sprint(100+i))
				}
				time.Sleep(time.Minute)
				kill()
				require.NotContains(t, r.lines(), "ep", "it has ended")
				r.endpoint("ep", strict)
				for i := range 20 {
					r.event("ep", "", fmt.Sprint(200+i))
				}
				kill()
				time.Sleep(20 * time.Hour)
				r.idle()
				landed := map[string]int{}
				var third []string
				for _, a := range r.attempts() {
					if a.Decision == "delivered" {
						landed[a.DeliveryID]++
					}
				}
				for _, p := range r.sender.seen("ep") {
					if len(p.Payload) == 3 && p.Payload[0] == '2' && !slices.Contains(third, p.Payload) {
						third = append(third, p.Payload)
					}
				}
				require.Len(t, landed, 60)
				require.Len(t, third, 20)
				require.True(t, slices.IsSorted(third), "%v", third)
				require.Equal(t, int64(20), r.lines()["ep"].Done)
				r.end()
			})
		})
	}
}
