package tracker

// Held is for how many offsets a tracker holds memory.
func Held(t *Tracker) int { return cap(t.entries) + cap(t.ahead) }
