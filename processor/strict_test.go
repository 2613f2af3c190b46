package processor_test

import (
	"fmt"
	"strconv"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/barnabas-webhooks/barnabas/processor/deliver"
	"github.com/barnabas-webhooks/barnabas/retry"
	"github.com/barnabas-webhooks/barnabas/topics"
)

// Strict endpoints while processes come, go and are killed, and some events fail a few times: all attempts of an
// endpoint are in the order of the log. Only what was under way in a process that was killed is attempted again, before anything behind it.
func TestProcessor_StrictOrderThroughMovesAndKills(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.createTopics()
		const endpoints, each = 4, 120
		var mu sync.Mutex
		seen := map[string][]int{}
		fails := map[string]int{}
		w.script = func(r deliver.Request) (deliver.Result, time.Duration) {
			mu.Lock()
			defer mu.Unlock()
			n, _ := strconv.Atoi(string(r.Delivery.Payload))
			seen[r.Endpoint.ID] = append(seen[r.Endpoint.ID], n)
			key := r.Endpoint.ID + string(r.Delivery.Payload)
			if fails[key]++; n < 40 && n%7 == 3 && fails[key] <= 1+n%3 {
				return deliver.Result{Outcome: retry.Outcome{Class: retry.HTTP5xx, Status: 500}, Sent: true}, 20 * time.Millisecond
			}
			return ok(), 20 * time.Millisecond
		}
		stops := map[string]func() error{}
		for _, name := range []string{"a", "b"} {
			_, stops[name] = w.process(name)
		}
		time.Sleep(10 * time.Second)
		next := 0
		burst := func(n int, wait time.Duration) {
			for i := range n {
				for e := range endpoints {
					require.NoError(t, w.client.ProduceSync(t.Context(), &kgo.Record{
						Topic: w.catalogue.Events(), Key: fmt.Appendf(nil, "strict-%d", e), Value: fmt.Append(nil, next+i),
						Headers: []kgo.RecordHeader{{Key: topics.HeaderEventType, Value: []byte("t")}},
					}).FirstErr())
				}
			}
			next += n
			time.Sleep(wait)
		}
		burst(20, 700*time.Millisecond)
		require.NoError(t, stops["a"]()) // an orderly move
		burst(20, 700*time.Millisecond)
		_, stops["c"] = w.process("c")
		time.Sleep(4 * time.Hour)
		for i, dies := range []string{"b", "c", "d", "e"} { // each in the midst of its work
			burst(20, time.Duration(70+60*i)*time.Millisecond)
			w.kill(dies, stops[dies])
			name := string(dies[0] + 2)
			_, stops[name] = w.process(name)
			time.Sleep(5 * time.Minute)
		}
		time.Sleep(8 * time.Hour)
		w.requireNoLag()
		mu.Lock()
		defer mu.Unlock()
		cut := 0
		for e := range endpoints {
			last := -1
			for i, n := range seen[fmt.Sprintf("strict-%d", e)] {
				require.True(t, n == last || n == last+1, "endpoint %d, attempt %d is of %d, after one of %d", e, i, n, last)
				if n == last && n >= 40 {
					cut++
				}
				last = n
			}
			require.Equal(t, each-1, last)
		}
		require.Positive(t, cut, "nobody was killed at work")
	})
}
