package lane_test

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/barnabas-webhooks/barnabas/processor/lane"
)

func TestRing_EveryKeyHasOneTurnPerRound(t *testing.T) {
	t.Parallel()
	var r lane.Ring[string]
	_, ok := r.Next()
	require.False(t, ok)
	for _, k := range []string{"a", "b", "c"} {
		require.True(t, r.Add(k))
		require.False(t, r.Add(k), "a key is in once")
	}
	var turns []string
	for range 6 {
		k, ok := r.Next()
		require.True(t, ok)
		turns = append(turns, k)
	}
	require.Equal(t, []string{"a", "b", "c", "a", "b", "c"}, turns)
}

func TestRing_ANewKeyWaitsForTheOthers(t *testing.T) {
	t.Parallel()
	var r lane.Ring[string]
	r.Add("a")
	r.Add("b")
	r.Next() // a
	r.Add("new")
	var turns []string
	for range 3 {
		k, _ := r.Next()
		turns = append(turns, k)
	}
	require.Equal(t, []string{"b", "a", "new"}, turns)
}

func TestRing_RemovingKeepsTheTurnOfTheOthers(t *testing.T) {
	t.Parallel()
	var r lane.Ring[string]
	for _, k := range []string{"a", "b", "c", "d"} {
		r.Add(k)
	}
	r.Next() // a
	require.True(t, r.Remove("a"), "the one that had its turn")
	require.True(t, r.Remove("c"))
	require.False(t, r.Remove("c"))
	require.False(t, r.Has("c"))
	require.True(t, r.Has("b"))
	k, _ := r.Next()
	require.Equal(t, "b", k)
	k, _ = r.Next()
	require.Equal(t, "d", k)
	require.Equal(t, 2, r.Len())
}

// Against a plain slice whose front is next.
func TestRing_AgreesWithASlice(t *testing.T) {
	t.Parallel()
	for seed := range uint64(6) {
		rnd := rand.New(rand.NewPCG(seed, 2))
		var r lane.Ring[int]
		var model []int
		for range 20_000 {
			key := rnd.IntN(300)
			switch op := rnd.IntN(10); {
			case op < 4:
				in := slices.Contains(model, key)
				require.Equal(t, !in, r.Add(key))
				if !in {
					model = append(model, key)
				}
			case op < 7:
				i := slices.Index(model, key)
				require.Equal(t, i >= 0, r.Remove(key))
				if i >= 0 {
					model = slices.Delete(model, i, i+1)
				}
			case op == 7 && rnd.IntN(500) == 0:
				for _, k := range model {
					require.True(t, r.Remove(k))
				}
				model = nil
			default:
				got, ok := r.Next()
				require.Equal(t, len(model) > 0, ok)
				if ok {
					require.Equal(t, model[0], got)
					model = append(model[1:], got)
				}
			}
			require.Equal(t, len(model), r.Len())
		}
	}
}

func TestRing_SteadyTurnsDoNotAllocate(t *testing.T) {
	var r lane.Ring[int]
	r.Add(1)
	r.Add(2)
	allocs := testing.AllocsPerRun(1000, func() {
		r.Add(3)
		r.Next()
		r.Remove(3)
	})
	require.Zero(t, allocs)
}
