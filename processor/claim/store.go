package claim

import (
	"crypto/sha256"
	"encoding/binary"
	"errors"
)

// ErrClosed says that a store is not this owner's any more: its unit was assigned
// anew, or the process lets go of what it kept.
var ErrClosed = errors.New("claim: the store is closed")

// ErrFailed says that a store can be neither read nor written any more, and must be renewed.
var ErrFailed = errors.New("claim: the store has failed")

// Fingerprint is the first half of a SHA-256 over endpoint and key: 16 bytes a key,
// whatever the key's length, and no collision to expect in 2^64 keys.
type Fingerprint [16]byte

// Owner is the delivery that a key belongs to.
type Owner struct {
	DeliveryID string
	Content    [16]byte // first half of the content hash
	Offset     int64    // of its event, in the partition's events log
	At         int64    // of its event, in Unix milliseconds
}

// Store is what one unit's arbiter remembers with: a cache of the unit's partition
// of the idempotency topic. It must never forget a part of what it was told: an
// error ends its use, and the topic is read anew.
type Store interface {
	// Generations are those that may hold anything, in any order; there are few.
	Generations() []int64
	// Get finds the owner of a key in one generation.
	Get(generation int64, key Fingerprint) (o Owner, held bool, err error)
	// Put notes an owner in place of the one that the generation may have.
	Put(generation int64, key Fingerprint, o Owner) error
	// DropBelow forgets all generations before one.
	DropBelow(generation int64) error
	// Position is the offset in the topic's partition below which nothing is missing
	// in the store; 0 of an empty one.
	Position() int64
	// SetPosition moves it. What was put before is never lost without it.
	SetPosition(next int64) error
	// Len is about how many owners are held.
	Len() int64
	// Close ends the use of it. What it holds may be there for the next owner.
	Close()
}

// Log says which log a store must be a cache of.
type Log struct {
	Topic [16]byte // id of the topic; zero where the cluster has none
	End   int64    // of the unit's partition
}

// Stats is what is remembered, over all units of the process.
type Stats struct {
	Held        int64 // claims, about
	DiskBytes   int64
	CacheHits   int64 // blocks of the disk that were found in memory
	CacheMisses int64 // and that had to be read
}

func fingerprintOf(endpointID, key string) Fingerprint {
	h := sha256.New()
	var n [8]byte
	binary.BigEndian.PutUint64(n[:], uint64(len(endpointID)))
	h.Write(n[:])
	h.Write([]byte(endpointID))
	h.Write([]byte(key))
	var sum [sha256.Size]byte
	h.Sum(sum[:0])
	return half(sum[:])
}

// half is the first 16 bytes of a hash; of a shorter one, what there is.
func half(hash []byte) (h [16]byte) {
	copy(h[:], hash)
	return h
}
