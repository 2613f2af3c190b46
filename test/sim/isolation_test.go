package sim_test

import (
	"fmt"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/barnabas-webhooks/barnabas/internal/app"
	"github.com/barnabas-webhooks/barnabas/internal/config"
	"github.com/barnabas-webhooks/barnabas/internal/plan"
)

// One partition, one endpoint whose receiver hangs until we give up after 15 s, and
// 999 healthy ones: the healthy ones' deliveries and the committed offset go on.
func TestIsolation_OneThatHangsKeepsNobodyWaiting(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const endpoints, rounds = 999, 5
		w := NewWorldOf(t, Setting{Brokers: 1, FetchWait: 500 * time.Millisecond, Configure: func(c *config.Config) { c.Topics.Partitions = 1 }})
		hangs := w.Receiver(func(int, *Post) (int, time.Duration) { return http.StatusNoContent, Never })
		healthy := w.Receiver(Answers(http.StatusNoContent))
		w.Start()
		w.Endpoint("hangs", hangs.URL)
		for i := range endpoints {
			w.Endpoint(fmt.Sprintf("ep%d", i), healthy.URL)
		}
		events := w.Catalogue().Events()

		sent := map[string]time.Time{}
		for round := range rounds {
			for i := range 20 {
				w.Produce("hangs", "", fmt.Sprintf(`{"hangs":%d}`, round*20+i))
			}
			for i := range endpoints {
				body := fmt.Sprintf(`{"n":%d}`, round*endpoints+i)
				sent[body] = time.Now()
				w.Produce(fmt.Sprintf("ep%d", i), "", body)
			}
			time.Sleep(20 * time.Second)
			// Of what hangs, the one in flight is given up by now, and the others were spilled after 5 s.
			committed := w.positions()[events][0].offset
			require.GreaterOrEqual(t, committed, int64((round+1)*(endpoints+20)), "the committed offset goes on")
		}

		posts := healthy.Posts()
		require.Len(t, posts, rounds*endpoints)
		for _, p := range posts {
			require.Less(t, p.Arrived.Sub(sent[p.Body]), time.Second, "a healthy endpoint waits for nobody")
		}
		require.NotEmpty(t, hangs.Posts())
		cfg := app.Breaker(&w.cfg)
		bound := plan.Requests(cfg.ConsecutiveHard, 1, plan.Probes(cfg, rounds*20*time.Second))
		require.LessOrEqual(t, len(hangs.Posts()), bound, "it is tried one at a time, and then probed")
	})
}
