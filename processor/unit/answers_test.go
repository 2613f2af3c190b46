package unit_test

import (
	"fmt"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/barnabas-webhooks/barnabas/processor/deliver"
	"github.com/barnabas-webhooks/barnabas/retry"
	"github.com/barnabas-webhooks/barnabas/schemas"
)

// C-060, C-061: every status there is, as the answer to a first attempt that is followed by a 204. A 2xx is delivered once and
// is over; a 410 ends it; anything else is attempted again, and counted under its class.
func TestUnit_EveryStatusTakesItsPath(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t).start()
		statuses := []int{0, 99, 100, 101, 199, 600, 999}
		for code := 200; code <= 599; code++ {
			statuses = append(statuses, code)
		}
		r.sender.answer(func(req deliver.Request) (deliver.Result, time.Duration) {
			if req.Number > 1 {
				return status(http.StatusNoContent), 0
			}
			var code int
			_, err := fmt.Sscan(string(req.Delivery.Payload), &code)
			require.NoError(t, err)
			return status(code), 0
		})
		classes := map[retry.Class]float64{}
		for _, code := range statuses {
			id := fmt.Sprintf("ep-%d", code)
			r.endpoint(id)
			r.event(id, "", fmt.Sprint(code))
			classes[retry.ClassOfStatus(code)]++
		}
		time.Sleep(time.Hour)
		r.idle()
		for _, code := range statuses {
			posts, want := r.sender.seen(fmt.Sprintf("ep-%d", code)), 2
			if code >= 200 && code <= 299 || code == http.StatusGone {
				want = 1
			}
			require.Len(t, posts, want, code)
			require.Equal(t, posts[0].ID, posts[want-1].ID, code)
		}
		letters := r.letters()
		require.Len(t, letters, 1)
		require.Equal(t, string(retry.Gone), letters[0].Reason)
		again := float64(len(statuses)) - classes[retry.OK] - 1
		require.InDelta(t, again, r.metric("barnabas_decisions_total", string(retry.Retry)), 0)
		require.InDelta(t, again+classes[retry.OK], r.metric("barnabas_decisions_total", string(retry.Delivered)), 0)
		require.InDelta(t, again+classes[retry.OK], r.metric("barnabas_attempts_total", string(retry.OK)), 0)
		delete(classes, retry.OK)
		for class, n := range classes {
			require.InDelta(t, n, r.metric("barnabas_attempts_total", string(class)), 0, class)
		}
		r.end()
	})
}

// C-064: too many, too early, a timeout of the receiver's own, locked, a conflict: each with and without Retry-After, a few
// times, then 200. All are delivered by a later attempt, none before it was asked for, and nothing is dead.
func TestUnit_TemporaryRefusalsAreTriedAgain(t *testing.T) {
	t.Parallel()
	for _, code := range []int{408, 409, 421, 423, 424, 425, 429, 503} {
		for _, asked := range []time.Duration{0, time.Second, 40 * time.Second, 3 * time.Hour} {
			for _, times := range []int{1, 4} {
				synctest.Test(t, func(t *testing.T) {
					r := newRig(t).start()
					r.endpoint("ep")
					r.sender.answer(func(req deliver.Request) (deliver.Result, time.Duration) {
						if req.Number > times {
							return status(http.StatusOK), 0
						}
						res := status(code)
						res.RetryAfter = asked
						return res, 0
					})
					r.event("ep", "", `{}`)
					time.Sleep(25 * time.Hour)
					r.idle()
					posts := r.sender.seen()
					require.Len(t, posts, times+1, "%d, Retry-After %s", code, asked)
					for i, p := range posts {
						require.Equal(t, i+1, p.Number)
						require.Equal(t, posts[0].ID, p.ID)
						if i > 0 {
							require.GreaterOrEqual(t, p.At.Sub(posts[i-1].At), asked)
						}
					}
					require.Empty(t, r.letters())
					r.end()
				})
			}
		}
	}
}

// C-062, C-061: each failure goes up the whole ladder, nine attempts with one id, and ends as one dead letter whose reason is its
// class: network errors are no more final than statuses are.
func TestUnit_EveryFailureHasTheWholeLadder(t *testing.T) {
	t.Parallel()
	results := map[string]func() deliver.Result{}
	for _, class := range []retry.Class{
		retry.DNS, retry.Connect, retry.TLS, retry.Timeout, retry.Reset, retry.Blocked, retry.Build, retry.InvalidResponse,
	} {
		results[string(class)] = func() deliver.Result { return failed(class) }
	}
	for _, code := range []int{301, 400, 401, 404, 408, 418, 425, 429, 500, 503, 599} {
		results[fmt.Sprint(code)] = func() deliver.Result { return status(code) }
	}
	for name, result := range results {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				r := newRig(t).start()
				r.endpoint("ep")
				r.endpoint("neighbour")
				r.sender.answer(func(req deliver.Request) (deliver.Result, time.Duration) {
					if req.Endpoint.ID == "neighbour" {
						return status(http.StatusNoContent), 0
					}
					return result(), time.Millisecond
				})
				r.event("ep", "", `{}`)
				r.event("neighbour", "", `{}`)
				time.Sleep(27 * time.Hour)
				r.idle()
				posts := r.sender.seen("ep")
				require.Len(t, posts, 9)
				for i, p := range posts {
					require.Equal(t, i+1, p.Number)
					require.Equal(t, posts[0].ID, p.ID)
				}
				require.Len(t, r.sender.seen("neighbour"), 1)
				letters := r.letters()
				require.Len(t, letters, 1)
				require.Equal(t, string(result().Class), letters[0].Reason)
				require.NotEmpty(t, letters[0].Delivery.History.LastError)
				require.Equal(t, 9, letters[0].Delivery.History.TotalAttempts)
				require.InDelta(t, 9, r.metric("barnabas_attempts_total", string(result().Class)), 0)
				require.InDelta(t, 1, r.metric("barnabas_dead_letters_total", letters[0].Reason), 0)
				r.end()
			})
		})
	}
}

// C-096: the request of one endpoint cannot be built, whatever is sent to it. Each delivery is a recorded attempt with a reason
// that its owner can read, on the ladder, with waits in between; then one dead letter. Nothing is redelivered in a loop, the
// neighbour's are not touched, and once the endpoint is mended what still waits is delivered.
func TestUnit_WhatCannotBeBuiltIsAFailedAttempt(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const reason = `the endpoint's header "X-A" has a value that cannot be sent`
		r := newRig(t).start()
		r.endpoint("broken", func(e *schemas.Endpoint) { e.RetryCaps = []time.Duration{time.Minute, time.Minute} })
		r.endpoint("neighbour")
		r.sender.answer(func(req deliver.Request) (deliver.Result, time.Duration) {
			if req.Endpoint.ID == "broken" {
				return deliver.Result{StartedAt: time.Now(), Outcome: retry.Outcome{Class: retry.Build}, Error: reason}, 0
			}
			return status(http.StatusNoContent), 0
		})
		for range 30 {
			r.event("broken", "", `"first"`)
			r.event("neighbour", "", `{}`)
		}
		time.Sleep(10 * time.Minute)
		r.idle()
		require.Len(t, r.sender.seen("broken"), 3*30, "a bounded ladder")
		require.Len(t, r.sender.seen("neighbour"), 30)
		require.Empty(t, r.journal.transitions(), "says nothing of the receiver's health")
		require.Len(t, r.letters(), 30)
		for _, l := range r.letters() {
			require.Equal(t, string(retry.Build), l.Reason)
			require.Equal(t, reason, l.Detail)
		}
		recorded := 0
		for _, a := range r.attempts() {
			if a.EndpointID == "broken" {
				recorded++
				require.Equal(t, string(retry.Build), a.Class)
				require.Equal(t, reason, a.Error)
			}
		}
		require.Equal(t, 90, recorded)
		require.Equal(t, int64(60), r.committed(r.Catalogue.Events()))

		for range 10 {
			r.event("broken", "", `"second"`)
		}
		time.Sleep(time.Second)
		r.sender.always(http.StatusNoContent)
		time.Sleep(10 * time.Minute)
		r.idle()
		require.Len(t, r.letters(), 30)
		r.end()
	})
}

// C-081: what Retry-After came to nothing (zero, past, malformed: deliver reads them all as zero) means the ladder's wait, and
// never "at once": an endpoint that always answers so gets the requests of one that says nothing.
func TestUnit_RetryAfterOfNothingIsTheLadder(t *testing.T) {
	t.Parallel()
	for _, code := range []int{429, 503, 500, 408} {
		for _, asked := range []time.Duration{0, -5 * time.Second} {
			synctest.Test(t, func(t *testing.T) {
				r := newRig(t).start()
				r.endpoint("ep")
				r.sender.answer(func(deliver.Request) (deliver.Result, time.Duration) {
					res := status(code)
					res.RetryAfter = asked
					return res, 0
				})
				r.event("ep", "", `{}`)
				time.Sleep(27 * time.Hour)
				r.idle()
				posts := r.sender.seen()
				require.Len(t, posts, 9)
				for i, limit := range r.Policy.Caps {
					require.GreaterOrEqual(t, posts[i+1].At.Sub(posts[i].At), limit/2, "chance is a half here")
				}
				r.end()
			})
		}
	}
}
