package processor_test

import (
	"context"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"strings"
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
		random := make([]byte, 1<<20)
		for i := range random {
			random[i] = byte(rand.Uint32())
		}
		for i := range events {
			id := fmt.Sprintf("dead-%d-%s", i%endpoints, strings.Repeat("x", i%endpoints%3))
			at := rand.IntN(len(random) - size)
			w.client.Produce(t.Context(), &kgo.Record{
				Topic: w.catalogue.Events(), Key: []byte(id), Value: random[at : at+size],
				Headers: []kgo.RecordHeader{{Key: topics.HeaderEventType, Value: []byte("t")}},
			}, func(_ *kgo.Record, err error) { require.NoError(t, err) })
		}
		require.NoError(t, w.client.Flush(t.Context()))

		registry := prometheus.NewRegistry()
		cfg := processor.DefaultConfig()
		cfg.MaxMemory = budget
		p, err := processor.New(processor.Options{
			Config: cfg, Kafka: w.kafka(), Catalogue: w.catalogue, Policy: retry.DefaultPolicy(),
			Breaker: breaker.DefaultConfig(), Unit: unit.DefaultConfig(), Settle: settle.DefaultConfig(),
			Sender: dead{}, Endpoints: everyEndpoint{}, Disable: func(*endpoint.Endpoint, string) {},
			Log: slog.New(slog.DiscardHandler), Registry: registry,
		})
		require.NoError(t, err)
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- p.Run(ctx) }()

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
		lags, err := topics.Lag(t.Context(), admin, cfg.Group, w.catalogue)
		require.NoError(t, err)
		for _, lag := range lags {
			if lag.Topic == w.catalogue.Events() {
				require.Zero(t, lag.Lag, "partition %d: everything is taken in", lag.Partition)
			}
		}
		require.Positive(t, fullest, "the budget was used up: else this shows nothing")
		require.LessOrEqual(t, most, float64(budget+poll))
		require.LessOrEqual(t, metric(t, registry, "barnabas_holds_total", "waiting_overflow"), float64(minutes*events))
		cancel()
		require.NoError(t, <-done)
	})
}
