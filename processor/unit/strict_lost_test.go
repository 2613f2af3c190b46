package unit_test

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/barnabas-webhooks/barnabas/processor/unit"
	"github.com/barnabas-webhooks/barnabas/schemas"
)

// A head whose record is lost holds its line for its lifetime, and then those behind it go on.
func TestStrict_ALostHeadDoesNotHoldItsLineForEver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t).start()
		r.endpoint("ep", strict)
		r.sender.always(500)
		for i := range 3 {
			r.event("ep", "", fmt.Sprint(i))
		}
		time.Sleep(10 * time.Minute)
		r.unit.Drop(unit.ErrLost)
		<-r.unit.Done()
		for _, topic := range r.Catalogue.TierTopics() { // retention, or somebody's hand
			for _, rec := range r.log.all(topic) {
				if d, err := schemas.DecodeDelivery(rec.Value); err == nil && string(d.Payload) == "0" && rec.Offset >= r.committed(topic) {
					r.settler.commits[topic] = commitAt(topic, rec.Offset+1)
				}
			}
		}
		r.sender.always(204)
		r.restart()
		time.Sleep(25 * time.Hour)
		for i := range 3 {
			r.event("ep", "", fmt.Sprint(i))
		}
		tried := len(r.sender.seen("ep"))
		time.Sleep(30 * time.Minute)
		require.Len(t, r.sender.seen("ep"), tried, "somebody overtook it")
		time.Sleep(2 * time.Hour)
		r.idle()
		inOrder(t, r.sender.seen("ep")[tried:], 3)
		require.Positive(t, r.metric("barnabas_line_skipped_total", ""))
		require.Zero(t, r.metric("barnabas_line_waiting", ""))
		require.Equal(t, int64(6), r.lines()["ep"].Done)
		r.end()
	})
}

// One that cannot be read in its tier, or that the broker does not take, has its place: it is a dead letter, and the line
// goes on past it when its turn comes.
func TestStrict_WhatEndsOutOfTurnIsPassed(t *testing.T) {
	for name, spoil := range map[string]func(*rig){
		"cannot be read": func(r *rig) {
			time.Sleep(10 * time.Minute)
			r.unit.Drop(unit.ErrLost)
			<-r.unit.Done()
			for _, topic := range r.Catalogue.TierTopics() {
				for _, rec := range r.log.all(topic) {
					if d, err := schemas.DecodeDelivery(rec.Value); err == nil && string(d.Payload) == "2" {
						rec.Value = []byte("garbage")
					}
				}
			}
			r.restart()
		},
		"is refused": func(r *rig) {
			time.Sleep(time.Second) // these are in their tier
			r.settler.set(func(s *settler) { s.refuse = true })
			r.event("ep", "", "5")
			r.event("ep", "", "6")
			time.Sleep(150 * time.Millisecond)
			r.settler.set(func(s *settler) { s.refuse = false })
			r.event("ep", "", "7")
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newRig(t)
				r.LaneEntries = 1 // all but the first go to a tier
				r.start()
				r.endpoint("ep", strict)
				r.sender.answer(failing(map[string]int{"0": 4}, 0))
				for i := range 5 {
					r.event("ep", "", fmt.Sprint(i))
				}
				spoil(r)
				time.Sleep(20 * time.Hour)
				r.idle()
				require.NotEmpty(t, r.letters())
				for _, l := range r.letters() {
					require.Contains(t, []string{schemas.ReasonUndecodable, schemas.ReasonTooLarge}, l.Reason)
				}
				last := ""
				landed := map[string]int{}
				for _, p := range r.sender.seen("ep") {
					require.GreaterOrEqual(t, p.Payload, last, "order")
					last = p.Payload
					landed[p.Payload]++
				}
				require.Len(t, r.log.all(r.Catalogue.Events()), len(landed)+len(r.letters()), "nobody waits")
				require.Equal(t, r.committed(r.Catalogue.Events()), r.lines()["ep"].Done)
				require.Empty(t, r.lines()["ep"].Gone)
				r.end()
			})
		})
	}
}

// The log of events is made anew: what it holds now has numbers of its own.
func TestStrict_TheLogBeginsAnew(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t).start()
		r.endpoint("ep", strict)
		for i := range 10 {
			r.event("ep", "", fmt.Sprint(i))
		}
		time.Sleep(time.Minute)
		first := r.lines()["ep"]
		r.unit.Drop(unit.ErrLost)
		<-r.unit.Done()
		r.settler.set(func(s *settler) { s.anew = true })
		r.log.mu.Lock()
		r.log.records[r.Catalogue.Events()] = nil
		r.log.mu.Unlock()
		r.sender.answer(failing(map[string]int{"0": 2}, 0))
		r.restart()
		r.log.mu.Lock()
		r.log.next[r.Catalogue.Events()] = 0
		r.log.mu.Unlock()
		tried := len(r.sender.seen("ep"))
		for i := range 5 {
			r.event("ep", "", fmt.Sprint(i))
		}
		time.Sleep(time.Hour)
		inOrder(t, r.sender.seen("ep")[tried:], 5)
		require.Greater(t, r.lines()["ep"].Epoch, first.Epoch)
		require.Equal(t, int64(5), r.lines()["ep"].Done)
		r.unit.Drop(unit.ErrLost)
	})
}
