package retry_test

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/barnabas-webhooks/barnabas/internal/testkit/peak"
	"github.com/barnabas-webhooks/barnabas/retry"
)

// crowd is more than so many independent times come into one window by chance, where expected come on average: six
// standard deviations of a Poisson distribution, and a few for the small ones.
func crowd(expected float64) int { return int(expected + 6*math.Sqrt(expected) + 6) }

// C-085: 1,000 deliveries that are accepted in the same instant and never succeed. Whichever retry, there is no moment at
// which they gather: in no window come more than chance brings where each is spread over its whole wait.
func TestDecide_SchedulesHaveNoPeaks(t *testing.T) {
	t.Parallel()
	const deliveries = 1000
	p := retry.DefaultPolicy()
	rnd := rand.New(rand.NewPCG(3, 4))
	at := make([][]time.Time, len(p.Caps)) // by retry
	for range deliveries {
		next := now
		for attempts := 1; attempts <= len(p.Caps); attempts++ {
			d := p.Decide(next, retry.Spent{Attempts: attempts, RunStartedAt: now}, retry.Outcome{Class: retry.Timeout}, nil, nil, rnd.Float64())
			if d.Kind != retry.Retry {
				break
			}
			next = d.Due
			at[attempts-1] = append(at[attempts-1], next)
		}
	}
	for i, times := range at {
		require.Len(t, times, deliveries, "retry %d", i+1)
		slices.SortFunc(times, time.Time.Compare)
		for _, share := range []time.Duration{100, 20, 5} {
			window := p.Caps[i] / share
			require.LessOrEqual(t, peak.Within(times, window), crowd(deliveries/float64(share)), "retry %d, within %s", i+1, window)
		}
	}
}

// The same for what is held until one moment, behind a breaker or a Retry-After.
func TestHoldUntil_HasNoPeaks(t *testing.T) {
	t.Parallel()
	const deliveries = 1000
	p := retry.DefaultPolicy()
	rnd := rand.New(rand.NewPCG(5, 6))
	until, spread := now.Add(15*time.Minute), 15*time.Minute
	var times []time.Time
	for range deliveries {
		times = append(times, p.HoldUntil(now, retry.Spent{RunStartedAt: now}, until, spread, "breaker_open", rnd.Float64()).Due)
	}
	slices.SortFunc(times, time.Time.Compare)
	for _, share := range []time.Duration{100, 20, 5} {
		require.LessOrEqual(t, peak.Within(times, spread/share), crowd(deliveries/float64(share)))
	}
	require.True(t, times[0].After(until), "and none is early")
}
