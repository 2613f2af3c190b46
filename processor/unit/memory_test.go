package unit_test

import (
	"bytes"
	"fmt"
	"runtime"
	"testing"
	"testing/synctest"
	"time"
	"weak"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/barnabas-webhooks/barnabas/processor/breaker"
	"github.com/barnabas-webhooks/barnabas/processor/caps"
	"github.com/barnabas-webhooks/barnabas/processor/claim"
	"github.com/barnabas-webhooks/barnabas/processor/deliver"
	"github.com/barnabas-webhooks/barnabas/processor/settle"
	"github.com/barnabas-webhooks/barnabas/processor/unit"
	"github.com/barnabas-webhooks/barnabas/retry"
	"github.com/barnabas-webhooks/barnabas/schemas"
	"github.com/barnabas-webhooks/barnabas/topics"
)

// fetch hands records over that are cut from one piece of memory, as a client does it, and keeps nothing of them.
func (r *rig) fetch(topic string, records ...*kgo.Record) weak.Pointer[byte] {
	r.t.Helper()
	fetched := make([]byte, 4<<20)
	at := 0
	cut := func(b []byte) []byte {
		n := copy(fetched[at:], b)
		at += n
		return fetched[at-n : at : at]
	}
	batch := make([]*kgo.Record, len(records))
	for i, rec := range records {
		one := &kgo.Record{
			Topic: topic, Offset: int64(i), Timestamp: time.Now(), Key: cut(rec.Key), Value: cut(rec.Value),
		}
		for _, h := range rec.Headers {
			one.Headers = append(one.Headers, kgo.RecordHeader{Key: h.Key, Value: cut(h.Value)})
		}
		batch[i] = one
		r.Memory.Charge(unit.Cost(one))
	}
	r.unit.Take(topic, unit.Log{End: int64(len(records))}, batch)
	return weak.Make(&fetched[0])
}

// Invariant 9: what stays while others of its fetch are done does not keep the fetch in memory: the budget knows of a
// record of a few bytes, and a fetch has megabytes. Wherever a record can stay.
func TestUnit_NothingThatStaysKeepsItsFetch(t *testing.T) { // not parallel: it collects garbage
	plain := func(id, payload string) *kgo.Record {
		return &kgo.Record{
			Key: []byte(id), Value: []byte(payload), Headers: []kgo.RecordHeader{{Key: topics.HeaderEventType, Value: []byte("t")}},
		}
	}
	for name, c := range map[string]struct {
		set     func(*rig)
		open    string // an endpoint whose breaker is open
		topic   func(topics.Catalogue) string
		records func(*rig) []*kgo.Record
	}{
		"in flight, and in the lane behind it": {
			topic: topics.Catalogue.Events,
			records: func(*rig) []*kgo.Record {
				return []*kgo.Record{plain("hangs", `{"n":1}`), plain("hangs", `{"n":2}`), plain("quick", `{"n":3}`)}
			},
		},
		"unread, behind a lane that presses": {
			set:   func(r *rig) { r.LaneEntries = 2 },
			topic: topics.Catalogue.Events,
			records: func(*rig) (list []*kgo.Record) {
				for n := range 20 {
					list = append(list, plain("hangs", fmt.Sprintf(`{"n":%d}`, n)))
				}
				return list
			},
		},
		"in the look-ahead of a tier": {
			topic: func(c topics.Catalogue) string { return c.Tier(0) },
			records: func(r *rig) []*kgo.Record {
				d := delivery("dlv_1", "quick", 50*time.Second)
				value, err := schemas.EncodeDelivery(&d)
				require.NoError(r.t, err)
				return []*kgo.Record{{Key: []byte("quick"), Value: value}}
			},
		},
		"on its way to a tier, while Kafka is slow": {
			set:   func(r *rig) { r.settler.stopped = true },
			topic: topics.Catalogue.Events,
			records: func(r *rig) []*kgo.Record {
				r.sender.always(500)
				return []*kgo.Record{plain("quick", `{"n":1}`)}
			},
		},
		"on its way to a tier at once, while Kafka is slow": {
			set:   func(r *rig) { r.settler.stopped = true },
			topic: topics.Catalogue.Events,
			open:  "quick",
			records: func(*rig) []*kgo.Record {
				return []*kgo.Record{plain("quick", `{"n":1}`)}
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newRig(t)
				if c.set != nil {
					c.set(r)
				}
				restored := unit.Restored{Arbiter: claim.NewArbiter(24*time.Hour, claim.NewMemory()), Breakers: map[string]*schemas.BreakerTransition{}}
				if c.open != "" {
					restored.Breakers[c.open] = &schemas.BreakerTransition{
						EndpointID: c.open, State: string(breaker.Open), Trips: 1, OpenUntil: time.Now().Add(time.Hour), At: time.Now(),
					}
				}
				r.startWith(restored)
				r.endpoint("hangs")
				r.endpoint("quick")
				r.sender.answer(func(req deliver.Request) (deliver.Result, time.Duration) {
					if req.Endpoint.ID == "hangs" {
						return failed(retry.Timeout), 10 * time.Second
					}
					return status(204), 0
				})
				fetched := r.fetch(c.topic(r.Catalogue), c.records(r)...)
				synctest.Wait()
				require.Positive(t, r.Memory.Used(), "something stays")
				// What the client's caller has on its stack may be seen once more.
				for range 3 {
					runtime.GC()
				}
				kept := fetched.Value() != nil
				r.unit.Drop(unit.ErrLost)
				<-r.unit.Done()
				time.Sleep(time.Second) // a beat that was wanted finds nobody
				require.False(t, kept, "the fetch is still in memory")
			})
		})
	}
}

// A batch ends with the outcome that reaches the limit, the unit hurries for the rest, and it follows.
func TestUnit_BatchesEndAtTheirLimit(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		r.settler.stopped = true
		r.start()
		r.endpoint("ep", parallel(100))
		r.sender.always(503)
		for range 10 {
			r.event("ep", "", string(bytes.Repeat([]byte("x"), 10_000)))
		}
		synctest.Wait()
		outcomes := 0
		for more := true; more; {
			reply := make(chan *settle.Batch, 1)
			require.True(t, r.unit.Seal("tag", 25_000, reply))
			b := <-reply
			require.NotNil(t, b)
			size := 0
			for _, o := range b.Outcomes {
				for _, rec := range o.Records {
					size += len(rec.Value)
				}
			}
			require.LessOrEqual(t, size, 25_000+11_000)
			outcomes += len(b.Outcomes)
			b.Settled(nil)
			synctest.Wait()
			more = r.settler.hurried()
		}
		require.Equal(t, 10, outcomes)
		r.end()
	})
}

// A record that the broker refuses as too large becomes a dead letter with what fits, though its payload was let go of
// when it was written for a tier.
func TestUnit_RefusedTierRecordsKeepTheirPayload(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		r.settler.refuse = true
		r.start()
		r.endpoint("ep")
		r.sender.always(500)
		r.event("ep", "", `{"kept":true}`)
		time.Sleep(time.Second)
		letters := r.letters()
		require.Len(t, letters, 1)
		require.JSONEq(t, `{"kept":true}`, string(letters[0].Delivery.Payload))
	})
}

// Invariant 7: more endpoints hang than there are slots, and one that answers goes on as if they were not there.
func TestUnit_HangingEndpointsLeaveSlotsToOthers(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, func(r *rig) { setInFlight(r, 16) }).start()
		r.endpoint("quick")
		r.sender.answer(func(req deliver.Request) (deliver.Result, time.Duration) {
			if req.Endpoint.ID == "quick" {
				return status(204), 10 * time.Millisecond
			}
			return failed(retry.Timeout), 10 * time.Second
		})
		r.event("quick", "", `{}`) // it has shown that it answers
		time.Sleep(time.Second)
		for i := range 100 {
			id := fmt.Sprintf("hangs-%d", i)
			r.endpoint(id)
			for range 3 {
				r.event(id, "", `{}`)
			}
		}
		for range 60 {
			r.event("quick", "", `{}`)
			sent := time.Now()
			time.Sleep(time.Second)
			posts := r.sender.seen("quick")
			require.LessOrEqual(t, posts[len(posts)-1].At.Sub(sent), 20*time.Millisecond)
		}
		require.Len(t, r.sender.seen("quick"), 61)
		require.Equal(t, 13, r.sender.atOnce(), "three quarters of the slots, and the one")
		r.end()
	})
}

// While the budget is used up nothing is fetched: what waits for minutes must make room by itself, or live events would
// stand still until it is due. And what makes room is not read again before something can be due.
func TestUnit_WhatOnlyWaitsMakesRoom(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, func(r *rig) { r.Memory = caps.NewMemory(1 << 20) }).start()
		r.endpoint("ep")
		const n = 150 // half of the budget, nearly
		for i := range n {
			d := delivery(fmt.Sprintf("dlv_%d", i), "ep", 5*time.Minute)
			d.Payload = bytes.Repeat([]byte("x"), 1000)
			r.waiting(1, d)
		}
		synctest.Wait()
		require.False(t, r.Memory.HalfFull(), "all of it is read ahead: %d", r.Memory.Used())
		require.Equal(t, n, r.log.inTiers())
		before := r.Memory.Used()
		require.Positive(t, before)

		others := 1<<20 - before
		r.Memory.Charge(others) // by other units
		require.True(t, r.Memory.Full())
		for range 20 {
			time.Sleep(500 * time.Millisecond)
			r.unit.MakeRoom()
		}
		synctest.Wait()
		require.False(t, r.Memory.Full())
		require.LessOrEqual(t, r.Memory.Used()-others, before/2)
		written := r.log.inTiers()
		gone := r.Memory.Used() - (1<<19 - 50_000) // there is room again, for less than has gone round
		r.Memory.Release(gone)
		require.False(t, r.Memory.HalfFull())
		for range 40 {
			time.Sleep(time.Second)
			r.unit.MakeRoom() // a turn in which it could go on
		}
		require.Equal(t, written, r.log.inTiers(), "there is room again, but nothing can be due yet")
		r.Memory.Release(others - gone)
		time.Sleep(10 * time.Minute)
		require.Len(t, r.sender.seen(), n)
		r.end()
	})
}
