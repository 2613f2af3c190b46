package lane

// Ring is a set of keys that takes turns: Next goes round. Add, Remove and Next take
// constant time. The zero value is empty and ready.
type Ring[K comparable] struct {
	nodes []node[K]
	index map[K]int32
	free  []int32 // nodes that are not in use
	last  int32   // the node that had its turn last; a valid one while the ring is not empty
}

type node[K comparable] struct {
	key        K
	prev, next int32
}

// Add puts a key at the end of the round that is under way, behind all others; false when it is in already.
func (r *Ring[K]) Add(key K) bool {
	if _, in := r.index[key]; in {
		return false
	}
	if r.index == nil {
		r.index = make(map[K]int32)
	}
	var at int32
	if n := len(r.free); n > 0 {
		at, r.free = r.free[n-1], r.free[:n-1]
	} else {
		at = int32(len(r.nodes))
		r.nodes = append(r.nodes, node[K]{})
	}
	if len(r.index) == 0 {
		r.nodes[at] = node[K]{key: key, prev: at, next: at}
	} else {
		// The turn after last is the longest wait, so the end of the round is just behind last.
		next := r.nodes[r.last].next
		r.nodes[at] = node[K]{key: key, prev: r.last, next: next}
		r.nodes[r.last].next, r.nodes[next].prev = at, at
	}
	r.last = at
	r.index[key] = at
	return true
}

// Remove takes a key out; false when it is not in. The turn of the others does not change.
func (r *Ring[K]) Remove(key K) bool {
	at, in := r.index[key]
	if !in {
		return false
	}
	delete(r.index, key)
	if len(r.index) == 0 && len(r.nodes) > 4*keep {
		*r = Ring[K]{} // maps and slices never shrink by themselves
		return true
	}
	n := r.nodes[at]
	r.nodes[n.prev].next, r.nodes[n.next].prev = n.next, n.prev
	if r.last == at {
		r.last = n.prev
	}
	r.nodes[at] = node[K]{}
	r.free = append(r.free, at)
	return true
}

// Next is the key whose turn it is, and ends its turn; false when the ring is empty.
func (r *Ring[K]) Next() (key K, ok bool) {
	if len(r.index) == 0 {
		return key, false
	}
	r.last = r.nodes[r.last].next
	return r.nodes[r.last].key, true
}

// Has says whether a key is in.
func (r *Ring[K]) Has(key K) bool {
	_, in := r.index[key]
	return in
}

// Len is how many keys take turns.
func (r *Ring[K]) Len() int { return len(r.index) }
