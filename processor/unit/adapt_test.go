package unit_test

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/barnabas-webhooks/barnabas/processor/deliver"
	"github.com/barnabas-webhooks/barnabas/retry"
	"github.com/barnabas-webhooks/barnabas/schemas"
)

// overloaded are the answers of an endpoint that got more at a time than it bears.
func overloaded() map[string]deliver.Result {
	return map[string]deliver.Result{"429": status(429), "503": status(503), "timeout": failed(retry.Timeout)}
}

// A parallel endpoint that bears six at a time is asked for about six, however it says so, and gets all in the end.
func TestUnit_ParallelEndpointsGetWhatTheyBear(t *testing.T) {
	t.Parallel()
	for name := range overloaded() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				r := newRig(t, func(r *rig) {
					r.Breaker.ConsecutiveHard, r.Breaker.ConsecutiveAny, r.Breaker.WindowRatio = 1_000_000, 1_000_000, 1
				})
				r.endpoint("ep", parallel(32))
				const bears = 6
				tooMuch, landed := 0, 0
				r.sender.answer(func(deliver.Request) (deliver.Result, time.Duration) {
					if r.sender.at["ep"] > bears {
						tooMuch++
						return overloaded()[name], 100 * time.Millisecond
					}
					landed++
					return status(200), 100 * time.Millisecond
				})
				r.start()
				for i := range 2000 {
					r.event("ep", "", fmt.Sprintf(`{"n":%d}`, i))
				}
				time.Sleep(30 * time.Minute)
				r.sender.mu.Lock()
				require.Equal(t, 2000, landed)
				require.Less(t, tooMuch, landed/4, "it learns: without that it is four of five")
				r.sender.mu.Unlock()
				require.Positive(t, r.metric("barnabas_width_cuts_total", ""))
				r.end()
			})
		})
	}
}

// What an endpoint says of a payload is nothing against its strength.
func TestUnit_RefusedPayloadsDoNotNarrow(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		r.endpoint("ep", parallel(16), func(e *schemas.Endpoint) { e.PermanentStatuses = []int{422} })
		n := 0
		r.sender.answer(func(deliver.Request) (deliver.Result, time.Duration) {
			if n++; n%2 == 0 {
				return status(422), 50 * time.Millisecond
			}
			return status(200), 50 * time.Millisecond
		})
		r.start()
		for i := range 400 {
			r.event("ep", "", fmt.Sprintf(`{"n":%d}`, i))
		}
		time.Sleep(10 * time.Second)
		require.Zero(t, r.metric("barnabas_width_cuts_total", ""))
		require.Equal(t, 16, r.sender.most["ep"])
		require.Len(t, r.sender.seen(), 400)
		r.end()
	})
}
