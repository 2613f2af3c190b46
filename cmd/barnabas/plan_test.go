package main_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	main "github.com/barnabas-webhooks/barnabas/cmd/barnabas"
	"github.com/barnabas-webhooks/barnabas/internal/plan"
	"github.com/barnabas-webhooks/barnabas/internal/testkit/golden"
	"github.com/barnabas-webhooks/barnabas/processor/claimstore"
)

func TestPlan_NeedsNoKafka(t *testing.T) {
	t.Parallel()
	o := world{deps: parts(t)}.run(t, "plan")
	requireCode(t, main.ExitOK, o)
	require.Contains(t, o.out, "**9 attempts**")
	require.Contains(t, o.out, "## Verdict: it fits")
	for _, form := range [][]string{{"--json"}, {"-o", "json"}, {"--output=json"}} {
		o = world{deps: parts(t)}.run(t, append([]string{"plan", "--set", "retry.caps=1s,2s", "--endpoints", "10", "--in-flight", "3"}, form...)...)
		requireCode(t, main.ExitOK, o)
		var p plan.Plan
		require.NoError(t, json.Unmarshal([]byte(o.out), &p))
		require.Equal(t, 3, p.Schedule.Attempts)
		require.Equal(t, 3, p.Bound.MaxInFlight, "several in flight are a parallel endpoint's")
		require.Equal(t, 10*(20+2+8), p.Outage.Windows[1].Requests)
	}
	// What does not fit is an answer, and no failure.
	o = world{deps: parts(t)}.run(t, "plan", "--rate", "50", "--busiest", "0.2", "--memory", "8GiB")
	requireCode(t, main.ExitOK, o)
	require.Contains(t, o.out, "## Verdict: it does not fit")
}

// The settings of the configuration are those of the plan, one by one.
func TestPlan_FollowsTheConfiguration(t *testing.T) {
	t.Parallel()
	const args = "limits.in_flight=100 limits.rate=50 limits.memory=64MiB lanes.max_entries=10 lanes.max_age=3s breaker.consecutive_hard=2 " +
		"timeouts.total=4s timeouts.max_total=7s timeouts.headers=4s processor.beat=1s idempotency.window=2h api.max_concurrent=7 topics.partitions=16 " +
		"topics.replication=2 topics.prefix=x. endpoints.rotation_overlap=5h claims.directory=/c claims.cache=16MiB api.max_lag=900 api.tenant_rate=3 api.verdict_wait=2s"
	line := []string{"plan", "-o", "json", "--order", "parallel", "--set", "limits.endpoint_in_flight=6"}
	for set := range strings.FieldsSeq(args) {
		line = append(line, "--set", set)
	}
	o := world{deps: parts(t)}.run(t, line...)
	requireCode(t, main.ExitOK, o)
	var p plan.Plan
	require.NoError(t, json.Unmarshal([]byte(o.out), &p))
	require.Equal(t, 100, p.Load.SlotsPerProcess)
	require.Equal(t, p.Load.Processes*(50*60+5), p.Outage.Windows[0].ByRate)
	require.Equal(t, int64(64<<20), p.Memory.RecordsLimit)
	require.Equal(t, 10, p.Lane.Entries)
	require.Equal(t, 2, p.Bound.ThresholdHard)
	require.Equal(t, 6, p.Bound.MaxInFlight)
	require.InDelta(t, 11, p.Load.ResidenceSeconds, 1e-9, "3 s + 7 s + 1 s")
	require.InDelta(t, 4, p.Contract.AttemptSeconds, 1e-9)
	require.InDelta(t, 7200, p.Contract.WindowSeconds, 1e-9)
	require.InDelta(t, 5*3600, p.Contract.OverlapSeconds, 1e-9)
	require.Equal(t, 7, p.API.MaxConcurrent)
	require.Equal(t, int64(900), p.API.MaxLag)
	require.InDelta(t, 3, p.API.TenantRate, 1e-9)
	require.Equal(t, max(int64(64+160)<<20, p.Memory.Live*5/4), p.Memory.Heap)
	require.Equal(t, int64(16<<20), p.Memory.KeysBytes)
	require.Equal(t, 2*100+7+256+claimstore.MaxFiles, p.Memory.Descriptors)
	require.Equal(t, 16, p.Load.Partitions)
	require.Equal(t, 2, p.Disk.Copies)
	require.Equal(t, "x.events", p.Disk.Topics[0].Topic)
	require.InDelta(t, 400, p.Load.APISlots, 1e-9)
}

func TestPlan_RefusesWhatIsNoVolume(t *testing.T) {
	t.Parallel()
	for want, args := range map[string][]string{
		"retry.caps (--set): at least one":     {"--set", "retry.caps="},
		"--output: \"yaml\" is neither":        {"-o", "yaml"},
		"--payload: \"large\": not a size":     {"--payload", "large"},
		"payload: 2000000 is outside":          {"--payload", "2MB"},
		"--memory: \"-1GiB\" is negative":      {"--memory", "-1GiB"},
		"rate: -1 is not over 0":               {"--rate", "-1"},
		"latency: 15s is not shorter":          {"--latency", "15s"},
		"order: \"sorted\" is none of":         {"--order", "sorted"},
		"in_flight: 3, but an ordered":         {"--order", "ordered", "--in-flight", "3"},
		"unknown command \"now\"":              {"now"},
		"busiest: 5 is no share, 0 to 1":       {"--busiest", "5"},
		"processes: 10001 is outside 0 to 100": {"--processes", "10001"},
	} {
		o := world{deps: parts(t)}.run(t, append([]string{"plan"}, args...)...)
		requireCode(t, main.ExitUsage, o)
		require.Contains(t, o.stderr, want)
		require.Empty(t, o.out)
	}
}

// docs/plan.md is the document of a volume, as the command prints it. make docs rewrites it.
func TestPlan_Docs(t *testing.T) {
	t.Parallel()
	const command = "plan --rate 200 --burst 2000 --endpoints 1000 --payload 2KiB --latency 200ms --order ordered --memory 32GiB"
	o := world{deps: parts(t)}.run(t, strings.Fields(command)...)
	requireCode(t, main.ExitOK, o)
	golden.Check(t, "../../docs/plan.md", fmt.Appendf(nil, "<!-- Made by \"barnabas %s\" (make docs). Do not edit. -->\n\n%s", command, o.out))
}
