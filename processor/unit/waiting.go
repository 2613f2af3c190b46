package unit

import (
	"container/heap"
	"slices"
	"time"
)

// waiting is the look-ahead of one tier: deliveries that have been read and are
// not due yet, the earliest first. What it may hold is bounded by its user.
type waiting struct {
	items dueHeap
}

func (w *waiting) len() int { return len(w.items) }

func (w *waiting) add(it *item) { heap.Push(&w.items, it) }

// due removes the earliest delivery if its time has come; nil otherwise.
func (w *waiting) due(now time.Time) *item {
	if len(w.items) == 0 || w.items[0].delivery.DueAt.After(now) {
		return nil
	}
	return heap.Pop(&w.items).(*item)
}

// next is when the earliest delivery is due.
func (w *waiting) next() (time.Time, bool) {
	if len(w.items) == 0 {
		return time.Time{}, false
	}
	return w.items[0].delivery.DueAt, true
}

// latest removes the half that is due last. Half at once, so that an overflowing
// tier is sorted once in a while and not searched with each record.
func (w *waiting) latest() []*item {
	slices.SortFunc(w.items, func(a, b *item) int { return a.delivery.DueAt.Compare(b.delivery.DueAt) })
	keep := len(w.items) / 2
	late := slices.Clone(w.items[keep:])
	clear(w.items[keep:])
	w.items = w.items[:keep] // sorted: still a heap
	return late
}

// below removes those that lie below an offset.
func (w *waiting) below(offset int64) []*item {
	var low []*item
	w.items = slices.DeleteFunc(w.items, func(it *item) bool {
		if it.offset < offset {
			low = append(low, it)
			return true
		}
		return false
	})
	heap.Init(&w.items)
	return low
}

// dueHeap implements heap.Interface.
type dueHeap []*item

func (h dueHeap) Len() int           { return len(h) }
func (h dueHeap) Less(i, j int) bool { return h[i].delivery.DueAt.Before(h[j].delivery.DueAt) }
func (h dueHeap) Swap(i, j int)      { h[i], h[j] = h[j], h[i] }
func (h *dueHeap) Push(x any)        { *h = append(*h, x.(*item)) }

func (h *dueHeap) Pop() any {
	last := len(*h) - 1
	it := (*h)[last]
	(*h)[last] = nil
	*h = (*h)[:last]
	return it
}

// alarms wake lanes: at the age at which what waits in them is spilled, or when
// their endpoint's rate allows the next request.
type alarms struct {
	rings alarmHeap
}

type alarm struct {
	at   time.Time
	lane *endpointLane
}

// set wakes the lane at the given time, or earlier if it has an earlier alarm.
func (a *alarms) set(l *endpointLane, at time.Time) {
	if !l.alarm.IsZero() && !at.Before(l.alarm) {
		return
	}
	l.alarm = at
	heap.Push(&a.rings, alarm{at, l})
}

func (a *alarms) next() time.Time {
	if len(a.rings) == 0 {
		return time.Time{}
	}
	return a.rings[0].at
}

// ring returns a lane whose alarm has come; nil when none has.
func (a *alarms) ring(now time.Time) *endpointLane {
	for len(a.rings) > 0 && !a.rings[0].at.After(now) {
		r := heap.Pop(&a.rings).(alarm)
		if r.lane.alarm.Equal(r.at) { // else it was set anew, to an earlier time that has rung
			r.lane.alarm = time.Time{}
			return r.lane
		}
	}
	return nil
}

// alarmHeap implements heap.Interface.
type alarmHeap []alarm

func (h alarmHeap) Len() int           { return len(h) }
func (h alarmHeap) Less(i, j int) bool { return h[i].at.Before(h[j].at) }
func (h alarmHeap) Swap(i, j int)      { h[i], h[j] = h[j], h[i] }
func (h *alarmHeap) Push(x any)        { *h = append(*h, x.(alarm)) }

func (h *alarmHeap) Pop() any {
	last := len(*h) - 1
	a := (*h)[last]
	(*h)[last] = alarm{}
	if *h = (*h)[:last]; last == 0 {
		*h = nil // a burst of endpoints has passed: slices do not shrink by themselves
	}
	return a
}
