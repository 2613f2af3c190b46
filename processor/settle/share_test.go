package settle

import (
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"
)

// Invariant 9: whoever has little to settle leaves what it does not need to whoever has much.
func TestShareOf(t *testing.T) {
	t.Parallel()
	const mib = 1 << 20
	for name, tt := range map[string]struct {
		wants []int64
		share int64
	}{
		"nobody":               {nil, 16 * mib},
		"one":                  {[]int64{1}, 16 * mib},
		"one that wants more":  {[]int64{99 * mib}, 16 * mib},
		"all want more":        {[]int64{99 * mib, 98 * mib, 97 * mib, 96 * mib}, 4 * mib},
		"one beside small":     {[]int64{mib, 99 * mib, mib}, 14 * mib},
		"two beside small":     {[]int64{99 * mib, mib, 99 * mib, mib}, 7 * mib},
		"the others fit":       {[]int64{2 * mib, 4 * mib, 99 * mib}, 10 * mib},
		"all get what is left": {[]int64{2 * mib, 4 * mib}, 14 * mib},
	} {
		require.Equal(t, tt.share, shareOf(16*mib, tt.wants), name)
	}
	many := make([]int64, 1000)
	for i := range many {
		many[i] = mib
	}
	require.EqualValues(t, leastShare, shareOf(mib, many), "however many they are")
}

// What all take together is no more than there is, but for what is everybody's least; and nothing is left that somebody wants.
func TestShareOf_IsAllOfIt(t *testing.T) {
	t.Parallel()
	random := rand.New(rand.NewPCG(1, 2))
	for range 10_000 {
		total := 1<<20 + random.Int64N(64<<20)
		wants := make([]int64, 1+random.IntN(100))
		for i := range wants {
			wants[i] = random.Int64N(1 << (10 + random.IntN(20)))
		}
		share := shareOf(total, wants)
		var taken, wanted int64
		for _, want := range wants {
			taken += min(want, share)
			wanted += want
		}
		if share == leastShare {
			continue
		}
		require.LessOrEqual(t, taken, total)
		require.GreaterOrEqual(t, taken, min(wanted, total-int64(len(wants))), "%d bytes for %v", total, wants)
	}
}
