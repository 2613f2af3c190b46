package breaker_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/barnabas-webhooks/barnabas/processor/breaker"
	"github.com/barnabas-webhooks/barnabas/retry"
)

// C-103: the patterns as they happen, with the configuration as it is delivered, each letter an attempt six seconds after
// the one before, so that a minute never holds the twenty that the window rule asks for.
func TestBreaker_SuccessesClearTheCount(t *testing.T) {
	t.Parallel()
	for pattern, trips := range map[string]int{
		strings.Repeat("FFFFS", 10):  0,
		strings.Repeat("FFFFSS", 10): 0,
		"FFFFF":                      1,
		"FFFFSFFFFF":                 1,
		strings.Repeat("F", 9):       1,
		strings.Repeat("F", 10):      2, // run resets the breaker that has opened
	} {
		b, now, got := breaker.New(breaker.DefaultConfig()), start, 0
		for _, letter := range pattern {
			got += run(t, b, now, string(letter))
			now = now.Add(6 * time.Second)
		}
		require.Equal(t, trips, got, pattern)
	}
	// Within one minute the same pattern trips: four of five is more than half, by the window rule.
	require.Positive(t, run(t, breaker.New(breaker.DefaultConfig()), start, strings.Repeat("FFFFS", 5)))
}

// C-103: whatever the threshold, and however many fail in parallel: it opens once, when the count is reached, and never
// because, or although, the count went past it.
func TestBreaker_ThresholdsAreNotJumpedOver(t *testing.T) {
	t.Parallel()
	for threshold := 1; threshold <= 8; threshold++ {
		for parallel := 1; parallel <= 20; parallel++ {
			for _, before := range []string{"", "F", "FS", "FF", "s"} {
				cfg := breaker.DefaultConfig()
				cfg.ConsecutiveHard, cfg.ConsecutiveAny, cfg.WindowMin = threshold, 100, 1000
				b := breaker.New(cfg)
				if run(t, b, start, before) > 0 {
					continue // opened, and was reset
				}
				counted := len(before) - strings.LastIndex(before, "S") - 1 - strings.Count(before, "s")
				tickets := make([]breaker.Ticket, parallel)
				for i := range tickets {
					_, tickets[i] = b.Admit(start)
				}
				opened := 0
				for i, ticket := range tickets {
					if _, changed := b.Record(start, ticket, retry.Timeout, middle); changed {
						opened++
						require.Equal(t, threshold, counted+i+1)
					}
				}
				want := 0
				if counted+parallel >= threshold {
					want = 1
				}
				require.Equal(t, want, opened, "threshold %d, %d in parallel after %q", threshold, parallel, before)
			}
		}
	}
}

// C-103: results of every older state, of every class, at every later state: none changes it, and none is counted in it.
func TestBreaker_LateResultsAreOfTheirOwnState(t *testing.T) {
	t.Parallel()
	admitted := func(b *breaker.Breaker, now time.Time) breaker.Ticket {
		adm, ticket := b.Admit(now)
		require.True(t, adm.OK)
		return ticket
	}
	states := []string{"open", "probing", "open again", "closed again", "closed by an operator", "counted anew"}
	for upTo := range states {
		for _, class := range retry.Classes() {
			t.Run(fmt.Sprintf("%s when it is %s", class, states[upTo]), func(t *testing.T) {
				t.Parallel()
				b, now := breaker.New(breaker.DefaultConfig()), start
				old := []breaker.Ticket{admitted(b, now), admitted(b, now)}
				run5 := func() {
					for range 5 {
						_, _ = attempt(t, b, now, retry.Connect)
					}
				}
				switch states[upTo] {
				case "counted anew":
					run(t, b, now, "FFFF")
					b.CountAnew()
				case "closed by an operator":
					run5()
					b.Reset(now)
				default:
					run5()
					if upTo >= 1 {
						now = now.Add(time.Minute)
						old = append(old, probe(t, b, now))
					}
					if upTo == 2 {
						b.Record(now, old[2], retry.Reset, middle)
					}
					if upTo == 3 {
						b.Record(now, old[2], retry.OK, middle)
					}
				}
				if states[upTo] == "probing" {
					old = old[:2] // the probe itself is not late
				}
				state, until := b.Peek(now)
				width := b.Width(50)
				for range 30 {
					for _, ticket := range old {
						_, changed := b.Record(now, ticket, class, middle)
						require.False(t, changed)
					}
				}
				after, untilAfter := b.Peek(now)
				require.Equal(t, state, after)
				require.Equal(t, until, untilAfter)
				require.Equal(t, width, b.Width(50))
				if state == breaker.Closed {
					require.Zero(t, run(t, b, now, "FFFF"), "none of them was counted")
					require.Equal(t, 1, run(t, b, now, "F"))
				}
			})
		}
	}
}

// C-104: switched off and on again, an endpoint has its full threshold, also where the breaker had not opened yet; nothing
// of the time before counts, nor does what was under way. What is open stays so: a reset is what closes it.
func TestBreaker_CountsAnewForWhatWasSwitchedOn(t *testing.T) {
	t.Parallel()
	for _, before := range []string{"F", "FFFF", "FFFFs", strings.Repeat("s", 19), strings.Repeat("SF", 9) + "S", "FFFFSFFFF"} {
		b := breaker.New(breaker.DefaultConfig())
		require.Zero(t, run(t, b, start, before), before)
		_, underWay := b.Admit(start)
		b.CountAnew()
		require.True(t, b.Fresh(start))
		_, changed := b.Record(start, underWay, retry.HTTP5xx, middle)
		require.False(t, changed, before)
		require.Zero(t, run(t, b, start, "FFFF"), before)
		require.Equal(t, 1, run(t, b, start, "F"), before)
	}

	b := tripped(t, start)
	b.CountAnew()
	state, _ := b.Peek(start)
	require.Equal(t, breaker.Open, state)
	now := start.Add(time.Minute)
	p := probe(t, b, now)
	b.CountAnew()
	adm, _ := b.Admit(now)
	require.False(t, adm.OK, "one probe")
	b.Record(now, p, retry.OK, middle)
	require.Equal(t, 1, b.Width(50), "slow start")
	b.CountAnew()
	require.Equal(t, 50, b.Width(50))
}

// C-105: a probe that comes early takes the place of the one at the end of the open time: the next opening counts from there.
// Given back, or lost, it leaves the breaker as it was; a success closes; and there is one at a time.
func TestBreaker_AnEarlyProbeIsNoneMore(t *testing.T) {
	t.Parallel()
	until := start.Add(30 * time.Second)
	early := func(b *breaker.Breaker, now time.Time) breaker.Ticket {
		adm, ticket := b.AdmitEarly(now)
		require.Equal(t, breaker.Admission{OK: true, Probe: true}, adm)
		return ticket
	}
	b, now := tripped(t, start), start.Add(time.Second)
	p := early(b, now)
	for _, admit := range []func(time.Time) (breaker.Admission, breaker.Ticket){b.Admit, b.AdmitEarly} {
		adm, _ := admit(now)
		require.Equal(t, breaker.Admission{}, adm, "one at a time")
	}
	tr, changed := b.Record(now, p, retry.HTTP4xx, middle)
	require.True(t, changed)
	require.Equal(t, breaker.Transition{
		From: breaker.HalfOpen, To: breaker.Open, Trips: 2, OpenUntil: until.Add(time.Minute), Reason: retry.HTTP4xx,
	}, tr)

	b = tripped(t, start)
	b.Forget(early(b, now))
	state, when := b.Peek(now)
	require.Equal(t, breaker.Open, state)
	require.Equal(t, until, when)
	adm, _ := b.Admit(now)
	require.Equal(t, breaker.Admission{Until: until}, adm)
	b.Record(now, early(b, now), retry.Cancelled, middle)
	adm, _ = b.Admit(now)
	require.Equal(t, breaker.Admission{Until: until}, adm)
	probe(t, b, until)

	b = tripped(t, start)
	tr, changed = b.Record(now, early(b, now), retry.OK, middle)
	require.True(t, changed)
	require.Equal(t, breaker.Closed, tr.To)
	require.Equal(t, 1, b.Width(50), "slow start")

	b = tripped(t, start)
	early(b, now) // nobody reports it
	adm, _ = b.Admit(until.Add(breaker.DefaultConfig().ProbeTimeout))
	require.True(t, adm.Probe)

	b = breaker.New(breaker.DefaultConfig()) // closed, and open with its time up: as Admit
	adm, _ = b.AdmitEarly(start)
	require.Equal(t, breaker.Admission{OK: true}, adm)
	b = tripped(t, start)
	early(b, until)
}
