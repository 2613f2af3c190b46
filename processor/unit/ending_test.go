package unit_test

import (
	"bytes"
	"fmt"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/barnabas-webhooks/barnabas/processor/claim"
	"github.com/barnabas-webhooks/barnabas/processor/deliver"
	"github.com/barnabas-webhooks/barnabas/processor/metrics"
	"github.com/barnabas-webhooks/barnabas/processor/settle"
	"github.com/barnabas-webhooks/barnabas/processor/unit"
	"github.com/barnabas-webhooks/barnabas/retry"
	"github.com/barnabas-webhooks/barnabas/schemas"
	"github.com/barnabas-webhooks/barnabas/topics"
)

// C-230: what is in flight may finish and is settled; what is queued is forgotten and stays unsettled.
func TestUnit_DrainSettlesWhatIsInFlight(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t).start()
		r.endpoint("ep", parallel(3))
		r.endpoint("failing")
		r.sender.answer(func(req deliver.Request) (deliver.Result, time.Duration) {
			if req.Endpoint.ID == "failing" {
				return status(500), 4 * time.Second
			}
			return status(204), 4 * time.Second
		})
		r.event("failing", "", `{}`)
		for range 20 {
			r.event("ep", "", `{}`)
		}
		r.waiting(0, delivery("dlv_waits", "ep", 2*time.Second))
		time.Sleep(time.Second)
		begun := time.Now()
		r.unit.Drain(begun.Add(20 * time.Second))
		r.event("ep", "", `{"late":true}`)
		<-r.unit.Done()
		require.LessOrEqual(t, time.Since(begun), 4*time.Second)
		r.idle()
		require.Len(t, r.sender.seen(), 4, "nothing was started")
		require.Len(t, r.attempts(), 4)
		require.Len(t, r.log.all(r.Catalogue.Tier(0)), 2, "the one that failed is in its tier")
		require.Equal(t, int64(4), r.committed(r.Catalogue.Events()))
		r.endpoints.remove("ep")
	})
}

// A drain that runs out of time cuts off what is left: it is not settled, and no attempt of it counts.
func TestUnit_DrainEndsAtItsDeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer // read only when the unit has ended
		r := newRig(t, func(r *rig) { r.Log = slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelWarn})) }).start()
		r.endpoint("hangs", parallel(8))
		r.endpoint("ok")
		r.sender.answer(takes(map[string]time.Duration{"hangs": time.Hour}))
		r.event("ok", "", `{}`)
		for range 20 {
			r.event("hangs", "", `{}`)
		}
		time.Sleep(time.Second)
		begun := time.Now()
		r.unit.Drain(begun.Add(10 * time.Second))
		r.unit.Drain(begun.Add(time.Hour)) // the first counts
		<-r.unit.Done()
		require.Equal(t, 10*time.Second, time.Since(begun))
		r.idle()
		require.Len(t, r.attempts(), 1)
		require.Equal(t, int64(1), r.committed(r.Catalogue.Events()))
		require.InDelta(t, 1, r.metric("barnabas_attempts_total", "ok"), 0)
		require.Contains(t, log.String(), "ran out of time to drain")
		require.Contains(t, log.String(), "in_flight=8 outcomes=0")
	})
}

// A unit that was lost settles nothing more: what it knows is not its to say.
func TestUnit_DropSettlesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t).start()
		r.endpoint("ep", parallel(8))
		r.endpoint("hangs")
		r.sender.answer(takes(map[string]time.Duration{"hangs": time.Hour}))
		for range 10 {
			r.event("ep", "", `{}`)
			r.event("hangs", "k", `{}`)
		}
		time.Sleep(10 * time.Millisecond) // delivered, not settled
		require.Len(t, r.sender.seen("ep"), 10)
		r.unit.Drop(unit.ErrLost)
		<-r.unit.Done()
		time.Sleep(time.Hour)
		r.idle()
		require.Empty(t, r.attempts())
		require.Empty(t, r.settler.commits)

		// Whatever comes later is taken by nobody, and gives its memory back.
		r.Memory.Charge(unit.Cost(&kgo.Record{}))
		r.unit.Take(r.Catalogue.Events(), unit.Log{End: 1}, []*kgo.Record{{}})
		r.unit.Begin(r.Catalogue.Events(), unit.Position{})
		r.unit.Drain(time.Now())
		r.unit.Drop(unit.ErrRevoked)
		require.False(t, r.unit.Seal("tag", 1<<20, make(chan *settle.Batch, 1)))
		r.idle()
	})
}

// The settler says that the unit is not ours, or that it has ended: nothing more is started or settled.
func TestUnit_EndsWhenTheSettlerSaysSo(t *testing.T) {
	for _, answer := range []error{settle.ErrNotOwner, settle.ErrStopped} {
		t.Run(answer.Error(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newRig(t).start()
				r.endpoint("ep")
				r.settler.set(func(s *settler) { s.answer = answer })
				r.sender.answer(takes(map[string]time.Duration{"ep": 200 * time.Millisecond}))
				for range 10 {
					r.event("ep", "", `{}`)
				}
				<-r.unit.Done()
				r.idle()
				require.LessOrEqual(t, len(r.sender.seen()), 3)
				require.Empty(t, r.attempts())
			})
		})
	}
}

// Ownership may end before the unit has begun.
func TestUnit_EndsWhileRestoring(t *testing.T) {
	for name, end := range map[string]func(*unit.Unit){
		"drained": func(u *unit.Unit) { u.Drain(time.Now().Add(time.Hour)) },
		"dropped": func(u *unit.Unit) { u.Drop(unit.ErrLost) },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newRig(t)
				r.unit = unit.New(t.Context(), settle.Owner{Assignment: 1}, r.Shared)
				go r.unit.Run()
				r.event("ep", "", `{}`) // fetched before it was paused
				r.unit.Begin(r.Catalogue.Events(), unit.Position{Offset: -1})
				r.unit.Begin(r.Catalogue.Events(), unit.Position{Offset: 5})
				synctest.Wait()
				require.Positive(t, r.Memory.Used())
				end(r.unit)
				<-r.unit.Done()
				r.unit.Restore(unit.Restored{Arbiter: claim.NewArbiter(time.Hour, claim.NewMemory())})
				r.idle()
				select {
				case <-r.unit.Started():
					require.Fail(t, "started")
				default:
				}
			})
		})
	}
}

// What was fetched before the unit was restored is read when it is; a second position changes nothing.
func TestUnit_ReadsNothingBeforeItIsRestored(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		r.endpoint("ep")
		r.unit = unit.New(t.Context(), settle.Owner{Assignment: 1}, r.Shared)
		go r.unit.Run()
		for _, topic := range r.Catalogue.Consumed() {
			r.unit.Begin(topic, unit.Position{Offset: -1})
			r.unit.Begin(topic, unit.Position{Offset: 100})
		}
		r.event("ep", "k", `{}`)
		time.Sleep(time.Hour)
		require.Empty(t, r.sender.seen())
		require.Empty(t, r.journal.claims)
		r.unit.Restore(unit.Restored{Arbiter: claim.NewArbiter(24*time.Hour, claim.NewMemory())})
		<-r.unit.Started()
		time.Sleep(time.Second)
		r.idle()
		require.Len(t, r.sender.seen(), 1)
		r.end()
	})
}

// Invariant 6: an attempt that we gave up ourselves is spent on nobody and charged to nobody.
func TestUnit_CancelledAttemptsAreNotSpent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t).start()
		r.endpoint("ep")
		n := 0
		r.sender.answer(func(deliver.Request) (deliver.Result, time.Duration) {
			if n++; n <= 30 {
				return failed(retry.Cancelled), 0
			}
			return status(204), 0
		})
		r.event("ep", "", `{}`)
		time.Sleep(time.Hour)
		r.idle()
		posts := r.sender.seen()
		require.Len(t, posts, 31)
		require.Equal(t, 1, posts[30].Number)
		require.Empty(t, r.journal.transitions())
		require.InDelta(t, 30, r.metric("barnabas_holds_total", metrics.HoldCancelled), 0)
		require.Len(t, r.attempts(), 1)
		r.end()
	})
}

// Whatever is refused as too large ends as a dead letter that fits, where its endpoint's are looked for.
func TestUnit_TrimsWhatTheBrokerRefuses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, func(r *rig) { r.Catalogue.Partitions = 4; r.number = topics.Partition("ep", 4) })
		r.start()
		elsewhere := ""
		for i := 0; elsewhere == "" || topics.Partition(elsewhere, 4) == r.number; i++ {
			elsewhere = fmt.Sprintf("ep-%d", i)
		}
		r.endpoint("ep", func(e *schemas.Endpoint) { e.PermanentStatuses = []int{400} })
		codes := []int{500, 400, 204}
		r.sender.answer(func(deliver.Request) (deliver.Result, time.Duration) {
			code := codes[0]
			codes = codes[1:]
			return status(code), 0
		})
		r.settler.set(func(s *settler) { s.refuse = true })
		big := make([]byte, 500_000)
		send := func(key string, headers ...kgo.RecordHeader) {
			rec := record(r.Catalogue.Events(), key, big)
			rec.Partition, rec.Headers = r.number, headers
			r.log.append(rec)
			time.Sleep(time.Second)
		}
		plain := header2(topics.HeaderEventType, "t")
		send("ep", plain)      // failed: its waiting form is refused
		send("ep", plain)      // dead: its letter is refused
		send("ep", plain)      // delivered: even its attempt is refused
		send("ep")             // garbage
		send(elsewhere, plain) // re-routed
		r.idle()
		letters := r.letters()
		require.Len(t, letters, 5)
		for i, l := range letters {
			require.Equal(t, schemas.ReasonTooLarge, l.Reason)
			require.Equal(t, int64(i), l.Source.Offset)
			require.NotEmpty(t, append(l.Raw, l.Delivery.Payload...))
			rec := r.log.all(r.Catalogue.DLQ())[i]
			require.LessOrEqual(t, len(rec.Value), 128<<10)
			require.Equal(t, topics.Partition(string(rec.Key), 4), rec.Partition)
		}
		require.Equal(t, int64(5), r.committed(r.Catalogue.Events()))
		r.end()
	})
}

// A batch holds as much as it may, and the rest follows.
func TestUnit_BatchesAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, func(r *rig) { r.BatchOutcomes = 10 }).start()
		r.endpoint("ep", parallel(50))
		r.settler.set(func(s *settler) { s.late = time.Second })
		for i := range 95 {
			r.event("ep", fmt.Sprint(i), `{}`)
		}
		time.Sleep(time.Minute)
		r.idle()
		require.Equal(t, 10, r.settler.largest)
		require.Equal(t, 95, r.settler.outcomes)
		require.Equal(t, int64(95), r.committed(r.Catalogue.Events()))
		r.end()
	})
}

// The settler is away for long: nothing is lost, memory is what came in, and intake stands still by itself.
func TestUnit_WaitsForASettlerThatIsAway(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t).start()
		r.endpoint("ep", parallel(50))
		r.settler.set(func(s *settler) { s.late = 30 * time.Minute })
		const n = 20_000
		for range n {
			r.event("ep", "", `{}`)
		}
		time.Sleep(10 * time.Minute)
		require.Zero(t, r.committed(r.Catalogue.Events()))
		require.True(t, r.log.isPaused(r.Catalogue.Events()))
		require.Less(t, len(r.sender.seen()), n)
		r.settler.set(func(s *settler) { s.late = 0 })
		time.Sleep(5 * time.Hour)
		r.idle()
		ids := map[string]int{}
		for _, p := range r.sender.seen() {
			ids[p.ID]++
		}
		require.Len(t, ids, n)
		require.Len(t, r.sender.seen(), n)
		require.False(t, r.log.isPaused(r.Catalogue.Events()))
		require.Equal(t, int64(n), r.committed(r.Catalogue.Events()))
		r.end()
	})
}
