package breaker_test

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/barnabas-webhooks/barnabas/processor/breaker"
	"github.com/barnabas-webhooks/barnabas/retry"
)

// A breaker that calls itself fresh cannot be told from a new one by anything that happens next; and one that has had
// its successes is fresh again after a window, or its owner could never let go of it.
func TestBreaker_FreshIsAsGoodAsNew(t *testing.T) {
	t.Parallel()
	failures := []retry.Class{retry.Timeout, retry.Timeout, retry.HTTP4xx, retry.Cancelled}
	cfg := breaker.DefaultConfig()
	fresh := 0
	for seed := range uint64(3000) {
		rnd := rand.New(rand.NewPCG(seed, 7))
		b, now := breaker.New(cfg), start
		fails := 0.9 // at first, so that some open
		step := func(bs ...*breaker.Breaker) {
			now = now.Add(time.Duration(rnd.Int64N(int64(20 * time.Second))))
			class, draw := retry.OK, rnd.Float64()
			if rnd.Float64() < fails {
				class = failures[rnd.IntN(len(failures))]
			}
			limit := 1 + rnd.IntN(16)
			for _, other := range bs[1:] {
				require.Equal(t, bs[0].Width(limit), other.Width(limit))
			}
			var admissions []breaker.Admission
			var transitions []breaker.Transition
			for _, b := range bs {
				adm, ticket := b.Admit(now)
				admissions = append(admissions, adm)
				if adm.OK {
					tr, _ := b.Record(now, ticket, class, draw)
					transitions = append(transitions, tr)
				}
			}
			for i := range bs {
				require.Equal(t, admissions[0], admissions[i], "seed %d", seed)
				require.True(t, i >= len(transitions) || transitions[i] == transitions[0], "seed %d: %v", seed, transitions)
			}
		}
		for range rnd.IntN(20) {
			step(b)
		}
		fails = 0.1
		for range rnd.IntN(60) {
			step(b)
		}
		now = now.Add(time.Duration(rnd.Int64N(int64(3 * cfg.Window))))
		if !b.Fresh(now) {
			continue
		}
		fresh++
		anew := breaker.New(cfg)
		fails = rnd.Float64()
		for range 60 {
			step(b, anew)
		}
	}
	require.Greater(t, fresh, 200)

	b := breaker.New(cfg)
	require.True(t, b.Fresh(start))
	require.Zero(t, run(t, b, start, "SSSS"))
	require.False(t, b.Fresh(start.Add(cfg.Window/2)))
	require.True(t, b.Fresh(start.Add(cfg.Window)))
	require.Zero(t, run(t, b, start, "F"))
	require.False(t, b.Fresh(start.Add(1000*time.Hour)), "a failure in a row counts for ever")
}
