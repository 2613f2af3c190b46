package breaker_test

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/barnabas-webhooks/barnabas/processor/breaker"
	"github.com/barnabas-webhooks/barnabas/retry"
)

// Any order of admissions, results (also late, double and foreign ones), losses, resets and restores:
// nothing starts while it is open, one probe at a time, and only a success or an operator closes.
func TestBreaker_HoldsItsPromisesInAnyOrder(t *testing.T) {
	t.Parallel()
	cfg := breaker.DefaultConfig()
	classes := retry.Classes()
	for seed := range uint64(40) {
		rnd := rand.New(rand.NewPCG(seed, 7))
		b := breaker.New(cfg)
		now := start
		var tickets []breaker.Ticket // handed out, old ones too
		probes := map[breaker.Ticket]time.Time{}
		until := time.Time{} // open until; zero: closed
		fail := func(step int, what string) {
			t.Helper()
			t.Fatalf("seed %d, step %d: %s", seed, step, what)
		}
		for step := range 5000 {
			now = now.Add(time.Duration(rnd.Int64N(int64(10 * time.Second))))
			state, _ := b.Peek(now)
			switch op := rnd.IntN(100); {
			case op < 45:
				adm, ticket := b.Admit(now)
				switch {
				case adm.OK && now.Before(until):
					fail(step, "admitted while open")
				case adm.OK && adm.Probe != !until.IsZero():
					fail(step, "a probe is an attempt that is not made while closed")
				case adm.Probe:
					for _, since := range probes {
						if now.Sub(since) < cfg.ProbeTimeout {
							fail(step, "two probes")
						}
					}
					probes = map[breaker.Ticket]time.Time{ticket: now}
				case !adm.OK && until.IsZero():
					fail(step, "refused while closed")
				case !adm.OK && adm.Until.IsZero() && len(probes) == 0:
					fail(step, "waits for a probe that nobody makes")
				}
				if adm.OK {
					tickets = append(tickets, ticket)
				}
			case op < 90 && len(tickets) > 0:
				ticket := tickets[max(0, len(tickets)-1-rnd.IntN(8))]
				class := classes[rnd.IntN(len(classes))]
				if rnd.IntN(3) == 0 {
					class = retry.Timeout
				}
				tr, changed := b.Record(now, ticket, class, rnd.Float64())
				after, end := b.Peek(now)
				_, isProbe := probes[ticket]
				switch {
				case !changed && after != state:
					fail(step, "changed in silence")
				case changed && tr.To == breaker.Closed && (!isProbe || class != retry.OK):
					fail(step, "closed by something else than a probe that succeeded")
				case changed && tr.To == breaker.Open && (class == retry.OK || tr.OpenUntil != end || tr.Trips < 1):
					fail(step, "opened in a strange way")
				case changed && tr.To == breaker.Open && !until.IsZero() && !isProbe:
					fail(step, "opened again by a late result")
				}
				if changed {
					until, probes = tr.OpenUntil, map[breaker.Ticket]time.Time{}
					low, high := cfg.OpenTime(tr.Trips, 0), cfg.OpenTime(tr.Trips, 1)
					if open := end.Sub(now); tr.To == breaker.Open && (open < low || open > high) {
						fail(step, "open for "+open.String())
					}
				} else if isProbe && (class == retry.Cancelled || class == retry.Blocked || class == retry.Build) {
					delete(probes, ticket)
				}
			case op < 95 && len(tickets) > 0:
				ticket := tickets[rnd.IntN(len(tickets))]
				b.Forget(ticket)
				delete(probes, ticket)
			case op == 95:
				if _, changed := b.Reset(now); changed != (state != breaker.Closed) {
					fail(step, "a reset of "+string(state))
				}
				if state != breaker.Closed {
					until, probes = time.Time{}, map[breaker.Ticket]time.Time{}
				}
			case op == 96: // a new owner, told the last transition
				b.Restore(map[bool]breaker.State{true: breaker.Closed, false: breaker.Open}[until.IsZero()], 1, until)
				probes = map[breaker.Ticket]time.Time{}
			default:
				_, changed := b.Record(now, breaker.Ticket{}, retry.OK, 0)
				require.False(t, changed, "nobody's ticket")
			}
			if w := b.Width(7); w < 1 || w > 7 {
				fail(step, "width")
			}
		}
	}
}
