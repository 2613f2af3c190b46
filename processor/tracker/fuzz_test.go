package tracker_test

import (
	"maps"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/barnabas-webhooks/barnabas/processor/tracker"
)

// naive is the tracker as one would write it without a thought to cost.
type naive struct {
	next int64          // above everything received; -1: unknown
	open map[int64]bool // received, not done
	done map[int64]bool // done, received or told by the map
}

func newNaive(committed int64, done map[int64]bool) *naive {
	return &naive{next: committed, open: map[int64]bool{}, done: done}
}

func (n *naive) receive(offset int64) bool {
	if offset < n.next {
		return false
	}
	n.next = offset + 1
	if n.done[offset] {
		return false
	}
	n.open[offset] = true
	return true
}

func (n *naive) settle(offset int64) {
	if n.open[offset] {
		delete(n.open, offset)
		n.done[offset] = true
	}
}

// commit is where the log may be read from, and what is done from there on.
func (n *naive) commit(with []int64) (int64, map[int64]bool) {
	c := &naive{next: n.next, open: maps.Clone(n.open), done: maps.Clone(n.done)}
	for _, o := range with {
		c.settle(o)
	}
	at := c.next
	if len(c.open) > 0 {
		at = slices.Min(slices.Collect(maps.Keys(c.open)))
	} else {
		for c.done[at] {
			at++
		}
	}
	above := map[int64]bool{}
	for o := range c.done {
		// What lies below the highest received offset and was never received no longer exists.
		if o > at {
			above[o] = true
		}
	}
	return at, above
}

// FuzzTracker plays a script of operations to the tracker and to the naive model.
func FuzzTracker(f *testing.F) {
	f.Add([]byte{0, 1, 0, 0, 2, 3, 5, 0}, int64(0))
	f.Add([]byte{0, 0, 0, 0, 0, 0, 1, 3, 1, 1, 3, 2, 4, 0, 0, 0, 0}, int64(-1))
	f.Add([]byte{0, 200, 0, 255, 2, 0, 3, 7, 4, 0, 1, 5, 200, 0, 1}, int64(1000))
	f.Fuzz(func(t *testing.T, script []byte, committed int64) {
		committed = max(committed, -1) % (1 << 40)
		script = script[:min(len(script), 400)]
		tr, model := tracker.New(committed, ""), newNaive(committed, map[int64]bool{})
		for i := 0; i+1 < len(script); i += 2 {
			op, arg := script[i]%6, int64(script[i+1])
			switch op {
			case 0, 1: // receive the next offset, after a gap
				o := max(model.next, 0) + arg*arg/64
				require.Equal(t, model.lowest(o)+tracker.FarWindow >= o, tr.Fits(o))
				if !tr.Fits(o) {
					continue
				}
				require.Equal(t, model.receive(o), tr.Open(o), "open %d", o)
			case 2: // settle one
				if o, ok := model.pick(arg); ok {
					model.settle(o)
					tr.Done(o)
				}
				tr.Done(model.next + arg) // and one that was never received
			case 3: // a beat, perhaps aborted
				var with []int64
				for k := range arg % 8 {
					if o, ok := model.pick(arg * (k + 1)); ok {
						with = append(with, o)
					}
				}
				check(t, tr, model, with)
				if arg%2 == 0 {
					for _, o := range with {
						model.settle(o)
						tr.Done(o)
					}
				}
			case 4: // a crash
				at, metadata := tr.CommitWith(nil, "tag")
				if at < 0 {
					continue
				}
				_, above := model.commit(nil)
				tr, model = tracker.New(at, metadata), newNaive(at, above)
			case 5: // a poll position
				o := max(model.next, 0) + arg/2
				tr.Advance(o)
				model.next = o
			}
			require.Equal(t, len(model.open), tr.Unsettled())
			check(t, tr, model, nil)
		}
	})
}

func check(t *testing.T, tr *tracker.Tracker, model *naive, with []int64) {
	t.Helper()
	at, metadata := tr.CommitWith(with, "tag")
	want, above := model.commit(with)
	require.Equal(t, want, at)
	if with == nil {
		require.Equal(t, want, tr.Position())
	}
	if at < 0 {
		require.Empty(t, metadata)
		return
	}
	require.LessOrEqual(t, len(metadata), tracker.MaxMetadata)
	require.Equal(t, "tag", tracker.Tag(metadata))
	next := tracker.New(at, metadata)
	for _, o := range model.log() {
		if o < at {
			continue
		}
		if skipped := !next.Open(o); skipped != above[o] {
			t.Fatalf("offset %d: after a crash the next owner skips it: %v, must be %v", o, skipped, above[o])
		}
	}
}

func (n *naive) lowest(otherwise int64) int64 {
	if len(n.open) == 0 {
		return otherwise
	}
	return slices.Min(slices.Collect(maps.Keys(n.open)))
}

// pick chooses an open offset.
func (n *naive) pick(by int64) (int64, bool) {
	if len(n.open) == 0 {
		return 0, false
	}
	open := slices.Sorted(maps.Keys(n.open))
	return open[int(by)%len(open)], true
}

// log lists what an owner may still receive: what was received or told by a map, and what is yet to come.
func (n *naive) log() []int64 {
	all := maps.Clone(n.open)
	maps.Copy(all, n.done)
	for o := max(n.next, 0); o < n.next+20; o++ {
		all[o] = true
	}
	return slices.Sorted(maps.Keys(all))
}

// FuzzMetadata feeds what others may have written into a commit.
func FuzzMetadata(f *testing.F) {
	for _, s := range []string{"", "bn1::", "bn1:tag:Aw", "bn1::////", "consumer-1", "bn1::AAAA", "bn1:::", "bn1::Aw\n", "bn2::", "bn2::gIABAQ", "bn2:tag:gIAIAgM"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, metadata string) {
		tr := tracker.New(100, metadata)
		require.True(t, tr.Open(100), "the commit is never done")
		for o := int64(101); o <= 100+tracker.FarWindow; o++ {
			tr.Open(o)
		}
		require.True(t, tr.Open(101+tracker.FarWindow), "no map reaches beyond the window")
		_, again := tracker.New(100, metadata).CommitWith(nil, tracker.Tag(metadata))
		_, twice := tracker.New(100, again).CommitWith(nil, tracker.Tag(again))
		require.Equal(t, again, twice)
	})
}
