package unit_test

import (
	"fmt"
	"runtime"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/barnabas-webhooks/barnabas/processor/breaker"
	"github.com/barnabas-webhooks/barnabas/processor/deliver"
	"github.com/barnabas-webhooks/barnabas/processor/unit"
	"github.com/barnabas-webhooks/barnabas/retry"
	"github.com/barnabas-webhooks/barnabas/schemas"
)

// Invariant 9: memory follows the endpoints at work. Of 100,000 that are sent to once each, no more are kept than come
// within some minutes.
func TestUnit_LanesFollowTheEndpointsAtWork(t *testing.T) {
	t.Parallel()
	const all, perMinute = 100_000, 5_000 // 20 minutes of it
	most := 0
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t).start()
		for i := range all {
			id := fmt.Sprintf("ep_%d", i)
			r.endpoint(id)
			r.event(id, "", `{}`)
			if i%perMinute == 0 {
				time.Sleep(time.Minute)
				most = max(most, r.unit.Lanes())
			}
		}
		require.LessOrEqual(t, most, 4*perMinute)
		time.Sleep(10 * time.Minute)
		require.Len(t, r.sender.seen(), all)
		require.Zero(t, r.unit.Lanes())
		r.end()
	})
}

// What is not as in a new lane survives any idleness, and does what it is there for.
func TestUnit_IdleLanesKeepWhatMatters(t *testing.T) {
	t.Parallel()
	const idle = 3 * time.Hour
	permanent := func(e *schemas.Endpoint) { e.PermanentStatuses = []int{503} } // fails once and is dead
	wide := func(e *schemas.Endpoint) { e.Order, e.MaxInFlight = schemas.OrderParallel, 16 }
	at := func(posts []post, i int) time.Time { return posts[i].At }
	tests := map[string]struct {
		endpoint []func(*schemas.Endpoint)
		check    func(*testing.T, *rig)
	}{
		"failures in a row": {[]func(*schemas.Endpoint){permanent}, func(t *testing.T, r *rig) {
			t.Helper()
			r.sender.always(503)
			for range r.Breaker.ConsecutiveHard - 1 {
				r.event("ep", "", `{}`)
			}
			time.Sleep(idle)
			require.Empty(t, r.journal.transitions())
			r.event("ep", "", `{}`)
			time.Sleep(time.Second)
			require.Len(t, r.journal.transitions(), 1, "the last one that it took")
		}},
		"an open breaker": {[]func(*schemas.Endpoint){permanent}, func(t *testing.T, r *rig) {
			t.Helper()
			r.sender.always(503)
			for range r.Breaker.ConsecutiveHard {
				r.event("ep", "", `{}`)
			}
			time.Sleep(idle)
			r.event("ep", "", `{}`)
			time.Sleep(time.Second)
			synctest.Wait()
			last := r.journal.breakers[len(r.journal.breakers)-1]
			require.Equal(t, "open", last.State, "after one failed probe")
			require.Equal(t, 2, last.Trips)
		}},
		"a slow start": {[]func(*schemas.Endpoint){permanent, wide}, func(t *testing.T, r *rig) {
			t.Helper()
			r.sender.always(503)
			for range r.Breaker.ConsecutiveHard {
				r.event("ep", "", `{}`)
				time.Sleep(time.Second)
			}
			time.Sleep(idle)
			r.sender.always(204)
			r.event("ep", "", `{}`)
			time.Sleep(idle)
			r.sender.answer(takes(map[string]time.Duration{"ep": time.Second}))
			for range 16 {
				r.event("ep", "", `{}`)
			}
			time.Sleep(500 * time.Millisecond)
			require.Equal(t, 1, r.sender.underWay())
		}},
		"an answer 410": {[]func(*schemas.Endpoint){wide}, func(t *testing.T, r *rig) {
			t.Helper()
			r.sender.answer(func(req deliver.Request) (deliver.Result, time.Duration) {
				if string(req.Delivery.Payload) == `{"gone":true}` {
					return status(410), 0
				}
				return status(204), time.Second
			})
			r.event("ep", "", `{"gone":true}`)
			r.event("ep", "", `{}`) // its success is the last word on the endpoint's health
			time.Sleep(idle)
			r.event("ep", "", `{}`)
			time.Sleep(time.Second)
			require.Len(t, r.sender.seen("ep"), 2, "nobody has switched it on again")
		}},
		"a rate": {[]func(*schemas.Endpoint){func(e *schemas.Endpoint) { e.RatePerSecond = 1 / idle.Seconds() }}, func(t *testing.T, r *rig) {
			t.Helper()
			r.event("ep", "", `{}`)
			time.Sleep(idle / 10)
			r.event("ep", "", `{}`)
			time.Sleep(4 * idle)
			posts := r.sender.seen("ep")
			require.Len(t, posts, 2)
			require.GreaterOrEqual(t, at(posts, 1).Sub(at(posts, 0)), idle)
		}},
		"a pause": {[]func(*schemas.Endpoint){wide}, func(t *testing.T, r *rig) {
			t.Helper()
			r.sender.answer(func(req deliver.Request) (deliver.Result, time.Duration) {
				if string(req.Delivery.Payload) != `{"pause":true}` {
					return status(204), time.Second
				}
				res := status(429)
				res.RetryAfter = idle
				return res, 0
			})
			r.event("ep", "", `{"pause":true}`)
			r.event("ep", "", `{}`) // its success is the last word on the endpoint's health
			time.Sleep(idle / 10)
			r.event("ep", "", `{}`)
			time.Sleep(idle / 2)
			require.Len(t, r.sender.seen("ep"), 2, "it asked to be left alone")
		}},
		"a request under way": {nil, func(t *testing.T, r *rig) {
			t.Helper()
			r.sender.answer(takes(map[string]time.Duration{"ep": idle}))
			r.event("ep", "", `{}`)
			time.Sleep(idle / 2)
			r.event("ep", "", `{}`)
			time.Sleep(time.Second)
			require.Equal(t, 1, r.sender.width("ep"), "one at a time")
		}},
	}
	for name, c := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				r := newRig(t)
				r.Policy.Lifetime = 30 * 24 * time.Hour
				r.start()
				r.endpoint("ep", c.endpoint...)
				c.check(t, r)
				r.unit.Drop(unit.ErrLost)
				<-r.unit.Done()
				time.Sleep(time.Minute)
			})
		})
	}
}

// BenchmarkUnit_IdleEndpoint measures what an endpoint costs that was sent to once, and what is left of it afterwards.
func BenchmarkUnit_IdleEndpoint(b *testing.B) {
	shared := &unit.Shared{Breaker: breaker.DefaultConfig(), Policy: retry.DefaultPolicy()}
	heap := func() int64 {
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return int64(m.HeapAlloc)
	}
	const endpoints = 100_000
	var idle, forgotten int64
	for b.Loop() {
		before := heap()
		forget, lanes := unit.Visit(shared, endpoints)
		idle += heap() - before
		forget(time.Now())
		forgotten += heap() - before
		if lanes() != 0 {
			b.Fatal("kept", lanes())
		}
	}
	b.ReportMetric(float64(idle)/endpoints/float64(b.N), "B/endpoint-kept")
	b.ReportMetric(float64(forgotten)/endpoints/float64(b.N), "B/endpoint-forgotten")
}
