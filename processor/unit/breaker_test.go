package unit_test

import (
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/barnabas-webhooks/barnabas/processor/claim"
	"github.com/barnabas-webhooks/barnabas/processor/deliver"
	"github.com/barnabas-webhooks/barnabas/processor/metrics"
	"github.com/barnabas-webhooks/barnabas/processor/unit"
	"github.com/barnabas-webhooks/barnabas/retry"
	"github.com/barnabas-webhooks/barnabas/schemas"
)

// C-100: while the breaker is open everything waits, no attempt is spent, nothing dies; one probe
// at a time; after recovery all is delivered.
func TestUnit_OpenBreakerHoldsWithoutSpendingAttempts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t).start()
		r.endpoint("ep", parallel(4))
		up := time.Now().Add(3 * time.Minute)
		r.sender.answer(func(deliver.Request) (deliver.Result, time.Duration) {
			if time.Now().Before(up) {
				return failed(retry.Connect), time.Millisecond
			}
			return status(204), time.Millisecond
		})
		for range 500 {
			r.event("ep", "", `{}`)
			time.Sleep(100 * time.Millisecond)
		}
		time.Sleep(2 * time.Hour)
		r.idle()
		require.Empty(t, r.letters())
		posts := r.sender.seen()
		spent, delivered := map[string]int{}, 0
		failedPosts := 0
		for _, p := range posts {
			spent[p.ID]++
			require.Equal(t, spent[p.ID], p.Number, "attempts are spent by POSTs only")
			if p.At.Before(up) {
				failedPosts++
			} else {
				delivered++
			}
		}
		require.Len(t, spent, 500)
		require.Equal(t, 500, delivered, "each once")
		// Invariant 8: the trip, what was in flight beside it, and a probe per opening: 30 s, 60 s, 120 s.
		require.LessOrEqual(t, failedPosts, r.Breaker.ConsecutiveHard+4+3)
		require.InDelta(t, 0, r.metric("barnabas_breakers_open", ""), 0)
		require.Positive(t, r.metric("barnabas_holds_total", metrics.HoldBreaker))
		states := r.journal.transitions()
		require.Equal(t, []string{"open", "closed"}, []string{states[0], states[len(states)-1]})
		r.end()
	})
}

// The bound on requests to a dead endpoint does not depend on how many events wait
// for it; and how often each of those is rewritten is bounded too.
func TestUnit_DeadEndpointGetsProbesOnly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t).start()
		r.endpoint("ep")
		r.sender.answer(func(deliver.Request) (deliver.Result, time.Duration) { return failed(retry.Timeout), 15 * time.Second })
		const n = 300
		for range n {
			r.event("ep", "", `{}`)
		}
		time.Sleep(20 * time.Hour)
		posts := r.sender.seen()
		require.LessOrEqual(t, len(posts), 5+20*5, "five to trip, at most about four probes an hour")
		require.GreaterOrEqual(t, len(posts), 40, "and it is probed")
		require.LessOrEqual(t, float64(r.log.inTiers())/n/20, 5.0, "rewrites of each per hour")
		require.Equal(t, 1, r.sender.width("ep"))
		time.Sleep(8 * time.Hour) // lifetime
		r.idle()
		require.Len(t, r.letters(), n, "each ends as one dead letter")
		r.end()
	})
}

// A probe that is cut off, or was not made, frees the gate; a keep-alive that was
// stale says nothing of the endpoint (C-040); our own shortage of descriptors neither
// charges it nor spends an attempt (invariant 6).
func TestUnit_WhatIsNotTheEndpointsFaultIsNotCharged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t).start()
		r.endpoint("stale", func(e *schemas.Endpoint) { e.RetryCaps = []time.Duration{time.Second, time.Second, time.Second} })
		r.endpoint("local")
		local := 0
		r.sender.answer(func(req deliver.Request) (deliver.Result, time.Duration) {
			if req.Endpoint.ID == "stale" {
				if req.Number == 4 {
					return status(204), 0
				}
				res := failed(retry.Reset)
				res.Stale = true
				return res, 0
			}
			if local++; local <= 10 {
				res := failed(retry.Connect)
				res.Local = true
				return res, 0
			}
			return status(204), 0
		})
		for range 10 {
			r.event("stale", "", `{}`)
		}
		r.event("local", "", `{}`)
		time.Sleep(time.Hour)
		r.idle()
		require.Empty(t, r.journal.transitions(), "no breaker opened")
		require.Empty(t, r.letters())
		require.Len(t, r.sender.seen("stale"), 40)
		posts := r.sender.seen("local")
		require.Len(t, posts, 11)
		require.Equal(t, 1, posts[10].Number)
		require.InDelta(t, 10, r.metric("barnabas_holds_total", metrics.HoldLocal), 0)
		r.end()
	})
}

// C-105: answers about one payload do not switch the others off.
func TestUnit_ClientErrorsOfOnePayloadLetOthersFlow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t).start()
		r.endpoint("ep", func(e *schemas.Endpoint) { e.PermanentStatuses = []int{http.StatusUnprocessableEntity} })
		r.sender.answer(func(req deliver.Request) (deliver.Result, time.Duration) {
			if string(req.Delivery.Payload) == `"X"` {
				return status(422), 0
			}
			return status(204), 0
		})
		for range 200 {
			r.event("ep", "", `"X"`)
			r.event("ep", "", `"Y"`)
		}
		time.Sleep(time.Minute)
		r.idle()
		require.Len(t, r.sender.seen(), 400)
		require.Len(t, r.letters(), 200)
		require.Empty(t, r.journal.transitions())
		r.end()
	})
}

// C-104: an operator who says that the endpoint is well again gives it its full
// threshold back; saying so of a healthy one hides nothing.
func TestUnit_OperatorResetsTheBreaker(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t).start()
		// Retries come hours later, so that the failures counted here are those of the events.
		ep := r.endpoint("ep", parallel(1), func(e *schemas.Endpoint) { e.RetryCaps = []time.Duration{24 * time.Hour} })
		well := false
		r.sender.answer(func(deliver.Request) (deliver.Result, time.Duration) {
			if well {
				return status(204), time.Millisecond
			}
			return failed(retry.Connect), time.Millisecond
		})
		for range r.Breaker.ConsecutiveHard {
			r.event("ep", "", `{}`)
			time.Sleep(time.Second)
		}
		require.Equal(t, []string{"open"}, r.journal.transitions())

		well = true
		again := *ep
		again.BreakerResetAt = time.Now()
		r.endpoints.put(&again)
		before := len(r.sender.seen())
		r.event("ep", "", `{}`)
		time.Sleep(time.Second)
		require.Equal(t, []string{"open", "closed"}, r.journal.transitions())
		require.Greater(t, len(r.sender.seen()), before, "attempted at once")

		well = false
		for range r.Breaker.ConsecutiveHard - 1 {
			r.event("ep", "", `{}`)
			time.Sleep(time.Second)
		}
		require.Len(t, r.journal.transitions(), 2, "the full threshold")
		r.event("ep", "", `{}`)
		time.Sleep(time.Second)
		require.Equal(t, "open", r.journal.transitions()[2], "a real outage is not hidden by what was said before it")
		r.end()
	})
}

// A process whose clock was a year ahead opened the breaker. The next owner neither gives up on what comes, nor waits
// for that year: it tries again after the longest opening, or when an operator says so.
func TestUnit_ABreakerOfAWrongClockLocksNobodyAway(t *testing.T) {
	for name, reset := range map[string]bool{"by itself": false, "by an operator": true} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newRig(t)
				r.endpoint("ep")
				later := time.Now().AddDate(1, 0, 0)
				r.startWith(unit.Restored{Arbiter: claim.NewArbiter(24*time.Hour, claim.NewMemory()), Breakers: map[string]*schemas.BreakerTransition{
					"ep": {EndpointID: "ep", State: "open", Trips: 3, OpenUntil: later, At: later, Reason: "http_5xx"},
				}})
				r.event("ep", "", `1`)
				time.Sleep(time.Second)
				require.Empty(t, r.letters())
				if reset {
					r.endpoint("ep", func(e *schemas.Endpoint) { e.BreakerResetAt = time.Now() })
					r.event("ep", "", `2`)
					time.Sleep(time.Second)
					require.Len(t, r.sender.seen(), 1, "the reset is heeded")
				}
				time.Sleep(time.Hour)
				r.event("ep", "", `3`)
				time.Sleep(time.Hour)
				require.Empty(t, r.letters())
				require.Len(t, r.sender.seen(), len(r.log.all(r.Catalogue.Events())))
				r.end()
			})
		})
	}
}
