package process_test

import (
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/barnabas-webhooks/barnabas/test/process"
)

func TestParseUsage(t *testing.T) {
	t.Parallel()
	const status = "Name:\tsh\nVmPeak:\t  9000 kB\nVmHWM:\t  2048 kB\nVmRSS:\t  1024 kB\nThreads:\t3\n"
	// A name may hold what ends it.
	u, err := process.ParseUsage("42 (a) b) R 1 2 3 4 5 6 7 8 9 10 250 50 0 0 20 0", status)
	require.NoError(t, err)
	require.Equal(t, process.Usage{CPU: 3 * time.Second, RSS: 1 << 20, Peak: 2 << 20}, u)

	_, err = process.ParseUsage("42 (sh) R 1", status)
	require.Error(t, err)
	_, err = process.ParseUsage("42 (sh) Z 1 2 3 4 5 6 7 8 9 10 250 50 0", "Name:\tsh\n")
	require.Error(t, err, "a process that has ended needs nothing any more")
}

func TestReadUsage_OfThisProcess(t *testing.T) {
	t.Parallel()
	u, err := process.ReadUsage(os.Getpid())
	require.NoError(t, err)
	require.Greater(t, u.RSS, int64(1<<20))
	require.GreaterOrEqual(t, u.Peak, u.RSS)
}

func TestParseMetrics_SeriesAndTheirSums(t *testing.T) {
	t.Parallel()
	values, err := process.ParseMetrics(strings.NewReader(`# HELP a What it is.
# TYPE a counter
a{kind="x y"} 2
a{kind="z"} 3
b 1.5e+06
c
`))
	require.NoError(t, err)
	require.Equal(t, map[string]float64{"a": 5, `a{kind="x y"}`: 2, `a{kind="z"}`: 3, "b": 1.5e6}, values)
}
