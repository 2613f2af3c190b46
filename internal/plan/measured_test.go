package plan_test

import (
	"context"
	"crypto/sha256"
	"fmt"
	"log/slog"
	"runtime"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/barnabas-webhooks/barnabas/internal/plan"
	"github.com/barnabas-webhooks/barnabas/processor/breaker"
	"github.com/barnabas-webhooks/barnabas/processor/caps"
	"github.com/barnabas-webhooks/barnabas/processor/claim"
	"github.com/barnabas-webhooks/barnabas/processor/deliver"
	"github.com/barnabas-webhooks/barnabas/processor/endpoint"
	"github.com/barnabas-webhooks/barnabas/processor/metrics"
	"github.com/barnabas-webhooks/barnabas/processor/settle"
	"github.com/barnabas-webhooks/barnabas/processor/unit"
	"github.com/barnabas-webhooks/barnabas/retry"
	"github.com/barnabas-webhooks/barnabas/schemas"
	"github.com/barnabas-webhooks/barnabas/topics"
)

// heap is what is live. The tests of this file measure it, so they are not parallel.
func heap() int64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

// requireMeasured holds a constant of the plan to what was measured: it covers it, and is not much more.
func requireMeasured(t *testing.T, constant int, most int64) {
	t.Helper()
	t.Logf("%d bytes measured, the plan says %d", most, constant)
	require.LessOrEqual(t, most, int64(constant), "the plan promises too little")
	require.Greater(t, float64(most), 0.7*float64(constant), "the plan asks for far too much")
}

// One idempotency key: the maps grow in steps, so the number is that of the worst moment.
func TestMeasured_Key(t *testing.T) {
	before := heap()
	arbiter := claim.NewArbiter(24*time.Hour, claim.NewMemory())
	at := time.Date(2026, 3, 1, 0, 0, 0, 0, time.UTC)
	most, least := int64(0), int64(1<<40)
	const keys, step = 120_000, 3000
	for n := range keys {
		hash := sha256.Sum256(fmt.Appendf(nil, "payload-%d", n))
		_, err := arbiter.Judge(claim.Question{
			EndpointID: "ep_00000000000000000000000000", Key: fmt.Sprintf("order-%d", n), DeliveryID: schemas.MintDeliveryID(),
			ContentHash: hash[:], Offset: int64(n), At: at,
		})
		require.NoError(t, err)
		if n%step == step-1 && n > 8*step {
			each := (heap() - before) / int64(n+1)
			most, least = max(most, each), min(least, each)
		}
	}
	require.Equal(t, int64(keys), arbiter.Len())
	t.Logf("between %d and %d", least, most)
	requireMeasured(t, plan.KeyBytes, most)
}

// One endpoint in the process that owns it: a real unit to which each has brought a delivery that failed often enough to
// open its breaker.
func TestMeasured_Lane(t *testing.T) {
	const endpoints, each = 5000, 6
	ep := &endpoint.Endpoint{}
	ep.State = schemas.EndpointEnabled
	w := &workshop{ep: ep}
	shared := &unit.Shared{
		Config: unit.DefaultConfig(), Catalogue: topics.DefaultCatalogue(), Policy: retry.DefaultPolicy(), Breaker: breaker.DefaultConfig(),
		Sender: w, Endpoints: w, Disable: func(*endpoint.Endpoint, string) {}, Journal: w, Settler: w, Intake: w, Lease: w,
		InFlight: caps.NewInFlight(64), Workers: caps.NewWorkers(), Memory: caps.NewMemory(256 << 20), Rand: func() float64 { return 0.5 }, Log: slog.New(slog.DiscardHandler), Quiet: slog.New(slog.DiscardHandler),
		Metrics: metrics.New(prometheus.NewRegistry(), metrics.Gauges{
			InFlight: func() float64 { return 0 }, MemoryBytes: func() float64 { return 0 },
		}),
	}
	shared.Catalogue.Partitions = 1
	before := heap()
	u := unit.New(t.Context(), settle.Owner{Assignment: 1}, shared)
	go u.Run()
	u.Restore(unit.Restored{Arbiter: claim.NewArbiter(24*time.Hour, claim.NewMemory()), Breakers: map[string]*schemas.BreakerTransition{}})
	for _, topic := range shared.Catalogue.Consumed() {
		u.Begin(topic, unit.Position{Offset: -1})
	}
	events := shared.Catalogue.Events()
	offset := int64(0)
	for range each {
		for i := range endpoints {
			r := &kgo.Record{
				Topic: events, Key: fmt.Appendf(nil, "ep_%026d", i), Value: []byte(`{}`), Offset: offset, Timestamp: time.Now(),
				Headers: []kgo.RecordHeader{{Key: topics.HeaderEventType, Value: []byte("x")}},
			}
			offset++
			shared.Memory.Charge(unit.Cost(r))
			u.Take(events, unit.Log{End: offset}, []*kgo.Record{r})
		}
		// Settled, and taken note of by the unit.
		require.Eventually(t, func() bool { return w.settled.Load() == offset && shared.Memory.Used() == 0 }, time.Minute, time.Millisecond)
	}
	require.Equal(t, int64(endpoints), w.opened.Load(), "every breaker is open")
	perEndpoint := (heap() - before) / endpoints
	u.Drop(unit.ErrLost)
	<-u.Done()
	requireMeasured(t, plan.LaneBytes, perEndpoint)
}

// workshop is everything that a unit needs, in its simplest: one endpoint of many names whose receiver fails, and a
// settler that keeps nothing.
type workshop struct {
	ep      *endpoint.Endpoint
	settled atomic.Int64
	opened  atomic.Int64
}

func (w *workshop) Attempt(context.Context, deliver.Request) deliver.Result {
	return deliver.Result{StartedAt: time.Now(), Outcome: retry.Outcome{Class: retry.HTTP5xx, Status: 503}, Sent: true, Error: "503"}
}
func (w *workshop) Get(string) (*endpoint.Endpoint, bool)                   { return w.ep, true }
func (w *workshop) Deleted(string) bool                                     { return false }
func (w *workshop) AppendClaim(_ int32, _ *schemas.Claim, done func(int64)) { done(0) }
func (w *workshop) AppendBreaker(_ int32, _ *schemas.BreakerTransition)     { w.opened.Add(1) }
func (w *workshop) Pause(string, int32)                                     {}
func (w *workshop) Resume(string, int32)                                    {}
func (w *workshop) Held(func()) bool                                        { return true }

func (w *workshop) Hurry() {}

func (w *workshop) Want(src settle.Source) {
	go func() {
		reply := make(chan *settle.Batch, 1)
		if !src.Seal("tag", 1<<20, reply) {
			return
		}
		if b := <-reply; b != nil {
			w.settled.Add(int64(len(b.Outcomes)))
			b.Settled(nil)
		}
	}()
}
