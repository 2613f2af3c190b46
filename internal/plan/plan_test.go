package plan_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/barnabas-webhooks/barnabas/internal/plan"
	"github.com/barnabas-webhooks/barnabas/processor/breaker"
	"github.com/barnabas-webhooks/barnabas/retry"
)

func TestMake_TheDefaultsAreTheDesigns(t *testing.T) {
	t.Parallel()
	p, err := plan.Make(input())
	require.NoError(t, err)
	require.Equal(t, 9, p.Schedule.Attempts)
	require.InDelta(t, (25*time.Hour + 11*time.Minute + 5*time.Second).Seconds(), p.Schedule.MaxSeconds, 0.001)
	require.InDelta(t, 12.6, p.Schedule.MeanSeconds/3600, 0.01)
	require.Equal(t, plan.Opening{Number: 1, MinSeconds: 24, MeanSeconds: 30, MaxSeconds: 36}, p.Openings[0])
	require.Equal(t, plan.Opening{Number: 6, MinSeconds: 720, MeanSeconds: 900, MaxSeconds: 1080}, p.Openings[5])
	require.Len(t, p.Openings, 6)
	require.Equal(t, []plan.Window{
		{Name: "minute", Seconds: 60, Probes: 1, RequestsHard: 6, RequestsAny: 21, LongDown: 1, Rewrites: 2},
		{Name: "hour", Seconds: 3600, Probes: 8, RequestsHard: 13, RequestsAny: 28, LongDown: 6, Rewrites: 9},
		{Name: "day", Seconds: 86400, Probes: 123, RequestsHard: 128, RequestsAny: 143, LongDown: 121, Rewrites: 124},
	}, p.Bound.Windows)
}

// What the policy draws is what the plan says of it, retry by retry.
func TestMake_DrawsAgreeWithTheFormulas(t *testing.T) {
	t.Parallel()
	for seed := range uint64(3) {
		in := input()
		in.Seed, in.Ladders = seed, 20_000
		p, err := plan.Make(in)
		require.NoError(t, err)
		require.Zero(t, p.Schedule.ExpiredShare)
		require.InEpsilon(t, p.Schedule.MeanSeconds, p.Schedule.DrawnMeanSeconds, 0.02)
		require.LessOrEqual(t, p.Schedule.DrawnMaxSeconds, p.Schedule.MaxSeconds)
		for _, r := range p.Schedule.Retries {
			require.InEpsilon(t, r.MeanSeconds, r.DrawnMeanSeconds, 0.02, "retry %d", r.Number)
			require.Less(t, r.DrawnMinSeconds, r.MaxSeconds/500)
			require.Positive(t, r.DrawnMinSeconds)
			require.Greater(t, r.DrawnMaxSeconds, r.MaxSeconds*0.998)
			require.LessOrEqual(t, r.DrawnMaxSeconds, r.MaxSeconds)
			require.InDelta(t, 1, r.DrawnReachedShare, 1e-9)
		}
	}
}

// A lifetime that cuts the schedule shows in what was drawn, and is said.
func TestMake_ALifetimeThatCuts(t *testing.T) {
	t.Parallel()
	in := input()
	in.Policy.Caps = []time.Duration{time.Hour, time.Hour, time.Hour}
	in.Policy.Lifetime = time.Hour
	p, err := plan.Make(in)
	require.NoError(t, err)
	require.LessOrEqual(t, p.Schedule.DrawnMaxSeconds, 3600.0)
	require.InEpsilon(t, 1800, p.Schedule.Retries[0].DrawnMeanSeconds, 0.05)
	require.InEpsilon(t, 900, p.Schedule.Retries[1].DrawnMeanSeconds, 0.05, "half of the half that is left")
	require.Contains(t, p.Markdown(), "**shorter than the schedule can be**")
}

// The same plan on every machine and in every run. UPDATE_GOLDEN=1 rewrites it.
func TestRender_Golden(t *testing.T) {
	t.Parallel()
	in := input()
	in.MaxInFlight, in.Endpoints, in.Seed = 4, 25_000, 1
	var got bytes.Buffer
	require.NoError(t, plan.Render(&got, in))
	const file = "testdata/plan.md"
	if os.Getenv("UPDATE_GOLDEN") != "" {
		require.NoError(t, os.WriteFile(file, got.Bytes(), 0o600))
	}
	want, err := os.ReadFile(file)
	require.NoError(t, err)
	require.Equal(t, string(want), got.String())
}

func TestRender_SaysWhatIsSet(t *testing.T) {
	t.Parallel()
	in := input()
	in.Policy.Caps = []time.Duration{250 * time.Millisecond, 59_960 * time.Millisecond, time.Hour - 1}
	in.Policy.MaxRetryAfter = 0
	var got bytes.Buffer
	require.NoError(t, plan.Render(&got, in))
	for _, want := range []string{"**4 attempts**", "0 to 250ms", "0 to 1m ", "0 to 1h ", "`Retry-After` of the receiver is ignored", "at\nmost 1 request is in flight"} {
		require.Contains(t, got.String(), want)
	}
	require.NotContains(t, got.String(), "such endpoints")
}

func TestRenderJSON_IsThePlan(t *testing.T) {
	t.Parallel()
	in := input()
	in.Endpoints = 7
	want, err := plan.Make(in)
	require.NoError(t, err)
	var out bytes.Buffer
	require.NoError(t, plan.RenderJSON(&out, in))
	var got plan.Plan
	dec := json.NewDecoder(&out)
	dec.DisallowUnknownFields()
	require.NoError(t, dec.Decode(&got))
	require.Equal(t, want, got)
	require.Equal(t, 7*28, got.Bound.Windows[1].AllEndpoints)
}

// C-203, C-132: what cannot hold is refused, with all the numbers.
func TestMake_RefusesWhatCannotHold(t *testing.T) {
	t.Parallel()
	_, err := plan.Make(plan.Input{Endpoints: -1})
	require.ErrorIs(t, err, retry.ErrInvalid)
	require.ErrorIs(t, err, breaker.ErrInvalid)
	require.ErrorIs(t, err, plan.ErrInvalid)
	for _, want := range []string{"caps: 0 entries", "consecutive_hard: 0", "max_in_flight: 0 is less than 1", "endpoints: -1"} {
		require.ErrorContains(t, err, want)
	}

	in := input()
	in.AttemptTimeout = 2 * time.Minute
	_, err = plan.Make(in)
	require.ErrorContains(t, err, "probe_timeout: 2m0s is not longer than an attempt may take, 2m0s")
	require.ErrorIs(t, plan.Render(&bytes.Buffer{}, in), plan.ErrInvalid)
	require.ErrorIs(t, plan.RenderJSON(&bytes.Buffer{}, in), plan.ErrInvalid)
	in.Breaker.ProbeTimeout = 0
	_, err = plan.Make(in)
	require.NoError(t, err, "zero: a probe is never given up")
}

type brokenWriter struct{}

var errFull = errors.New("disk full")

func (brokenWriter) Write([]byte) (int, error) { return 0, errFull }

func TestRender_ReportsAWriterThatFails(t *testing.T) {
	t.Parallel()
	require.ErrorIs(t, plan.Render(brokenWriter{}, input()), errFull)
	require.ErrorIs(t, plan.RenderJSON(brokenWriter{}, input()), errFull)
}
