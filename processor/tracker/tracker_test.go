package tracker_test

import (
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/barnabas-webhooks/barnabas/processor/tracker"
)

// settle is one beat: what the settler does with offsets that are finished.
func settle(t *tracker.Tracker, offsets ...int64) (int64, string) {
	commit, metadata := t.CommitWith(offsets, "")
	for _, o := range offsets {
		t.Done(o)
	}
	return commit, metadata
}

// fresh opens offsets and lists those that are to be worked on.
func fresh(t *tracker.Tracker, offsets ...int64) (list []int64) {
	for _, o := range offsets {
		if t.Open(o) {
			list = append(list, o)
		}
	}
	return list
}

// C-129: of what was removed from the log, what the map calls done is not missing.
func TestTracker_MissingLeavesOutWhatWasDone(t *testing.T) {
	t.Parallel()
	before := tracker.New(10, "")
	for o := int64(10); o < 20; o++ {
		before.Open(o)
	}
	offset, metadata := before.CommitWith([]int64{12, 13, 19}, "")
	tr := tracker.New(offset, metadata)
	for want, span := range map[int64][2]int64{0: {10, 10}, 2: {10, 12}, 3: {10, 15}, 7: {10, 20}, 12: {10, 25}, 1: {12, 15}} {
		require.Equal(t, want, tr.Missing(span[0], span[1]), "%v", span)
	}
	require.Zero(t, tr.Missing(20, 10))
}

// C-120: a record that takes long holds the commit back, whatever finishes above it; and after a
// crash only what was not settled is done again.
func TestTracker_CommitStopsAtUnsettled(t *testing.T) {
	t.Parallel()
	tr := tracker.New(10, "")
	require.Equal(t, []int64{10, 11, 12, 14, 15}, fresh(tr, 10, 11, 12, 14, 15))

	commit, metadata := settle(tr, 15, 11, 12)
	require.EqualValues(t, 10, commit)
	require.EqualValues(t, 10, tr.Position())
	require.Equal(t, 2, tr.Unsettled())

	next := tracker.New(commit, metadata)
	require.Equal(t, []int64{10, 14, 16}, fresh(next, 10, 11, 12, 14, 15, 16))
	commit, metadata = settle(next, 10, 14)
	require.EqualValues(t, 16, commit)
	require.Equal(t, "bn1::", metadata)
	commit, _ = settle(next, 16)
	require.EqualValues(t, 17, commit)
	_, open := next.Lowest()
	require.False(t, open)
}

func TestTracker_CommitWithChangesNothing(t *testing.T) {
	t.Parallel()
	tr := tracker.New(-1, "")
	fresh(tr, 3, 4, 5)
	offsets := []int64{5, 3}
	first, firstMeta := tr.CommitWith(offsets, "a")
	again, againMeta := tr.CommitWith(offsets, "a")
	require.EqualValues(t, 4, first)
	require.Equal(t, first, again)
	require.Equal(t, firstMeta, againMeta)
	require.Equal(t, []int64{5, 3}, offsets, "the caller's slice")
	require.EqualValues(t, 3, tr.Position())
	commit, metadata := tr.CommitWith(nil, "")
	require.EqualValues(t, 3, commit)
	require.Equal(t, "bn1::", metadata)
}

func TestTracker_StartsWhereItIsTold(t *testing.T) {
	t.Parallel()
	tr := tracker.New(-1, "bn1::/w")
	require.EqualValues(t, -1, tr.Position())
	commit, metadata := tr.CommitWith(nil, "tag")
	require.EqualValues(t, -1, commit)
	require.Empty(t, metadata)
	require.True(t, tr.Open(700), "nothing was committed: the first record decides, and metadata without a commit says nothing")
	require.True(t, tr.Open(701))
	require.EqualValues(t, 700, tr.Position())

	tr = tracker.New(5, "")
	require.EqualValues(t, 5, tr.Position())
	require.False(t, tr.Open(4), "below the commit")
	require.False(t, tr.Open(-1))
	require.True(t, tr.Open(5))
	require.False(t, tr.Open(5), "received twice")
	commit, _ = tracker.New(0, "").CommitWith(nil, "")
	require.Zero(t, commit)
}

func TestTracker_WhatIsDoneTwiceOrUnknownChangesNothing(t *testing.T) {
	t.Parallel()
	tr := tracker.New(0, "")
	fresh(tr, 0, 1, 5, 9)
	for _, o := range []int64{5, 5, 3, 2, 77, -1, 1 << 40} {
		tr.Done(o)
	}
	require.Equal(t, 3, tr.Unsettled())
	commit, metadata := tr.CommitWith([]int64{3, 77, -4, 5, 5, 9, 9}, "")
	require.EqualValues(t, 0, commit)
	require.Equal(t, []int64{0, 1, 10}, fresh(tracker.New(commit, metadata), 0, 1, 5, 9, 10))
	tr.Done(0)
	tr.Done(0)
	require.Equal(t, 2, tr.Unsettled())
	require.EqualValues(t, 1, tr.Position())
}

// Gaps of any size: transaction markers, aborted records, compaction, retention.
func TestTracker_GapsAreNothing(t *testing.T) {
	t.Parallel()
	tr := tracker.New(100, "")
	fresh(tr, 250, 100_000, 100_002)
	require.EqualValues(t, 250, tr.Position(), "what lies below was never there")
	require.False(t, tr.Fits(250+tracker.FarWindow+1))
	require.True(t, tr.Fits(250+tracker.FarWindow))
	commit, _ := settle(tr, 250)
	require.EqualValues(t, 100_000, commit)
	require.True(t, tr.Fits(100_000+tracker.Window))
	commit, _ = settle(tr, 100_000, 100_002)
	require.EqualValues(t, 100_003, commit)
	require.True(t, tr.Fits(1<<40), "with nothing open anything fits")
	require.True(t, tr.Open(1<<40))
	require.EqualValues(t, 1<<40, tr.Position())
}

func TestTracker_AdvanceMovesTheCommitOverWhatIsNotReceived(t *testing.T) {
	t.Parallel()
	tr := tracker.New(100, "")
	tr.Advance(103)
	require.EqualValues(t, 103, tr.Position())
	require.False(t, tr.Open(102))
	require.True(t, tr.Open(103))
	tr.Advance(110)
	require.EqualValues(t, 103, tr.Position(), "not past what is open")
	tr.Advance(50)
	commit, _ := settle(tr, 103)
	require.EqualValues(t, 110, commit)

	fromMap := tracker.New(10, mustMap(t, 10, 12, 13, 20))
	fromMap.Advance(12)
	require.EqualValues(t, 14, fromMap.Position(), "12 and 13 were done before")
	require.Equal(t, []int64{14, 21}, fresh(fromMap, 12, 13, 14, 20, 21))
}

// mustMap makes the metadata that calls offsets above commit done.
func mustMap(t *testing.T, commit int64, done ...int64) string {
	t.Helper()
	tr := tracker.New(commit, "")
	tr.Open(commit)
	for _, o := range done {
		tr.Open(o)
	}
	at, metadata := tr.CommitWith(done, "")
	require.Equal(t, commit, at)
	return metadata
}

// Two crashes in a row: what the first owner settled is still known to the third,
// although the second never came to read it.
func TestTracker_TheMapSurvivesAnOwnerThatDidNotReadThatFar(t *testing.T) {
	t.Parallel()
	second := tracker.New(10, mustMap(t, 10, 11, 500, 16_000))
	fresh(second, 10, 11, 12)
	commit, metadata := settle(second, 10)
	require.EqualValues(t, 12, commit)
	third := tracker.New(commit, metadata)
	require.Equal(t, []int64{12, 499, 501}, fresh(third, 12, 499, 500, 501, 16_000))
}

func TestTracker_FullLeavesHeadroomForPollsUnderWay(t *testing.T) {
	t.Parallel()
	tr := tracker.New(0, "")
	require.False(t, tr.Full())
	o := int64(0)
	for !tr.Full() {
		require.Equal(t, o > tracker.Window/2, tr.HalfFull())
		tr.Open(o)
		o++
	}
	require.EqualValues(t, tracker.Window-tracker.Headroom+1, o)
	for range int64(tracker.Headroom) {
		require.True(t, tr.Fits(o))
		tr.Open(o)
		o++
	}
	require.False(t, tr.Fits(o))

	// All done but the lowest: the largest map there is.
	offsets := make([]int64, 0, tracker.Window)
	for i := int64(1); i < o; i++ {
		offsets = append(offsets, i)
	}
	commit, metadata := tr.CommitWith(offsets, strings.Repeat("x", tracker.MaxTag))
	require.Zero(t, commit)
	require.LessOrEqual(t, len(metadata), 2800)
	require.LessOrEqual(t, len(metadata), tracker.MaxMetadata)
	require.Equal(t, strings.Repeat("x", tracker.MaxTag), tracker.Tag(metadata))
	next := tracker.New(commit, metadata)
	require.True(t, next.Open(0))
	for i := int64(1); i <= tracker.Window; i++ {
		require.False(t, next.Open(i))
	}
	require.True(t, next.Open(tracker.Window+1))

	settle(tr, 0)
	require.True(t, tr.Full(), "the window has moved by one only")
	for i := int64(1); i <= tracker.Headroom; i++ {
		tr.Done(i)
	}
	require.False(t, tr.Full())
	require.True(t, tr.HalfFull())
	for i := int64(tracker.Headroom); i < o; i++ {
		tr.Done(i)
	}
	require.False(t, tr.HalfFull(), "all is done")
}

func TestMetadata_WhatIsNotOursMeansNoMap(t *testing.T) {
	t.Parallel()
	ours := mustMap(t, 0, 1, 2, 9)
	require.Equal(t, []int64{0, 3}, fresh(tracker.New(0, ours), 0, 1, 2, 3, 9))
	for _, foreign := range []string{
		"", "bn1", "bn1:", "bn2::Aw", "consumer-7", "{\"a\":1}", "\x00\xff", "bn1::Aw=", "bn1::A", "bn1::A w", "bn1::Aw\n", "bn1:\n:Aw",
		"bn1:a b:Aw", "bn1:" + strings.Repeat("x", 33) + ":Aw", "bn1::" + strings.Repeat("_", 100), "bn1::Ax",
		"bn1::" + strings.Repeat("////", 683), // a map longer than the window
		"bn1::" + strings.Repeat("////", 2000),
		" " + ours, strings.ToUpper(ours),
	} {
		tr := tracker.New(0, foreign)
		require.Equal(t, []int64{0, 1, 2, 3, 9}, fresh(tr, 0, 1, 2, 3, 9), "%q", foreign)
	}
}

func TestMetadata_CarriesTheTag(t *testing.T) {
	t.Parallel()
	tr := tracker.New(7, "")
	for _, tag := range []string{"", "beat-17", "0", strings.Repeat("Zz9-", 8)} {
		_, metadata := tr.CommitWith(nil, tag)
		require.Equal(t, tag, tracker.Tag(metadata))
	}
	for _, tag := range []string{"a:b", "a b", "é", strings.Repeat("x", 33), "\n", "a,b"} {
		_, metadata := tr.CommitWith(nil, tag)
		require.Empty(t, tracker.Tag(metadata))
		require.Equal(t, "bn1::", metadata, "a tag that cannot be carried does not spoil the map")
	}
	for _, foreign := range []string{"", "beat", "bn3:x:", "bn1:x", "bn1:a b:", "bn1:x:" + strings.Repeat("A", 5000)} {
		require.Empty(t, tracker.Tag(foreign), "%q", foreign)
	}
}

// Memory follows what is open, and not what has passed.
func TestTracker_GivesMemoryBack(t *testing.T) {
	t.Parallel()
	tr := tracker.New(0, "")
	for o := range int64(16_000) {
		tr.Open(o)
	}
	for o := range int64(15_990) {
		tr.Done(o)
	}
	require.LessOrEqual(t, tracker.Held(tr), 1000)
	for o := range int64(10) {
		tr.Done(15_990 + o)
	}
	require.LessOrEqual(t, tracker.Held(tr), 64)
}

// A long life with crashes at any time, against a ledger: nothing settled is worked on again,
// nothing unsettled is passed, nothing is forgotten.
func TestTracker_NoRecordIsLostOrDoneTwiceOverCrashes(t *testing.T) {
	t.Parallel()
	for seed := range uint64(30) {
		rnd := rand.New(rand.NewPCG(seed, 3))
		log := []int64{} // the offsets that exist
		for o := int64(rnd.IntN(1000)); len(log) < 4000; o += 1 + int64(rnd.IntN(3)*rnd.IntN(3)*rnd.IntN(20)) {
			log = append(log, o)
		}
		settled := map[int64]bool{}
		committed, metadata := int64(-1), ""
		for len(settled) < len(log) {
			// A new owner reads from the commit on.
			tr := tracker.New(committed, metadata)
			at := 0
			for at < len(log) && log[at] < committed {
				require.True(t, settled[log[at]], "seed %d: %d was passed", seed, log[at])
				at++
			}
			var open []int64
			for range 1 + rnd.IntN(200) { // beats until it crashes
				for range rnd.IntN(40) {
					if at < len(log) && tr.Fits(log[at]) {
						require.Equal(t, !settled[log[at]], tr.Open(log[at]), "seed %d: offset %d", seed, log[at])
						if !settled[log[at]] {
							open = append(open, log[at])
						}
						at++
					}
				}
				rnd.Shuffle(len(open), func(i, j int) { open[i], open[j] = open[j], open[i] })
				n := rnd.IntN(len(open) + 1)
				commit, m := tr.CommitWith(open[:n], "beat")
				if commit < 0 {
					continue
				}
				require.GreaterOrEqual(t, commit, committed, "seed %d: the commit went back", seed)
				if rnd.IntN(10) == 0 { // the transaction was aborted
					continue
				}
				committed, metadata = commit, m
				for _, o := range open[:n] {
					settled[o] = true
					tr.Done(o)
				}
				open = open[n:]
				require.Equal(t, len(open), tr.Unsettled())
			}
		}
		require.Equal(t, log[len(log)-1]+1, committed, "seed %d", seed)
	}
}
