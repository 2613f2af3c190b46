// Package tracker follows one topic-partition whose records finish out of order
// and says what may be committed: the lowest unsettled offset, and above it the
// completed ones as a bitmap that travels in the commit metadata.
//
//	              commit                highest received
//	                v                          v
//	offsets   . . . 7   8   9   .  11  12  .  14
//	          done  |  done |  gap |  done gap |
//	              open     open   open        open      metadata: {8, 12}
//
// After a crash the new owner starts at the commit, reads 8 and 12 again, is told
// by Open that they are done, and skips them. So what is done twice is bounded by
// what was not yet settled, and not by how far the log was read.
//
// Offsets are never assumed to be contiguous: transaction markers, aborted
// records and compaction leave gaps, which count as nothing at all. What the map
// can say is bounded, by the broker's limit on metadata: an offset of which it could
// not say that it is done must wait before it is opened (see Fits). There are two forms:
//
//   - within Window of the lowest open offset, a bitmap: any pattern has room;
//   - within FarWindow, a list of those that are not done, of FarOpen at most.
//
// Since whatever fails or waits moves to another topic, what stays open for long is what
// is in flight, and the lowest offset moves on within one attempt's time limit. The second
// form is for that: a request that hangs for half a minute at the bottom of the window,
// while a flood for the same endpoint goes through it (C-107).
package tracker

import "slices"

// Window is how far, in offsets, the highest open offset may lie above the commit, however many are open.
const Window = 16384

// FarWindow is how far it may lie above the commit while no more than FarOpen are open.
const FarWindow = 131072

// FarOpen is how many offsets may be open where one lies beyond Window. In the map each takes a byte, or two where 128
// offsets or more lie between it and the one before, of which there can be 1,024, or three beyond 16,384, of which there
// can be 8: at most 2,935 bytes with the map's length, in base64 3,914 characters of the 4,059 that a map may have.
const FarOpen = 1900

// Headroom is how many offsets of a window Full keeps free: records of polls that are
// under way when intake pauses still fit.
const Headroom = 4096

// farHeadroom is the same of what may be open.
const farHeadroom = 300

// Tracker belongs to one assignment of one topic-partition and to one goroutine.
// A commit that jumps back (a topic made anew, an offset out of range) needs a new Tracker.
type Tracker struct {
	// next is above everything received: the commit when nothing is open. -1: not known yet.
	next int64
	// entries are the received offsets from the lowest open one on, ascending, each
	// shifted left by one with the done flag in the lowest bit. entries[head:] is live,
	// and its first is always open.
	entries []int64
	head    int
	open    int
	// ahead are offsets >= next that the restored map calls done, ascending: not received yet.
	ahead []int64
}

// New starts at the committed offset (-1: nothing was committed; the first Open decides).
// metadata is what came with the commit; anything that is not one of our maps means "no map".
func New(committed int64, metadata string) *Tracker {
	t := &Tracker{next: max(committed, -1)}
	if committed >= 0 {
		t.ahead = decode(committed, metadata)
	}
	return t
}

// Open notes a received offset. Offsets come in ascending order, with gaps.
// fresh is false when the map says it was completed before, when it is below the commit,
// or when it was received already: skip it. A negative offset is never fresh.
func (t *Tracker) Open(offset int64) (fresh bool) {
	if offset < 0 || offset < t.next {
		return false
	}
	t.Advance(offset)
	fresh = len(t.ahead) == 0 || t.ahead[0] != offset
	t.Advance(offset + 1)
	if fresh {
		t.entries = append(t.entries, offset<<1)
		t.open++
	}
	return fresh
}

// Advance notes that everything below offset is done or does not exist, and will not be
// received: control records, or the position of a poll that returned nothing.
func (t *Tracker) Advance(offset int64) {
	if offset <= t.next {
		return
	}
	t.next = offset
	for len(t.ahead) > 0 && t.ahead[0] < offset {
		// Not received now, but a next owner that starts at what is open below would be.
		if t.open > 0 {
			t.entries = append(t.entries, t.ahead[0]<<1|1)
		}
		t.ahead = t.ahead[1:]
	}
	if len(t.ahead) == 0 {
		t.ahead = nil
	}
}

// Missing counts the offsets in [from, to) that the restored map does not call done: what is lost when
// the log does not have them any more. What was received already counts too, so from is above that.
func (t *Tracker) Missing(from, to int64) int64 {
	n := max(to-from, 0)
	for _, o := range t.ahead {
		if o >= from && o < to {
			n--
		}
	}
	return n
}

// Done marks an open offset as settled. Any other offset changes nothing.
func (t *Tracker) Done(offset int64) {
	i, found := t.find(offset)
	if !found || t.entries[i]&1 == 1 {
		return
	}
	t.entries[i] |= 1
	t.open--
	for t.head < len(t.entries) && t.entries[t.head]&1 == 1 {
		t.head++
	}
	t.release()
}

// release gives back the memory of entries that are behind the lowest open one, at a cost
// that is amortised over the Dones that put them there.
func (t *Tracker) release() {
	live := len(t.entries) - t.head
	switch {
	case live == 0 && cap(t.entries) <= 64:
		t.entries, t.head = t.entries[:0], 0
	case live == 0:
		t.entries, t.head = nil, 0
	case t.head >= 64 && t.head >= live:
		t.entries, t.head = slices.Clone(t.entries[t.head:]), 0
	}
}

// find is where a received offset is among the live entries.
func (t *Tracker) find(offset int64) (int, bool) {
	live := t.entries[t.head:]
	if offset < 0 || len(live) == 0 || offset < live[0]>>1 {
		return 0, false
	}
	// Offsets ascend, so an entry is at most as far in as its offset is above the first; without gaps exactly there.
	guess := min(offset-live[0]>>1, int64(len(live)-1))
	if live[guess]>>1 == offset {
		return t.head + int(guess), true
	}
	i, found := slices.BinarySearchFunc(live[:guess], offset, func(e, o int64) int { return int(min(max(e>>1-o, -1), 1)) })
	return t.head + i, found
}

// CommitWith is what a commit would be if the given open offsets were done too:
// the transaction that settles them carries it. It changes nothing: Done follows when
// the transaction is known to have ended well. Offset -1: nothing to commit.
// Offsets that are not open are ignored; the slice is only read.
// tag is a caller's mark (beat id) that the metadata carries along, at most 32 characters
// of [0-9a-zA-Z-]; any other is left out.
func (t *Tracker) CommitWith(offsets []int64, tag string) (offset int64, metadata string) {
	if !slices.IsSorted(offsets) {
		offsets = slices.Clone(offsets)
		slices.Sort(offsets)
	}
	// Below: two ascending lists walked side by side.
	settled := func(entry int64) bool {
		if entry&1 == 1 {
			return true
		}
		for len(offsets) > 0 && offsets[0] < entry>>1 {
			offsets = offsets[1:]
		}
		return len(offsets) > 0 && offsets[0] == entry>>1
	}

	live, rest := t.entries[t.head:], t.ahead
	i := 0
	for i < len(live) && settled(live[i]) {
		i++
	}
	if i < len(live) {
		offset, live = live[i]>>1, live[i+1:]
	} else {
		offset, live = t.next, nil
		for len(rest) > 0 && rest[0] == offset { // done before the crash, and next in line
			offset, rest = offset+1, rest[1:]
		}
		if offset < 0 {
			return -1, ""
		}
	}
	m := doneMap{commit: offset, far: t.top() > offset+Window}
	for _, e := range live {
		m.say(e>>1, settled(e))
	}
	at := max(t.next, offset+1) // what has not been received is done if the restored map said so
	for _, done := range rest {
		for ; at < done && m.far; at++ {
			m.say(at, false)
		}
		m.say(done, true)
		at = done + 1
	}
	return offset, m.encode(tag)
}

// top is the highest offset that was received, or is done by the restored map.
func (t *Tracker) top() int64 {
	if n := len(t.ahead); n > 0 {
		return t.ahead[n-1]
	}
	return t.next - 1
}

// Position is the offset of the commit as things stand; -1 when there is none yet.
func (t *Tracker) Position() int64 {
	if lowest, ok := t.Lowest(); ok {
		return lowest
	}
	pos := t.next
	for _, o := range t.ahead {
		if o != pos {
			break
		}
		pos++
	}
	return pos
}

// Full says that intake must pause: the window is used up, but for Headroom.
func (t *Tracker) Full() bool {
	lowest, ok := t.Lowest()
	if !ok || t.next <= lowest+Window-Headroom {
		return false
	}
	return t.next > lowest+FarWindow-Headroom || t.openUpTo(t.next) > FarOpen-farHeadroom
}

// HalfFull says that half of the Window is used up.
func (t *Tracker) HalfFull() bool {
	lowest, ok := t.Lowest()
	return ok && t.next > lowest+Window/2
}

// Fits says whether the map could carry offset as done. One that does not fit must not
// be opened yet: were it settled, the next owner could not know, and would settle it again.
// An offset fits at the latest when everything below it is settled.
func (t *Tracker) Fits(offset int64) bool {
	lowest, ok := t.Lowest()
	return !ok || offset <= lowest+Window || offset <= lowest+FarWindow && t.openUpTo(offset) < FarOpen
}

// openUpTo is how many offsets would have to be called not done were one opened that lies above all that was received: those
// that are open, and those in between the ones that the restored map calls done, further up.
func (t *Tracker) openUpTo(offset int64) int {
	i, _ := slices.BinarySearch(t.ahead, offset+1)
	above := t.ahead[i:]
	if len(above) == 0 {
		return t.open
	}
	return t.open + int(above[len(above)-1]-offset) - len(above)
}

// Unsettled is how many offsets are open: received, and not yet done.
func (t *Tracker) Unsettled() int { return t.open }

// Lowest unsettled offset, and false when there is none.
func (t *Tracker) Lowest() (int64, bool) {
	if t.head == len(t.entries) {
		return 0, false
	}
	return t.entries[t.head] >> 1, true
}
