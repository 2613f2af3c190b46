package claimstore

import (
	"fmt"
	"log/slog"
	"strings"
	"time"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/bloom"
	"github.com/cockroachdb/pebble/v2/sstable"

	"github.com/barnabas-webhooks/barnabas/internal/obs"
)

const (
	// bitsPerKey of the filters: one lookup in a hundred of a key that is not there reads a block all the same.
	bitsPerKey = 10
	// maxTable bounds a table's filter, which is a fiftieth of it and is read whole; and what a generation that is
	// dropped leaves behind for a window: the tables at its edges, which hold keys of the next one too.
	maxTable = 32 << 20
	// MaxFiles is how many descriptors the database uses at most.
	MaxFiles = 1024
	// freeAfter is how long the space of what was dropped may go on being used in an idle store. What is being compacted at that
	// moment stays until the next compaction, which an idle store has no reason for.
	freeAfter = time.Minute
)

// pebbleOptions are how a database is opened whose failures go to d.
func (s *Store) pebbleOptions(d *database, cache *pebble.Cache) *pebble.Options {
	o := &pebble.Options{
		FS:         s.opts.FS,
		DisableWAL: true, // what a crash loses is read from the topic
		Cache:      cache,
		// Memtables are charged to the cache: four of them take half at most.
		MemTableSize:                uint64(min(max(s.opts.Cache/8, 1<<20), 64<<20)),
		MemTableStopWritesThreshold: 4,
		MaxOpenFiles:                MaxFiles,
		FormatMajorVersion:          pebble.FormatNewest, // an older version of ours that cannot read it begins empty
		FlushDelayDeleteRange:       freeAfter,
		Logger:                      logger{s.opts.Log},
		EventListener: &pebble.EventListener{
			BackgroundError: func(err error) { _ = d.fail(err) },
			DataCorruption:  func(info pebble.DataCorruptionInfo) { _ = d.fail(info.Details) },
		},
	}
	for i := range o.Levels {
		o.Levels[i].FilterPolicy = bloom.FilterPolicy(bitsPerKey)                                     // on the last level too: most keys asked for are new
		o.Levels[i].Compression = func() *sstable.CompressionProfile { return sstable.NoCompression } // hashes and random ids
	}
	for i := range o.TargetFileSizes {
		o.TargetFileSizes[i] = min(s.opts.Cache/2, maxTable)
	}
	return o
}

// logger passes on what Pebble has to say that is not routine.
type logger struct{ log *slog.Logger }

func (l logger) Infof(string, ...any) {}

func (l logger) Errorf(format string, args ...any) {
	l.log.Error("claims on disk", obs.KeyError, strings.TrimSpace(fmt.Sprintf(format, args...)))
}

// Fatalf must not return: Pebble calls it where it cannot go on, as when its manifest cannot be written. The process
// ends as if it had been killed, which is what its store, its group and Kafka are made for.
func (l logger) Fatalf(format string, args ...any) {
	text := strings.TrimSpace(fmt.Sprintf(format, args...))
	l.log.Error("claims on disk: the process cannot go on", obs.KeyError, text)
	panic("claimstore: " + text)
}
