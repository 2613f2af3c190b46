package unit_test

import (
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/barnabas-webhooks/barnabas/processor/deliver"
	"github.com/barnabas-webhooks/barnabas/processor/endpoint"
	"github.com/barnabas-webhooks/barnabas/processor/metrics"
	"github.com/barnabas-webhooks/barnabas/retry"
	"github.com/barnabas-webhooks/barnabas/schemas"
)

// saved puts a changed copy of an endpoint into the table, as a saved one comes to it.
func (r *rig) saved(ep *endpoint.Endpoint, change func(*endpoint.Endpoint)) *endpoint.Endpoint {
	next := *ep
	next.UpdatedAt = time.Now()
	change(&next)
	r.endpoints.put(&next)
	return &next
}

// off is an endpoint that was disabled; on is one that was enabled, as the registry and the table say it.
func off(e *endpoint.Endpoint) { e.State, e.DisabledReason = schemas.EndpointDisabled, "by hand" }

func on(e *endpoint.Endpoint) {
	e.State, e.DisabledReason, e.BreakerResetAt, e.Epoch = schemas.EndpointEnabled, "", time.Now(), e.Epoch+1
}

// C-104: an endpoint that was switched off and on again has its full threshold, in whatever state its breaker was: four of
// five failures, open, open with its time up, or healed by a probe and failing again.
func TestUnit_SwitchedOnAgainItHasItsFullThreshold(t *testing.T) {
	t.Parallel()
	for name, before := range map[string]func(r *rig){
		"after four failures": func(r *rig) { r.fail(4) },
		"open":                func(r *rig) { r.fail(5) },
		"open, its time is up": func(r *rig) {
			r.fail(5)
			time.Sleep(10 * time.Minute)
		},
		"healed by a probe": func(r *rig) {
			r.fail(5)
			r.sender.always(http.StatusNoContent)
			r.event("ep", "", `{}`)
			time.Sleep(2 * time.Minute)
			require.Equal(r.t, []string{"open", "closed"}, r.journal.transitions())
			r.fail(4)
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				r := newRig(t).start()
				// Retries come a day later, so that the failures counted here are those of the events.
				ep := r.endpoint("ep", func(e *schemas.Endpoint) { e.RetryCaps = []time.Duration{24 * time.Hour} })
				before(r)
				ep = r.saved(ep, off)
				time.Sleep(time.Second) // nothing comes for it while it is off
				r.saved(ep, on)
				opened := r.openings()
				r.fail(4)
				require.Equal(t, opened, r.openings(), "the count of before stayed")
				r.fail(1)
				require.Equal(t, opened+1, r.openings(), "five in a row are an outage")
				r.end()
			})
		})
	}
}

// fail lets n attempts fail, one a second.
func (r *rig) fail(n int) {
	r.sender.answer(func(deliver.Request) (deliver.Result, time.Duration) { return failed(retry.Connect), time.Millisecond })
	for range n {
		r.event("ep", "", `{}`)
		time.Sleep(time.Second)
	}
}

// openings counts how often a breaker has opened.
func (r *rig) openings() (n int) {
	for _, state := range r.journal.transitions() {
		if state == "open" {
			n++
		}
	}
	return n
}

// C-104: a healthy endpoint is enabled again and again, by a script that means well: whether the endpoint is merely saved, or
// its breaker reset each time, the outage that comes is seen at its fifth failure.
func TestUnit_EnablingAHealthyEndpointHidesNothing(t *testing.T) {
	t.Parallel()
	for name, again := range map[string]func(*endpoint.Endpoint){
		"saved":         func(*endpoint.Endpoint) {},
		"breaker reset": func(e *endpoint.Endpoint) { e.BreakerResetAt = time.Now() },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				r := newRig(t).start()
				ep := r.endpoint("ep", func(e *schemas.Endpoint) { e.RetryCaps = []time.Duration{24 * time.Hour} })
				r.event("ep", "", `{}`)
				time.Sleep(time.Second)
				for i := range r.Breaker.ConsecutiveHard {
					require.Zero(t, r.openings(), i)
					ep = r.saved(ep, again)
					r.fail(1)
					ep = r.saved(ep, again)
				}
				require.Equal(t, 1, r.openings())
				r.end()
			})
		})
	}
}

// C-103: ten attempts at once, of which the fifth failure opens; the other five are answered while it is open, while the
// probe is under way, and after it has closed, well or badly. None of them closes it, opens it again, or frees the gate.
func TestUnit_LateResultsChangeNoNewerState(t *testing.T) {
	t.Parallel()
	for name, late := range map[string]func() deliver.Result{
		"successes": func() deliver.Result { return status(http.StatusNoContent) },
		"failures":  func() deliver.Result { return failed(retry.Timeout) },
	} {
		for _, after := range []time.Duration{time.Second, 29 * time.Second, 40 * time.Second, 75 * time.Second, 110 * time.Second} {
			t.Run(name+" after "+after.String(), func(t *testing.T) {
				t.Parallel()
				synctest.Test(t, func(t *testing.T) {
					r := newRig(t).start()
					r.endpoint("ep", parallel(10), func(e *schemas.Endpoint) { e.RetryCaps = []time.Duration{24 * time.Hour} })
					n := 0
					r.sender.answer(func(deliver.Request) (deliver.Result, time.Duration) {
						switch n++; {
						case n <= 5:
							return failed(retry.Connect), time.Duration(n) * time.Millisecond
						case n <= 10:
							return late(), after + time.Duration(n)*time.Millisecond
						}
						return status(http.StatusNoContent), 30 * time.Second // the probe
					})
					begun := time.Now()
					for range 10 {
						r.event("ep", "", `{}`)
					}
					time.Sleep(time.Second)
					require.Equal(t, []string{"open"}, r.journal.transitions())
					r.event("ep", "", `{}`) // held until its time is up, and is the probe then
					r.event("ep", "", `{}`)
					time.Sleep(time.Hour)
					require.Equal(t, []string{"open", "closed"}, r.journal.transitions())
					probes := r.sender.seen()[10:]
					require.Len(t, probes, 2)
					require.GreaterOrEqual(t, probes[0].At.Sub(begun), r.Breaker.OpenFor)
					require.GreaterOrEqual(t, probes[1].At.Sub(probes[0].At), 30*time.Second, "one probe at a time")
					require.InDelta(t, 2, r.metric("barnabas_breaker_transitions_total", "open")+r.metric("barnabas_breaker_transitions_total", "closed"), 0)
					r.end()
				})
			})
		}
	}
}

// C-103: more fail at once than the threshold is, of an endpoint that takes many: it opens once, and what was in flight beside
// the fifth is all that an endpoint that is down gets beyond it.
func TestUnit_ParallelFailuresOpenOnce(t *testing.T) {
	t.Parallel()
	for _, width := range []int{4, 5, 6, 10, 30} {
		synctest.Test(t, func(t *testing.T) {
			r := newRig(t).start()
			r.endpoint("ep", parallel(width))
			r.sender.answer(func(deliver.Request) (deliver.Result, time.Duration) { return failed(retry.Connect), time.Second })
			for range 100 {
				r.event("ep", "", `{}`)
			}
			time.Sleep(20 * time.Second)
			require.Equal(t, []string{"open"}, r.journal.transitions())
			require.LessOrEqual(t, len(r.sender.seen()), r.Breaker.ConsecutiveHard+width-1)
			require.GreaterOrEqual(t, int(r.metric("barnabas_holds_total", metrics.HoldBreaker)), 100-len(r.sender.seen()), "the others wait, unattempted")
			require.Empty(t, r.letters())
			r.end()
		})
	}
}
