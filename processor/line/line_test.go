package line_test

import (
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/barnabas-webhooks/barnabas/processor/line"
	"github.com/barnabas-webhooks/barnabas/schemas"
)

var start = time.Date(2026, 3, 1, 0, 0, 0, 0, time.UTC)

func TestLine_TheTurnGoesOnWhenItEnds(t *testing.T) {
	t.Parallel()
	l := line.New("ep", 7, 100, start)
	require.True(t, l.Empty())
	for i, offset := range []int64{100, 105, 106} {
		require.Equal(t, int64(i+1), l.Take(offset, start))
	}
	require.Equal(t, int64(1), l.Turn())
	require.Equal(t, int64(2), l.Behind())
	require.False(t, l.End(2, start), "not the one whose turn it is")
	require.True(t, l.End(1, start))
	require.Equal(t, int64(3), l.Turn(), "who has ended is passed")
	require.False(t, l.Clear(), "not settled")
	l.Seal([]line.Move{{Number: 1, Ended: true}})
	l.Settle(start)
	require.False(t, l.Clear(), "one of two is settled")
	r := l.Seal([]line.Move{{Number: 2, Ended: true}})
	require.False(t, l.Clear(), "it is on its way")
	l.Settle(start)
	require.True(t, l.Clear())
	require.Equal(t, schemas.Line{EndpointID: "ep", Epoch: 7, Taken: 2, TakenOffset: 105, Done: 2, Since: start}, *r)
	require.False(t, l.End(1, start), "again")
}

func TestLine_WhatIsReadAgainHasItsNumber(t *testing.T) {
	t.Parallel()
	l := line.New("ep", 7, 10, start)
	for offset := int64(10); offset < 20; offset++ {
		l.Take(offset, start)
	}
	// 3 went to a tier, 5 ended out of turn; all else is not settled.
	r := l.Seal([]line.Move{{Number: 3}, {Number: 5, Ended: true}})
	require.Equal(t, []schemas.Place{{Number: 1, Offset: 10}, {Number: 2, Offset: 11}, {Number: 4, Offset: 13}}, r.Open)
	require.Equal(t, []int64{5}, r.Gone)
	next := line.Restore(r)
	for offset, number := range map[int64]int64{10: 1, 11: 2, 13: 4} {
		require.Equal(t, number, next.Take(offset, start))
	}
	require.Zero(t, next.Take(9, start), "from before the line")
	for offset := int64(15); offset < 20; offset++ {
		require.Equal(t, offset-9, next.Take(offset, start))
	}
	require.True(t, next.End(1, start))
	require.True(t, next.End(2, start))
	require.True(t, next.End(3, start))
	require.True(t, next.End(4, start))
	require.Equal(t, int64(6), next.Turn())
}

func TestLine_ALostMoveIsSaidWithTheNext(t *testing.T) {
	t.Parallel()
	l := line.New("ep", 7, 0, start)
	l.Take(0, start)
	l.Take(1, start)
	require.Zero(t, l.Seal([]line.Move{{Number: 1}}).Done)
	l.Settle(start)
	require.True(t, l.Lose(1, start))
	require.Equal(t, int64(1), l.Seal(nil).Done)
}

// Owners come and go, each from what was settled when the one before was killed: numbers stay, and nobody gets the turn
// before all below it have ended.
func TestLine_AgreesWithThePlainestLine(t *testing.T) {
	t.Parallel()
	for seed := range uint64(300) {
		rnd := rand.New(rand.NewPCG(seed, 0))
		const events = 60
		l := line.New("ep", 7, 0, start)
		record := schemas.Line{EndpointID: "ep", Epoch: 7, TakenOffset: -1}
		settled := map[int64]bool{} // offsets of events
		where := map[int64]string{} // settled: "" in events, "tier", "ended"
		numbers := map[int64]int64{}
		for range 40 { // owners
			read := int64(0)
			here := []int64{} // numbers in memory
			for n, w := range where {
				if w == "tier" {
					here = append(here, n)
				}
			}
			for range rnd.IntN(30) {
				if read < events && rnd.IntN(2) == 0 {
					offset := read
					if read++; settled[offset] {
						continue
					}
					n := l.Take(offset, start)
					require.Equal(t, offset+1, n, "seed %d", seed)
					numbers[n] = offset
					here = append(here, n)
					continue
				}
				var moves []line.Move
				for range rnd.IntN(4) {
					if len(here) == 0 {
						break
					}
					i := rnd.IntN(len(here))
					n := here[i]
					ends := n == l.Turn() && rnd.IntN(3) > 0 || rnd.IntN(20) == 0
					moves = append(moves, line.Move{Number: n, Ended: ends})
					if here = slices.Delete(here, i, i+1); ends {
						l.End(n, start)
					}
				}
				if len(moves) == 0 {
					continue
				}
				sealed := *l.Seal(moves)
				if rnd.IntN(10) == 0 {
					break // killed before it is settled
				}
				l.Settle(start)
				record = sealed
				for _, m := range moves {
					settled[numbers[m.Number]] = true
					if where[m.Number] = "tier"; m.Ended {
						where[m.Number] = "ended"
					} else {
						here = append(here, m.Number)
					}
				}
				for n := int64(1); n < l.Turn(); n++ {
					require.Equal(t, "ended", where[n], "seed %d: %d is passed", seed, n)
				}
			}
			l = line.Restore(&record)
			require.NotEqual(t, "ended", where[l.Turn()], "seed %d", seed)
		}
	}
}

// Of those that leave together, a lower number comes back earlier; all of them after the head, and not for too long.
func TestBack_InOrderAndBehindTheHead(t *testing.T) {
	t.Parallel()
	l := line.New("ep", 7, 0, start)
	for offset := range int64(50_000) {
		l.Take(offset, start)
	}
	due := start.Add(time.Hour)
	l.Postpone(1, due)
	l.Postpone(2, start.Add(time.Minute)) // not the head
	last := due
	for n := int64(2); n <= 50_000; n++ {
		back := l.Back(n, 0, 4*time.Second, start)
		require.True(t, back.After(last), "%d", n)
		last = back
	}
	require.Less(t, last, due.Add(10*time.Minute), "%s", last.Sub(due))
	require.Equal(t, due.Add(20*time.Millisecond), l.Back(21, 0, 4*time.Second, start), "its turn is soon: with the head")
	require.GreaterOrEqual(t, l.Back(100, 2*time.Second, 0, start).Sub(due), 148*time.Second, "as the rate allows")
}

// The longer it is not known when the head comes, the longer they stay away.
func TestBack_OfAHeadThatIsOverdue(t *testing.T) {
	t.Parallel()
	l := line.New("ep", 7, 0, start)
	l.Take(0, start)
	l.Take(1, start)
	for stuck, away := range map[time.Duration]time.Duration{
		0: time.Second, time.Minute: 15 * time.Second, 24 * time.Hour: 10 * time.Minute,
	} {
		now := start.Add(stuck)
		require.InDelta(t, away.Seconds(), l.Back(2, 0, 0, now).Sub(now).Seconds(), 0.2)
	}
}

// The pace follows what a turn takes, and not how long the line waited for who was away.
func TestBack_ThePace(t *testing.T) {
	t.Parallel()
	l := line.New("ep", 7, 0, start)
	now := start
	for offset := range int64(200) {
		l.Take(offset, now)
	}
	for n := int64(1); n <= 60; n++ {
		now = now.Add(time.Hour) // it is away
		l.Come(now)
		now = now.Add(2 * time.Second)
		l.Come(now) // it failed and came back
		l.End(n, now)
		l.Seal([]line.Move{{Number: n, Ended: true}})
		l.Settle(now)
	}
	require.InDelta(t, 20, l.Away(71, 0).Seconds(), 0.1)
	require.Equal(t, 10*time.Minute, l.Away(1<<62, 0))
}

// A number that never comes is passed over, but only after the lifetime of whoever had it and when all behind it have
// shown themselves; and by the lowest of them.
func TestOverdue(t *testing.T) {
	t.Parallel()
	const lifetime = 26 * time.Hour
	l := line.New("ep", 7, 0, start)
	for offset := range int64(5) {
		l.Take(offset, start)
	}
	require.False(t, l.Overdue(4, lifetime, start.Add(lifetime-1)))
	now := start.Add(lifetime)
	require.False(t, l.Overdue(4, lifetime, now))
	require.False(t, l.Overdue(3, lifetime, now.Add(29*time.Minute)))
	require.False(t, l.Overdue(4, lifetime, now.Add(time.Hour)), "3 is before it")
	require.True(t, l.Overdue(3, lifetime, now.Add(time.Hour)))
	require.Equal(t, int64(3), l.Turn())
	require.True(t, l.Clear())
	r := l.Seal(nil)
	require.Equal(t, int64(2), r.Done)
	require.Equal(t, int64(3), line.Restore(r).Turn())
	l.Settle(now)
	l.End(3, now)
	require.Equal(t, int64(3), l.Seal([]line.Move{{Number: 3, Ended: true}}).Done)
	l.Settle(now)
	require.True(t, l.Clear())
	require.False(t, l.End(2, now), "it came after all")
	require.True(t, l.End(4, now))

	l = line.New("ep", 7, 0, start)
	l.Take(0, start)
	l.Take(1, start)
	require.False(t, l.Overdue(2, lifetime, start.Add(lifetime)))
	l.End(1, start.Add(lifetime)) // it came
	l.Take(2, start.Add(lifetime))
	require.False(t, l.Overdue(3, lifetime, start.Add(2*lifetime)), "counted anew")
	require.False(t, l.Overdue(2, 0, start.Add(100*lifetime)), "no lifetime")
}
