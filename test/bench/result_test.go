package bench_test

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/barnabas-webhooks/barnabas/test/bench"
)

func TestMedianOf(t *testing.T) {
	t.Parallel()
	require.InDelta(t, 3.0, bench.MedianOf([]float64{3}), 0)
	require.InDelta(t, 3.0, bench.MedianOf([]float64{9, 1, 3}), 0)
	require.InDelta(t, 4.0, bench.MedianOf([]float64{9, 1, 3, 5}), 0)
}

func TestScenario_MediansAndRatios(t *testing.T) {
	t.Parallel()
	s := bench.Scenario{Rounds: []bench.Round{
		{"a": {bench.P50: 1, bench.P99: 8}, "b": {bench.P50: 2}},
		{"a": {bench.P50: 9}, "b": {bench.P50: 3}},
		{"a": {bench.P50: 4}, "b": {bench.P50: 1}},
		{"b": {bench.P50: 0}},
	}}
	v, ok := s.Median("a", bench.P50)
	require.True(t, ok)
	require.InDelta(t, 4.0, v, 0)
	v, ok = s.Median("a", bench.P99)
	require.True(t, ok, "the rounds that have it count")
	require.InDelta(t, 8.0, v, 0)
	v, ok = s.Ratio("a", "b", bench.P50)
	require.True(t, ok)
	require.InDelta(t, 3.0, v, 0, "of 0.5, 3 and 4: not of the medians, which would be 2.67")
	_, ok = s.Median("c", bench.P50)
	require.False(t, ok)
	_, ok = s.Ratio("a", "c", bench.P50)
	require.False(t, ok)
	require.InDelta(t, 20.0, s.Sum(bench.P50), 0)
}

// Which number of workers is best is decided once, not round by round: the best of each round would be too good.
func TestResult_TheBareLoopThatDoesBestCounts(t *testing.T) {
	t.Parallel()
	round := func(few, many float64) bench.Round {
		return bench.Round{
			"bare loop, 32 workers":  {bench.PerSecond: few, bench.Workers: 32, bench.Missing: 0},
			"bare loop, 100 workers": {bench.PerSecond: many, bench.Workers: 100},
			bench.System:             {bench.PerSecond: 50},
		}
	}
	r := bench.Result{Scenarios: []bench.Scenario{{Name: "x", Rounds: []bench.Round{round(100, 10), round(90, 400), round(80, 20)}}}}
	r.Finish()
	s := r.Scenario("x")
	v, ok := s.Median(bench.BareLoop, bench.PerSecond)
	require.True(t, ok)
	require.InDelta(t, 90.0, v, 0)
	require.InDelta(t, 32.0, s.Medians[bench.BareLoop][bench.Workers], 0)
	require.Nil(t, r.Scenario("y"))
}

// reached is a result that reaches every target, just so.
func reached() *bench.Result {
	r := &bench.Result{}
	add := func(name string, kind bench.Kind, round bench.Round) {
		r.Scenarios = append(r.Scenarios, bench.Scenario{Name: name, What: name, Kind: kind, Rounds: []bench.Round{round}})
	}
	for name, ratio := range map[string]float64{
		"ordered-10-0ms": 0.8, "ordered-10-20ms": 0.8, "ordered-100-0ms": 0.75, "ordered-100-20ms": 0.75,
		"parallel-100-0ms": 0.75, "parallel-100-20ms": 0.75, "ordered-100-0ms-keys": 0.1,
	} {
		system := bench.Figures{
			bench.PerSecond: ratio * 1000, bench.ProcessorCPU: 0.04, bench.BrokerCPU: 0.015, bench.Peak: 64, bench.Missing: 0, bench.Repeats: 0,
		}
		add(name, bench.Throughput, bench.Round{bench.System: system, "bare loop, 32 workers": {bench.PerSecond: 1000, bench.Workers: 32}})
	}
	add("latency-500", bench.Latency, bench.Round{bench.System: {bench.P50: 2.2, bench.P99: 6}, bench.KafkaOnly: {bench.P50: 1.1, bench.P99: 3}})
	for _, name := range []string{"isolation-hang", "isolation-flood"} {
		add(name, bench.Isolation, bench.Round{
			bench.With: {bench.PerSecond: 445.5, bench.P99: 12}, bench.Without: {bench.PerSecond: 450, bench.P99: 10},
		})
	}
	add("api", bench.Sending, bench.Round{
		bench.System: {bench.Accepted: 10_000, bench.Workers: 64}, bench.Repeated: {bench.P99: 20, bench.Extra: 0},
	})
	add("keys", bench.StartUp, bench.Round{bench.Empty: {bench.Ready: 500}, bench.First: {bench.Ready: 900}})
	return r
}

func TestJudge_ReachedJustSo(t *testing.T) {
	t.Parallel()
	r := reached()
	r.Finish()
	require.NotEmpty(t, r.Targets)
	for _, j := range r.Targets {
		require.Equal(t, bench.Passed, j.Verdict, "%s: %v, wanted %s", j.Target, j.Got, j.Wanted)
	}
	require.True(t, r.Held())
}

// Every target can be missed, and then it is the only one that is.
func TestJudge_EachTargetCanBeMissed(t *testing.T) {
	t.Parallel()
	type miss struct {
		scenario, variant string
		figure            bench.Figure
		value             float64
	}
	missed := map[string]bool{}
	for _, m := range []miss{
		{"ordered-10-0ms", bench.System, bench.PerSecond, 799},
		{"ordered-10-20ms", bench.System, bench.PerSecond, 799},
		{"ordered-100-0ms", bench.System, bench.PerSecond, 749},
		{"ordered-100-20ms", bench.System, bench.PerSecond, 749},
		{"parallel-100-0ms", bench.System, bench.PerSecond, 749},
		{"parallel-100-20ms", bench.System, bench.PerSecond, 749},
		{"ordered-100-0ms", bench.System, bench.BrokerCPU, 0.016},
		{"ordered-100-0ms", bench.System, bench.Peak, 64.1},
		{"latency-500", bench.System, bench.P50, 2.21},
		{"latency-500", bench.System, bench.P99, 6.1},
		{"isolation-hang", bench.With, bench.PerSecond, 445},
		{"isolation-hang", bench.With, bench.P99, 12.1},
		{"isolation-flood", bench.With, bench.PerSecond, 445},
		{"isolation-flood", bench.With, bench.P99, 12.1},
		{"api", bench.System, bench.Accepted, 9999},
		{"api", bench.Repeated, bench.P99, 20.1},
		{"api", bench.Repeated, bench.Extra, 1},
		{"ordered-10-20ms", bench.System, bench.Missing, 1},
		{"ordered-100-0ms-keys", bench.System, bench.Repeats, 1},
	} {
		r := reached()
		r.Scenario(m.scenario).Rounds[0][m.variant][m.figure] = m.value
		r.Finish()
		require.False(t, r.Held())
		failed := 0
		for _, j := range r.Targets {
			if j.Verdict == bench.Failed {
				failed++
				missed[j.Target] = true
			}
		}
		require.Equal(t, 1, failed, "%+v", m)
	}
	r := reached()
	r.Finish()
	require.Len(t, missed, len(r.Targets), "a target that cannot be missed")
}

func TestJudge_WhatWasNotMeasuredIsNotMissed(t *testing.T) {
	t.Parallel()
	var r bench.Result
	r.Finish()
	require.True(t, r.Held())
	for _, j := range r.Targets {
		require.Equal(t, bench.NotRun, j.Verdict)
	}
}

func TestResult_Tables(t *testing.T) {
	t.Parallel()
	r := reached()
	r.Conditions.CPU, r.Conditions.Cores, r.Conditions.Events = "A Processor", 2, 0.5
	r.Finish()
	var out bytes.Buffer
	require.NoError(t, r.WriteTables(&out))
	text := out.String()
	require.Contains(t, text, "A Processor, 2 cores")
	require.Contains(t, text, "0.5 of the full number of events")
	require.Contains(t, text, "| ordered-100-0ms | 750 | 1000 | 32 | 0.75 | 0.04 | 0.015 | – | 64 |")
	require.Contains(t, text, "| latency-500 | kafka alone | 1.1 | 3 | – | 1 | 1 |")
	require.Contains(t, text, "| latency-500 | barnabas | 2.2 | 6 | – | 2 | 2 |")
	require.Contains(t, text, "| isolation-hang | beside others | 446 | – | 12 | – | 0.99 | 1.2 |")
	require.Contains(t, text, "| API: accepted/s with verdict | ≥ 10000 | 10000 | pass |")
	cells := 0
	for line := range strings.Lines(text) {
		switch n := strings.Count(line, "|"); {
		case n == 0:
			cells = 0
		case cells == 0:
			cells = n
		default:
			require.Equal(t, cells, n, line)
		}
	}

	out.Reset()
	require.NoError(t, r.WriteJSON(&out))
	var back bench.Result
	require.NoError(t, json.Unmarshal(out.Bytes(), &back))
	require.Equal(t, r.Targets, back.Targets)
	require.Equal(t, r.Scenarios, back.Scenarios)
}
