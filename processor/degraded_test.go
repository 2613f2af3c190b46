package processor_test

import (
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/barnabas-webhooks/barnabas/processor"
	"github.com/barnabas-webhooks/barnabas/processor/claim"
	"github.com/barnabas-webhooks/barnabas/processor/deliver"
	"github.com/barnabas-webhooks/barnabas/retry"
	"github.com/barnabas-webhooks/barnabas/schemas"
	"github.com/barnabas-webhooks/barnabas/topics"
)

// sendKeyed produces n events of as many endpoints, each with a key of its own.
func (w *world) sendKeyed(round string, n int) {
	w.t.Helper()
	for i := range n {
		require.NoError(w.t, w.client.ProduceSync(w.t.Context(), &kgo.Record{
			Topic: w.catalogue.Events(), Key: fmt.Appendf(nil, "keyed-%d", i), Value: []byte(`{}`),
			Headers: []kgo.RecordHeader{
				{Key: topics.HeaderEventType, Value: []byte("t")}, {Key: topics.HeaderIdempotencyKey, Value: []byte(round)},
			},
		}).FirstErr())
	}
}

// slowFacts makes each write of claims and breaker transitions take so long.
func (w *world) slowFacts(by *atomic.Int64) {
	w.t.Helper()
	listed, err := kadm.NewClient(w.client).ListTopics(w.t.Context(), w.catalogue.Idempotency(), w.catalogue.Breakers())
	require.NoError(w.t, err)
	facts := map[[16]byte]bool{}
	for _, topic := range listed {
		facts[topic.ID] = true
	}
	w.cluster.ControlKey(int16(kmsg.Produce), func(req kmsg.Request) (kmsg.Response, error, bool) {
		w.cluster.KeepControl()
		about := slices.ContainsFunc(req.(*kmsg.ProduceRequest).Topics, func(t kmsg.ProduceRequestTopic) bool {
			return facts[t.TopicID] || t.Topic == w.catalogue.Idempotency() || t.Topic == w.catalogue.Breakers()
		})
		if wait := time.Duration(by.Load()); about && wait > 0 {
			w.cluster.SleepControl(func() { time.Sleep(wait) })
		}
		return nil, nil, false
	})
}

// C-233: what claims and breaker transitions are written to takes half a second for each call, then refuses for two minutes, in
// each of the ways, and is back. Deliveries go on all the while, keyed ones too: those are settled when their claims are durable,
// and not before, so that a repeat is known for one whenever it comes. A gauge tells how it stands.
func TestProcessor_FactsAreSlowThenRefused(t *testing.T) {
	t.Parallel()
	for name, refusal := range map[string]*kerr.Error{
		"denied": kerr.TopicAuthorizationFailed, "too few in sync": kerr.NotEnoughReplicas, "disk broken": kerr.KafkaStorageError,
		"no leader": kerr.NotLeaderForPartition, "times out": kerr.RequestTimedOut, "unknown error": kerr.UnknownServerError,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				const n = 40
				w := newWorld(t)
				w.createTopics()
				log := &counter{lines: map[string]int{}}
				w.log = log
				posts := map[string]int{} // guarded by w.mu
				w.script = func(r deliver.Request) (deliver.Result, time.Duration) {
					if strings.HasPrefix(r.Endpoint.ID, "down") {
						return deliver.Result{Outcome: retry.Outcome{Class: retry.Connect}, Error: "refused"}, time.Millisecond
					}
					posts[r.Delivery.ID]++
					return ok(), 10 * time.Millisecond
				}
				var wait atomic.Int64
				w.slowFacts(&wait)
				_, stop := w.process("a")
				time.Sleep(10 * time.Second)
				round := func(name string) (within time.Duration) {
					begun := time.Now()
					before, _ := w.delivered()
					w.send(n)
					w.sendKeyed(name, n)
					for i := range 6 { // opens a breaker
						require.NoError(t, w.client.ProduceSync(t.Context(), &kgo.Record{
							Topic: w.catalogue.Events(), Key: []byte("down-" + name), Value: fmt.Append(nil, i),
							Headers: []kgo.RecordHeader{{Key: topics.HeaderEventType, Value: []byte("t")}},
						}).FirstErr())
					}
					for {
						now, _ := w.delivered()
						if now >= before+2*n || time.Since(begun) > time.Minute {
							return time.Since(begun)
						}
						time.Sleep(50 * time.Millisecond)
					}
				}

				well := round("well")
				time.Sleep(5 * time.Second)
				require.Zero(t, w.gauged("barnabas_facts_unwritten"))
				require.Zero(t, w.gauged("barnabas_facts_oldest_seconds"))

				wait.Store(int64(500 * time.Millisecond))
				require.Less(t, round("slow"), well+time.Second, "no delivery waits for a claim to be written")
				require.Positive(t, w.gauged("barnabas_facts_unwritten"))
				time.Sleep(time.Minute)
				require.LessOrEqual(t, w.lag(w.catalogue.Events()), int64(w.catalogue.Partitions), "but for the last control records")

				wait.Store(0)
				var faults []kfake.Fault
				for _, topic := range []string{w.catalogue.Idempotency(), w.catalogue.Breakers()} {
					faults = append(faults, kfake.Fault{Keys: []kmsg.Key{kmsg.Produce}, Err: refusal, Count: -1, Topic: topic})
				}
				h := w.cluster.Fault(faults...)
				log.reset()
				require.Less(t, round("refused"), well+time.Second)
				time.Sleep(2 * time.Minute)
				require.Positive(t, h.Hits())
				require.GreaterOrEqual(t, w.gauged("barnabas_facts_unwritten"), float64(n))
				require.GreaterOrEqual(t, w.gauged("barnabas_facts_oldest_seconds"), 110.0)
				require.LessOrEqual(t, w.lag(w.catalogue.Events()), int64(n+8*n), "a partition's map says what is done above its claims")
				require.Positive(t, w.lag(w.catalogue.Events()), "what is keyed is not settled")
				for line, times := range log.counts() {
					require.LessOrEqual(t, times, 12+12*2, "lines: %s", line) // as C-236 has it, for two minutes
				}

				h.Remove()
				time.Sleep(time.Minute)
				require.Zero(t, w.gauged("barnabas_facts_unwritten"))
				require.Zero(t, w.gauged("barnabas_facts_oldest_seconds"))
				for _, name := range []string{"well", "slow", "refused"} {
					w.sendKeyed(name, n)
				}
				time.Sleep(30 * time.Second)
				require.NoError(t, stop())
				require.Len(t, posts, 3*2*n, "repeats are known for what they are, whenever the first came")
				for id, times := range posts {
					require.Equal(t, 1, times, id)
				}
				require.Empty(t, w.letters())
				states := map[string]string{}
				for _, r := range w.read(w.catalogue.Breakers()) {
					b, err := schemas.DecodeBreakerTransition(r.Value)
					require.NoError(t, err)
					states[b.EndpointID] = b.State
				}
				require.Len(t, states, 3, "and the breaker that opened meanwhile is written")
			})
		})
	}
}

// sluggish is claims in memory each look-up of which takes so long, as a disk at its end does.
type sluggish struct {
	claim.Memory
	by atomic.Int64
}

func (s *sluggish) Open(unit int32, log claim.Log) (claim.Store, error) {
	store, err := s.Memory.Open(unit, log)
	return &sluggishStore{Store: store, of: s}, err
}

type sluggishStore struct {
	claim.Store
	of *sluggish
}

func (s *sluggishStore) Get(generation int64, key claim.Fingerprint) (claim.Owner, bool, error) {
	time.Sleep(time.Duration(s.of.by.Load()))
	return s.Store.Get(generation, key)
}

// C-233: the claims on the process's own disk take half a second for each look-up. Each is made in its unit's line, so that a
// unit takes one or two keyed events a second; but all of them arrive once, the membership in the group is kept, and when the
// disk is well again so is everything.
func TestProcessor_ClaimsOnDiskAreSlow(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const n = 40
		w := newWorld(t)
		w.createTopics()
		claims := &sluggish{}
		w.more = func(o *processor.Options) { o.Claims = claims }
		p, stop := w.process("a")
		time.Sleep(10 * time.Second)
		claims.by.Store(int64(500 * time.Millisecond))
		w.sendKeyed("slow", n)
		w.send(n)
		first, _ := w.delivered()
		require.Less(t, first, 2*n, "or nothing is slow")
		for range 60 {
			time.Sleep(time.Second)
			require.NoError(t, p.Ready())
		}
		delivered, again := w.delivered()
		require.Equal(t, 2*n, delivered)
		require.Zero(t, again)
		require.Greater(t, w.gauged("barnabas_judge_seconds")/n, 0.3, "seconds: the metric shows what is slow")
		claims.by.Store(0)
		w.sendKeyed("slow", n)
		w.sendKeyed("well", n)
		time.Sleep(10 * time.Second)
		delivered, again = w.delivered()
		require.Equal(t, 3*n, delivered)
		require.Zero(t, again)
		require.NoError(t, stop())
		w.requireNoLag()
	})
}
