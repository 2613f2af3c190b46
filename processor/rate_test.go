package processor_test

import (
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/barnabas-webhooks/barnabas/processor"
	"github.com/barnabas-webhooks/barnabas/processor/deliver"
	"github.com/barnabas-webhooks/barnabas/processor/endpoint"
	"github.com/barnabas-webhooks/barnabas/schemas"
	"github.com/barnabas-webhooks/barnabas/topics"
)

// limited knows all ids, and each takes five requests a second, eight at a time.
type limited struct{ everyEndpoint }

func (limited) Get(id string) (*endpoint.Endpoint, bool) {
	return &endpoint.Endpoint{Endpoint: schemas.Endpoint{
		ID: id, State: schemas.EndpointEnabled, Order: schemas.OrderParallel, MaxInFlight: 8, RatePerSecond: 5,
	}}, true
}

// C-110: two processes share the units, one is stopped, comes back, is killed, and a third takes over, while eight endpoints of
// five requests a second have 200 events each. Over all processes no endpoint ever gets more than five a second and 10 % in any
// two, waiting spends no attempt, and every event arrives.
func TestProcessor_ARateHoldsOverAllProcesses(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const endpoints, events = 8, 200
		w := newWorld(t)
		w.createTopics()
		w.more = func(o *processor.Options) { o.Endpoints = limited{} }
		var mu sync.Mutex
		at, ids := map[string][]time.Time{}, map[string]bool{}
		w.script = func(r deliver.Request) (deliver.Result, time.Duration) {
			mu.Lock()
			defer mu.Unlock()
			at[r.Endpoint.ID] = append(at[r.Endpoint.ID], time.Now())
			ids[r.Delivery.ID] = true
			require.Equal(t, 1, r.Number, "waiting for its turn spends no attempt")
			return ok(), 10 * time.Millisecond
		}
		_, stopA := w.process("a")
		time.Sleep(10 * time.Second)
		for i := range endpoints * events {
			require.NoError(t, w.client.ProduceSync(t.Context(), &kgo.Record{
				Topic: w.catalogue.Events(), Key: fmt.Appendf(nil, "ep-%d", i%endpoints), Value: []byte(`{}`),
				Headers: []kgo.RecordHeader{{Key: topics.HeaderEventType, Value: []byte("t")}},
			}).FirstErr())
		}
		time.Sleep(5 * time.Second)
		_, stopB := w.process("b")
		time.Sleep(7 * time.Second)
		require.NoError(t, stopA())
		time.Sleep(5 * time.Second)
		_, stopC := w.process("c")
		time.Sleep(7 * time.Second)
		w.kill("b", stopB)
		w.process("d")
		time.Sleep(30 * time.Minute)
		require.NoError(t, stopC())

		mu.Lock()
		defer mu.Unlock()
		require.Len(t, ids, endpoints*events)
		for id, times := range at {
			slices.SortFunc(times, time.Time.Compare)
			for i := 11; i < len(times); i++ {
				require.GreaterOrEqual(t, times[i].Sub(times[i-11])+time.Millisecond, 2*time.Second, "%s: 12 posts up to %d", id, i)
			}
		}
		for _, name := range []string{"a", "b", "c", "d"} {
			require.NotEmpty(t, w.by[name], "%s took part", name)
		}
	})
}
