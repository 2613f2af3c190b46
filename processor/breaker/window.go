package breaker

import "time"

// slots is into how many parts a window is cut. What is counted is the running slot
// and the slots-1 before it: between (slots-1)/slots of the window and all of it.
const slots = 6

// window counts attempts and hard failures of the recent past. A clock that steps back counts
// in the newest slot; one that steps ahead empties what is then old.
type window struct {
	newest   int64 // number of the running slot since 1970
	attempts [slots]uint32
	failures [slots]uint32
}

// add counts one attempt.
func (w *window) add(now time.Time, length time.Duration, failed bool) {
	slot := max(now.UnixNano(), 0) / int64(max(length/slots, 1))
	for n := min(slot-w.newest, slots); n > 0; n-- {
		old := (slot - n + 1) % slots
		w.attempts[old], w.failures[old] = 0, 0
	}
	w.newest = max(w.newest, slot)
	at := w.newest % slots
	w.attempts[at]++
	if failed {
		w.failures[at]++
	}
}

// over says that all that was counted is older than the window.
func (w *window) over(now time.Time, length time.Duration) bool {
	return w.newest == 0 || now.UnixNano()/int64(max(length/slots, 1))-w.newest >= slots
}

// exceeds says whether there were at least atLeast attempts, and the share of hard failures is at least ratio.
func (w *window) exceeds(atLeast int, ratio float64) bool {
	var attempts, failures uint64
	for i := range slots {
		attempts += uint64(w.attempts[i])
		failures += uint64(w.failures[i])
	}
	return attempts >= uint64(atLeast) && float64(failures) >= ratio*float64(attempts)
}
