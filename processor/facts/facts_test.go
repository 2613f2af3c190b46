package facts_test

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
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

	"github.com/barnabas-webhooks/barnabas/processor/claim"
	"github.com/barnabas-webhooks/barnabas/processor/facts"
	"github.com/barnabas-webhooks/barnabas/schemas"
	"github.com/barnabas-webhooks/barnabas/topics"
)

const units = 4

// rig is a broker with the two compacted topics, in a bubble.
type rig struct {
	t        *testing.T
	cluster  *kfake.Cluster
	network  *kfake.VirtualNetwork
	client   *kgo.Client
	admin    *kadm.Client
	journal  *facts.Journal
	restorer *facts.Restorer
	stop     context.CancelFunc
	topics   topics.Catalogue
}

func newRig(t *testing.T) *rig {
	t.Helper()
	r := &rig{t: t, network: &kfake.VirtualNetwork{}, topics: topics.DefaultCatalogue()}
	var err error
	r.cluster, err = kfake.NewCluster(kfake.NumBrokers(1), kfake.Ports(9092), kfake.ListenFn(r.network.Listen))
	require.NoError(t, err)
	t.Cleanup(r.cluster.Close)
	r.client = r.connect(kgo.RecordPartitioner(kgo.ManualPartitioner()), kgo.ProducerLinger(0))
	r.admin = kadm.NewClient(r.client)
	compact, forever := "compact", "-1"
	for _, topic := range []string{r.topics.Idempotency(), r.topics.Breakers(), r.topics.Lines()} {
		_, err := r.admin.CreateTopic(t.Context(), units, 1, map[string]*string{"cleanup.policy": &compact, "retention.ms": &forever}, topic)
		require.NoError(t, err)
	}
	ctx, stop := context.WithCancel(t.Context())
	r.stop = stop
	r.journal = facts.NewJournal(ctx, r.client, r.topics, slog.New(slog.DiscardHandler))
	r.restorer = &facts.Restorer{
		NewClient: func(more ...kgo.Opt) (*kgo.Client, error) {
			return kgo.NewClient(append([]kgo.Opt{
				kgo.SeedBrokers("localhost:9092"), kgo.Dialer(r.network.DialContext), kgo.FetchMaxWait(500 * time.Millisecond),
			}, more...)...)
		},
		Admin: r.admin, Catalogue: r.topics, Claims: new(claim.Memory), Window: 24 * time.Hour, Log: slog.New(slog.DiscardHandler),
	}
	return r
}

func (r *rig) connect(more ...kgo.Opt) *kgo.Client {
	r.t.Helper()
	cl, err := kgo.NewClient(append([]kgo.Opt{kgo.SeedBrokers("localhost:9092"), kgo.Dialer(r.network.DialContext)}, more...)...)
	require.NoError(r.t, err)
	r.t.Cleanup(cl.Close)
	return cl
}

// claim appends one, of a key of its own, and waits until it is durable.
func (r *rig) claim(unit int32, key string, offset int64) {
	r.t.Helper()
	done := make(chan struct{})
	r.journal.AppendClaim(unit, aClaim(key, offset), func(int64) { close(done) })
	<-done
}

func aClaim(key string, offset int64) *schemas.Claim {
	return &schemas.Claim{
		EndpointID: "ep", Key: key, DeliveryID: fmt.Sprintf("dlv_%d", offset), PayloadHash: make([]byte, 16),
		ClaimedOffset: offset, AnsweredOffset: offset, ClaimedAt: time.Now(), Verdict: schemas.VerdictFirst,
	}
}

func (r *rig) breaker(unit int32, endpoint, state string, trips int) {
	r.journal.AppendBreaker(unit, &schemas.BreakerTransition{EndpointID: endpoint, State: state, Trips: trips, At: time.Now(), Reason: "http_5xx"})
}

// restore reads the facts of units; it fails if one is handed over twice or changed afterwards.
func (r *rig) restore(wanted ...int32) map[int32]*facts.Facts {
	r.t.Helper()
	ctx, cancel := context.WithTimeout(r.t.Context(), time.Minute)
	defer cancel()
	found := map[int32]*facts.Facts{}
	require.NoError(r.t, r.restorer.Restore(ctx, wanted, func(unit int32, f *facts.Facts) {
		require.Nil(r.t, found[unit], "unit %d twice", unit)
		found[unit] = f
	}))
	require.Len(r.t, found, len(wanted))
	return found
}

// owner asks an arbiter who owns a key.
func owner(a *claim.Arbiter, key string) string {
	c, err := a.Judge(claim.Question{
		EndpointID: "ep", Key: key, DeliveryID: "nobody", ContentHash: make([]byte, 16), Offset: 1 << 40, At: time.Now(),
	})
	if err != nil {
		return err.Error()
	}
	return c.DeliveryID
}

func TestRestore_EmptyTopics(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		begun := time.Now()
		for _, f := range r.restore(0, 1, 2, 3) {
			require.Zero(t, f.Arbiter.Len())
			require.Empty(t, f.Breakers)
		}
		require.Less(t, time.Since(begun), 5*time.Second)
	})
}

// Each unit gets its own facts, the last of each endpoint and key, and no other's.
func TestRestore_SeveralUnits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		for unit := range int32(3) {
			for i := range 50 {
				r.claim(unit, fmt.Sprintf("k%d", i), int64(unit)*1000+int64(i))
			}
			r.claim(unit, "k7", int64(unit)*1000+7) // answered again
			r.breaker(unit, "ep", "open", 1)
			r.breaker(unit, "ep", "closed", 0)
			r.breaker(unit, "down", "open", int(unit)+1)
		}
		time.Sleep(time.Second)
		found := r.restore(0, 2, 3)
		for _, unit := range []int32{0, 2} {
			require.EqualValues(t, 50, found[unit].Arbiter.Len())
			require.Equal(t, fmt.Sprintf("dlv_%d", unit*1000+7), owner(found[unit].Arbiter, "k7"))
			require.Len(t, found[unit].Breakers, 2)
			require.Equal(t, "closed", found[unit].Breakers["ep"].State)
			require.Equal(t, int(unit)+1, found[unit].Breakers["down"].Trips)
		}
		require.Zero(t, found[3].Arbiter.Len())
	})
}

// Compaction leaves gaps anywhere but at the end.
func TestRestore_CompactedTopics(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		claimed := time.Now()
		for i := range 300 {
			c := aClaim(fmt.Sprintf("k%d", i%10), int64(i%10))
			c.ClaimedAt, c.AnsweredOffset = claimed, int64(i)
			done := make(chan struct{})
			r.journal.AppendClaim(0, c, func(int64) { close(done) })
			<-done
			if i%100 == 0 {
				time.Sleep(time.Hour)
				r.cluster.Compact()
			}
		}
		r.cluster.Compact()
		starts, err := r.admin.ListEndOffsets(t.Context(), r.topics.Idempotency())
		require.NoError(t, err)
		require.Equal(t, int64(300), starts.Offsets()[r.topics.Idempotency()][0].At)
		found := r.restore(0)
		require.EqualValues(t, 10, found[0].Arbiter.Len())
		require.Equal(t, "dlv_3", owner(found[0].Arbiter, "k3"))
	})
}

// What cannot be read is passed over: it must not keep the unit from its work.
func TestRestore_GarbageIsPassedOver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		for _, topic := range []string{r.topics.Idempotency(), r.topics.Breakers()} {
			for i, value := range [][]byte{nil, {}, []byte("garbage"), {0xC3, 0x01, 0, 0}, make([]byte, 10_000)} {
				require.NoError(t, r.client.ProduceSync(t.Context(), &kgo.Record{
					Topic: topic, Partition: 1, Key: []byte{byte(i)}, Value: value,
				}).FirstErr())
				if topic == r.topics.Idempotency() && i == 2 {
					r.claim(1, "k", 5)
				}
			}
		}
		found := r.restore(1)
		require.EqualValues(t, 1, found[1].Arbiter.Len())
		require.Equal(t, "dlv_5", owner(found[1].Arbiter, "k"))
		require.Empty(t, found[1].Breakers)
	})
}

// A day's claims, read in many fetches, while more of them are being written: the unit
// is handed over once, whole, and not touched afterwards (the race detector watches).
func TestRestore_BigAndGrowing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		const n = 20_000
		var durable sync.WaitGroup
		for i := range n {
			durable.Add(1)
			r.journal.AppendClaim(int32(i%2), aClaim(fmt.Sprintf("k%d", i), int64(i)), func(int64) { durable.Done() })
			if i%5000 == 0 {
				durable.Wait()
			}
		}
		durable.Wait()
		r.breaker(1, "ep", "open", 3)
		time.Sleep(time.Second)

		stop, stopped := make(chan struct{}), make(chan struct{})
		go func() {
			defer close(stopped)
			for i := n; ; i++ {
				select {
				case <-stop:
					return
				case <-time.After(time.Millisecond):
					r.journal.AppendClaim(int32(i%2), aClaim(fmt.Sprintf("k%d", i), int64(i)), func(int64) {})
				}
			}
		}()
		var wg sync.WaitGroup
		require.NoError(t, r.restorer.Restore(t.Context(), []int32{0, 1}, func(unit int32, f *facts.Facts) {
			wg.Go(func() { // as the unit does: it uses what it was given at once
				require.GreaterOrEqual(t, f.Arbiter.Len(), int64(n/2))
				for i := range 1000 {
					require.Equal(t, fmt.Sprintf("dlv_%d", 2*i+int(unit)), owner(f.Arbiter, fmt.Sprintf("k%d", 2*i+int(unit))))
					owner(f.Arbiter, fmt.Sprintf("new%d", i))
				}
			})
		}))
		wg.Wait()
		close(stop)
		<-stopped
	})
}

// Retention deletes the rest of a partition between the listing and the reading: the
// record that restoring waits for never comes, and the unit must not wait for it.
func TestRestore_DeletedMeanwhile(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		for i := range 10 {
			r.claim(0, fmt.Sprintf("k%d", i), int64(i))
			r.claim(1, fmt.Sprintf("k%d", i), int64(i))
		}
		connect := r.restorer.NewClient
		r.restorer.NewClient = func(more ...kgo.Opt) (*kgo.Client, error) {
			offsets := kadm.Offsets{}
			offsets.Add(kadm.Offset{Topic: r.topics.Idempotency(), Partition: 0, At: 10})
			_, err := r.admin.DeleteRecords(t.Context(), offsets)
			require.NoError(t, err)
			return connect(more...)
		}
		found := r.restore(0, 1)
		require.Zero(t, found[0].Arbiter.Len())
		require.EqualValues(t, 10, found[1].Arbiter.Len())
	})
}

// A tool that is not ours, one that copies topics say, has written in a transaction, and the last that lies there is its
// marker: it is no record, and the unit must not wait for one.
func TestRestore_EndsInATransactionMarker(t *testing.T) {
	for name, end := range map[string]kgo.TransactionEndTry{"committed": kgo.TryCommit, "aborted": kgo.TryAbort} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newRig(t)
				r.claim(0, "k", 1)
				tool := r.connect(kgo.RecordPartitioner(kgo.ManualPartitioner()), kgo.TransactionalID("copy"))
				require.NoError(t, tool.BeginTransaction())
				for _, topic := range []string{r.topics.Idempotency(), r.topics.Breakers()} {
					require.NoError(t, tool.ProduceSync(t.Context(), &kgo.Record{Topic: topic, Partition: 0, Key: []byte("x"), Value: []byte("y")}).FirstErr())
				}
				require.NoError(t, tool.EndTransaction(t.Context(), end))
				require.Equal(t, "dlv_1", owner(r.restore(0)[0].Arbiter, "k"))
				claims, upTo, err := r.restorer.Gap(t.Context(), 0, 0, 3)
				require.NoError(t, err)
				require.Equal(t, int64(3), upTo, "record, record, marker")
				require.Len(t, claims, 1)
			})
		})
	}
}

// A topic without the unit's partition, or no topic at all, is an error to be tried again, not a hang.
func TestRestore_MissingTopics(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		err := r.restorer.Restore(t.Context(), []int32{0, units}, func(int32, *facts.Facts) {})
		require.ErrorContains(t, err, "no partition 4")
		_, err = r.admin.DeleteTopics(t.Context(), r.topics.Breakers())
		require.NoError(t, err)
		require.Error(t, r.restorer.Restore(t.Context(), []int32{0}, func(int32, *facts.Facts) {}))
	})
}

// A fetch that fails for a while is gone on with.
func TestRestore_GoesOnAfterFaults(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		r.claim(0, "k", 1)
		r.cluster.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.Fetch}, Err: kerr.NotLeaderForPartition, Count: 5})
		require.EqualValues(t, 1, r.restore(0)[0].Arbiter.Len())
	})
}

// A claim is written until it is durable, whatever the broker answers for a while; done is called once.
func TestJournal_WritesUntilDurable(t *testing.T) {
	for _, fault := range []*kerr.Error{kerr.TopicAuthorizationFailed, kerr.NotEnoughReplicas, kerr.InvalidRecord, kerr.MessageTooLarge, kerr.UnknownServerError} {
		t.Run(fault.Message, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newRig(t)
				h := r.cluster.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.Produce}, Err: fault, Count: 3})
				var done atomic.Int32
				r.journal.AppendClaim(2, aClaim("k", 3), func(int64) { done.Add(1) })
				time.Sleep(time.Minute)
				require.Equal(t, int32(1), done.Load())
				require.Equal(t, 3, h.Hits())
				require.Equal(t, "dlv_3", owner(r.restore(2)[2].Arbiter, "k"))
			})
		})
	}
}

// The process ends while the broker refuses: nothing says that the claim is durable, and nothing goes on.
func TestJournal_EndsWithTheProcess(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		r.cluster.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.Produce}, Err: kerr.TopicAuthorizationFailed, Count: -1})
		var done atomic.Int32
		r.journal.AppendClaim(0, aClaim("k", 3), func(int64) { done.Add(1) })
		time.Sleep(10 * time.Second)
		r.stop()
		time.Sleep(10 * time.Second)
		r.client.Close()
		require.Zero(t, done.Load())
	})
}

// A transition that had to be written again does not come to lie behind a later one.
func TestJournal_AnOldTransitionIsOvertaken(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		h := r.cluster.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.Produce}, Err: kerr.TopicAuthorizationFailed, Count: 1})
		r.breaker(0, "ep", "open", 1)
		r.breaker(0, "other", "open", 1)
		require.NoError(t, h.Wait(t.Context(), 1))
		time.Sleep(100 * time.Millisecond)
		r.breaker(0, "ep", "closed", 0)
		time.Sleep(10 * time.Second)
		found := r.restore(0)[0]
		require.Equal(t, "closed", found.Breakers["ep"].State)
		require.Equal(t, "open", found.Breakers["other"].State, "it is written again")
		r.breaker(0, "ep", "open", 2)
		time.Sleep(time.Second)
		require.Equal(t, 2, r.restore(0)[0].Breakers["ep"].Trips)
	})
}
