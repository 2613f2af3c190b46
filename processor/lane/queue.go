package lane

// entry is one waiting item.
type entry[T any] struct {
	item  T
	bytes int
	at    int64 // pushed, in Unix nanoseconds
}

// keep is how many entries a queue may hold memory for while it is empty.
const keep = 16

// queue is a FIFO in a slice: entries[head:] wait.
type queue[T any] struct {
	entries []entry[T]
	head    int
}

func (q *queue[T]) len() int            { return len(q.entries) - q.head }
func (q *queue[T]) first() *entry[T]    { return &q.entries[q.head] }
func (q *queue[T]) waiting() []entry[T] { return q.entries[q.head:] }

func (q *queue[T]) push(e entry[T]) {
	if len(q.entries) == cap(q.entries) && q.head > len(q.entries)/2 {
		// Make room at the front instead of growing: at least as many were taken as move now.
		n := copy(q.entries, q.waiting())
		clear(q.entries[n:])
		q.entries, q.head = q.entries[:n], 0
	}
	q.entries = append(q.entries, e)
}

// pop takes the head; the queue is not empty.
func (q *queue[T]) pop() entry[T] {
	e := q.entries[q.head]
	q.entries[q.head] = entry[T]{} // let go of the item
	q.head++
	switch n := q.len(); {
	case n == 0 && cap(q.entries) <= keep:
		q.entries, q.head = q.entries[:0], 0
	case n == 0:
		q.entries, q.head = nil, 0
	case cap(q.entries) > keep && n <= cap(q.entries)/4 && q.head >= n:
		// A flood has passed: a smaller array will do.
		q.entries, q.head = append(make([]entry[T], 0, 2*n), q.waiting()...), 0
	}
	return e
}
