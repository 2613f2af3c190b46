package lane_test

import (
	"testing"

	"github.com/barnabas-webhooks/barnabas/processor/lane"
)

func BenchmarkLane_PushPop(b *testing.B) {
	var l lane.Lane[*int]
	item := new(int)
	for range 256 {
		l.Push(lane.Live, item, 1024, start)
	}
	b.ReportAllocs()
	for b.Loop() {
		l.Push(lane.Live, item, 1024, start)
		l.Pop()
	}
}

func BenchmarkRing_Turn(b *testing.B) {
	var r lane.Ring[int]
	for i := range 100_000 {
		r.Add(i)
	}
	b.ReportAllocs()
	for b.Loop() {
		k, _ := r.Next()
		r.Remove(k)
		r.Add(k)
	}
}
