package lane

// Entries is for how many entries a lane holds memory.
func Entries[T any](l *Lane[T]) int {
	n := 0
	for i := range l.queues {
		n += cap(l.queues[i].entries)
	}
	return n
}
