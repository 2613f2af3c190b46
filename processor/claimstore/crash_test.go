package claimstore_test

import (
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"
	"github.com/stretchr/testify/require"

	"github.com/barnabas-webhooks/barnabas/processor/claim"
	"github.com/barnabas-webhooks/barnabas/processor/claimstore"
)

// The power fails at any moment, while memtables are flushed by themselves: whatever is durable then, every claim
// below the position is there, in a generation that is asked; and the next owner goes on from it.
func TestStore_PositionIsNeverAheadOfTheClaims(t *testing.T) {
	t.Parallel()
	for seed := range uint64(2) {
		t.Run(fmt.Sprintf("seed=%d", seed), func(t *testing.T) {
			t.Parallel()
			rnd := rand.New(rand.NewPCG(seed, 9))
			fs := vfs.NewCrashableMem()
			now := generationNow()
			generation := func(n int) int64 { return now + int64(n/10_000)%2 }
			most, written := int64(0), 0
			for range 3 {
				s := open(t, fs)
				u := openUnit(t, s, 2, log)
				at := int(u.Position())
				most = max(most, u.Position())
				require.LessOrEqual(t, at, written)
				for n := range at {
					holds(t, u, generation(n), n, true)
				}
				known := u.Generations()
				for n := range at {
					require.Contains(t, known, generation(n))
				}
				for n := at; n < at+20_000+rnd.IntN(20_000); n++ {
					put(t, u, generation(n), n)
					if rnd.IntN(500) == 0 {
						require.NoError(t, u.SetPosition(int64(n+1)))
					}
					written = max(written, n+1)
					if n == at+15_000 { // beside the flushes that happen by themselves, when they do
						require.NoError(t, s.Flush())
					}
				}
				fs = fs.CrashClone(vfs.CrashCloneCfg{UnsyncedDataPercent: rnd.IntN(101), RNG: rnd})
			}
			require.Positive(t, most, "some of it was durable")
		})
	}
}

// A block on disk is not what it was: no key of it is ever said to be free. The store has failed for good,
// and is good again, and empty, when it has been renewed.
func TestStore_CorruptionIsNeverAnAnswer(t *testing.T) {
	t.Parallel()
	fs := vfs.NewMem()
	now := generationNow()
	s := open(t, fs)
	u := openUnit(t, s, 2, log)
	const n = 20_000
	for i := range n {
		put(t, u, now, i)
	}
	require.NoError(t, u.SetPosition(n))
	require.NoError(t, s.Close())
	spoil(t, fs, ".sst", 500_000) // not the head of the unit, which is read at once

	s = open(t, fs)
	u = openUnit(t, s, 2, log)
	require.EqualValues(t, n, u.Position(), "nothing has been noticed yet")
	var failed error
	for i := 0; i < n && failed == nil; i++ {
		var held bool
		var o claim.Owner
		o, held, failed = u.Get(now, key(i))
		if failed == nil {
			require.True(t, held, "key %d is there", i)
			require.Equal(t, owner(i), o)
		}
	}
	require.ErrorIs(t, failed, claim.ErrFailed)
	other := openUnit(t, s, 3, log)
	require.ErrorIs(t, u.Put(now, key(n), owner(n)), claim.ErrFailed)
	require.ErrorIs(t, u.SetPosition(n+1), claim.ErrFailed)
	_, _, err := other.Get(now, key(0))
	require.ErrorIs(t, err, claim.ErrFailed)

	require.NoError(t, s.Renew())
	require.ErrorIs(t, u.Put(now, key(n), owner(n)), claim.ErrClosed, "what was handed out before is of what is gone")
	u = openUnit(t, s, 2, log)
	require.Zero(t, u.Position())
	holds(t, u, now, 0, false)
	put(t, u, now, 1)
	holds(t, u, now, 1, true)
	require.NoError(t, s.Close())
	holds(t, openUnit(t, open(t, fs), 2, log), now, 1, true)
}

// A database that cannot even be opened is thrown away: it is only a cache.
func TestStore_WhatCannotBeOpenedIsThrownAway(t *testing.T) {
	t.Parallel()
	for _, part := range []string{"MANIFEST", "OPTIONS", ".sst"} {
		t.Run(part, func(t *testing.T) {
			t.Parallel()
			fs := vfs.NewMem()
			s := open(t, fs)
			u := openUnit(t, s, 2, log)
			put(t, u, generationNow(), 1)
			require.NoError(t, s.Close())
			spoil(t, fs, part, 0)
			s = open(t, fs)
			u = openUnit(t, s, 2, log)
			if u.Position() == 0 && len(u.Generations()) == 0 {
				put(t, u, generationNow(), 1)
			}
			holds(t, u, generationNow(), 1, true)
		})
	}
}

// spoil overwrites bytes of the files whose names hold part.
func spoil(t *testing.T, fs *vfs.MemFS, part string, from int) {
	t.Helper()
	const dir = "/claims/claims-1-86400000"
	names, err := fs.List(dir)
	require.NoError(t, err)
	spoiled := 0
	for _, name := range names {
		if !strings.Contains(name, part) {
			continue
		}
		b, err := fs.UnsafeGetFileDataBuffer(fs.PathJoin(dir, name))
		require.NoError(t, err)
		for i := from; i < min(from+2000, len(b)); i++ {
			b[i] ^= 0x55
		}
		spoiled++
	}
	require.Positive(t, spoiled, part)
}

// The disk is full: nobody is kept waiting for it to have room, everybody is told, and all of it can be closed.
func TestStore_FullDisk(t *testing.T) {
	t.Parallel()
	var full atomic.Bool
	mem := vfs.NewMem()
	fs := errorfs.Wrap(mem, errorfs.InjectorFunc(func(op errorfs.Op) error {
		if full.Load() && op.Kind.ReadOrWrite() == errorfs.OpIsWrite && strings.Contains(op.Path, ".sst") {
			return &writeError{}
		}
		return nil
	}))
	s := open(t, fs)
	u := openUnit(t, s, 2, log)
	full.Store(true)
	var err error
	for n := 0; n < 1_000_000 && err == nil; n++ {
		err = u.Put(generationNow(), key(n), owner(n))
	}
	require.ErrorIs(t, err, claim.ErrFailed)
	require.ErrorIs(t, err, syscall.ENOSPC)
	full.Store(false)
	require.NoError(t, s.Renew())
	put(t, openUnit(t, s, 2, log), generationNow(), 1)
	require.NoError(t, s.Close())
}

// The disk is full when the process ends: it ends all the same, and says what is not saved.
func TestStore_FullDiskAtTheEnd(t *testing.T) {
	t.Parallel()
	for name, end := range map[string]func(*claimstore.Store) error{"close": (*claimstore.Store).Close, "flush": (*claimstore.Store).Flush} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var full atomic.Bool
			mem := vfs.NewMem()
			s := open(t, errorfs.Wrap(mem, errorfs.InjectorFunc(func(op errorfs.Op) error {
				if full.Load() && op.Kind.ReadOrWrite() == errorfs.OpIsWrite && strings.Contains(op.Path, ".sst") {
					return &writeError{}
				}
				return nil
			})))
			put(t, openUnit(t, s, 2, log), generationNow(), 1)
			full.Store(true)
			ended := make(chan error, 1)
			go func() { ended <- end(s) }()
			select {
			case err := <-ended:
				require.ErrorIs(t, err, syscall.ENOSPC)
			case <-time.After(time.Minute): // a hang, not a measure
				full.Store(false)
				require.Fail(t, "it waits for the disk to have room")
			}
			require.NoError(t, s.Close(), "closed, or closed now")
			holds(t, openUnit(t, open(t, mem), 2, log), generationNow(), 1, false)
		})
	}
}

type writeError struct{}

func (*writeError) Error() string { return "no space left" }
func (*writeError) Unwrap() error { return syscall.ENOSPC }

// A directory that cannot be used is an error at the start, with its name.
func TestStore_UnusableDirectory(t *testing.T) {
	t.Parallel()
	fs := errorfs.Wrap(vfs.NewMem(), errorfs.InjectorFunc(func(op errorfs.Op) error {
		if op.Kind == errorfs.OpMkdirAll || op.Kind == errorfs.OpCreate {
			return errors.New("read-only file system")
		}
		return nil
	}))
	_, err := claimstore.Open(options(fs))
	require.ErrorContains(t, err, "read-only file system")
}

var _ io.Closer = (*claimstore.Store)(nil)
