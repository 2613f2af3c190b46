package retry_test

import (
	"math"
	"math/rand/v2"
	"testing"
	"testing/quick"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/barnabas-webhooks/barnabas/retry"
	"github.com/barnabas-webhooks/barnabas/schemas"
)

var now = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

// after is a failed attempt of a delivery that was accepted just now.
func after(attempts int) retry.Spent { return retry.Spent{Attempts: attempts, RunStartedAt: now} }

const nextToOne = 1 - 1.0/(1<<53) // the largest number that rand.Float64 returns

// C-060, C-061, C-062, C-064, C-096: what every class leads to, at the first attempt and at the last.
func TestDecide_EveryClass(t *testing.T) {
	t.Parallel()
	p := retry.DefaultPolicy()
	for _, class := range append(retry.Classes(), "a class of the future") {
		first := p.Decide(now, after(1), retry.Outcome{Class: class}, nil, nil, 0)
		last := p.Decide(now, after(9), retry.Outcome{Class: class}, nil, nil, 0)
		switch class {
		case retry.OK:
			require.Equal(t, retry.Decision{Kind: retry.Delivered}, first)
			require.Equal(t, first, last)
		case retry.Gone:
			require.Equal(t, retry.Decision{Kind: retry.Dead, Reason: "gone", DisableEndpoint: true}, first)
			require.Equal(t, first, last)
		case retry.Cancelled: // P5: our shutdown spends nothing, whatever was spent
			require.Equal(t, retry.Decision{Kind: retry.Hold, Due: now, Reason: "cancelled"}, first)
			require.Equal(t, first, last)
		default:
			require.Equal(t, retry.Decision{Kind: retry.Retry, Due: now.Add(5 * time.Second), Reason: string(class)}, first)
			require.Equal(t, retry.Decision{Kind: retry.Dead, Reason: string(class)}, last)
		}
	}
}

// C-087: nine attempts, each wait within its cap, the ninth failure is final.
func TestDecide_TheLadder(t *testing.T) {
	t.Parallel()
	p := retry.DefaultPolicy()
	caps := []time.Duration{
		5 * time.Second, time.Minute, 10 * time.Minute, time.Hour,
		6 * time.Hour, 6 * time.Hour, 6 * time.Hour, 6 * time.Hour,
	}
	for i, limit := range caps {
		for _, tt := range []struct {
			rnd  float64
			wait time.Duration
		}{{0, limit}, {0.25, limit / 4 * 3}, {0.5, limit / 2}} {
			d := p.Decide(now, after(i+1), retry.Outcome{Class: retry.Timeout}, nil, nil, tt.rnd)
			require.Equal(t, retry.Retry, d.Kind)
			require.Equal(t, tt.wait, d.Due.Sub(now), "retry %d", i+1)
		}
		d := p.Decide(now, after(i+1), retry.Outcome{Class: retry.Timeout}, nil, nil, nextToOne)
		require.Positive(t, d.Due.Sub(now), "never at once")
	}
	for _, attempts := range []int{9, 10, math.MaxInt} {
		d := p.Decide(now, after(attempts), retry.Outcome{Class: retry.HTTP5xx, Status: 502}, nil, nil, 0)
		require.Equal(t, retry.Decision{Kind: retry.Dead, Reason: "http_5xx"}, d)
	}
	require.Equal(t, 9, p.MaxAttempts())
	require.Equal(t, 25*time.Hour+11*time.Minute+5*time.Second, p.TotalMax())
	require.InDelta(t, 12.6, p.TotalMean().Hours(), 0.01)
}

func TestDecide_AnEndpointsOwnSchedule(t *testing.T) {
	t.Parallel()
	p := retry.DefaultPolicy()
	own := []time.Duration{time.Second, 3 * time.Second}
	failed := retry.Outcome{Class: retry.Connect}
	require.Equal(t, now.Add(3*time.Second), p.Decide(now, after(2), failed, nil, own, 0).Due)
	require.Equal(t, retry.Dead, p.Decide(now, after(3), failed, nil, own, 0).Kind)

	// Nobody validated this one: the hard limits hold all the same.
	long := make([]time.Duration, 100)
	long[0], long[1] = -time.Hour, 1000*time.Hour
	require.Equal(t, time.Duration(1), p.Decide(now, after(1), failed, nil, long, 0).Due.Sub(now))
	require.Equal(t, retry.MaxCap, p.Decide(now, after(2), failed, nil, long, 0).Due.Sub(now))
	require.Equal(t, retry.Retry, p.Decide(now, after(32), failed, nil, long, 0).Kind)
	require.Equal(t, retry.Dead, p.Decide(now, after(33), failed, nil, long, 0).Kind)
	require.Equal(t, 3, p.WithCaps(own).MaxAttempts())
	require.Equal(t, 9, p.WithCaps(nil).MaxAttempts())
	require.Equal(t, retry.Dead, retry.Policy{}.Decide(now, after(1), failed, nil, nil, 0).Kind, "no schedule: no retry")
	require.Equal(t, retry.Retry, p.Decide(now, after(-3), failed, nil, nil, 0).Kind)
}

func TestDecide_PermanentStatuses(t *testing.T) {
	t.Parallel()
	p := retry.DefaultPolicy()
	permanent := []int{400, 422, 503, 200, 0}
	for status, want := range map[int]retry.Kind{
		400: retry.Dead, 422: retry.Dead, 503: retry.Dead, 404: retry.Retry, 500: retry.Retry,
		200: retry.Delivered, // a 2xx is a success, whatever is listed
	} {
		d := p.Decide(now, after(1), retry.Outcome{Class: retry.ClassOfStatus(status), Status: status}, permanent, nil, 0)
		require.Equal(t, want, d.Kind, status)
	}
	require.Equal(t, retry.Retry, p.Decide(now, after(1), retry.Outcome{Class: retry.DNS}, permanent, nil, 0).Kind, "no status is no status")
	require.Equal(t, "http_4xx", p.Decide(now, after(1), retry.Outcome{Class: retry.HTTP4xx, Status: 422}, permanent, nil, 0).Reason)
}

// C-083, C-082: the later of what was drawn and what was asked for; cut to the limit.
func TestDecide_RetryAfter(t *testing.T) {
	t.Parallel()
	p := retry.DefaultPolicy()
	for _, tt := range []struct {
		name     string
		attempts int
		asked    time.Duration
		wait     time.Duration
	}{
		{"two hours where five seconds were drawn", 1, 2 * time.Hour, 2 * time.Hour},
		{"thirty seconds where six hours were drawn", 5, 30 * time.Second, 6 * time.Hour},
		{"a year", 1, 365 * 24 * time.Hour, 24 * time.Hour},
		{"all the time there is", 1, math.MaxInt64, 24 * time.Hour},
		{"negative", 1, -time.Hour, 5 * time.Second},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			for _, status := range []int{429, 503, 500} {
				d := p.Decide(now, after(tt.attempts), retry.Outcome{Class: retry.ClassOfStatus(status), Status: status, RetryAfter: tt.asked}, nil, nil, 0)
				require.Equal(t, retry.Retry, d.Kind)
				require.Equal(t, tt.wait, d.Due.Sub(now))
				pause := min(max(tt.asked, 0), 24*time.Hour)
				if status == 500 {
					pause = 0
				}
				require.Equal(t, pause, d.PauseEndpoint, "status %d", status)
			}
		})
	}
	last := p.Decide(now, after(9), retry.Outcome{Class: retry.HTTP429, Status: 429, RetryAfter: time.Hour}, nil, nil, 0)
	require.Equal(t, retry.Decision{Kind: retry.Dead, Reason: "http_429", PauseEndpoint: time.Hour}, last,
		"the endpoint is left alone, whatever becomes of the delivery")

	ignoring := retry.DefaultPolicy()
	ignoring.MaxRetryAfter = 0
	d := ignoring.Decide(now, after(1), retry.Outcome{Class: retry.HTTP429, Status: 429, RetryAfter: time.Hour}, nil, nil, 0)
	require.Equal(t, retry.Decision{Kind: retry.Retry, Due: now.Add(5 * time.Second), Reason: "http_429"}, d)
}

// C-082: a receiver that always asks for a year keeps a delivery for the lifetime and no longer.
func TestDecide_RetryAfterEndsWithTheLifetime(t *testing.T) {
	t.Parallel()
	p := retry.DefaultPolicy()
	at, attempts := now, 0
	for {
		attempts++
		d := p.Decide(at, retry.Spent{Attempts: attempts, RunStartedAt: now}, retry.Outcome{Class: retry.HTTP5xx, Status: 503, RetryAfter: 365 * 24 * time.Hour}, nil, nil, 0.5)
		if d.Kind == retry.Dead {
			require.Equal(t, retry.ReasonExpired, d.Reason)
			break
		}
		require.Equal(t, 24*time.Hour, d.Due.Sub(at))
		at = d.Due
	}
	require.Equal(t, 2, attempts)
}

func TestDecide_TheLifetime(t *testing.T) {
	t.Parallel()
	p := retry.DefaultPolicy()
	failed := retry.Outcome{Class: retry.Connect}
	end := now.Add(26 * time.Hour)

	late := end.Add(-time.Hour) // holds have prolonged it; six hours may be drawn, one is left
	for _, rnd := range []float64{0, 0.5, nextToOne} {
		d := p.Decide(late, after(5), failed, nil, nil, rnd)
		require.Equal(t, retry.Retry, d.Kind)
		require.True(t, d.Due.After(late) && d.Due.Before(end), "drawn from what is left")
	}
	require.InDelta(t, 30, p.Decide(late, after(5), failed, nil, nil, 0.5).Due.Sub(late).Minutes(), 0.001)

	asked := failed
	asked.RetryAfter = 2 * time.Hour
	require.Equal(t, retry.Decision{Kind: retry.Dead, Reason: "expired"}, p.Decide(late, after(5), asked, nil, nil, 0),
		"a wait that may not be shortened is not begun")

	for _, at := range []time.Time{end, end.Add(time.Hour), end.Add(1e6 * time.Hour)} {
		require.Equal(t, retry.Decision{Kind: retry.Dead, Reason: "expired"}, p.Decide(at, after(2), failed, nil, nil, 0))
		require.Equal(t, "connect", p.Decide(at, after(9), failed, nil, nil, 0).Reason, "the ninth failure says more")
		require.Equal(t, retry.Delivered, p.Decide(at, after(2), retry.Outcome{Class: retry.OK}, nil, nil, 0).Kind)
		require.Equal(t, retry.Dead, p.Decide(at, after(2), retry.Outcome{Class: retry.Cancelled}, nil, nil, 0).Kind)
		require.True(t, p.Expired(at, after(2)))
	}
	require.False(t, p.Expired(end.Add(-1), after(2)))
	require.False(t, p.Expired(end.Add(1e6*time.Hour), retry.Spent{}), "no known start, no end")
	require.Equal(t, schemas.ReasonExpired, retry.ReasonExpired)
}

func TestHoldUntil(t *testing.T) {
	t.Parallel()
	p := retry.DefaultPolicy()
	until := now.Add(10 * time.Minute)
	for _, tt := range []struct {
		name   string
		until  time.Time
		spread time.Duration
		rnd    float64
		due    time.Time
	}{
		{"the latest", until, 4 * time.Minute, 0, until.Add(4 * time.Minute)},
		{"the middle", until, 4 * time.Minute, 0.5, until.Add(2 * time.Minute)},
		{"no spread", until, 0, 0.5, until},
		{"negative spread", until, -time.Hour, 0.5, until},
		{"in the past", now.Add(-time.Hour), 4 * time.Minute, 0.5, now.Add(2 * time.Minute)},
		{"no time at all", time.Time{}, 0, 0.5, now},
		{"a spread that reaches past the lifetime", now.Add(25 * time.Hour), 1000 * time.Hour, 0, now.Add(26*time.Hour - 1)},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			d := p.HoldUntil(now, after(3), tt.until, tt.spread, "breaker_open", tt.rnd)
			require.Equal(t, retry.Decision{Kind: retry.Hold, Due: tt.due, Reason: "breaker_open"}, d)
		})
	}
	d := p.HoldUntil(now, after(3), until, 4*time.Minute, "breaker_open", nextToOne)
	require.True(t, d.Due.After(until))

	dead := retry.Decision{Kind: retry.Dead, Reason: "expired"}
	require.Equal(t, dead, p.HoldUntil(now, after(3), now.Add(26*time.Hour), time.Minute, "x", 0.5), "until the end, and then?")
	require.Equal(t, dead, p.HoldUntil(now.Add(27*time.Hour), after(3), until, time.Minute, "x", 0.5))
	require.Equal(t, dead, p.HoldUntil(now, after(3), now.AddDate(7000, 0, 0), time.Minute, "x", 0.5), "further than a Duration reaches")
}

// C-085, C-090: waits are uniform over (0, cap], so that 2,000 failures of one second do not come back
// in one second; never zero, never beyond the cap.
func TestDecide_WaitsAreUniform(t *testing.T) {
	t.Parallel()
	p := retry.DefaultPolicy()
	rnd := rand.New(rand.NewPCG(1, 2))
	const n, bins = 100_000, 20
	for attempts := 1; attempts <= 8; attempts++ {
		var count [bins]int
		sum := 0.0
		for range n {
			w := p.Decide(now, after(attempts), retry.Outcome{Class: retry.Timeout}, nil, nil, rnd.Float64()).Due.Sub(now)
			share := float64(w) / float64(p.Caps[attempts-1])
			if w <= 0 || share > 1 {
				t.Fatalf("retry %d: a wait of %s", attempts, w)
			}
			count[min(int(share*bins), bins-1)]++
			sum += share
		}
		require.InDelta(t, 0.5, sum/n, 0.005)
		chi := 0.0
		for _, c := range count {
			d := float64(c) - n/bins
			chi += d * d / (n / bins)
		}
		require.Less(t, chi, 43.8, "chi-squared, 19 degrees of freedom: 43.8 is the 99.9th percentile; the seed is fixed")
	}
}

// Whatever is asked and however late it is: pure, no panic, no overflow, never early, never past the end.
func TestDecide_Properties(t *testing.T) {
	t.Parallel()
	policies := []retry.Policy{retry.DefaultPolicy(), {}, {
		Caps: []time.Duration{math.MaxInt64, math.MinInt64, 1}, Lifetime: math.MaxInt64, MaxRetryAfter: math.MaxInt64,
	}}
	classes := append(retry.Classes(), "")
	check := func(which, class uint8, attempts int16, status uint16, asked, since int64, rnd float64, odd uint8) bool {
		p := policies[int(which)%len(policies)]
		switch odd % 8 {
		case 0:
			rnd = math.NaN()
		case 1:
			rnd = math.Inf(1)
		case 2:
			rnd = -1
		default:
			_, rnd = math.Modf(math.Abs(rnd))
		}
		s := retry.Spent{Attempts: int(attempts % 12), RunStartedAt: now.Add(-time.Duration(since) % (48 * time.Hour))}
		o := retry.Outcome{Class: classes[int(class)%len(classes)], Status: int(status), RetryAfter: time.Duration(asked)}
		d := p.Decide(now, s, o, []int{404}, nil, rnd)
		if d != p.Decide(now, s, o, []int{404}, nil, rnd) {
			return false
		}
		end, ends := p.Ends(s)
		switch d.Kind {
		case retry.Retry:
			wait := d.Due.Sub(now)
			return wait > 0 && wait >= min(o.RetryAfter, p.MaxRetryAfter, retry.MaxCap) && wait <= retry.MaxCap && (!ends || d.Due.Before(end))
		case retry.Hold:
			return o.Class == retry.Cancelled && !d.Due.Before(now) && (!ends || d.Due.Before(end))
		case retry.Dead:
			return d.Reason != "" || o.Class == ""
		case retry.Delivered:
			return o.Class == retry.OK
		}
		return false
	}
	require.NoError(t, quick.Check(check, &quick.Config{MaxCount: 50_000, Rand: nil}))
}

// Whole ladders: the sum of the waits is within the sum of the caps, and never needs the lifetime.
func TestDecide_ALadderStaysWithinItsBounds(t *testing.T) {
	t.Parallel()
	p := retry.DefaultPolicy()
	rnd := rand.New(rand.NewPCG(3, 4))
	sum := time.Duration(0)
	const runs = 20_000
	for range runs {
		at, attempts := now, 1
		for ; ; attempts++ {
			d := p.Decide(at, after(attempts), retry.Outcome{Class: retry.HTTP5xx}, nil, nil, rnd.Float64())
			if d.Kind == retry.Dead {
				require.Equal(t, "http_5xx", d.Reason)
				break
			}
			at = d.Due
		}
		if attempts != 9 || at.Sub(now) > p.TotalMax() {
			t.Fatalf("%d attempts in %s", attempts, at.Sub(now))
		}
		sum += at.Sub(now) / runs
	}
	require.InDelta(t, p.TotalMean().Hours(), sum.Hours(), 0.1)
}
