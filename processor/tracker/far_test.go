package tracker_test

import (
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/barnabas-webhooks/barnabas/processor/tracker"
)

// C-107: one request hangs at the bottom of the window, and a flood goes through above it, settled in beats, some of it out
// of order. The tracker takes 131,072 offsets on, and whenever the owner crashes the next one skips what was settled.
func TestTracker_AFloodPassesOneThatHangs(t *testing.T) {
	t.Parallel()
	rnd := rand.New(rand.NewPCG(1, 7))
	tr := tracker.New(0, "")
	tr.Open(0) // hangs
	settled, open := map[int64]bool{}, []int64{}
	next := int64(1)
	for next < tracker.FarWindow-tracker.Headroom {
		for range 1000 {
			if !tr.Full() && tr.Fits(next) {
				tr.Open(next)
				open = append(open, next)
				next++
			}
		}
		rnd.Shuffle(len(open), func(i, j int) { open[i], open[j] = open[j], open[i] })
		n := len(open) * 9 / 10 // the others are in lanes
		require.Positive(t, n, "it stands still at %d", next)
		commit, metadata := tr.CommitWith(open[:n], strings.Repeat("x", tracker.MaxTag))
		require.Zero(t, commit)
		require.LessOrEqual(t, len(metadata), tracker.MaxMetadata)
		for _, o := range open[:n] {
			settled[o] = true
			tr.Done(o)
		}
		open = open[n:]
		if rnd.IntN(20) == 0 {
			second := tracker.New(commit, metadata)
			for o := range next + 10 {
				require.Equal(t, !settled[o], second.Open(o), "offset %d of %d", o, next)
			}
		}
	}
	require.Less(t, tr.Unsettled(), tracker.FarOpen)
	for !tr.Full() {
		tr.Open(next)
		tr.Done(next)
		next++
	}
	require.EqualValues(t, tracker.FarWindow-tracker.Headroom+1, next)
	tr.Done(0)
	require.False(t, tr.Full(), "what hung is done: the window moves")
}

// Beyond the window of the bitmap only so many may be open as the list has room for, wherever they lie.
func TestTracker_FarAwayFewMayBeOpen(t *testing.T) {
	t.Parallel()
	for name, step := range map[string]int64{
		"side by side": 1, "127 apart": 127, "128 apart": 128, "129 apart": 129, "as far as it goes": tracker.FarWindow / tracker.FarOpen,
	} {
		tr := tracker.New(0, "")
		o := int64(0)
		stays := []int64{}
		for at := int64(0); tr.Fits(at) && o < tracker.FarWindow; at++ {
			tr.Open(at)
			if at == o {
				stays = append(stays, o)
				o += step
				continue
			}
			tr.Done(at)
		}
		for at := o; tr.Fits(at); at++ { // whatever still fits, done at once
			tr.Open(at)
			tr.Done(at)
		}
		commit, metadata := tr.CommitWith(nil, strings.Repeat("x", tracker.MaxTag))
		require.Zero(t, commit)
		require.LessOrEqual(t, len(metadata), tracker.MaxMetadata, name)
		second := tracker.New(commit, metadata)
		for _, s := range stays {
			require.True(t, second.Open(s), "%s: %d", name, s)
			require.False(t, second.Open(s), name)
		}
	}

	// The longest list: as many two-byte steps as there can be, then the rest side by side.
	tr := tracker.New(0, "")
	open, at := 0, int64(0)
	for ; open < tracker.FarOpen-1 && tr.Fits(at); at++ {
		tr.Open(at)
		if at%128 == 0 && at/128 < 900 || at/128 >= 900 {
			open++
			continue
		}
		tr.Done(at)
	}
	require.Equal(t, tracker.FarOpen-1, open)
	require.True(t, tr.Full(), "polls under way")
	require.True(t, tr.Fits(at))
	tr.Open(at)
	require.False(t, tr.Fits(at+1), "one too many")
	_, metadata := tr.CommitWith([]int64{at}, strings.Repeat("x", tracker.MaxTag))
	require.Greater(t, len(metadata), 3500, "the test must come near the limit")
	require.LessOrEqual(t, len(metadata), tracker.MaxMetadata)
	second := tracker.New(0, metadata)
	require.False(t, second.Open(at))
}

// Two owners in a row that crash, with a list that the second has only begun to read.
func TestTracker_TheListSurvivesAnOwnerThatDidNotReadThatFar(t *testing.T) {
	t.Parallel()
	first := tracker.New(0, "")
	open := map[int64]bool{0: true, 5: true, 9000: true, 60_000: true, 100_001: true}
	for o := range int64(100_010) {
		first.Open(o)
		if !open[o] {
			first.Done(o)
		}
	}
	commit, metadata := first.CommitWith([]int64{0}, "beat")
	require.EqualValues(t, 5, commit)
	require.True(t, strings.HasPrefix(metadata, "bn2:beat:"))
	require.Equal(t, "beat", tracker.Tag(metadata))

	second := tracker.New(commit, metadata)
	require.EqualValues(t, 5, second.Position())
	for o := int64(5); o < 10_000; o++ {
		require.Equal(t, open[o], second.Open(o))
	}
	require.EqualValues(t, 5, second.Missing(100_000, 100_014), "100,001, and four that were never received")
	again, metadata := second.CommitWith([]int64{5}, "")
	require.EqualValues(t, 9000, again)
	third := tracker.New(again, metadata)
	for o := int64(9000); o < 100_020; o++ {
		require.Equal(t, open[o] || o >= 100_010, third.Open(o), o)
	}
	third.Done(9000)
	third.Done(60_000)
	require.EqualValues(t, 100_001, third.Position())
}

// Lists that encode cannot have written.
func TestMetadata_ListsThatAreNotOursMeanNoMap(t *testing.T) {
	t.Parallel()
	for _, foreign := range []string{
		"bn2::", "bn2::AQ", "bn2::AQA", "bn2::gIAB", // spans that a bitmap has room for
		"bn2::gYCBAA", "bn2::gIAIAA", "bn2::gIAIgIAI", "bn2:://///////////w", "bn2::gIAI////", "bn2::gIAIAYCAAA",
	} {
		tr := tracker.New(0, foreign)
		require.Equal(t, []int64{0, 1, 2, 3, 9, 20_000}, fresh(tr, 0, 1, 2, 3, 9, 20_000), "%q", foreign)
	}
	require.Equal(t, []int64{0, 2, 131_073}, fresh(tracker.New(0, "bn2::gIAIAg"), 0, 1, 2, 3, 9, 20_000, 131_072, 131_073))
}
