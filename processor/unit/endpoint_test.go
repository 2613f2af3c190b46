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
	"github.com/barnabas-webhooks/barnabas/topics"
)

// An event for an endpoint that nobody knows waits for the table to catch up, then is dead.
func TestUnit_UnknownEndpointIsHeldThenDead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t).start()
		r.event("late", "", `{}`)
		r.event("never", "", `{}`)
		time.Sleep(time.Second)
		require.Empty(t, r.letters())
		require.Equal(t, 2, r.log.inTiers())
		require.InDelta(t, 2, r.metric("barnabas_holds_total", metrics.HoldUnknown), 0)
		r.endpoint("late")
		time.Sleep(10 * time.Minute)
		r.idle()
		require.Len(t, r.sender.seen("late"), 1)
		require.Equal(t, 1, r.sender.seen("late")[0].Number, "a hold is no attempt")
		letters := r.letters()
		require.Len(t, letters, 1)
		require.Equal(t, schemas.ReasonUnknownEndpoint, letters[0].Reason)
		require.Equal(t, "never", letters[0].Delivery.EndpointID)
		require.LessOrEqual(t, r.log.inTiers(), 6)
		r.end()
	})
}

// C-200, P9: a change of the endpoint reaches what is queued, what waits in a tier, and
// what is replayed: after it there is no POST, and everything ends with its reason.
func TestUnit_DeletedAndDisabledEndpointsGetNothingMore(t *testing.T) {
	for reason, change := range map[string]func(*rig){
		schemas.ReasonEndpointDeleted: func(r *rig) { r.endpoints.remove("ep") },
		schemas.ReasonDisabled: func(r *rig) {
			r.endpoint("ep", func(e *schemas.Endpoint) { e.State = schemas.EndpointDisabled; e.DisabledReason = "by hand" })
		},
	} {
		t.Run(reason, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newRig(t).start()
				r.endpoint("ep")
				r.sender.answer(func(deliver.Request) (deliver.Result, time.Duration) { return status(204), 2 * time.Second })
				r.waiting(0, delivery("dlv_tier", "ep", 30*time.Second))
				for range 20 {
					r.event("ep", "", `{}`)
				}
				time.Sleep(time.Second) // the first is under way, the others queue
				change(r)
				time.Sleep(time.Minute)
				r.event("ep", "", `{}`)
				d := delivery("dlv_replayed", "ep", 0)
				value, err := schemas.EncodeDelivery(&d)
				require.NoError(t, err)
				r.log.append(record(r.Catalogue.Replay(), "ep", value))
				time.Sleep(10 * time.Second)
				r.idle()
				require.Len(t, r.sender.seen(), 1)
				letters := r.letters()
				require.Len(t, letters, 19+1+1+1)
				for _, l := range letters {
					require.Equal(t, reason, l.Reason)
				}
				require.InDelta(t, len(letters), r.metric("barnabas_dead_letters_total", reason), 0)

				// Enabled again, it is as new.
				r.endpoint("ep")
				r.event("ep", "", `{}`)
				time.Sleep(10 * time.Second)
				require.Len(t, r.sender.seen(), 2)
				r.end()
			})
		})
	}
}

// C-065: a 410 stops everything for the endpoint and has it switched off; what waits ends with that
// reason. Saving the endpoint anew takes it back.
func TestUnit_GoneStopsTheEndpoint(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t).start()
		seen := r.endpoint("ep")
		r.sender.always(http.StatusGone)
		for i := range 5 {
			r.waiting(0, delivery("dlv_tier", "ep", time.Duration(i+1)*time.Second))
		}
		for range 21 {
			r.event("ep", "", `{}`)
		}
		time.Sleep(30 * time.Second)
		r.idle()
		require.Len(t, r.sender.seen(), 1)
		require.Len(t, r.disabled, 1, "asked once")
		require.Same(t, seen, <-r.disabled, "for the version that was seen")
		letters := r.letters()
		require.Len(t, letters, 26)
		for _, l := range letters {
			require.Equal(t, string(retry.Gone), l.Reason)
		}

		// It is off by now, and what comes ends with the same reason, by which all of it is found.
		r.saved(seen, func(e *endpoint.Endpoint) { e.State, e.DisabledReason = schemas.EndpointDisabled, "answered 410 Gone" })
		r.event("ep", "", `{}`)
		time.Sleep(time.Second)
		letters = r.letters()
		require.Len(t, letters, 27)
		require.Equal(t, string(retry.Gone), letters[26].Reason)
		r.endpoints.put(seen)

		// Switching it off failed: it is asked again after a while, not with each delivery.
		time.Sleep(2 * time.Minute)
		for range 10 {
			r.event("ep", "", `{}`)
		}
		time.Sleep(time.Second)
		require.Len(t, r.disabled, 1)
		require.Len(t, r.sender.seen(), 1)

		r.endpoint("ep")
		r.sender.always(http.StatusNoContent)
		r.event("ep", "", `{}`)
		time.Sleep(time.Second)
		r.idle()
		require.Len(t, r.sender.seen(), 2)
		r.end()
	})
}

// Its secrets cannot be read by this process: our trouble. Deliveries wait, no attempt is spent.
func TestUnit_LockedEndpointsWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t).start()
		locked := r.endpoint("ep")
		locked.Locked = endpoint.ErrUnseal
		r.event("ep", "", `{}`)
		time.Sleep(5 * time.Minute)
		require.Empty(t, r.sender.seen())
		require.Empty(t, r.letters())
		require.Positive(t, r.metric("barnabas_holds_total", metrics.HoldLocked))
		require.LessOrEqual(t, r.log.inTiers(), 25, "looked at a few times a minute")
		r.endpoint("ep")
		time.Sleep(5 * time.Minute)
		r.idle()
		require.Len(t, r.sender.seen(), 1)
		require.Equal(t, 1, r.sender.seen()[0].Number)
		r.end()
	})
}

// P9: what counts is the configuration at the time of sending.
func TestUnit_AttemptsUseCurrentConfiguration(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t).start()
		r.endpoint("ep", func(e *schemas.Endpoint) { e.URL = "https://old.example/" })
		var urls []string
		r.sender.answer(func(req deliver.Request) (deliver.Result, time.Duration) {
			urls = append(urls, req.Endpoint.URL)
			return status(500), 0
		})
		r.event("ep", "", `{}`)
		time.Sleep(time.Second)
		r.endpoint("ep", func(e *schemas.Endpoint) {
			e.URL, e.PermanentStatuses = "https://new.example/", []int{500}
		})
		time.Sleep(time.Minute)
		r.idle()
		require.Equal(t, []string{"https://old.example/", "https://new.example/"}, urls)
		require.Len(t, r.letters(), 1, "the new one calls 500 permanent")
		require.Len(t, r.attempts(), 2)
		r.end()
	})
}

// C-083: Retry-After of 429 and 503 pauses the whole endpoint, from the log and from the
// tiers; of several that ask, the longest counts; no attempt is spent by waiting.
func TestUnit_RetryAfterPausesTheEndpoint(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t).start()
		r.endpoint("ep", parallel(2))
		r.endpoint("other")
		asked := []time.Duration{2 * time.Hour, time.Minute}
		r.sender.answer(func(req deliver.Request) (deliver.Result, time.Duration) {
			if req.Endpoint.ID == "other" || len(asked) == 0 {
				return status(204), 0
			}
			res := status(429)
			res.RetryAfter, asked = asked[0], asked[1:]
			return res, time.Duration(len(asked)) * time.Millisecond
		})
		begun := time.Now()
		for range 10 {
			r.event("ep", "", `{}`)
		}
		time.Sleep(time.Second)
		r.waiting(0, delivery("dlv_tier", "ep", 10*time.Second))
		r.event("ep", "", `{}`)
		r.event("other", "", `{}`)
		time.Sleep(7 * time.Hour)
		r.idle()
		require.Len(t, r.sender.seen("other"), 1)
		require.WithinDuration(t, begun.Add(time.Second), r.sender.seen("other")[0].At, 10*time.Millisecond)
		posts := r.sender.seen("ep")
		require.Len(t, posts, 2+12)
		attempts := map[string]int{}
		for _, p := range posts[2:] {
			require.GreaterOrEqual(t, p.At.Sub(begun), 2*time.Hour)
			attempts[p.ID] = p.Number
		}
		require.Equal(t, 2, attempts[posts[0].ID])
		require.Equal(t, 2, attempts["dlv_tier"], "it had one behind it")
		require.Empty(t, r.letters())
		r.end()
	})
}

// C-148: dead letters of each class tell everything, byte for byte.
func TestUnit_DeadLettersAreWhole(t *testing.T) {
	for _, class := range retry.Classes() {
		if class == retry.OK || class == retry.Cancelled || class == retry.Gone {
			continue
		}
		t.Run(string(class), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newRig(t).start()
				r.endpoint("ep", func(e *schemas.Endpoint) { e.RetryCaps = []time.Duration{time.Second} })
				r.sender.answer(func(deliver.Request) (deliver.Result, time.Duration) {
					res := failed(class)
					res.Excerpt = []byte("excerpt")
					return res, 0
				})
				rec := record(r.Catalogue.Events(), "ep", []byte(" {\"a\" : 1.0}\n"))
				rec.Headers = append(rec.Headers, header2(topics.HeaderEventType, "order.created"), header2(topics.HeaderContentType, "text/x"),
					header2(topics.HeaderIdempotencyKey, "k"), header2(topics.HeaderTraceParent, "00-p"), header2(topics.HeaderTraceState, "s=1"))
				begun := time.Now()
				r.log.append(rec)
				time.Sleep(time.Minute)
				r.idle()
				letters := r.letters()
				require.Len(t, letters, 1)
				l, d := letters[0], letters[0].Delivery
				require.Equal(t, string(class), l.Reason)
				require.Equal(t, string(class), l.Detail)
				require.Equal(t, " {\"a\" : 1.0}\n", string(d.Payload))
				require.Equal(t, []string{"ep", "tenant", "order.created", "text/x", "k", "00-p", "s=1"},
					[]string{d.EndpointID, d.Tenant, d.EventType, d.ContentType, d.IdempotencyKey, d.TraceParent, d.TraceState})
				require.Equal(t, r.sender.seen()[0].ID, d.ID)
				require.Equal(t, 2, d.Attempts)
				require.Equal(t, string(class), d.History.LastClass)
				require.Equal(t, "excerpt", string(d.History.LastExcerpt))
				require.WithinDuration(t, begun, d.History.FirstAttemptAt, time.Millisecond)
				require.WithinDuration(t, r.sender.seen()[1].At, d.History.LastAttemptAt, time.Millisecond)
				require.Equal(t, r.Catalogue.Tier(0), l.Source.Topic)
				r.end()
			})
		})
	}
}

// C-140, C-150: what is replayed keeps its id, has a fresh budget, gets behind live work, and dies once.
func TestUnit_ReplayedDeliveries(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t).start()
		r.endpoint("ep", func(e *schemas.Endpoint) { e.RetryCaps = []time.Duration{time.Second} })
		r.sender.answer(func(deliver.Request) (deliver.Result, time.Duration) { return status(500), 10 * time.Millisecond })
		d := delivery("dlv_again", "ep", 0)
		d.Attempts, d.Replays, d.IdempotencyKey = 0, 3, "k"
		d.AcceptedAt = d.AcceptedAt.Add(-20 * 24 * time.Hour)
		d.History = schemas.History{TotalAttempts: 9, FirstAttemptAt: d.AcceptedAt, LastClass: "http_5xx"}
		value, err := schemas.EncodeDelivery(&d)
		require.NoError(t, err)
		r.event("ep", "", `{"live":1}`)
		r.log.append(record(r.Catalogue.Replay(), "ep", value))
		r.event("ep", "", `{"live":2}`)
		time.Sleep(time.Hour)
		r.idle()
		posts := r.sender.seen()
		require.Equal(t, `{"live":2}`, posts[1].Payload, "live first")
		require.Equal(t, "dlv_again", posts[2].ID)
		require.Empty(t, r.journal.claims, "it is the claim's delivery")
		letters := r.letters()
		require.Len(t, letters, 3)
		for _, l := range letters {
			if l.Delivery.ID == "dlv_again" {
				require.Equal(t, 11, l.Delivery.History.TotalAttempts)
				require.Equal(t, 3, l.Delivery.Replays)
				require.Equal(t, d.AcceptedAt.UnixMilli(), l.Delivery.History.FirstAttemptAt.UnixMilli())
			}
		}
		for _, a := range r.attempts() {
			if a.DeliveryID == "dlv_again" {
				require.Equal(t, 3, a.Replay)
				require.Contains(t, []int{1, 2}, a.Number)
			}
		}
		r.end()
	})
}
