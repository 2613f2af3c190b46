package retry_test

import (
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/barnabas-webhooks/barnabas/retry"
)

func TestDefaultPolicy_IsTheDesigns(t *testing.T) {
	t.Parallel()
	p := retry.DefaultPolicy()
	require.NoError(t, p.Validate())
	require.Less(t, p.TotalMax(), p.Lifetime, "the schedule fits into the lifetime")
	p.Caps[0] = 0
	require.NotZero(t, retry.DefaultPolicy().Caps[0], "each caller has slices of its own")
}

// C-203: refused at start, all problems at once, each with its key; or taken literally.
func TestValidate_NamesEveryProblem(t *testing.T) {
	t.Parallel()
	minute, hour := time.Minute, time.Hour
	for _, tt := range []struct {
		name   string
		change func(*retry.Policy)
		want   []string // none: legal
	}{
		{"no caps", func(p *retry.Policy) { p.Caps = nil }, []string{"caps: 0 entries, need 1 to 32"}},
		{"empty caps", func(p *retry.Policy) { p.Caps = []time.Duration{} }, []string{"caps: 0 entries"}},
		{"too many caps", func(p *retry.Policy) { p.Caps = slices.Repeat([]time.Duration{minute}, 33) }, []string{"caps: 33 entries"}},
		{
			"a zero and a negative cap", func(p *retry.Policy) { p.Caps[1], p.Caps[2] = 0, -minute },
			[]string{"caps[1]: 0s is not in (0, 24h0m0s]", "caps[2]: -1m0s is not in"},
		},
		{"a cap over a day", func(p *retry.Policy) { p.Caps[7] = 25 * hour }, []string{"caps[7]: 25h0m0s is not in"}},
		{"no tiers", func(p *retry.Policy) { p.Tiers = nil }, []string{"tiers: 0 entries"}},
		{"too many tiers", func(p *retry.Policy) {
			p.Tiers = nil
			for i := range 17 {
				p.Tiers = append(p.Tiers, time.Duration(i+1)*minute)
			}
		}, []string{"tiers: 17 entries"}},
		{"the same tier twice", func(p *retry.Policy) { p.Tiers = []time.Duration{minute, minute} }, []string{"tiers[1]: 1m0s is there twice"}},
		{"unsorted tiers", func(p *retry.Policy) { p.Tiers = []time.Duration{hour, minute} }, []string{"tiers[1]: 1m0s after 1h0m0s, must ascend"}},
		{"a zero tier", func(p *retry.Policy) { p.Tiers[0] = 0 }, []string{"tiers[0]: 0s is not in"}},
		{"a tier of half a second", func(p *retry.Policy) { p.Tiers[0] = 500 * time.Millisecond }, []string{"tiers[0]: 500ms is not a whole number"}},
		{"no lifetime", func(p *retry.Policy) { p.Lifetime = 0 }, []string{"lifetime: 0s is not in"}},
		{"a lifetime of a year", func(p *retry.Policy) { p.Lifetime = 8760 * hour }, []string{"lifetime: 8760h0m0s is not in"}},
		{"negative retry-after", func(p *retry.Policy) { p.MaxRetryAfter = -1 }, []string{"max_retry_after: -1ns is not in"}},
		{"retry-after over a day", func(p *retry.Policy) { p.MaxRetryAfter = 25 * hour }, []string{"max_retry_after: 25h0m0s is not in"}},
		{"everything", func(p *retry.Policy) { *p = retry.Policy{MaxRetryAfter: -1} }, []string{"caps", "tiers", "lifetime", "max_retry_after"}},

		{"caps in any order", func(p *retry.Policy) { p.Caps = []time.Duration{hour, minute, hour} }, nil},
		{"a lifetime shorter than the schedule", func(p *retry.Policy) { p.Lifetime = hour }, nil},
		{"retry-after ignored", func(p *retry.Policy) { p.MaxRetryAfter = 0 }, nil},
		{"one short tier", func(p *retry.Policy) { p.Tiers = []time.Duration{time.Second} }, nil},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			p := retry.DefaultPolicy()
			tt.change(&p)
			err := p.Validate()
			if len(tt.want) == 0 {
				require.NoError(t, err)
				return
			}
			require.ErrorIs(t, err, retry.ErrInvalid)
			for _, want := range tt.want {
				require.ErrorContains(t, err, want)
			}
		})
	}
}

// C-088: the tier, and the wait that its records had at least.
func TestTierFor_IsTheSmallestThatHoldsTheWait(t *testing.T) {
	t.Parallel()
	p := retry.DefaultPolicy()
	for wait, want := range map[time.Duration]int{
		-time.Hour: 0, 0: 0, 1: 0, time.Minute: 0,
		time.Minute + 1: 1, 10 * time.Minute: 1,
		10*time.Minute + 1: 2, time.Hour: 2,
		time.Hour + 1: 3, 6 * time.Hour: 3,
		6*time.Hour + 1: 3, 24 * time.Hour: 3, 1000 * time.Hour: 3,
	} {
		got := p.TierFor(wait)
		require.Equal(t, want, got, "%s", wait)
		require.True(t, p.TierFloor(got) == 0 || p.TierFloor(got) < wait, "no record needs to be read before its floor")
	}
	require.Equal(t, 0, retry.Policy{}.TierFor(time.Hour))
	for i, floor := range []time.Duration{0, time.Minute, 10 * time.Minute, time.Hour, 6 * time.Hour} {
		require.Equal(t, floor, p.TierFloor(i))
	}
	require.Zero(t, p.TierFloor(-1))
	require.Zero(t, p.TierFloor(9))
}

// C-067: whatever number stands in a status line.
func TestClassOfStatus(t *testing.T) {
	t.Parallel()
	for code, want := range map[int]retry.Class{
		200: retry.OK, 201: retry.OK, 202: retry.OK, 204: retry.OK, 206: retry.OK, 299: retry.OK,
		300: retry.HTTP3xx, 304: retry.HTTP3xx, 399: retry.HTTP3xx,
		400: retry.HTTP4xx, 401: retry.HTTP4xx, 408: retry.HTTP4xx, 418: retry.HTTP4xx, 425: retry.HTTP4xx, 499: retry.HTTP4xx,
		410: retry.Gone, 429: retry.HTTP429,
		500: retry.HTTP5xx, 501: retry.HTTP5xx, 503: retry.HTTP5xx, 599: retry.HTTP5xx,
		-1: retry.InvalidResponse, 0: retry.InvalidResponse, 99: retry.InvalidResponse, 100: retry.InvalidResponse,
		103: retry.InvalidResponse, 199: retry.InvalidResponse, 600: retry.InvalidResponse, 999: retry.InvalidResponse, 2000: retry.InvalidResponse,
	} {
		require.Equal(t, want, retry.ClassOfStatus(code), code)
	}
	for code := -10; code < 3000; code++ {
		require.Equal(t, code >= 200 && code <= 299, retry.ClassOfStatus(code) == retry.OK, code)
		require.Contains(t, retry.Classes(), retry.ClassOfStatus(code))
	}
}

func TestClasses_AreAClosedSet(t *testing.T) {
	t.Parallel()
	classes := retry.Classes()
	require.Len(t, classes, 15)
	sorted := slices.Clone(classes)
	slices.Sort(sorted)
	require.Len(t, slices.Compact(sorted), 15, "each once")
	classes[0] = "changed"
	require.Equal(t, retry.OK, retry.Classes()[0])
}
