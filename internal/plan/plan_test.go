package plan_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/barnabas-webhooks/barnabas/internal/plan"
	"github.com/barnabas-webhooks/barnabas/internal/testkit/golden"
	"github.com/barnabas-webhooks/barnabas/processor/breaker"
	"github.com/barnabas-webhooks/barnabas/retry"
	"github.com/barnabas-webhooks/barnabas/schemas"
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
		{Name: "minute", Seconds: 60, Probes: 1, RequestsHard: 6, RequestsAny: 21, LongDown: 1, Rewrites: 3, RewritesHung: 16, RewritesFull: 5, RewritesShort: 16},
		{Name: "hour", Seconds: 3600, Probes: 8, RequestsHard: 13, RequestsAny: 28, LongDown: 6, Rewrites: 9, RewritesHung: 183, RewritesFull: 70, RewritesShort: 730},
		{Name: "day", Seconds: 86400, Probes: 123, RequestsHard: 128, RequestsAny: 143, LongDown: 121, Rewrites: 124, RewritesHung: 988, RewritesFull: 1116, RewritesShort: 17405},
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

// The same document on every machine and in every run. make golden rewrites it.
func TestRender_Golden(t *testing.T) {
	t.Parallel()
	for name, in := range map[string]plan.Input{"defaults": input(), "strained": strained(), "strict": strict(input())} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			in.Seed = 1
			var got, again bytes.Buffer
			require.NoError(t, plan.Render(&got, in))
			require.NoError(t, plan.Render(&again, in))
			require.Equal(t, got.String(), again.String())
			golden.Check(t, "testdata/"+name+".md", got.Bytes())
		})
	}
}

func strict(in plan.Input) plan.Input {
	in.Order = schemas.OrderStrict
	return in
}

// strained is a volume that needs almost every change that there is.
func strained() plan.Input {
	in := parallel(input(), 4)
	in.Rate, in.Burst, in.Endpoints, in.Payload, in.Latency = 12_000, 500_000, 25_000, 40_000, 900*time.Millisecond
	in.Busiest, in.Failing, in.Processes, in.Memory = 0.02, 0.1, 2, 1<<30
	in.Group.Rate = 5000
	return in
}

func TestRender_SaysWhatIsSet(t *testing.T) {
	t.Parallel()
	in := input()
	in.Policy.Caps = []time.Duration{250 * time.Millisecond, 59_960 * time.Millisecond, time.Hour - 1}
	in.Policy.MaxRetryAfter = 0
	var got bytes.Buffer
	require.NoError(t, plan.Render(&got, in))
	for _, want := range []string{"**4 attempts**", "0 to 250ms", "0 to 1m ", "0 to 1h ", "`Retry-After` of the receiver is ignored", "1 request is"} {
		require.Contains(t, got.String(), want)
	}
}

func TestRenderJSON_IsThePlan(t *testing.T) {
	t.Parallel()
	in := strained()
	want, err := plan.Make(in)
	require.NoError(t, err)
	var out bytes.Buffer
	require.NoError(t, plan.RenderJSON(&out, in))
	var got plan.Plan
	dec := json.NewDecoder(&out)
	dec.DisallowUnknownFields()
	require.NoError(t, dec.Decode(&got))
	require.Equal(t, want, got)
	require.False(t, got.Verdict.Fits)
}

// C-203, C-132: what cannot hold is refused, with all the numbers.
func TestMake_RefusesWhatCannotHold(t *testing.T) {
	t.Parallel()
	_, err := plan.Make(plan.Input{Volume: plan.Volume{Endpoints: -1}})
	require.ErrorIs(t, err, retry.ErrInvalid)
	require.ErrorIs(t, err, breaker.ErrInvalid)
	require.ErrorIs(t, err, plan.ErrInvalid)
	for _, want := range []string{"caps: 0 entries", "consecutive_hard: 0", "endpoints: -1", "partitions 0", "timeouts: 0s"} {
		require.ErrorContains(t, err, want)
	}

	in := input()
	in.Deliver.MaxTimeout = 2 * time.Minute
	_, err = plan.Make(in)
	require.ErrorContains(t, err, "probe_timeout: 2m0s is not longer than an attempt may take, 2m0s")
	require.ErrorIs(t, plan.Render(&bytes.Buffer{}, in), plan.ErrInvalid)
	require.ErrorIs(t, plan.RenderJSON(&bytes.Buffer{}, in), plan.ErrInvalid)
	in.Breaker.ProbeTimeout = 0
	_, err = plan.Make(in)
	require.NoError(t, err, "zero: a probe is never given up")
}

func TestMake_RefusesWhatIsNoVolume(t *testing.T) {
	t.Parallel()
	for want, change := range map[string]func(*plan.Input){
		"rate: 0 is":             func(in *plan.Input) { in.Rate = 0 },
		"rate: NaN is":           func(in *plan.Input) { in.Rate = math.NaN() },
		"rate: +Inf is":          func(in *plan.Input) { in.Rate = math.Inf(1) },
		"burst: -1 is":           func(in *plan.Input) { in.Burst = -1 },
		"endpoints: 0 is":        func(in *plan.Input) { in.Endpoints = 0 },
		"endpoints: 1000001 is":  func(in *plan.Input) { in.Endpoints = 1_000_001 },
		"payload: 900001 is":     func(in *plan.Input) { in.Payload = 900_001 },
		"latency: 0s is":         func(in *plan.Input) { in.Latency = 0 },
		"latency: 15s is not":    func(in *plan.Input) { in.Latency = 15 * time.Second },
		`order: "sorted" is`:     func(in *plan.Input) { in.Order = "sorted" },
		"in_flight: 2, but":      func(in *plan.Input) { in.InFlight = 2 },
		"busiest: 1.01 is":       func(in *plan.Input) { in.Busiest = 1.01 },
		"failing: -0.1 is":       func(in *plan.Input) { in.Failing = -0.1 },
		"keyed: NaN is":          func(in *plan.Input) { in.Keyed = math.NaN() },
		"processes: -1 is":       func(in *plan.Input) { in.Processes = -1 },
		"copies: 0 is":           func(in *plan.Input) { in.Copies = 0 },
		"memory: -1 must":        func(in *plan.Input) { in.Memory = -1 },
		"ladders: 1000001 is":    func(in *plan.Input) { in.Ladders = 1_000_001 },
		"api: 0 requests":        func(in *plan.Input) { in.API.MaxConcurrent = 0 },
		"lane_entries: 0":        func(in *plan.Input) { in.Unit.LaneEntries = 0 },
		"beat: 0s is outside":    func(in *plan.Input) { in.Settle.Beat = 0 },
		"max_in_flight: 0 must":  func(in *plan.Input) { in.Group.MaxInFlight = 0 },
		"timeouts: 15s is not o": func(in *plan.Input) { in.Deliver.MaxTimeout = time.Second },
	} {
		in := input()
		change(&in)
		_, err := plan.Make(in)
		require.ErrorContains(t, err, want)
	}
}

type brokenWriter struct{}

var errFull = errors.New("disk full")

func (brokenWriter) Write([]byte) (int, error) { return 0, errFull }

func TestRender_ReportsAWriterThatFails(t *testing.T) {
	t.Parallel()
	require.ErrorIs(t, plan.Render(brokenWriter{}, input()), errFull)
	require.ErrorIs(t, plan.RenderJSON(brokenWriter{}, input()), errFull)
}
