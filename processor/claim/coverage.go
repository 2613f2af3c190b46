package claim

import "slices"

// coverage is which records of the claims' log are in the store: all below next, and
// what lies above it apart. A record is covered when it was read from the log, or when
// it was written by this owner, which had put its claim into the store before that.
// What others wrote in between, such as an owner that does not know yet that it is none
// any more, is a gap, and next stays below it until it is read.
type coverage struct {
	next  int64
	above []span // apart from next and from one another, ascending
}

// span is the offsets from ... to-1.
type span struct{ from, to int64 }

// maxSpans bounds what is remembered above the first gap. What is forgotten is only
// read again one day.
const maxSpans = 256

// add notes offsets from ... to-1 as covered.
func (c *coverage) add(from, to int64) {
	from = max(from, c.next)
	if from >= to {
		return
	}
	i, _ := slices.BinarySearchFunc(c.above, from, func(s span, at int64) int {
		if s.to < at {
			return -1
		}
		return 1
	}) // the first that from touches, or that lies above it
	j := i
	for j < len(c.above) && c.above[j].from <= to {
		from, to = min(from, c.above[j].from), max(to, c.above[j].to)
		j++
	}
	if from <= c.next { // then i is 0: nothing lies below
		c.next = to
		c.above = slices.Delete(c.above, 0, j)
		return
	}
	c.above = slices.Replace(c.above, i, j, span{from, to})
	if len(c.above) > maxSpans {
		c.above = c.above[:maxSpans]
	}
}

// gap is the lowest run of offsets that are not covered, when so much above it is that
// what is missing is not on its way.
func (c *coverage) gap() (from, to int64, ok bool) {
	if len(c.above) == 0 || c.above[len(c.above)-1].to-c.above[0].from < saveEvery {
		return 0, 0, false
	}
	return c.next, c.above[0].from, true
}
