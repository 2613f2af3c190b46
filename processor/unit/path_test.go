package unit_test

import (
	"fmt"
	"math"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/barnabas-webhooks/barnabas/processor/claim"
	"github.com/barnabas-webhooks/barnabas/processor/deliver"
	"github.com/barnabas-webhooks/barnabas/processor/metrics"
	"github.com/barnabas-webhooks/barnabas/processor/unit"
	"github.com/barnabas-webhooks/barnabas/retry"
	"github.com/barnabas-webhooks/barnabas/schemas"
	"github.com/barnabas-webhooks/barnabas/topics"
)

// An event comes in, is attempted once, and is settled with its attempt record.
func TestUnit_DeliversAndSettles(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t).start()
		r.endpoint("ep")
		r.event("ep", "", `{"n":1}`)
		time.Sleep(time.Second)
		r.idle()
		posts := r.sender.seen()
		require.Len(t, posts, 1)
		require.Equal(t, `{"n":1}`, posts[0].Payload)
		require.Equal(t, 1, posts[0].Number)
		attempts := r.attempts()
		require.Len(t, attempts, 1)
		require.Equal(t, schemas.AttemptPost, attempts[0].Kind)
		require.Equal(t, posts[0].ID, attempts[0].DeliveryID)
		require.Equal(t, "tenant", attempts[0].Tenant)
		require.Equal(t, "delivered", attempts[0].Decision)
		require.Equal(t, schemas.Coordinates{Topic: r.Catalogue.Events()}, attempts[0].Source)
		require.Equal(t, int64(1), r.committed(r.Catalogue.Events()))
		require.Zero(t, r.log.inTiers())
		require.InDelta(t, 1, r.metric("barnabas_events_total", metrics.Unkeyed), 0)
		r.end()
	})
}

// C-026, C-028, C-087: the whole ladder, one id, each wait drawn within its cap, none early, then one dead letter.
func TestUnit_WholeLadderThenDead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t).start()
		r.endpoint("ep")
		r.sender.always(http.StatusTeapot)
		r.event("ep", "", `{}`)
		time.Sleep(26 * time.Hour)
		r.idle()
		posts := r.sender.seen()
		require.Len(t, posts, 9)
		for i, p := range posts {
			require.Equal(t, posts[0].ID, p.ID)
			require.Equal(t, i+1, p.Number)
			if i > 0 {
				require.WithinDuration(t, posts[i-1].At.Add(r.Policy.Caps[i-1]/2), p.At, 10*time.Millisecond, "retry %d", i)
				require.GreaterOrEqual(t, p.At.Sub(posts[i-1].At), r.Policy.Caps[i-1]/2, "never early")
			}
		}
		letters := r.letters()
		require.Len(t, letters, 1)
		require.Equal(t, string(retry.HTTP4xx), letters[0].Reason)
		require.Equal(t, 9, letters[0].Delivery.History.TotalAttempts)
		require.Equal(t, http.StatusTeapot, letters[0].Delivery.History.LastStatus)
		require.Equal(t, posts[8].At.UnixMilli(), letters[0].Delivery.History.LastAttemptAt.UnixMilli())
		require.Equal(t, schemas.Coordinates{Topic: r.Catalogue.Tier(3), Offset: int64(len(r.log.all(r.Catalogue.Tier(3))) - 1)}, letters[0].Source)
		require.Equal(t, schemas.Coordinates{Topic: r.Catalogue.Events()}, letters[0].Delivery.Origin)
		require.Len(t, r.attempts(), 9)
		r.end()
	})
}

// Invariant 3: of a key's events the first is delivered, the others are settled as what they are.
func TestUnit_VerdictsAreSettled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t).start()
		r.endpoint("ep")
		r.event("ep", "k", `{"n":1}`)
		r.event("ep", "k", `{"n":1}`)
		r.event("ep", "k", `{"n":2}`)
		r.event("ep", "l", `{"n":1}`)
		time.Sleep(time.Second)
		r.idle()
		posts := r.sender.seen()
		require.Len(t, posts, 2)
		kinds := map[schemas.AttemptKind]schemas.Attempt{}
		for _, a := range r.attempts() {
			kinds[a.Kind] = a
		}
		require.Len(t, r.attempts(), 4)
		for _, kind := range []schemas.AttemptKind{schemas.AttemptDuplicate, schemas.AttemptConflict} {
			require.Equal(t, posts[0].ID, kinds[kind].OwnerDeliveryID, kind)
			require.NotEqual(t, posts[0].ID, kinds[kind].DeliveryID, kind)
		}
		require.Len(t, r.journal.claims, 4, "each event is answered in the claims topic")
		for i, want := range []schemas.Verdict{schemas.VerdictFirst, schemas.VerdictDuplicate, schemas.VerdictConflict, schemas.VerdictFirst} {
			require.Equal(t, want, r.journal.claims[i].Verdict)
			require.Equal(t, int64(i), r.journal.claims[i].AnsweredOffset)
		}
		require.Equal(t, int64(4), r.committed(r.Catalogue.Events()))
		r.end()
	})
}

// DESIGN section 4: an event is not settled before its claim is durable; what has no claim goes on meanwhile.
func TestUnit_NothingIsSealedBeforeItsClaimIsDurable(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t).start()
		r.endpoint("ep")
		r.journal.hold = true
		r.event("ep", "k", `{}`)
		r.event("ep", "k", `{}`)
		r.event("ep", "", `{}`)
		time.Sleep(time.Minute)
		require.Len(t, r.sender.seen(), 2, "the claim is not waited for to send")
		require.Len(t, r.attempts(), 1)
		require.Equal(t, int64(0), r.committed(r.Catalogue.Events()))
		require.Positive(t, r.Memory.Used())

		r.journal.release()
		time.Sleep(time.Second)
		r.idle()
		require.Len(t, r.attempts(), 3)
		require.Equal(t, int64(3), r.committed(r.Catalogue.Events()))
		r.end()
	})
}

// Counts at the end of their range: a record that could be read must be settled, whatever it becomes (invariant 12).
func TestUnit_CountsAtTheirEndAreSettled(t *testing.T) {
	for name, most := range map[string]func(*schemas.Delivery){
		"attempts": func(d *schemas.Delivery) { d.Attempts = math.MaxInt32 },
		"total":    func(d *schemas.Delivery) { d.History.TotalAttempts = math.MaxInt32 },
		"holds":    func(d *schemas.Delivery) { d.Holds = math.MaxInt32 },
		"replays":  func(d *schemas.Delivery) { d.Replays = math.MaxInt32 },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newRig(t).start()
				r.endpoint("ep")
				r.sender.always(500)
				for range 10 { // enough for the breaker to open, so that the last are held
					d := delivery("dlv_1", "ep", 0)
					most(&d)
					r.waiting(0, d)
					value, err := schemas.EncodeDelivery(&d)
					require.NoError(t, err)
					r.log.append(&kgo.Record{Topic: r.Catalogue.Replay(), Key: []byte("ep"), Value: value})
				}
				time.Sleep(27 * time.Hour)
				r.idle()
				require.Len(t, r.letters(), 20)
				r.end()
			})
		})
	}
}

// C-127: what cannot be read becomes a dead letter with its bytes and coordinates, in events, a
// tier, and replay alike; its neighbours go on.
func TestUnit_GarbageIsBuried(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t).start()
		r.endpoint("ep")
		value, err := schemas.EncodeClaim(&schemas.Claim{EndpointID: "ep", Key: "k", DeliveryID: "dlv_1", Verdict: schemas.VerdictFirst})
		require.NoError(t, err)
		garbage := [][]byte{nil, {}, []byte("{"), []byte("{\"json\":true}"), {0xC3, 0x01, 1, 2, 3, 4, 5, 6, 7, 8}, value, value[:len(value)/2], make([]byte, 100_000)}
		sources := []string{r.Catalogue.Events(), r.Catalogue.Tier(0), r.Catalogue.Tier(3), r.Catalogue.Replay()}
		for _, topic := range sources {
			for _, g := range garbage {
				r.log.append(&kgo.Record{Topic: topic, Key: []byte("ep"), Value: g, Headers: []kgo.RecordHeader{{Key: "x", Value: []byte{0xff}}, {Key: "n"}}})
			}
			many := &kgo.Record{Topic: topic, Value: []byte("x")}
			for i := range 3000 {
				many.Headers = append(many.Headers, kgo.RecordHeader{Key: fmt.Sprint(i), Value: []byte{0}})
			}
			r.log.append(many)
			r.log.append(&kgo.Record{Topic: topic, Key: []byte(strings.Repeat("\xff", 1000)), Value: []byte("x")})
		}
		r.event("ep", "", `{}`)
		time.Sleep(time.Second)
		r.idle()
		require.Len(t, r.sender.seen(), 1, "the neighbour")
		letters := r.letters()
		require.Len(t, letters, len(sources)*(len(garbage)+2))
		seen := map[schemas.Coordinates]bool{}
		for _, l := range letters {
			require.Equal(t, schemas.ReasonUndecodable, l.Reason)
			require.NotEmpty(t, l.Detail)
			require.False(t, seen[l.Source], "twice")
			seen[l.Source] = true
			source := r.log.all(l.Source.Topic)[l.Source.Offset]
			require.Len(t, l.Raw, len(source.Value), "%v", l.Source)
			require.Equal(t, string(source.Key), string(l.RawKey))
			if len(source.Headers) < 10 {
				require.Len(t, l.RawHeaders, len(source.Headers))
			}
		}
		for _, topic := range sources {
			require.Equal(t, int64(len(r.log.all(topic))), r.committed(topic), topic)
		}
		require.InDelta(t, len(letters), r.metric("barnabas_dead_letters_total", schemas.ReasonUndecodable), 0)
		r.end()
	})
}

// A record that another partitioner misplaced is moved, with the identity that it has
// here; garbage that was misplaced is a dead letter where its endpoint's are looked for.
func TestUnit_ReroutesWhatIsMisplaced(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, func(r *rig) {
			r.Catalogue.Partitions = 4
			r.number = topics.Partition("ep-here", 4)
		})
		elsewhere := ""
		for i := 0; elsewhere == "" || topics.Partition(elsewhere, 4) == r.number; i++ {
			elsewhere = fmt.Sprintf("ep-%d", i)
		}
		r.start()
		r.endpoint("ep-here")
		r.log.append(&kgo.Record{
			Topic: r.Catalogue.Events(), Partition: r.number, Key: []byte(elsewhere), Value: []byte(`{"n":1}`),
			Headers: []kgo.RecordHeader{
				{Key: topics.HeaderEventType, Value: []byte("test.event")},
				{Key: topics.HeaderIdempotencyKey, Value: []byte("k")},
				{Key: topics.HeaderContentType, Value: []byte("text/plain")},
				{Key: topics.HeaderTraceParent, Value: []byte("00-trace")},
			},
		})
		r.log.append(&kgo.Record{Topic: r.Catalogue.Events(), Partition: r.number, Key: []byte(elsewhere), Value: []byte("garbage")})
		time.Sleep(time.Second)
		r.idle()
		require.Empty(t, r.sender.seen())
		require.Empty(t, r.journal.claims, "the verdict is its own partition's")
		records := r.log.all(r.Catalogue.Events())
		require.Len(t, records, 3)
		moved := records[2]
		require.Equal(t, topics.Partition(elsewhere, 4), moved.Partition)
		require.Equal(t, elsewhere, string(moved.Key))
		var headers []schemas.Header
		for _, h := range moved.Headers {
			headers = append(headers, schemas.Header{Key: h.Key, Value: h.Value})
		}
		event, err := schemas.ReadEvent(moved.Key, moved.Value, headers)
		require.NoError(t, err)
		at := schemas.Coordinates{Topic: r.Catalogue.Events(), Partition: r.number}
		require.Equal(t, schemas.DeriveDeliveryID(at, records[0].Timestamp.UnixMilli()), event.DeliveryID)
		require.Equal(t, at, event.Origin)
		require.Equal(t, `{"n":1}`, string(event.Payload))
		require.Equal(t, []string{"k", "test.event", "text/plain", "00-trace"},
			[]string{event.IdempotencyKey, event.EventType, event.ContentType, event.TraceParent})
		require.WithinDuration(t, records[0].Timestamp, event.AcceptedAt, 0)

		letter := r.log.all(r.Catalogue.DLQ())
		require.Len(t, letter, 1)
		require.Equal(t, topics.Partition(elsewhere, 4), letter[0].Partition)
		r.end()
	})
}

// A producer's clock, or seconds where milliseconds are meant, does not end the lifetime of an event that was written
// just now. What was re-routed was accepted when it was first written.
func TestUnit_TheLifetimeCountsFromTheLog(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t).start()
		r.endpoint("ep")
		send := func(accepted time.Time, origin schemas.Coordinates) {
			value, err := schemas.EncodeEvent(&schemas.Event{
				EndpointID: "ep", EventType: "test.event", Payload: []byte(`{}`), AcceptedAt: accepted, Origin: origin,
			})
			require.NoError(t, err)
			r.log.append(record(r.Catalogue.Events(), "ep", value))
			time.Sleep(time.Second)
		}
		for _, accepted := range []time.Time{time.UnixMilli(1_700_000_000), time.Now().Add(-27 * time.Hour), time.Now().AddDate(1, 0, 0)} {
			send(accepted, schemas.Coordinates{})
		}
		require.Len(t, r.sender.seen(), 3)
		require.Empty(t, r.letters())

		send(time.Now().Add(-27*time.Hour), schemas.Coordinates{Topic: r.Catalogue.Events(), Partition: 3, Offset: 7})
		require.Len(t, r.letters(), 1)
		require.Equal(t, schemas.ReasonExpired, r.letters()[0].Reason)
		r.end()
	})
}

// After a crash the new owner skips what was done above the commit, and gives what it reads again the same id.
func TestUnit_SkipsWhatWasDoneBeforeACrash(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t).start()
		r.endpoint("slow")
		r.endpoint("fast")
		r.sender.answer(func(req deliver.Request) (deliver.Result, time.Duration) {
			if req.Endpoint.ID == "slow" {
				return status(204), 10 * time.Second
			}
			return status(204), 0
		})
		r.event("slow", "", `{}`)
		for range 49 {
			r.event("fast", "", `{}`)
		}
		time.Sleep(time.Second)
		require.Len(t, r.sender.seen(), 50)
		require.Equal(t, int64(0), r.committed(r.Catalogue.Events()), "never past what is unsettled")
		r.unit.Drop(unit.ErrLost) // C-120: as good as a kill: nothing more is settled
		<-r.unit.Done()
		r.idle()
		first := r.sender.seen("slow")

		r.restart()
		time.Sleep(20 * time.Second)
		r.idle()
		require.Len(t, r.sender.seen("fast"), 49, "none twice")
		again := r.sender.seen("slow")
		require.Len(t, again, 2)
		require.Equal(t, first[0].ID, again[1].ID)
		require.Equal(t, int64(50), r.committed(r.Catalogue.Events()))
		r.end()
	})
}

// The client starts over, for a reason of its own, in a log that is as it was: what was
// handed over before is not handled again, settled or not.
func TestUnit_ReadingAgainRepeatsNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t).start()
		r.endpoint("ep", parallel(100))
		r.sender.answer(func(req deliver.Request) (deliver.Result, time.Duration) {
			if string(req.Delivery.Payload) == `"slow"` {
				return status(204), 10 * time.Second
			}
			return status(204), 0
		})
		for i := range 20 {
			r.event("ep", "", []string{`"fast"`, `"slow"`}[i%2])
			r.waiting(0, delivery(fmt.Sprintf("dlv_%d", i), "ep", time.Duration(i)*time.Second))
		}
		time.Sleep(5 * time.Second)
		r.log.mu.Lock()
		clear(r.log.next)
		r.log.mu.Unlock()
		r.event("ep", "", `"last"`)
		r.waiting(0, delivery("dlv_last", "ep", time.Second))
		time.Sleep(time.Minute)
		r.idle()
		ids := map[string]int{}
		for _, p := range r.sender.seen() {
			ids[p.ID]++
			require.Equal(t, 1, ids[p.ID])
		}
		require.Len(t, ids, 42)
		require.Equal(t, int64(21), r.committed(r.Catalogue.Events()))
		r.end()
	})
}

// C-129: the committed position is beyond the log, which was made anew or cut. It is
// read from where it goes on; nothing of it is taken for done.
func TestUnit_ReadsALogThatWasSetBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		r.endpoint("ep")
		r.settler.commits[r.Catalogue.Events()] = commitAt(r.Catalogue.Events(), 1000)
		r.start()
		delete(r.settler.commits, r.Catalogue.Events())
		for range 3 {
			r.event("ep", "", `{}`)
		}
		time.Sleep(time.Second)
		r.idle()
		require.Len(t, r.sender.seen(), 3)
		require.Equal(t, int64(3), r.committed(r.Catalogue.Events()))

		// Cut while it runs, with something of the old log still under way.
		r.sender.answer(func(deliver.Request) (deliver.Result, time.Duration) { return status(204), 3 * time.Second })
		r.event("ep", "", `{"old":true}`)
		time.Sleep(time.Second)
		r.log.mu.Lock()
		r.log.records[r.Catalogue.Events()], r.log.next[r.Catalogue.Events()] = nil, 0
		r.log.mu.Unlock()
		r.event("ep", "", `{"new":1}`)
		r.event("ep", "", `{"new":2}`)
		time.Sleep(500 * time.Millisecond)
		require.Len(t, r.sender.seen(), 4, "the old one is still under way")
		r.settler.set(func(s *settler) { s.anew = true })
		time.Sleep(time.Minute)
		r.idle()
		posts := r.sender.seen()
		require.Len(t, posts, 6)
		require.Equal(t, `{"new":1}`, posts[4].Payload)
		require.Equal(t, `{"new":2}`, posts[5].Payload)
		require.Equal(t, int64(2), r.committed(r.Catalogue.Events()))
		r.end()
	})
}

// A claim that was restored binds, and a breaker that was restored holds.
func TestUnit_GoesOnFromWhatWasRestored(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		r.endpoint("ep")
		r.endpoint("down")
		arbiter := claim.NewArbiter(24*time.Hour, claim.NewMemory())
		first := schemas.Event{EventType: "test.event", Payload: []byte(`{}`)}
		require.NoError(t, arbiter.Restore(&schemas.Claim{
			EndpointID: "ep", Key: "k", DeliveryID: "dlv_first", PayloadHash: schemas.ContentHash(&first)[:16],
			ClaimedOffset: 0, ClaimedAt: time.Now(), Verdict: schemas.VerdictFirst,
		}))
		r.log.base[r.Catalogue.Events()] = 10
		r.startWith(unit.Restored{Arbiter: arbiter, Breakers: map[string]*schemas.BreakerTransition{
			"down": {EndpointID: "down", State: "open", Trips: 3, OpenUntil: time.Now().Add(15 * time.Minute)},
			"ep":   {EndpointID: "ep", State: "closed"},
		}})
		r.event("ep", "k", `{}`)
		r.event("down", "", `{}`)
		time.Sleep(time.Second)
		require.Empty(t, r.sender.seen())
		require.Equal(t, "dlv_first", r.attempts()[0].OwnerDeliveryID)
		require.InDelta(t, 1, r.metric("barnabas_breakers_open", ""), 0)
		time.Sleep(3 * time.Hour)
		require.Len(t, r.sender.seen("down"), 1)
		require.GreaterOrEqual(t, r.sender.seen("down")[0].At.Sub(r.log.all(r.Catalogue.Events())[0].Timestamp), 15*time.Minute)
		require.InDelta(t, 0, r.metric("barnabas_breakers_open", ""), 0)
		r.end()
	})
}
