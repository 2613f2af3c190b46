package processor_test

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/barnabas-webhooks/barnabas/processor"
	"github.com/barnabas-webhooks/barnabas/processor/deliver"
	"github.com/barnabas-webhooks/barnabas/retry"
	"github.com/barnabas-webhooks/barnabas/schemas"
	"github.com/barnabas-webhooks/barnabas/topics"
)

// beside lists n endpoints of one partition.
func (w *world) beside(n int) (ids []string) {
	for i := 0; len(ids) < n; i++ {
		if id := fmt.Sprintf("ep-%d", i); topics.Partition(id, w.catalogue.Partitions) == 0 {
			ids = append(ids, id)
		}
	}
	return ids
}

// events produces one event for each of some endpoints.
func (w *world) events(ids ...string) {
	w.t.Helper()
	records := make([]*kgo.Record, len(ids))
	for i, id := range ids {
		records[i] = &kgo.Record{
			Topic: w.catalogue.Events(), Key: []byte(id), Value: []byte(`{}`),
			Headers: []kgo.RecordHeader{{Key: topics.HeaderEventType, Value: []byte("t")}},
		}
	}
	require.NoError(w.t, w.client.ProduceSync(w.t.Context(), records...).FirstErr())
}

// waiting puts deliveries into a tier, due after a wait.
func (w *world) waiting(tier, n int, wait time.Duration) map[string]time.Time {
	w.t.Helper()
	due := map[string]time.Time{}
	var records []*kgo.Record
	for i := range n {
		now := time.Now().Truncate(time.Millisecond)
		d := schemas.Delivery{
			ID: fmt.Sprintf("dlv_%d_%d", tier, i), EndpointID: fmt.Sprintf("ep-%d", i), EventType: "t", ContentType: "application/json",
			Payload: []byte(`{}`), AcceptedAt: now, RunStartedAt: now, DueAt: now.Add(wait), Attempts: 1,
			Origin: schemas.Coordinates{Topic: w.catalogue.Events(), Offset: 1},
		}
		value, err := schemas.EncodeDelivery(&d)
		require.NoError(w.t, err)
		due[d.ID] = d.DueAt
		records = append(records, &kgo.Record{Topic: w.catalogue.Tier(tier), Key: []byte(d.EndpointID), Value: value})
	}
	require.NoError(w.t, w.client.ProduceSync(w.t.Context(), records...).FirstErr())
	return due
}

// C-120: the first of a partition hangs while the others finish; the process is killed. The first is posted again, with the
// id that it had, and of the others none, since all of them were settled long before.
func TestProcessor_KilledWithTheFirstInFlight(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.createTopics()
		ids := w.beside(50)
		w.script = func(r deliver.Request) (deliver.Result, time.Duration) {
			if r.Endpoint.ID == ids[0] {
				return ok(), 20 * time.Second
			}
			return ok(), 10 * time.Millisecond
		}
		_, stop := w.process("a")
		time.Sleep(5 * time.Second)
		w.events(ids...)
		time.Sleep(5 * time.Second)
		w.kill("a", stop)
		w.process("b")
		time.Sleep(2 * time.Minute)
		n, again := w.delivered()
		require.Equal(t, 50, n)
		require.Equal(t, 1, again)
		w.requireNoLag()
	})
}

func ok() deliver.Result {
	return deliver.Result{Outcome: retry.Outcome{Class: retry.OK, Status: 204}, Sent: true}
}

// C-121: a second process comes and goes every five seconds while 3,000 are worked off (more: chaos), and then both are killed. Nothing is
// lost; orderly moves repeat nothing; a kill repeats what was in flight, and what had ended and was not settled.
func TestProcessor_ComesAndGoesThenDies(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.createTopics()
		w.taking(time.Second)
		w.more = func(o *processor.Options) { o.MaxInFlight = 10 }
		const total = 3_000
		for i := range total / 500 {
			ids := make([]string, 500)
			for k := range ids {
				ids[k] = fmt.Sprintf("ep-%d", i*500+k)
			}
			w.events(ids...)
		}
		_, stopA := w.process("a")
		for i := range 12 {
			_, stop := w.process(fmt.Sprintf("b%d", i))
			time.Sleep(5 * time.Second)
			require.NoError(t, stop())
			time.Sleep(5 * time.Second)
		}
		n, again := w.delivered()
		require.Less(t, n, total)
		require.Zero(t, again, "orderly moves repeat nothing")
		_, stopB := w.process("b")
		time.Sleep(15 * time.Second)

		for name, stop := range map[string]func() error{"a": stopA, "b": stopB} {
			w.kill(name, stop)
		}
		n, again = w.delivered()
		require.Zero(t, again)
		require.Less(t, n, total)
		w.more = nil
		w.taking(time.Millisecond)
		w.process("c")
		time.Sleep(4 * time.Minute)
		n, again = w.delivered()
		require.Equal(t, total, n)
		// Two processes with ten in flight each, and as many that ended within the last beat.
		require.LessOrEqual(t, again, 2*2*10)
		w.requireNoLag()
	})
}

// C-125: a delay of two minutes, and 500 slow requests of one poll, under a session timeout of ten seconds and a rebalance
// timeout of thirty: nothing of it keeps the process from its group. Nobody joins again, each is sent once.
func TestProcessor_WaitingDoesNotCostTheMembership(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.createTopics()
		w.more = func(o *processor.Options) {
			o.SessionTimeout, o.Heartbeat, o.RebalanceTimeout = 10*time.Second, 3*time.Second, 30*time.Second
		}
		joins := w.requests(kmsg.JoinGroup)
		p, stop := w.process("a")
		time.Sleep(30 * time.Second)
		before := joins.Load()
		due := w.waiting(3, 100, 2*time.Minute)
		for id, at := range w.waiting(1, 100, 2*time.Minute) {
			due[id] = at
		}
		w.script = func(r deliver.Request) (deliver.Result, time.Duration) {
			if due[r.Delivery.ID].IsZero() {
				return ok(), 25 * time.Second // longer than every timeout of the group but one
			}
			return ok(), 0
		}
		ids := make([]string, 500)
		for i := range ids {
			ids[i] = fmt.Sprintf("ep-slow-%d", i)
		}
		w.events(ids...)
		for range 60 {
			time.Sleep(5 * time.Second)
			require.NoError(t, p.Ready())
		}
		require.Equal(t, before, joins.Load(), "a rebalance")
		n, again := w.delivered()
		require.Equal(t, 700, n)
		require.Zero(t, again)
		for id, at := range due {
			require.False(t, w.posts[id][0].Before(at), "early")
		}
		require.NoError(t, stop())
		w.requireNoLag()
	})
}

// C-132: requests that last longer than the session and the polls; one at a time, forty of them hang for half a minute. A
// second process comes meanwhile. No delivery is ever under way in both.
func TestProcessor_NoOverlapWhileRequestsHang(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.createTopics()
		w.taking(30 * time.Second)
		w.more = func(o *processor.Options) {
			o.SessionTimeout, o.Heartbeat, o.DrainTimeout, o.MaxInFlight = 6*time.Second, 2*time.Second, 35*time.Second, 1
		}
		w.send(40)
		_, stopA := w.process("a")
		time.Sleep(5 * time.Minute)
		_, stopB := w.process("b")
		time.Sleep(5 * time.Minute)
		require.NoError(t, stopA())
		time.Sleep(20 * time.Minute)
		require.NoError(t, stopB())
		n, again := w.delivered()
		require.Equal(t, 40, n)
		require.Zero(t, again)
		require.Zero(t, w.overlaps)
		require.NotEmpty(t, w.by["b"])
		w.requireNoLag()
	})
}

// C-134: four processes start at once on a backlog of 5,000 and are rolled one by one. Each delivery is made once, every
// process has its share of the units, and all units are owned again within the rebalance timeout each time.
func TestProcessor_FourStartAtOnceAndAreRolled(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.createTopics()
		w.taking(100 * time.Millisecond)
		w.more = func(o *processor.Options) { o.MaxInFlight = 10 }
		for i := range 10 {
			ids := make([]string, 500)
			for k := range ids {
				ids[k] = fmt.Sprintf("ep-%d", i*500+k)
			}
			w.events(ids...)
		}
		names := []string{"a", "b", "c", "d"}
		stops := map[string]func() error{}
		running := map[string]*processor.Processor{}
		for _, name := range names {
			running[name], stops[name] = w.process(name)
		}
		settled := func(share int) {
			t.Helper()
			time.Sleep(processor.DefaultConfig().RebalanceTimeout)
			require.Equal(t, 8, int(w.gauged("barnabas_units_owned")), "all units are owned")
			for name, p := range running {
				require.NoError(t, p.Ready(), name)
			}
			for _, reg := range w.regs[len(w.regs)-len(running):] {
				require.Equal(t, share, int(metric(t, reg, "barnabas_units_owned", "")))
			}
		}
		settled(2)
		for _, name := range names {
			require.NoError(t, stops[name]())
			delete(running, name)
			running[name+"2"], stops[name+"2"] = w.process(name + "2")
			time.Sleep(processor.DefaultConfig().RebalanceTimeout)
			require.Equal(t, 8, int(w.gauged("barnabas_units_owned")), "all units are owned")
		}
		settled(2)
		n, again := w.delivered()
		require.Equal(t, 5000, n)
		require.Zero(t, again)
		require.Zero(t, w.overlaps)
		w.requireNoLag()
	})
}

// C-090: 500 deliveries wait in the tiers of an hour and of six; processes are stopped, killed, started, and a third comes. None is
// sent before its time, and each once.
func TestProcessor_NothingWaitingIsSentEarly(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.createTopics()
		w.more = func(o *processor.Options) { o.FetchWait = 10 * time.Second } // an idle process need not ask twice a second
		due := w.waiting(2, 250, 50*time.Minute)
		for id, at := range w.waiting(3, 250, 2*time.Hour) {
			due[id] = at
		}
		_, stopA := w.process("a")
		_, stopB := w.process("b")
		time.Sleep(20 * time.Minute)
		require.NoError(t, stopA())
		time.Sleep(time.Minute)
		w.process("c")
		time.Sleep(10 * time.Minute)
		w.process("d")
		time.Sleep(30 * time.Minute)
		w.kill("b", stopB)
		time.Sleep(30 * time.Minute)
		w.process("e")
		time.Sleep(time.Hour)
		n, again := w.delivered()
		require.Equal(t, 500, n)
		require.Zero(t, again)
		for id, at := range due {
			require.False(t, w.posts[id][0].Before(at), "%s is early", id)
			require.Less(t, w.posts[id][0].Sub(at), time.Minute, "%s is late", id)
		}
		w.requireNoLag()
	})
}

// C-095: every tier is read, by a process that was there and by one that came long after. One without its topic does not start
// but says which is missing, and does when it is there.
func TestProcessor_EveryTierIsRead(t *testing.T) {
	t.Parallel()
	for name, early := range map[string]bool{"by one that was there": true, "by one that came late": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t)
				w.createTopics()
				if early {
					w.process("a")
					time.Sleep(20 * time.Second)
				}
				n := len(w.catalogue.Tiers)
				for tier := range n {
					w.waiting(tier, 10, 50*time.Second)
				}
				time.Sleep(5 * time.Minute)
				if !early {
					got, _ := w.delivered()
					require.Zero(t, got)
					w.process("a")
					time.Sleep(time.Minute)
				}
				got, again := w.delivered()
				require.Equal(t, 10*n, got)
				require.Zero(t, again)
				w.requireNoLag()
			})
		})
	}
	for _, topic := range topics.DefaultCatalogue().Consumed() {
		t.Run("without "+topic, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t)
				w.createTopics()
				admin := kadm.NewClient(w.client)
				_, err := admin.DeleteTopic(t.Context(), topic)
				require.NoError(t, err)
				_, stop := w.process("a")
				time.Sleep(time.Minute)
				require.ErrorContains(t, stop(), topic)

				_, err = admin.CreateTopic(t.Context(), int32(w.catalogue.Partitions), 1, nil, topic)
				require.NoError(t, err)
				w.newClient()
				p, stop := w.process("b")
				time.Sleep(20 * time.Second)
				require.NoError(t, p.Ready())
				require.NoError(t, stop())
			})
		})
	}
}
