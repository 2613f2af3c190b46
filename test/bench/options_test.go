package bench_test

import (
	"bytes"
	"debug/buildinfo"
	"regexp"
	"runtime/debug"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/barnabas-webhooks/barnabas/test/bench"
)

func TestOptions_EveryProblemIsNamed(t *testing.T) {
	t.Parallel()
	o := bench.DefaultOptions()
	o.Binary, o.Self = "barnabas", "bench"
	require.NoError(t, o.Validate())
	require.ErrorContains(t, new(bench.Options).Validate(), "binary")

	o = bench.Options{
		Events: -1, Size: 10, Partitions: 1000, Connections: -5, Nodes: 9, Rounds: -1, Scenario: regexp.MustCompile("^no such$"),
	}
	err := o.Validate()
	for _, name := range []string{"binary", "self", "rounds", "events", "size", "partitions", "heap", "connections", "nodes", "scenario"} {
		require.ErrorContains(t, err, name+":")
	}
}

func TestOptions_FilterChoosesLongScenariosToo(t *testing.T) {
	t.Parallel()
	o := bench.DefaultOptions()
	o.Binary, o.Self = "barnabas", "bench"
	for expression, ok := range map[string]bool{"^keys$": true, "latency": true, "ordered-100-0ms$": true, "^$": false} {
		o.Scenario = regexp.MustCompile(expression)
		require.Equal(t, ok, o.Validate() == nil, expression)
	}
}

// Whoever filters by a name relies on it, and so do the targets.
func TestList_NamesAreDistinct(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	bench.List(&out)
	seen := map[string]bool{}
	for line := range strings.Lines(out.String()) {
		name := strings.Fields(line)[0]
		require.False(t, seen[name], name)
		seen[name] = true
	}
	for _, name := range []string{bench.SaturatedScenario, bench.Latency500, bench.APIScenario, bench.HangScenario, bench.FloodScenario} {
		require.True(t, seen[name], "a target is about %s", name)
	}
}

func TestPlace_ReplacesWhatIsBetweenTheMarks(t *testing.T) {
	t.Parallel()
	page := "before\n" + bench.PageBegin + "\nold\n" + bench.PageEnd + "\nafter\n"
	got, err := bench.Place(page, "new\n")
	require.NoError(t, err)
	require.Equal(t, "before\n"+bench.PageBegin+"\nnew\n"+bench.PageEnd+"\nafter\n", got)
	again, err := bench.Place(got, "new\n")
	require.NoError(t, err)
	require.Equal(t, got, again)

	for name, bad := range map[string]string{
		"none": "text", "no end": bench.PageBegin, "turned round": bench.PageEnd + bench.PageBegin, "twice": page + page,
		"two begins": bench.PageBegin + page, "two ends": page + bench.PageEnd, "end before": bench.PageEnd + page,
	} {
		_, err := bench.Place(bad, "new")
		require.ErrorIs(t, err, bench.ErrNoMarks, name)
	}
}

// The page that make bench is meant to update can be updated.
func TestCheckPage_OfTheDocumentation(t *testing.T) {
	t.Parallel()
	require.NoError(t, bench.CheckPage("../../docs/performance.md"))
	require.Error(t, bench.CheckPage("../../docs/chaos.md"))
	require.Error(t, bench.CheckPage("nowhere.md"))
}

func TestConditions_OfTheMachineAndTheBuild(t *testing.T) {
	t.Parallel()
	require.Equal(t, "Some CPU @ 2.0GHz", bench.CPUModel("processor\t: 0\nmodel name\t: Some CPU @ 2.0GHz\nprocessor\t: 1\nmodel name\t: Other\n"))
	require.Equal(t, "unknown", bench.CPUModel(""))
	setting := func(pairs ...string) *buildinfo.BuildInfo {
		b := &buildinfo.BuildInfo{}
		for i := 0; i < len(pairs); i += 2 {
			b.Settings = append(b.Settings, debug.BuildSetting{Key: pairs[i], Value: pairs[i+1]})
		}
		return b
	}
	require.Equal(t, "0123456789ab", bench.Commit(setting("vcs.revision", "0123456789abcdef", "vcs.modified", "false")))
	require.Equal(t, "0123+", bench.Commit(setting("vcs.revision", "0123", "vcs.modified", "true")))
	require.Equal(t, "unknown", bench.Commit(setting()))
}
