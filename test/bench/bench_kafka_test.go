//go:build kafka

package bench_test

import (
	"bytes"
	"os/exec"
	"path/filepath"
	"regexp"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/barnabas-webhooks/barnabas/test/bench"
)

// Every scenario goes through at a thousandth of its size. What it measures then says nothing, but that nothing is lost or
// doubled.
func TestBench_EveryScenarioGoesThrough(t *testing.T) {
	dir := t.TempDir()
	o := bench.DefaultOptions()
	o.Binary, o.Self, o.Progress = filepath.Join(dir, "barnabas"), filepath.Join(dir, "bench"), t.Output()
	o.Events, o.Rounds, o.Partitions, o.Heap, o.Nodes, o.Scenario = 0.001, 1, 16, 768, 2, regexp.MustCompile("")
	o.Profile = filepath.Join(dir, "profiles")
	for binary, source := range map[string]string{o.Binary: "../../cmd/barnabas", o.Self: "./cmd/bench"} {
		out, err := exec.CommandContext(t.Context(), "go", "build", "-o", binary, source).CombinedOutput()
		require.NoError(t, err, "%s", out)
	}
	result, err := bench.Run(t.Context(), o)
	require.NoError(t, err)
	var tables bytes.Buffer
	require.NoError(t, result.WriteTables(&tables))
	t.Logf("\n%s", tables.String())
	for _, s := range result.Scenarios {
		require.Zero(t, s.Sum(bench.Missing), s.Name)
		require.Zero(t, s.Sum(bench.Repeats), s.Name)
		require.Zero(t, s.Sum(bench.Extra), s.Name)
	}
	for _, j := range result.Targets {
		require.NotEqual(t, bench.NotRun, j.Verdict, j.Target)
	}
	for _, name := range []string{"cpu", "allocs", "block", "mutex"} {
		require.FileExists(t, filepath.Join(o.Profile, name+".pb.gz"))
	}
}
