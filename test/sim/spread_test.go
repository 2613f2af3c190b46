package sim_test

import (
	"fmt"
	"math"
	"net/http"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/barnabas-webhooks/barnabas/schemas"
)

// C-085, C-090: 2,000 deliveries, to as many endpoints, fail within one second, three times each. They come back spread
// evenly over the waits of their tiers, however the processor fetches them in batches, and none before it is due.
func TestSpread_TwoThousandFailuresOfOneSecond(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const n, failures = 2000, 3
		w := NewWorldOf(t, Setting{Brokers: 1, FetchWait: 500 * time.Millisecond})
		r := w.Receiver(func(_ int, p *Post) (int, time.Duration) {
			if p.Attempt <= failures {
				return http.StatusInternalServerError, 0
			}
			return http.StatusNoContent, 0
		})
		w.Start()
		for i := range n {
			w.Endpoint(fmt.Sprintf("ep%d", i), r.URL)
		}
		began := time.Now()
		for i := range n {
			w.Produce(fmt.Sprintf("ep%d", i), "", fmt.Sprintf(`{"n":%d}`, i))
		}
		time.Sleep(15 * time.Minute)

		arrived := map[string][]time.Time{} // by delivery, the attempts in their order
		for _, p := range r.Posts() {
			require.Equal(t, len(arrived[p.ID])+1, p.Attempt)
			arrived[p.ID] = append(arrived[p.ID], p.Arrived)
		}
		require.Len(t, arrived, n)
		for id, at := range arrived {
			require.Len(t, at, failures+1, id)
			require.Less(t, at[0].Sub(began), time.Second, "they fail within one second")
		}
		late := time.Duration(0)
		for _, topic := range w.Catalogue().TierTopics() {
			for _, rec := range w.Topic(topic) {
				d, err := schemas.DecodeDelivery(rec.Value)
				require.NoError(t, err)
				next := arrived[d.ID][d.Attempts]
				require.False(t, next.Before(d.DueAt), "%s: attempt %d was early", d.ID, d.Attempts+1)
				late = max(late, next.Sub(d.DueAt))
			}
		}
		// After the second failure a wait of up to 1 m, after the third one of up to 10 m: against the uniform distribution.
		for i, limit := range w.cfg.Retry.Caps[:failures] {
			var waits []float64
			perSecond := map[int64]int{}
			for _, at := range arrived {
				waits = append(waits, min(1, float64(at[i+1].Sub(at[i]))/float64(limit)))
				perSecond[int64(at[i+1].Sub(began)/time.Second)]++
			}
			distance, most := kolmogorov(waits), 0
			for _, c := range perSecond {
				most = max(most, c)
			}
			expected := n / limit.Seconds()
			t.Logf("after failure %d: distance from the uniform %.3f, %d in the fullest second where %.1f come on average", i+1, distance, most, expected)
			// 2.7 / sqrt(n): chance exceeds it once in a million times. What is due within a beat of its failure comes late.
			require.Less(t, distance, 2.7/math.Sqrt(n)+float64(late)/float64(limit))
			require.LessOrEqual(t, float64(most), expected+6*math.Sqrt(expected)+6, "a peak")
		}
		t.Logf("at most %s late", late)
		require.Less(t, late, 2*time.Second)
	})
}

// kolmogorov is the largest distance between the distribution of shares and the uniform one on (0, 1].
func kolmogorov(shares []float64) float64 {
	slices.Sort(shares)
	d, n := 0.0, float64(len(shares))
	for i, x := range shares {
		d = max(d, math.Abs(x-float64(i)/n), math.Abs(x-float64(i+1)/n))
	}
	return d
}
