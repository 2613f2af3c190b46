package unit_test

import (
	"math/rand/v2"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/barnabas-webhooks/barnabas/processor/deliver"
	"github.com/barnabas-webhooks/barnabas/retry"
	"github.com/barnabas-webhooks/barnabas/schemas"
	"github.com/barnabas-webhooks/barnabas/topics"
)

// typed appends an event of a type, whose payload is the type.
func (r *rig) typed(endpointID, eventType string) {
	r.log.append(&kgo.Record{
		Topic: r.Catalogue.Events(), Key: []byte(endpointID), Value: []byte(eventType),
		Headers: []kgo.RecordHeader{{Key: topics.HeaderEventType, Value: []byte(eventType)}},
	})
}

// refusing answers the events of type X with a status, and others well.
func refusing(code int) func(deliver.Request) (deliver.Result, time.Duration) {
	return func(req deliver.Request) (deliver.Result, time.Duration) {
		if req.Delivery.EventType == "X" {
			return status(code), 5 * time.Millisecond
		}
		return status(http.StatusNoContent), 5 * time.Millisecond
	}
}

// C-105: an endpoint refuses events of one type, with any of the answers that are about a payload, and takes the others. Mixed half
// and half, and in bursts of any length, one after the other: the others are delivered at once, each within a second; the
// refused ones have their ladder; and the endpoint stays enabled. A breaker opens for what is refused only.
func TestUnit_WhatIsRefusedDoesNotStopTheOthers(t *testing.T) {
	t.Parallel()
	for code, widths := range map[int][]int{400: {1}, 401: {1}, 404: {1}, 422: {1, 8}} {
		for _, width := range widths {
			synctest.Test(t, func(t *testing.T) {
				r := newRig(t, func(r *rig) { r.Rand = rand.New(rand.NewPCG(1, 5)).Float64 }).start()
				r.endpoint("ep", func(e *schemas.Endpoint) {
					e.RetryCaps = []time.Duration{10 * time.Minute}
					if width > 1 {
						parallel(width)(e)
					}
				})
				r.sender.answer(refusing(code))
				var accepted []time.Time
				send := func(eventType string, n int) {
					for range n {
						if eventType == "Y" {
							accepted = append(accepted, time.Now())
						}
						r.typed("ep", eventType)
						time.Sleep(10 * time.Millisecond)
					}
				}
				for range 60 {
					send("X", 1)
					send("Y", 1)
				}
				for _, burst := range []int{5, 19, 20, 21, 100} {
					send("X", burst)
					send("Y", 10)
				}
				for range 50 { // all at once: what may knock stands in the lane behind what may not
					r.typed("ep", "X")
				}
				for range 5 {
					accepted = append(accepted, time.Now())
					r.typed("ep", "Y")
				}
				time.Sleep(time.Second)
				for range 10 { // hardly anything but what is refused
					send("X", 40)
					send("Y", 1)
					time.Sleep(10 * time.Second)
				}
				time.Sleep(2 * time.Minute)
				var delivered []time.Time
				refused := 0
				for _, p := range r.sender.seen() {
					if p.Payload == "Y" {
						delivered = append(delivered, p.At)
						require.Equal(t, 1, p.Number)
					} else {
						refused++
					}
				}
				require.Len(t, delivered, len(accepted), "%d, %d at a time", code, width)
				for i, at := range delivered {
					require.Less(t, at.Sub(accepted[i]), time.Second, "%d, %d at a time: the %dth", code, width, i)
				}
				require.Empty(t, r.disabled)
				for _, l := range r.letters() {
					require.Equal(t, "X", string(l.Delivery.Payload))
				}
				require.Positive(t, r.openings(), "but for what is refused there is a bound")
				require.Less(t, refused, 2*(60+165+10*40), "each has its ladder")
				r.unit.Drop(nil)
				<-r.unit.Done()
				time.Sleep(time.Second)
			})
		}
	}
}

// C-105, invariant 8: the door is for one who knocks. An endpoint that refuses events of every type, or fails, gets no more
// requests than any that does nothing but fail, however many types there are.
func TestUnit_OneKnocksAtAnOpenBreaker(t *testing.T) {
	t.Parallel()
	for name, fails := range map[string]func(eventType string) deliver.Result{
		"refuses all types": func(string) deliver.Result { return status(422) },
		"fails for the others": func(eventType string) deliver.Result {
			if eventType == "X" {
				return status(422)
			}
			return failed(retry.Timeout)
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				r := newRig(t).start()
				r.endpoint("ep")
				r.sender.answer(func(req deliver.Request) (deliver.Result, time.Duration) {
					return fails(req.Delivery.EventType), 5 * time.Millisecond
				})
				for range 100 {
					r.typed("ep", "X")
				}
				time.Sleep(time.Second)
				require.Equal(t, []string{"open"}, r.journal.transitions())
				require.Len(t, r.sender.seen(), r.Breaker.ConsecutiveAny)
				begun := time.Now()
				for i := range 500 {
					r.typed("ep", []string{"X", "Y", "Z", "W"}[i%4])
				}
				time.Sleep(time.Second)
				require.Len(t, r.sender.seen(), r.Breaker.ConsecutiveAny+1, "one knocks")
				require.Equal(t, "Y", r.sender.seen()[r.Breaker.ConsecutiveAny].Payload)
				// The next probe is not before the second opening after the first would have been over, 30 s and 60 s.
				time.Sleep(85*time.Second - time.Since(begun))
				require.Len(t, r.sender.seen(), r.Breaker.ConsecutiveAny+1)
				time.Sleep(time.Hour - time.Since(begun))
				require.LessOrEqual(t, len(r.sender.seen()), r.Breaker.ConsecutiveAny+8, "as many as plan says")
				r.unit.Drop(nil)
				<-r.unit.Done()
				time.Sleep(time.Second)
			})
		})
	}

	// Failures that are of the endpoint open no door.
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t).start()
		r.endpoint("ep")
		r.sender.always(503)
		for range 5 {
			r.typed("ep", "X")
		}
		time.Sleep(time.Second)
		require.Equal(t, []string{"open"}, r.journal.transitions())
		for range 10 {
			r.typed("ep", "Y")
		}
		time.Sleep(20 * time.Second)
		require.Len(t, r.sender.seen(), 5)
		r.unit.Drop(nil)
		<-r.unit.Done()
		time.Sleep(time.Second)
	})
}
