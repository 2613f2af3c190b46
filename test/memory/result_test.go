package memory_test

import (
	"bytes"
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/barnabas-webhooks/barnabas/test/memory"
)

// sound is a result with which nothing is wrong.
func sound() *memory.Result {
	r := &memory.Result{Events: 1000, Size: 100, Limit: 512, Drained: 30, Samples: []memory.Sample{}}
	for i := range 90 {
		r.Samples = append(r.Samples, memory.Sample{Seconds: float64(i), RSS: 300, Peak: 400})
	}
	whole := memory.Landed{Sent: 10, Landed: 10}
	r.Among, r.Near, r.Apart = whole, whole, whole
	return r
}

// Each promise, broken once, is found, and nothing else is.
func TestResult_FindsEachViolation(t *testing.T) {
	t.Parallel()
	o := memory.DefaultOptions()
	r := sound()
	r.Judge(&o)
	require.True(t, r.Held(), "%v", r.Violations)
	for name, c := range map[string]struct {
		breaks func(*memory.Result)
		found  string
	}{
		"the peak that the kernel saw": {func(r *memory.Result) { r.Samples[3].Peak = 513 }, "at its peak"},
		"the peak that was sampled":    {func(r *memory.Result) { r.Samples[3].RSS = 513 }, "at its peak"},
		"memory that grows": {func(r *memory.Result) {
			for i := 60; i < 90; i++ {
				r.Samples[i].RSS = 400
			}
		}, "not flat"},
		"a backlog that is left":    {func(r *memory.Result) { r.Drained = 0 }, "not everything was taken in"},
		"a healthy one among them":  {func(r *memory.Result) { r.Among.Landed = 9 }, "among the dead, 9 landed"},
		"a healthy one behind them": {func(r *memory.Result) { r.Near.Landed = 9 }, "behind the backlog, 9 landed"},
		"a healthy one apart":       {func(r *memory.Result) { r.Apart.Landed = 9 }, "of their own, 9 landed"},
		"an end that is none":       {func(r *memory.Result) { r.Exit = 1 }, "exit code 1"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := sound()
			c.breaks(r)
			r.Judge(&o)
			require.Len(t, r.Violations, 1)
			require.Contains(t, r.Violations[0], c.found)
			var table, raw bytes.Buffer
			require.NoError(t, r.WriteTable(&table))
			require.Contains(t, table.String(), "VIOLATED: "+r.Violations[0])
			require.NoError(t, r.WriteJSON(&raw))
			var again memory.Result
			require.NoError(t, json.Unmarshal(raw.Bytes(), &again))
			require.Equal(t, r, &again)
		})
	}
}

func TestOptions_Validate(t *testing.T) {
	t.Parallel()
	o := memory.DefaultOptions()
	require.ErrorContains(t, o.Validate(), "binary:")
	o.Binary = "barnabas"
	require.NoError(t, o.Validate())
	var none memory.Options
	for _, name := range []string{"binary", "events", "size", "endpoints", "healthy", "rate", "partitions", "limit", "patience"} {
		require.ErrorContains(t, none.Validate(), name+":", "all at once")
	}
}
