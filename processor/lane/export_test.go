package lane

// Held is for how many entries a lane holds memory.
func Held[T any](l *Lane[T]) int {
	n := 0
	for i := range l.queues {
		n += cap(l.queues[i].entries)
	}
	return n
}
