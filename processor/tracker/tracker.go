// Package tracker follows one topic-partition whose records finish out of order
// and says what may be committed: the lowest unsettled offset, and above it the
// completed ones as a bitmap that travels in the commit metadata.
package tracker

// Window is how far, in offsets, the highest open offset may lie above the commit.
const Window = 16384

// MaxMetadata is the broker's limit on commit metadata, in characters (offset.metadata.max.bytes).
const MaxMetadata = 4096

// Tracker belongs to one assignment of one topic-partition and to one goroutine.
type Tracker struct { /* helper B */
}

// New starts at the committed offset (-1: nothing was committed; the first Open decides).
// metadata is what came with the commit; anything that is not one of our maps means "no map".
func New(committed int64, metadata string) *Tracker { panic("helper B") }

// Open notes a received offset. Offsets come in ascending order, with gaps.
// fresh is false when the map says it was completed before, or when it is below the commit: skip it.
func (t *Tracker) Open(offset int64) (fresh bool) { panic("helper B") }

// Done marks an open offset as settled.
func (t *Tracker) Done(offset int64) { panic("helper B") }

// CommitWith is what a commit would be if the given open offsets were done too:
// the transaction that settles them carries it. Offset -1: nothing to commit.
// tag is a caller's mark (beat id) that the metadata carries along, at most 32 characters of [0-9a-zA-Z-].
func (t *Tracker) CommitWith(offsets []int64, tag string) (offset int64, metadata string) {
	panic("helper B")
}

// Full says that intake must pause: the window is used up.
func (t *Tracker) Full() bool { panic("helper B") }

// Open offsets, not yet done.
func (t *Tracker) Unsettled() int { panic("helper B") }

// Lowest unsettled offset, and false when there is none.
func (t *Tracker) Lowest() (int64, bool) { panic("helper B") }

// Tag reads the caller's mark out of commit metadata; empty when it is not ours.
func Tag(metadata string) string { panic("helper B") }
