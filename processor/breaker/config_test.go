package breaker_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/barnabas-webhooks/barnabas/processor/breaker"
)

func TestConfig_OpenTimeIsJitteredAndBounded(t *testing.T) {
	t.Parallel()
	cfg := breaker.DefaultConfig()
	for trips := range 3000 {
		low, high := cfg.OpenTime(trips, 0), cfg.OpenTime(trips, 0.999999999)
		mid := cfg.OpenTime(trips, middle)
		require.GreaterOrEqual(t, low, 24*time.Second)
		require.LessOrEqual(t, high, 18*time.Minute)
		require.InDelta(t, 0.8*float64(mid), float64(low), 1)
		require.InDelta(t, 1.2*float64(mid), float64(high), 1e4)
	}
	require.Equal(t, 15*time.Minute, cfg.OpenTime(6, middle))
	require.Equal(t, 8*time.Minute, cfg.OpenTime(5, middle))
}

func TestConfig_ReportsAllProblemsAtOnce(t *testing.T) {
	t.Parallel()
	require.NoError(t, breaker.DefaultConfig().Validate())
	err := breaker.Config{WindowRatio: 1.5, Jitter: -1, ProbeTimeout: -1}.Validate()
	require.ErrorIs(t, err, breaker.ErrInvalid)
	for _, field := range []string{
		"consecutive_hard", "consecutive_any", "window_ratio", "window_min", "window:", "open_for", "jitter", "probe_timeout",
	} {
		require.ErrorContains(t, err, field)
	}
	c := breaker.DefaultConfig()
	c.OpenMax = time.Second
	require.ErrorContains(t, c.Validate(), "open_max: 1s is not in [open_for, 24h]")
	c = breaker.DefaultConfig()
	c.ConsecutiveAny = 4
	require.ErrorContains(t, c.Validate(), "consecutive_any: 4 is less than consecutive_hard 5")
}
