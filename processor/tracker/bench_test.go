package tracker_test

import (
	"testing"

	"github.com/barnabas-webhooks/barnabas/processor/tracker"
)

// One offset's whole life: received, settled in a beat of 500 out of order behind one that takes long, done.
func BenchmarkTracker_Offset(b *testing.B) {
	const beat = 500
	tr := tracker.New(0, "")
	offsets := make([]int64, 0, beat)
	next := int64(0)
	b.ReportAllocs()
	for b.Loop() {
		tr.Open(next)
		offsets = append(offsets, next)
		next++
		if len(offsets) < beat {
			continue
		}
		slow := offsets[0]
		offsets[0], offsets[beat-1] = offsets[beat-1], slow
		tr.CommitWith(offsets[:beat-1], "beat")
		for _, o := range offsets {
			tr.Done(o)
		}
		offsets = offsets[:0]
	}
}
