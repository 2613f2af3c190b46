package breaker_test

import (
	"strings"
	"testing"
	"time"
	"unsafe"

	"github.com/stretchr/testify/require"

	"github.com/barnabas-webhooks/barnabas/processor/breaker"
	"github.com/barnabas-webhooks/barnabas/retry"
)

var start = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

const middle = 0.5 // the random number that jitters nothing

// attempt admits and records one attempt, and says whether the state changed.
func attempt(t *testing.T, b *breaker.Breaker, now time.Time, c retry.Class) (breaker.Transition, bool) {
	t.Helper()
	adm, ticket := b.Admit(now)
	require.True(t, adm.OK)
	return b.Record(now, ticket, c, middle)
}

func run(t *testing.T, b *breaker.Breaker, now time.Time, pattern string) (trips int) {
	t.Helper()
	classes := map[rune]retry.Class{'F': retry.HTTP5xx, 'S': retry.OK, 's': retry.HTTP4xx, 'c': retry.Cancelled, 'b': retry.Blocked, 'x': retry.Build}
	for _, r := range pattern {
		if _, changed := attempt(t, b, now, classes[r]); changed {
			trips++
			b.Reset(now)
		}
	}
	return trips
}

// tripped is a breaker that has just opened for the first time.
func tripped(t *testing.T, now time.Time) *breaker.Breaker {
	t.Helper()
	b := breaker.New(breaker.DefaultConfig())
	for i := range 5 {
		tr, changed := attempt(t, b, now, retry.Connect)
		require.Equal(t, i == 4, changed)
		if changed {
			require.Equal(t, breaker.Transition{
				From: breaker.Closed, To: breaker.Open, Trips: 1, OpenUntil: now.Add(30 * time.Second), Reason: retry.Connect,
			}, tr)
		}
	}
	return b
}

// probe takes the probe, which must be there.
func probe(t *testing.T, b *breaker.Breaker, now time.Time) breaker.Ticket {
	t.Helper()
	adm, ticket := b.Admit(now)
	require.Equal(t, breaker.Admission{OK: true, Probe: true}, adm)
	return ticket
}

// C-103, C-105: which patterns trip, each letter one attempt, all within one instant.
func TestBreaker_CountsByTheRules(t *testing.T) {
	t.Parallel()
	lone := breaker.DefaultConfig()
	lone.WindowMin = 1000 // so that the window rule stays out of it
	for _, tt := range []struct {
		name, pattern string
		cfg           breaker.Config
		trips         int
	}{
		{"four and a success, ten times", strings.Repeat("FFFFS", 10), lone, 0},
		{"five", "FFFFF", lone, 1},
		{"six after a success", "SFFFFF", lone, 1},
		{"after a reset the count starts again", "FFFFFFFFF", lone, 1},
		{"twice", strings.Repeat("F", 10), lone, 2},
		{"a soft failure does not clear the run of hard ones", "FFFsFsF", lone, 1},
		{"nineteen soft ones", strings.Repeat("s", 19), lone, 0},
		{"twenty soft ones", strings.Repeat("s", 20), lone, 1},
		{"nineteen soft ones and a success, for ever", strings.Repeat(strings.Repeat("s", 19)+"S", 20), lone, 0},
		{"soft and hard add up in the run of any", strings.Repeat("s", 16) + "FFFF", lone, 1},
		{"half 422, half fine (C-105)", strings.Repeat("sS", 200), breaker.DefaultConfig(), 0},
		{"a burst of 422 between successes (C-105)", strings.Repeat("S", 5) + strings.Repeat("s", 15) + strings.Repeat("S", 5), breaker.DefaultConfig(), 0},
		{"our own troubles count nowhere", strings.Repeat("cbx", 100), breaker.DefaultConfig(), 0},
		{"our own troubles clear nothing", "FFFFcbxF", lone, 1},
		{"half of twenty hard", strings.Repeat("SF", 10), breaker.DefaultConfig(), 1},
		{"half of nineteen", strings.Repeat("SF", 9) + "S", breaker.DefaultConfig(), 0},
		{"a third of many", strings.Repeat("SSF", 100), breaker.DefaultConfig(), 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			require.NoError(t, tt.cfg.Validate())
			require.Equal(t, tt.trips, run(t, breaker.New(tt.cfg), start, tt.pattern))
		})
	}
}

func TestBreaker_EveryClassIsWeighed(t *testing.T) {
	t.Parallel()
	after := map[retry.Class]int{ // attempts of this class alone until it opens; 0: never
		retry.OK: 0, retry.Cancelled: 0, retry.Blocked: 0, retry.Build: 0,
		retry.DNS: 5, retry.Connect: 5, retry.TLS: 5, retry.Timeout: 5, retry.Reset: 5, retry.HTTP5xx: 5, retry.HTTP429: 5,
		retry.HTTP3xx: 20, retry.HTTP4xx: 20, retry.Gone: 20, retry.InvalidResponse: 20,
		"a class of the future": 20,
	}
	for _, c := range append(retry.Classes(), "a class of the future") {
		want, known := after[c]
		require.True(t, known, "class %s is not in this table", c)
		b := breaker.New(breaker.DefaultConfig())
		opened := 0
		for n := 1; n <= 100 && opened == 0; n++ {
			if _, changed := attempt(t, b, start, c); changed {
				opened = n
			}
		}
		require.Equal(t, want, opened, "class %s", c)
	}
}

// C-103: ten in parallel, of which the fifth trips; the other five come in late and change nothing.
func TestBreaker_LateResultsOfAnOlderStateChangeNothing(t *testing.T) {
	t.Parallel()
	for _, late := range retry.Classes() {
		b := breaker.New(breaker.DefaultConfig())
		var tickets []breaker.Ticket
		for range 10 {
			adm, ticket := b.Admit(start)
			require.True(t, adm.OK)
			tickets = append(tickets, ticket)
		}
		for i, ticket := range tickets[:5] {
			_, changed := b.Record(start, ticket, retry.Timeout, middle)
			require.Equal(t, i == 4, changed)
		}
		for _, ticket := range tickets[5:9] {
			_, changed := b.Record(start, ticket, late, middle)
			require.False(t, changed, late)
		}
		state, until := b.Peek(start)
		require.Equal(t, breaker.Open, state)
		require.Equal(t, start.Add(30*time.Second), until)

		// Later still: during the probe, and after the recovery.
		now := until
		p := probe(t, b, now)
		_, changed := b.Record(now, tickets[9], late, middle)
		require.False(t, changed)
		b.Forget(tickets[9])
		adm, _ := b.Admit(now)
		require.False(t, adm.OK, "a late result must not free the gate of a probe")
		_, changed = b.Record(now, p, retry.OK, middle)
		require.True(t, changed)
		for range 30 {
			_, changed = b.Record(now, tickets[9], late, middle)
			require.False(t, changed)
			_, changed = b.Record(now, p, late, middle)
			require.False(t, changed, "a probe counts once")
		}
	}
}

// C-100: while open nothing is admitted, and the refusal says when to come back.
func TestBreaker_AdmitsNothingWhileOpen(t *testing.T) {
	t.Parallel()
	b := tripped(t, start)
	until := start.Add(30 * time.Second)
	for _, now := range []time.Time{start, start.Add(time.Second), until.Add(-1)} {
		adm, ticket := b.Admit(now)
		require.Equal(t, breaker.Admission{Until: until}, adm)
		require.Zero(t, ticket)
		require.Equal(t, 1, b.Width(50))
	}
	state, when := b.Peek(until)
	require.Equal(t, breaker.HalfOpen, state)
	require.Zero(t, when)
	probe(t, b, until) // Peek did not take it
	adm, _ := b.Admit(until)
	require.Equal(t, breaker.Admission{}, adm, "one probe, and no time at which to come back")
}

func TestBreaker_OpensLongerWithEachFailedProbe(t *testing.T) {
	t.Parallel()
	for _, c := range []retry.Class{retry.Connect, retry.HTTP4xx, retry.Gone} { // only a success closes
		b, now := tripped(t, start), start.Add(30*time.Second)
		for trips, want := range []time.Duration{60, 120, 240, 480, 900, 900, 900} {
			want *= time.Second
			tr, changed := b.Record(now, probe(t, b, now), c, middle)
			require.True(t, changed)
			require.Equal(t, breaker.Transition{
				From: breaker.HalfOpen, To: breaker.Open, Trips: trips + 2, OpenUntil: now.Add(want), Reason: c,
			}, tr)
			now = tr.OpenUntil
		}
	}
}

func TestBreaker_LostProbeFreesTheGate(t *testing.T) {
	t.Parallel()
	now := start.Add(time.Hour)
	for name, lose := range map[string]func(*breaker.Breaker, breaker.Ticket){
		"forgotten": (*breaker.Breaker).Forget,
		"cancelled": func(b *breaker.Breaker, p breaker.Ticket) { b.Record(now, p, retry.Cancelled, middle) },
		"blocked":   func(b *breaker.Breaker, p breaker.Ticket) { b.Record(now, p, retry.Blocked, middle) },
		"build":     func(b *breaker.Breaker, p breaker.Ticket) { b.Record(now, p, retry.Build, middle) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := tripped(t, start)
			lost := probe(t, b, now)
			lose(b, lost)
			state, _ := b.Peek(now)
			require.Equal(t, breaker.HalfOpen, state)
			second := probe(t, b, now)
			require.NotEqual(t, lost, second)
			lose(b, lost) // again: it is nobody's any more
			adm, _ := b.Admit(now)
			require.False(t, adm.OK)
			_, changed := b.Record(now, second, retry.OK, middle)
			require.True(t, changed)
		})
	}
}

func TestBreaker_AProbeThatNobodyReportsIsLost(t *testing.T) {
	t.Parallel()
	cfg := breaker.DefaultConfig()
	b, now := tripped(t, start), start.Add(time.Hour)
	lost := probe(t, b, now)
	adm, _ := b.Admit(now.Add(cfg.ProbeTimeout - 1))
	require.False(t, adm.OK)
	second := probe(t, b, now.Add(cfg.ProbeTimeout))
	_, changed := b.Record(now.Add(cfg.ProbeTimeout), lost, retry.OK, middle)
	require.False(t, changed)
	_, changed = b.Record(now.Add(cfg.ProbeTimeout), second, retry.OK, middle)
	require.True(t, changed)
}

func TestBreaker_RecoversWithSlowStart(t *testing.T) {
	t.Parallel()
	b, now := tripped(t, start), start.Add(time.Hour)
	tr, changed := b.Record(now, probe(t, b, now), retry.OK, middle)
	require.True(t, changed)
	require.Equal(t, breaker.Transition{From: breaker.HalfOpen, To: breaker.Closed, Reason: retry.OK}, tr)
	require.Equal(t, 1, b.Width(50))
	require.Equal(t, 1, b.Width(0))

	// A round of as many requests as the width allows doubles the width: 1, 2, 4, ...
	for _, want := range []int{1, 2, 4, 8, 16, 32} {
		require.Equal(t, want, b.Width(50))
		require.Equal(t, min(want, 3), b.Width(3))
		for range want {
			_, changed := attempt(t, b, now, retry.OK)
			require.False(t, changed)
		}
	}
	require.Equal(t, 50, b.Width(50))

	_, _ = attempt(t, b, now, retry.Timeout)
	require.Equal(t, 50, b.Width(50), "slow start is over")
}

func TestBreaker_AHardFailureHalvesTheSlowStart(t *testing.T) {
	t.Parallel()
	b, now := tripped(t, start), start.Add(time.Hour)
	b.Record(now, probe(t, b, now), retry.OK, middle)
	run(t, b, now, strings.Repeat("S", 7))
	require.Equal(t, 8, b.Width(50))
	run(t, b, now, "s")
	require.Equal(t, 8, b.Width(50), "a soft one does not")
	run(t, b, now, "F")
	require.Equal(t, 4, b.Width(50))
	run(t, b, now, "FFF")
	require.Equal(t, 1, b.Width(50))
}

// One that recovers for a moment and fails again is the same outage; one that was up for long is not.
func TestBreaker_AFlappingEndpointIsLeftAloneLongerEachTime(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name  string
		up    int           // successes after the probe
		wait  time.Duration // before it fails again
		trips int
	}{
		{"at once", 0, 0, 2},
		{"during slow start", 20, time.Minute, 2},
		{"after slow start", 32, time.Minute, 1},
		{"after a long time", 1, 15 * time.Minute, 1},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			b, now := tripped(t, start), start.Add(time.Hour)
			b.Record(now, probe(t, b, now), retry.OK, middle)
			run(t, b, now, strings.Repeat("S", tt.up))
			now = now.Add(tt.wait)
			for {
				if tr, changed := attempt(t, b, now, retry.Reset); changed {
					require.Equal(t, tt.trips, tr.Trips)
					return
				}
			}
		})
	}
}

// C-104: after an operator's reset one failure does not open again; and resets of a closed
// breaker do not hide failures that are being counted.
func TestBreaker_ResetGivesFullThresholdsBack(t *testing.T) {
	t.Parallel()
	for name, at := range map[string]time.Duration{"open": 0, "time is up": time.Minute, "probing": time.Hour} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			now := start.Add(at)
			b := tripped(t, start)
			var underWay breaker.Ticket
			from := breaker.Open
			if name == "probing" {
				underWay, from = probe(t, b, now), breaker.HalfOpen
			}
			tr, changed := b.Reset(now)
			require.True(t, changed)
			require.Equal(t, breaker.Transition{From: from, To: breaker.Closed, Reason: breaker.ReasonReset}, tr)
			_, changed = b.Record(now, underWay, retry.HTTP5xx, middle)
			require.False(t, changed, "the probe of before the reset")
			require.Equal(t, 50, b.Width(50))
			require.Zero(t, run(t, b, now, "FFFF"))
			for range 10 {
				_, changed = b.Reset(now)
				require.False(t, changed)
			}
			tr, changed = attempt(t, b, now, retry.HTTP5xx)
			require.True(t, changed, "the fifth failure, whatever was enabled in between")
			require.Equal(t, 1, tr.Trips)
		})
	}
}

func TestBreaker_RestoresWhatWasWritten(t *testing.T) {
	t.Parallel()
	until := start.Add(time.Minute)
	b := breaker.New(breaker.DefaultConfig())
	_, old := b.Admit(start)

	b.Restore(breaker.Open, 3, until)
	_, changed := b.Record(start, old, retry.OK, middle)
	require.False(t, changed)
	adm, _ := b.Admit(start)
	require.Equal(t, breaker.Admission{Until: until}, adm)
	tr, changed := b.Record(until, probe(t, b, until), retry.DNS, middle)
	require.True(t, changed)
	require.Equal(t, 4, tr.Trips)
	require.Equal(t, until.Add(4*time.Minute), tr.OpenUntil)

	b.Restore(breaker.HalfOpen, 3, time.Time{})
	probe(t, b, start)

	b.Restore(breaker.Closed, 3, until)
	require.Equal(t, 50, b.Width(50))
	require.Zero(t, run(t, b, start, "FFFF"))

	// What others wrote: no state of ours, absurd counts, a time far away.
	b.Restore("melted", -1, until)
	state, _ := b.Peek(start)
	require.Equal(t, breaker.Closed, state)
	for trips, next := range map[int]int{-5: 2, 0: 2, 1: 2, 7: 8, 1 << 40: 1000} {
		b.Restore(breaker.Open, trips, start.Add(1000*time.Hour))
		_, seen := b.Peek(start)
		require.Equal(t, start.Add(18*time.Minute), seen, "who only looks is told the same")
		adm, _ = b.Admit(start)
		require.Equal(t, start.Add(18*time.Minute), adm.Until, "no opening lasts longer than the longest")
		now := adm.Until
		tr, changed := b.Record(now, probe(t, b, now), retry.DNS, middle)
		require.True(t, changed)
		require.Equal(t, next, tr.Trips)
	}
}

func TestBreaker_TheWindowForgets(t *testing.T) {
	t.Parallel()
	b := breaker.New(breaker.DefaultConfig())
	require.Zero(t, run(t, b, start, strings.Repeat("SF", 9)+"S"))
	require.Equal(t, 0, run(t, b, start.Add(time.Minute), "F"), "what lies a window back is gone")
	require.Equal(t, 1, run(t, b, start.Add(time.Minute), strings.Repeat("SF", 10)))

	// Spread evenly over the window it still counts; the clock stepping back loses nothing and opens nothing by itself.
	b = breaker.New(breaker.DefaultConfig())
	now, trips := start, 0
	for i := range 11 {
		trips += run(t, b, now.Add(time.Duration(i)*4*time.Second), "SF")
	}
	require.Equal(t, 1, trips)
	b = breaker.New(breaker.DefaultConfig())
	require.Zero(t, run(t, b, start, strings.Repeat("SF", 9)))
	require.Equal(t, 1, run(t, b, start.Add(-24*time.Hour), "SF"))
	run(t, b, time.Time{}, "SF") // a time before 1970 is no reason to panic
}

func TestBreaker_IsSmall(t *testing.T) {
	t.Parallel()
	require.LessOrEqual(t, unsafe.Sizeof(breaker.Breaker{}), uintptr(128))
	require.LessOrEqual(t, unsafe.Sizeof(breaker.Breaker{})+unsafe.Sizeof(breaker.Config{}), uintptr(256),
		"100,000 endpoints have one each")
	require.LessOrEqual(t, unsafe.Sizeof(breaker.Ticket{}), uintptr(8))
}
