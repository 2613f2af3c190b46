package peak_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/barnabas-webhooks/barnabas/internal/testkit/peak"
)

func TestWithin(t *testing.T) {
	t.Parallel()
	var times []time.Time
	for _, seconds := range []int64{0, 10, 11, 12, 20, 22} {
		times = append(times, time.Unix(seconds, 0))
	}
	require.Zero(t, peak.Within(nil, time.Minute))
	require.Equal(t, 1, peak.Within(times, 0))
	require.Equal(t, 3, peak.Within(times, 2*time.Second), "both ends count")
	require.Equal(t, 4, peak.Within(times, 10*time.Second))
	require.Equal(t, len(times), peak.Within(times, time.Hour))
}
