package processor_test

import (
	"os"
	"path/filepath"
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

	"github.com/barnabas-webhooks/barnabas/internal/kafka"
	"github.com/barnabas-webhooks/barnabas/processor"
	"github.com/barnabas-webhooks/barnabas/processor/deliver"
	"github.com/barnabas-webhooks/barnabas/retry"
	"github.com/barnabas-webhooks/barnabas/schemas"
	"github.com/barnabas-webhooks/barnabas/topics"
)

// C-131, C-236: no broker is reached, in every way in which that can be, for three seconds to ten minutes. The process goes
// on by itself within seconds of the end, is not ready meanwhile, and neither dials nor logs as fast as it can.
func TestProcessor_GoesOnAfterAnOutage(t *testing.T) {
	t.Parallel()
	for way, fails := range map[string]error{"refused": errRefused, "no such name": errNoName, "silent": errSilent} {
		for _, lasts := range []time.Duration{3 * time.Second, time.Minute, 10 * time.Minute} {
			t.Run(way+" for "+lasts.String(), func(t *testing.T) {
				t.Parallel()
				synctest.Test(t, func(t *testing.T) {
					w := newWorld(t)
					w.createTopics()
					log := &counter{lines: map[string]int{}}
					w.log = log
					p, stop := w.process("a")
					link := w.links["a"]
					w.send(20)
					time.Sleep(20 * time.Second)
					for round := range 2 {
						log.reset()
						dials := link.dials.Load()
						link.breaks(fails)
						w.send(20)
						time.Sleep(lasts)
						if lasts > 30*time.Second {
							require.ErrorIs(t, p.Ready(), processor.ErrNotInGroup, "it knows that it does nothing")
						}
						seconds := int64(lasts/time.Second) + 5
						require.LessOrEqual(t, link.dials.Load()-dials, 30*seconds, "dials")
						for line, n := range log.counts() {
							require.LessOrEqual(t, n, 12+12*int(lasts/time.Minute), "lines: %s", line)
						}
						link.breaks(nil)
						time.Sleep(30 * time.Second) // the broker gives the member that was up first: its session
						require.NoError(t, p.Ready())
						n, again := w.delivered()
						require.Equal(t, 20+20*(round+1), n)
						require.LessOrEqual(t, again, 20*(round+1))
					}
					require.NoError(t, stop())
					w.requireNoLag()
				})
			})
		}
	}
}

// C-131: the brokers have other addresses, which only their name leads to.
func TestProcessor_BrokersMove(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.createTopics()
		now := &atomic.Value{}
		now.Store("localhost:9092")
		w.names = func(addr string) string { return strings.Replace(addr, "kafka.example:9092", now.Load().(string), 1) }
		w.more = func(o *processor.Options) { o.Kafka = append(o.Kafka, kgo.SeedBrokers("kafka.example:9092")) }
		p, stop := w.process("a")
		w.send(20)
		time.Sleep(20 * time.Second)

		w.links["a"].breaks(nil)
		node, _, err := w.cluster.AddNode(-1, 9093)
		require.NoError(t, err)
		for _, topic := range w.catalogue.Units() {
			for n := range int32(w.catalogue.Partitions) {
				require.NoError(t, w.cluster.MoveTopicPartition(topic, n, node))
			}
		}
		require.NoError(t, w.cluster.RemoveNode(0))
		now.Store("localhost:9093")
		time.Sleep(time.Minute)
		w.seed = "localhost:9093"
		w.newClient()
		w.send(20)
		time.Sleep(time.Minute)
		require.NoError(t, p.Ready())
		n, again := w.delivered()
		require.Equal(t, 40, n)
		require.Zero(t, again)
		require.NoError(t, stop())
	})
}

// C-131: the credentials expire, connections are cut, and after two minutes there are new ones, in the same file.
func TestProcessor_CredentialsAreRenewed(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "password")
	require.NoError(t, os.WriteFile(file, []byte("first"), 0o600))
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, kfake.EnableSASL(), kfake.Superuser(kafka.MechanismScramSHA256, "admin", "admin"))
		admin := kadm.NewClient(w.client)
		renew := func(password string) {
			_, err := admin.AlterUserSCRAMs(t.Context(), nil, []kadm.UpsertSCRAM{
				{User: "barnabas", Mechanism: kadm.ScramSha256, Iterations: 4096, Password: password},
			})
			require.NoError(t, err)
		}
		renew("first")
		w.createTopics()
		cfg := kafka.DefaultConfig()
		cfg.SASL = kafka.SASL{Mechanism: kafka.MechanismScramSHA256, Username: "barnabas", PasswordFile: file}
		w.more = func(o *processor.Options) {
			cfg.Dialer = w.links["a"].dial
			opts, err := cfg.Options(o.Log)
			require.NoError(t, err)
			o.Kafka = append(opts, kgo.SeedBrokers("localhost:9092"))
		}
		p, stop := w.process("a")
		w.send(20)
		time.Sleep(20 * time.Second)
		require.NoError(t, p.Ready())

		renew("second")
		w.links["a"].breaks(nil)
		w.send(40)
		time.Sleep(2 * time.Minute)
		require.Error(t, p.Ready())
		require.NoError(t, os.WriteFile(file, []byte("second"), 0o600))
		time.Sleep(time.Minute)
		require.NoError(t, p.Ready())
		n, _ := w.delivered()
		require.Equal(t, 20+40, n)
		require.NoError(t, stop())
		w.requireNoLag()
	})
}

// C-122: a tier cannot be written to while attempts fail, for a minute, in each of the ways. Nothing moves on without having
// been handed over, which shows as lag; when it is well each delivery is in one next place and is attempted from there.
func TestProcessor_TierCannotBeWrittenTo(t *testing.T) {
	t.Parallel()
	for name, err := range map[string]*kerr.Error{
		"no leader": kerr.NotLeaderForPartition, "leader unknown": kerr.LeaderNotAvailable, "denied": kerr.TopicAuthorizationFailed,
		"times out": kerr.RequestTimedOut, "too few in sync": kerr.NotEnoughReplicas, "unsure": kerr.NotEnoughReplicasAfterAppend,
		"disk broken": kerr.KafkaStorageError, "unknown": kerr.UnknownTopicOrPartition,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t)
				w.createTopics()
				var failing atomic.Bool
				failing.Store(true)
				w.script = func(deliver.Request) (deliver.Result, time.Duration) {
					if failing.Load() {
						return deliver.Result{Outcome: retry.Outcome{Class: retry.HTTP5xx, Status: 500}, Sent: true}, time.Millisecond
					}
					return ok(), time.Millisecond
				}
				_, stop := w.process("a")
				time.Sleep(10 * time.Second)
				var faults []kfake.Fault
				for _, tier := range w.catalogue.TierTopics() {
					faults = append(faults, kfake.Fault{Keys: []kmsg.Key{kmsg.Produce}, Err: err, Count: 1 << 30, Topic: tier})
				}
				h := w.cluster.Fault(faults...)
				w.send(50)
				time.Sleep(time.Minute)
				require.Positive(t, h.Hits())
				require.Equal(t, int64(50), w.lag(w.catalogue.Events()), "nothing is taken for done")
				for _, tier := range w.catalogue.TierTopics() {
					require.Empty(t, w.read(tier))
				}
				n, again := w.delivered()
				require.Equal(t, 50, n)
				require.Zero(t, again, "what waits to be settled is not attempted again")

				failing.Store(false)
				h.Remove()
				time.Sleep(3 * time.Minute)
				require.NoError(t, stop())
				n, again = w.delivered()
				require.Equal(t, 50, n)
				require.Equal(t, 50, again, "each once more, from the one place it was put")
				places := map[string]int{}
				for _, tier := range w.catalogue.TierTopics() {
					for _, r := range w.read(tier) {
						d, err := schemas.DecodeDelivery(r.Value)
						require.NoError(t, err)
						places[d.ID]++
					}
				}
				require.Len(t, places, 50)
				for id, n := range places {
					require.Equal(t, 1, n, id)
				}
				require.Empty(t, w.letters())
				w.requireNoLag()
			})
		})
	}
}

// lag is how far the group is behind in a topic.
func (w *world) lag(topic string) (lag int64) {
	w.t.Helper()
	lags, err := topics.Lag(w.t.Context(), kadm.NewClient(w.client), processor.DefaultConfig().Group, w.catalogue)
	require.NoError(w.t, err)
	for _, l := range lags {
		if l.Topic == topic {
			lag += l.Lag
		}
	}
	return lag
}
