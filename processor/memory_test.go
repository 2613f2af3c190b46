package processor_test

import (
	"context"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/barnabas-webhooks/barnabas/processor"
	"github.com/barnabas-webhooks/barnabas/processor/breaker"
	"github.com/barnabas-webhooks/barnabas/processor/deliver"
	"github.com/barnabas-webhooks/barnabas/processor/endpoint"
	"github.com/barnabas-webhooks/barnabas/processor/settle"
	"github.com/barnabas-webhooks/barnabas/processor/unit"
	"github.com/barnabas-webhooks/barnabas/retry"
	"github.com/barnabas-webhooks/barnabas/topics"
)

// dead is a sender to endpoints of which a third refuses, a third hangs and a third answers 500.
type dead struct{}

func (dead) Attempt(ctx context.Context, r deliver.Request) deliver.Result {
	res := deliver.Result{StartedAt: time.Now(), Error: "dead"}
	takes := time.Millisecond
	switch len(r.Endpoint.ID) % 3 { // ids of three lengths
	case 0:
		res.Outcome = retry.Outcome{Class: retry.Connect}
	case 1:
		res.Outcome, takes = retry.Outcome{Class: retry.Timeout}, 10*time.Second
	default:
		res.Outcome = retry.Outcome{Class: retry.HTTP5xx, Status: 500}
	}
	select {
	case <-time.After(takes):
	case <-ctx.Done():
		res.Outcome = retry.Outcome{Class: retry.Cancelled}
	}
	res.Duration = time.Since(res.StartedAt)
	return res
}

// Invariant 9: several times the memory budget waits and every endpoint is dead. What is charged never passes the
// budget by more than one poll, all of it is taken in all the same, and what waits in the tiers is not sent round
// more often than once per cap of the first tier for want of memory.
func TestProcessor_MemoryStaysBoundedWithEverythingDead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const budget, events, size, endpoints, minutes = 8 << 20, 10_000, 2 << 10, 300, 4
		w := newWorld(t)
		w.createTopics()
		w.flood(events, size, deadOnes(endpoints))
		registry, stop := w.startSmall(budget, dead{})

		// One fetch of a thirty-second of the budget, at least 1 MiB and rounded up to a whole batch of 1 MB by the broker,
		// counted twice.
		const poll = 2 * (1<<20 + 1<<20)
		admin := kadm.NewClient(w.client)
		most, fullest := 0.0, 0
		for began := time.Now(); ; {
			time.Sleep(100 * time.Millisecond)
			held := metric(t, registry, "barnabas_held_bytes", "")
			most = max(most, held)
			if held >= budget {
				fullest++
			}
			if time.Since(began) > minutes*time.Minute {
				break
			}
		}
		lags, err := topics.Lag(t.Context(), admin, processor.DefaultConfig().Group, w.catalogue)
		require.NoError(t, err)
		for _, lag := range lags {
			if lag.Topic == w.catalogue.Events() {
				require.Zero(t, lag.Lag, "partition %d: everything is taken in", lag.Partition)
			}
		}
		require.Positive(t, fullest, "the budget was used up: else this shows nothing")
		require.LessOrEqual(t, most, float64(budget+poll))
		require.LessOrEqual(t, metric(t, registry, "barnabas_holds_total", "waiting_overflow"), float64(minutes*events))
		require.NoError(t, stop())
	})
}

// deadOnes are ids of three lengths, so that they are dead in three ways.
func deadOnes(n int) []string {
	ids := make([]string, n)
	for i := range ids {
		ids[i] = fmt.Sprintf("dead-%d-%s", i, strings.Repeat("x", i%3))
	}
	return ids
}

// flood leaves events of random bytes in the log, for the endpoints in turn.
func (w *world) flood(events, size int, ids []string) {
	w.t.Helper()
	random := make([]byte, 1<<20)
	for i := range random {
		random[i] = byte(rand.Uint32())
	}
	for i := range events {
		at := rand.IntN(len(random) - size)
		w.client.Produce(w.t.Context(), &kgo.Record{
			Topic: w.catalogue.Events(), Key: []byte(ids[i%len(ids)]), Value: random[at : at+size],
			Headers: []kgo.RecordHeader{{Key: topics.HeaderEventType, Value: []byte("t")}},
		}, func(_ *kgo.Record, err error) { require.NoError(w.t, err) })
	}
	require.NoError(w.t, w.client.Flush(w.t.Context()))
}

// startSmall starts a process with a small memory budget.
func (w *world) startSmall(budget int64, s unit.Sender) (reg *prometheus.Registry, stop func() error) {
	w.t.Helper()
	reg = prometheus.NewRegistry()
	cfg := processor.DefaultConfig()
	cfg.MaxMemory = budget
	p, err := processor.New(processor.Options{
		Config: cfg, Kafka: w.kafka(), Catalogue: w.catalogue, Policy: retry.DefaultPolicy(),
		Breaker: breaker.DefaultConfig(), Unit: unit.DefaultConfig(), Settle: settle.DefaultConfig(),
		Sender: s, Endpoints: everyEndpoint{}, Disable: func(*endpoint.Endpoint, string) {},
		Log: slog.New(slog.DiscardHandler), Registry: reg,
	})
	require.NoError(w.t, err)
	ctx, cancel := context.WithCancel(w.t.Context())
	done := make(chan error, 1)
	go func() { done <- p.Run(ctx) }()
	return reg, func() error {
		cancel()
		return <-done
	}
}

// among is a sender to dead endpoints and healthy ones, whose payloads say when they were sent.
type among struct {
	mu   sync.Mutex // guards late
	late []time.Duration
}

func (a *among) Attempt(ctx context.Context, r deliver.Request) deliver.Result {
	if strings.HasPrefix(r.Endpoint.ID, "dead-") {
		return dead{}.Attempt(ctx, r)
	}
	var sent time.Time
	if err := sent.UnmarshalText(r.Delivery.Payload); err != nil {
		return deliver.Result{StartedAt: time.Now(), Outcome: retry.Outcome{Class: retry.Build}}
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.late = append(a.late, time.Since(sent))
	return deliver.Result{StartedAt: time.Now(), Outcome: retry.Outcome{Class: retry.OK, Status: 204}}
}

// Events of healthy endpoints are on time while those of dead ones, in other partitions, are several times what the
// memory budget holds: no unit takes more of it than its share once it becomes scarce.
func TestProcessor_TheDeadLeaveMemoryToOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.createTopics()
		theirs := slices.DeleteFunc(deadOnes(400), func(id string) bool { return topics.Partition(id, w.catalogue.Partitions) == 0 })
		w.flood(10_000, 12<<10, theirs)
		var s among
		_, stop := w.startSmall(64<<20, &s)
		id := "healthy"
		for n := 0; topics.Partition(id, w.catalogue.Partitions) != 0; n++ {
			id = fmt.Sprintf("healthy-%d", n)
		}
		const sends = 600
		for range sends { // a minute
			now, err := time.Now().MarshalText()
			require.NoError(t, err)
			require.NoError(t, w.client.ProduceSync(t.Context(), &kgo.Record{
				Topic: w.catalogue.Events(), Key: []byte(id), Value: now,
				Headers: []kgo.RecordHeader{{Key: topics.HeaderEventType, Value: []byte("t")}},
			}).FirstErr())
			time.Sleep(100 * time.Millisecond)
		}
		time.Sleep(time.Minute)
		s.mu.Lock()
		late := slices.Sorted(slices.Values(s.late))
		s.mu.Unlock()
		require.Len(t, late, sends)
		t.Logf("late: half %s, 99 %% %s, all %s", late[sends/2], late[sends*99/100], late[sends-1])
		require.Less(t, late[sends*99/100], time.Second)
		require.NoError(t, stop())
	})
}
