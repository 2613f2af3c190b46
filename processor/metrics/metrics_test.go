package metrics_test

import (
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"

	"github.com/barnabas-webhooks/barnabas/processor/claim"
	"github.com/barnabas-webhooks/barnabas/processor/metrics"
	"github.com/barnabas-webhooks/barnabas/retry"
	"github.com/barnabas-webhooks/barnabas/schemas"
)

// series are all values of the registry, by name and label value.
func series(t *testing.T, reg *prometheus.Registry) map[string]map[string]float64 {
	t.Helper()
	families, err := reg.Gather()
	require.NoError(t, err)
	all := map[string]map[string]float64{}
	for _, f := range families {
		all[f.GetName()] = map[string]float64{}
		for _, m := range f.GetMetric() {
			label := ""
			for _, l := range m.GetLabel() {
				label += l.GetValue()
			}
			all[f.GetName()][label] = m.GetCounter().GetValue() + m.GetGauge().GetValue() + float64(m.GetHistogram().GetSampleCount())
		}
	}
	return all
}

func newMetrics() (*metrics.Metrics, *prometheus.Registry) {
	reg := prometheus.NewRegistry()
	return metrics.New(reg, metrics.Gauges{InFlight: func() float64 { return 7 }, MemoryBytes: func() float64 { return 9 }, Claims: new(claim.Memory).Stats}), reg
}

func strs[S ~string](values ...S) []string {
	out := make([]string, len(values))
	for i, v := range values {
		out[i] = string(v)
	}
	return out
}

// C-211: every series is there at zero before anything has happened, so that an alert can fire on the first failure.
func TestMetrics_EverySeriesIsThereAtZero(t *testing.T) {
	t.Parallel()
	_, reg := newMetrics()
	got := series(t, reg)
	for name, labels := range map[string][]string{
		"barnabas_events_total":              append(strs(schemas.VerdictFirst, schemas.VerdictDuplicate, schemas.VerdictConflict), "unkeyed", "undecodable"),
		"barnabas_attempts_total":            strs(retry.Classes()...),
		"barnabas_decisions_total":           {"delivered", "retry", "hold", "dead"},
		"barnabas_holds_total":               metrics.HoldReasons(),
		"barnabas_dead_letters_total":        metrics.DeadReasons(),
		"barnabas_breaker_transitions_total": {"closed", "open", "half_open"},
		"barnabas_rerouted_total":            {""},
		"barnabas_breakers_open":             {""},
		"barnabas_units_owned":               {""},
		"barnabas_settle_failures_total":     {""},
	} {
		require.Len(t, got[name], len(labels), name)
		for _, l := range labels {
			value, ok := got[name][l]
			require.True(t, ok, "%s %s", name, l)
			require.Zero(t, value, "%s %s", name, l)
		}
	}
	require.InDelta(t, 7, got["barnabas_in_flight"][""], 0)
	require.InDelta(t, 9, got["barnabas_held_bytes"][""], 0)
	for name := range got {
		require.True(t, strings.HasPrefix(name, "barnabas_"), name)
		require.Regexp(t, `^[a-z_]+$`, name)
	}
}

// C-214: every way in which a delivery can end has its own reason, and no reason stands for two.
func TestMetrics_ReasonsAreClosedSets(t *testing.T) {
	t.Parallel()
	seen := map[string]bool{}
	for _, r := range metrics.DeadReasons() {
		require.False(t, seen[r], r)
		seen[r] = true
	}
	for _, r := range []string{
		schemas.ReasonUndecodable, schemas.ReasonUnknownEndpoint, schemas.ReasonEndpointDeleted, schemas.ReasonDisabled,
		schemas.ReasonExpired, schemas.ReasonTooLarge, retry.ReasonExpired,
	} {
		require.True(t, seen[r], r)
	}
	for _, c := range retry.Classes() {
		require.Equal(t, c != retry.OK && c != retry.Cancelled, seen[string(c)], c)
	}
	holds := map[string]bool{}
	for _, r := range metrics.HoldReasons() {
		require.False(t, holds[r], r)
		require.False(t, seen[r] && r != metrics.HoldUnknown, "%s is a dead letter's reason too", r)
		holds[r] = true
	}
}

func TestMetrics_SettledBeatShowsProgress(t *testing.T) {
	t.Parallel()
	m, reg := newMetrics()
	require.Zero(t, series(t, reg)["barnabas_last_settled_timestamp_seconds"][""])
	before := time.Now()
	m.SettledBeat(time.Second, 5)
	got := series(t, reg)
	require.GreaterOrEqual(t, got["barnabas_last_settled_timestamp_seconds"][""], float64(before.Unix()))
	require.InDelta(t, 1, got["barnabas_settle_seconds"][""], 0)
}
