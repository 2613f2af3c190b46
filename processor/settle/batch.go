package settle

import "github.com/twmb/franz-go/pkg/kgo"

// Owner names one stint of a unit at this process: the partition number and a
// number that no other assignment of this process shares.
type Owner struct {
	Unit       int32
	Assignment uint64
}

// Outcome is what one source record came to.
type Outcome struct {
	// Records to write, each with topic, partition, key and headers set. A transaction without
	// any is not committed, so every batch has at least one.
	Records []*kgo.Record
	// Trim gives the records to write instead when the broker will never take
	// Records (too large). It is called at most once.
	Trim func() []*kgo.Record
}

// Commit is the position of one topic-partition once the batch is settled.
type Commit struct {
	Topic     string
	Partition int32
	Offset    int64
	Metadata  string
}

// Batch is what one unit settles in one beat.
type Batch struct {
	Owner    Owner
	Outcomes []*Outcome
	// Commits are the positions once the outcomes are settled. Their metadata
	// carries Tag, by which a beat recognises its own work in the committed offsets.
	Commits []Commit
	Tag     string
	// Settled tells the unit what came of the batch: nil once it is written for
	// good, ErrNotOwner when the unit is not ours any more and nothing was written.
	// It must not block.
	Settled func(error)
}

// Source is a unit as the settler sees it.
type Source interface {
	// Gathered is how many bytes of records the unit has to settle, about. It is called from any goroutine.
	Gathered() int64
	// Seal asks for the unit's batch, marked with tag, of records of about limit bytes at most: it ends with the
	// outcome that reaches the limit. The answer is sent on reply from the unit's
	// own goroutine, nil when it has nothing; reply has room for it. Seal must not
	// block, and returns false when the unit has ended and will not answer.
	Seal(tag string, limit int64, reply chan<- *Batch) bool
}
