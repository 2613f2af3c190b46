package app_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/barnabas-webhooks/barnabas/internal/app"
)

// Invariant 9: garbage stays bounded beside the records, and a process whose keys or endpoints need much is not
// driven into collecting all the time.
func TestSoftMemoryLimit(t *testing.T) {
	t.Parallel()
	const mib = int64(1 << 20)
	for _, c := range []struct {
		name                string
		records, live, want int64
	}{
		{"the default leaves 96 MiB of 512 to what the runtime does not count", 256 * mib, 0, 416 * mib},
		{"what lives fits in", 256 * mib, 300 * mib, 416 * mib},
		{"ten million keys live", 256 * mib, 1600 * mib, 2000 * mib},
		{"a small budget", 8 * mib, 40 * mib, 168 * mib},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			require.Equal(t, c.want, app.SoftMemoryLimit(c.records, c.live))
		})
	}
}
