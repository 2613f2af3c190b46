package aimd_test

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/barnabas-webhooks/barnabas/processor/aimd"
)

var start = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

func TestLimit_TrustsUntilShownOtherwise(t *testing.T) {
	t.Parallel()
	var l aimd.Limit
	require.Equal(t, 64, l.Of(64))
	require.Equal(t, 1, l.Of(0))
	require.Equal(t, 1, l.Of(-5))
	l.Bore(64, 64)
	require.Equal(t, 64, l.Of(64))
}

func TestLimit_HalvesOncePerRound(t *testing.T) {
	t.Parallel()
	var l aimd.Limit
	now := start
	for want := 32; want >= 1; want /= 2 {
		begun := now
		now = now.Add(time.Second)
		require.True(t, l.Overloaded(begun, now, 64))
		for range 63 { // the others of the round
			require.False(t, l.Overloaded(begun, now, 64))
		}
		require.Equal(t, want, l.Of(64))
		now = now.Add(time.Second)
	}
	require.True(t, l.Overloaded(now, now.Add(time.Second), 64))
	require.Equal(t, 1, l.Of(64), "never none")
}

func TestLimit_OneMorePerFullRound(t *testing.T) {
	t.Parallel()
	var l aimd.Limit
	l.Overloaded(start, start.Add(1), 16)
	for want := 8; want < 16; want++ {
		require.Equal(t, want, l.Of(16))
		for range 100 {
			l.Bore(want-1, 16) // not a full one
		}
		require.Equal(t, want, l.Of(16))
		for l.Of(16) == want {
			l.Bore(want, 16)
		}
	}
	require.Equal(t, 16, l.Of(16))
	require.Equal(t, 40, l.Of(40), "trusted again, whatever is asked for")
}

// However it goes, the limit is in [1, most], and an endpoint that bears so many gets about so many.
func TestLimit_FindsWhatIsBorne(t *testing.T) {
	t.Parallel()
	for _, bears := range []int{1, 3, 10, 30, 100} {
		var l aimd.Limit
		rnd := rand.New(rand.NewPCG(uint64(bears), 1))
		now, sum := start, 0
		const rounds, most = 4000, 64
		for round := range rounds {
			begun := now
			now = now.Add(time.Second)
			n := l.Of(most)
			require.GreaterOrEqual(t, n, 1)
			require.LessOrEqual(t, n, most)
			for range n {
				if n > bears && rnd.IntN(n) < n-bears {
					l.Overloaded(begun, now, most)
				} else {
					l.Bore(n, most)
				}
			}
			now = now.Add(time.Millisecond)
			if round >= rounds/2 {
				sum += n
			}
		}
		mean := float64(sum) / (rounds / 2)
		require.GreaterOrEqual(t, mean, 0.5*float64(min(bears, most)), "bears %d", bears)
		require.LessOrEqual(t, mean, 1.1*float64(bears)+1, "bears %d", bears)
	}
}
