package bench_test

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/barnabas-webhooks/barnabas/test/bench"
)

func TestQuantilesOf_AreExact(t *testing.T) {
	t.Parallel()
	upTo := func(n int) []time.Duration {
		d := make([]time.Duration, n)
		for i := range d {
			d[i] = time.Duration(i+1) * time.Millisecond
		}
		rand.Shuffle(n, func(i, j int) { d[i], d[j] = d[j], d[i] })
		return d
	}
	for n, want := range map[int]bench.Quantiles{
		0:    {},
		1:    {P50: 1, P99: 1, Max: 1},
		2:    {P50: 1, P99: 2, Max: 2},
		3:    {P50: 2, P99: 3, Max: 3},
		100:  {P50: 50, P99: 99, Max: 100},
		101:  {P50: 51, P99: 100, Max: 101},
		1000: {P50: 500, P99: 990, Max: 1000},
	} {
		require.Equal(t, want, bench.QuantilesOf(upTo(n)), "of %d", n)
	}
}

func TestRecorder_ReportsEachClassByFirstArrivals(t *testing.T) {
	t.Parallel()
	var r bench.Recorder
	p := bench.NewPayloads(200)
	began := time.Unix(1_800_000_000, 0)
	note := func(class bench.Class, number uint64, sent, came time.Duration) {
		r.Note(p.Make(class, number, began.Add(sent)), began.Add(came))
	}
	const ms = time.Millisecond
	note(bench.Measured, 1, 0, 10*ms)
	note(bench.Measured, 3, 0, 30*ms)
	note(bench.Measured, 1, 0, 50*ms) // again: counts as a repeat and in the last arrival, not in the quantiles
	note(bench.Measured, 2, 5*ms, 25*ms)
	note(bench.Warming, 1, 0, 900*ms) // the numbers of a class are its own
	r.Note([]byte("{}"), began)
	r.NoteHung()

	require.Equal(t, 5, r.Count().Events)
	report := r.Report()
	require.Equal(t, bench.Stats{
		Events: 3, Repeats: 1, First: began.Add(10 * ms).UnixNano(), Last: began.Add(50 * ms).UnixNano(), P50: 20, P99: 30, Max: 30,
	}, report.Of(bench.Measured))
	require.Equal(t, 1, report.Of(bench.Warming).Events)
	require.Zero(t, report.Of(bench.Flooding))
	require.Equal(t, 1, report.Hung)
	require.Equal(t, 1, report.Strange)

	r.Reset()
	require.Zero(t, r.Count())
	require.Empty(t, r.Report().Classes)
	require.Zero(t, r.Report().Hung)
}
