package claimstore_test

import (
	"encoding/binary"
	"log/slog"
	"math/rand/v2"
	"path/filepath"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/stretchr/testify/require"

	"github.com/barnabas-webhooks/barnabas/processor/claim"
	"github.com/barnabas-webhooks/barnabas/processor/claimstore"
	"github.com/barnabas-webhooks/barnabas/schemas"
)

var log = claim.Log{Topic: [16]byte{7}, End: 1 << 40}

// key is the fingerprint of the n-th key.
func key(n int) (fp claim.Fingerprint) {
	binary.BigEndian.PutUint64(fp[:], rand.New(rand.NewPCG(uint64(n), 1)).Uint64())
	binary.BigEndian.PutUint64(fp[8:], uint64(n))
	return fp
}

// owner is one that differs from the others in every field.
func owner(n int) claim.Owner {
	o := claim.Owner{DeliveryID: schemas.DeriveDeliveryID(schemas.Coordinates{Offset: int64(n)}, 0), Offset: int64(n), At: int64(n) * 17}
	binary.BigEndian.PutUint64(o.Content[4:], uint64(n))
	return o
}

func openUnit(t *testing.T, s *store, number int32, log claim.Log) claim.Store {
	t.Helper()
	u, err := s.Open(number, log)
	require.NoError(t, err)
	return u
}

func put(t *testing.T, u claim.Store, generation int64, n int) {
	t.Helper()
	require.NoError(t, u.Put(generation, key(n), owner(n)))
}

// holds checks that a key is held as it was put, or is not.
func holds(t *testing.T, u claim.Store, generation int64, n int, want bool) {
	t.Helper()
	got, held, err := u.Get(generation, key(n))
	require.NoError(t, err)
	require.Equal(t, want, held, "key %d in generation %d", n, generation)
	if want {
		require.Equal(t, owner(n), got)
	}
}

// Both stores do the same.
func TestStore_KeepsAndForgets(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"memory", "disk"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			u := claim.NewMemory()
			if name == "disk" {
				u = openUnit(t, open(t, vfs.NewMem()), 0, log)
			}
			require.Empty(t, u.Generations())
			require.Zero(t, u.Position())
			holds(t, u, 1, 1, false)
			for _, generation := range []int64{-2, -1, 0, 1, 1 << 40} {
				put(t, u, generation, 1)
				holds(t, u, generation, 1, true)
				holds(t, u, generation, 2, false)
			}
			require.ElementsMatch(t, []int64{-2, -1, 0, 1, 1 << 40}, u.Generations())
			require.EqualValues(t, 5, u.Len())
			require.NoError(t, u.DropBelow(0))
			require.ElementsMatch(t, []int64{0, 1, 1 << 40}, u.Generations())
			require.EqualValues(t, 3, u.Len())
			holds(t, u, -1, 1, false)
			holds(t, u, 0, 1, true)
			require.NoError(t, u.SetPosition(99))
			require.EqualValues(t, 99, u.Position())
			// Another owner in its place, with an id that a producer chose, and with none of its fields short.
			other := claim.Owner{DeliveryID: "order-17/ü", Offset: 1<<62 - 1, At: -1 << 62, Content: [16]byte{15: 0xFF}}
			require.NoError(t, u.Put(0, key(1), other))
			got, held, err := u.Get(0, key(1))
			require.NoError(t, err)
			require.True(t, held)
			require.Equal(t, other, got)
		})
	}
}

// What was put is there after an orderly end, of every unit its own, however many there are.
func TestStore_IsThereAfterARestart(t *testing.T) {
	t.Parallel()
	for name, fs := range map[string]vfs.FS{"memory": vfs.NewMem(), "disk": vfs.Default} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			o := options(fs)
			if fs == vfs.Default {
				o.Directory = filepath.Join(t.TempDir(), "a", "b")
			}
			now := generationNow()
			for stint := range 3 {
				s, err := claimstore.Open(o)
				require.NoError(t, err)
				for _, number := range []int32{0, 1, 63, 1<<31 - 1} {
					u := openUnit(t, s, number, log)
					for n := range stint {
						holds(t, u, now, n+int(number), true)
						require.EqualValues(t, 10*stint, u.Position())
					}
					holds(t, u, now, stint+int(number), false)
					put(t, u, now, stint+int(number))
					require.NoError(t, u.SetPosition(int64(10*stint+10)))
				}
				require.EqualValues(t, 4*(stint+1), s.Stats().Held)
				require.NoError(t, s.Close())
				require.NoError(t, s.Close(), "twice is once")
			}
		})
	}
}

// generationNow is the generation of this moment, which is not stale.
func generationNow() int64 { return time.Now().UnixMilli() / window.Milliseconds() }

// A topic that was made anew, or that has lost its end, is not what the store is a cache of.
func TestStore_IsOfOneTopic(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		log  claim.Log
		kept bool
	}{
		"the same":         {claim.Log{Topic: log.Topic, End: 50}, true},
		"longer":           {claim.Log{Topic: log.Topic, End: 51}, true},
		"shorter":          {claim.Log{Topic: log.Topic, End: 49}, false},
		"made anew":        {claim.Log{Topic: [16]byte{8}, End: 50}, false},
		"of an old broker": {claim.Log{End: 50}, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := open(t, vfs.NewMem())
			for _, number := range []int32{4, 5, 6} {
				u := openUnit(t, s, number, log)
				put(t, u, 3, 1)
				require.NoError(t, u.SetPosition(50))
			}
			u := openUnit(t, s, 5, tc.log)
			holds(t, u, 3, 1, tc.kept)
			if tc.kept {
				require.EqualValues(t, 50, u.Position())
			} else {
				require.Zero(t, u.Position())
				require.Empty(t, u.Generations())
			}
			holds(t, openUnit(t, s, 4, log), 3, 1, true)
			holds(t, openUnit(t, s, 6, log), 3, 1, true)
		})
	}
	t.Run("no ids at all", func(t *testing.T) { // a cluster that cannot tell is not believed
		t.Parallel()
		s := open(t, vfs.NewMem())
		put(t, openUnit(t, s, 5, claim.Log{End: 50}), 3, 1)
		holds(t, openUnit(t, s, 5, claim.Log{End: 50}), 3, 1, false)
	})
}

// Of two owners of a unit in one process, the later one has the store: what the earlier one still does
// meets an error, and not the later one's claims.
func TestStore_HasOneOwnerPerUnit(t *testing.T) {
	t.Parallel()
	s := open(t, vfs.NewMem())
	before := openUnit(t, s, 5, log)
	put(t, before, 3, 1)
	require.NoError(t, before.SetPosition(7))
	after := openUnit(t, s, 5, log)
	require.ErrorIs(t, before.Put(3, key(2), owner(2)), claim.ErrClosed)
	require.ErrorIs(t, before.SetPosition(1000), claim.ErrClosed)
	require.ErrorIs(t, before.DropBelow(10), claim.ErrClosed)
	_, _, err := before.Get(3, key(1))
	require.ErrorIs(t, err, claim.ErrClosed)
	require.EqualValues(t, 7, after.Position())
	holds(t, after, 3, 1, true)
	holds(t, after, 3, 2, false)
	after.Close()
	require.ErrorIs(t, after.Put(3, key(2), owner(2)), claim.ErrClosed)
	require.NoError(t, s.Close())
	_, err = s.Open(5, log)
	require.ErrorIs(t, err, claim.ErrClosed)
	require.ErrorIs(t, s.Renew(), claim.ErrClosed)
	require.ErrorIs(t, s.Flush(), claim.ErrClosed)
	require.Zero(t, s.Stats())
}

// Two processes on one directory: the second is told so, and the first goes on.
func TestStore_DirectoryHasOneProcess(t *testing.T) {
	t.Parallel()
	o := options(vfs.Default)
	o.Directory = t.TempDir()
	s, err := claimstore.Open(o)
	require.NoError(t, err)
	_, err = claimstore.Open(o)
	require.ErrorIs(t, err, claimstore.ErrInUse)
	put(t, openUnit(t, s, 1, log), 1, 1)
	require.NoError(t, s.Close())
	s, err = claimstore.Open(o)
	require.NoError(t, err)
	require.NoError(t, s.Close())
}

// Data of another layout or window is thrown away; what is not ours is left alone.
func TestStore_OtherVersionsAreThrownAway(t *testing.T) {
	t.Parallel()
	fs := vfs.NewMem()
	for _, name := range []string{"/claims/claims-0-86400000/x", "/claims/claims-99", "/claims/mine", "/claims/claimsx"} {
		require.NoError(t, fs.MkdirAll(name, 0o700))
	}
	s := open(t, fs)
	put(t, openUnit(t, s, 1, log), generationNow(), 1)
	require.NoError(t, s.Close())
	names, err := fs.List("/claims")
	require.NoError(t, err)
	require.ElementsMatch(t, []string{"LOCK", "claims-1-86400000", "mine", "claimsx"}, names)

	o := options(fs)
	o.Window = time.Hour // numbers its generations otherwise
	s, err = claimstore.Open(o)
	require.NoError(t, err)
	require.Zero(t, s.Stats().Held)
	require.NoError(t, s.Close())
	names, err = fs.List("/claims")
	require.NoError(t, err)
	require.ElementsMatch(t, []string{"LOCK", "claims-1-3600000", "mine", "claimsx"}, names)
}

// What was dropped gives its space on disk back, but for a table at its edge: most of it by itself, and what was being compacted
// when it was dropped as claims go on coming in.
func TestStore_DroppedGenerationsFreeTheDisk(t *testing.T) {
	t.Parallel()
	s := open(t, vfs.NewMem())
	u := openUnit(t, s, 1, log)
	now := generationNow()
	const dropped, kept = 200_000, 10_000
	for n := range dropped + kept {
		put(t, u, now-2+int64(n/dropped), n)
	}
	require.NoError(t, s.Flush())
	full := s.Stats().DiskBytes
	require.Greater(t, full, int64(dropped*50))
	require.NoError(t, u.DropBelow(now-1))
	require.NoError(t, s.Flush())
	more := 0
	for until := time.Now().Add(time.Minute); s.Stats().DiskBytes >= full/2; more++ {
		require.True(t, time.Now().Before(until), "%d bytes, of %d", s.Stats().DiskBytes, full)
		put(t, u, now-1, dropped+kept+more)
		require.NoError(t, s.Flush())
	}
	require.EqualValues(t, kept+more, u.Len())
	holds(t, u, now-1, dropped, true)
	holds(t, u, now-2, 100, false)
}

// A unit that went elsewhere keeps its claims while they may bind something, and no longer; one that is here is left
// to its arbiter, which goes by the records' times.
func TestStore_StaleUnitsAreDropped(t *testing.T) {
	t.Parallel()
	now := generationNow()
	fs := vfs.NewMem()
	s := open(t, fs)
	for number, generation := range []int64{now - 5, now - 5, now - 2, now - 1, now} {
		u := openUnit(t, s, int32(number), log)
		put(t, u, generation, 1)
		if number != 0 {
			u.Close()
		}
	}
	require.EqualValues(t, 5, s.Stats().Held)
	sweeper := openUnit(t, s, 9, log)
	require.NoError(t, sweeper.DropBelow(0))
	require.EqualValues(t, 3, s.Stats().Held)
	holds(t, openUnit(t, s, 1, log), now-5, 1, false)
	holds(t, openUnit(t, s, 3, log), now-1, 1, true)
	require.NoError(t, s.Close())

	s = open(t, fs) // nobody owns anything yet
	require.EqualValues(t, 2, s.Stats().Held)
	holds(t, openUnit(t, s, 0, log), now-5, 1, false)
	holds(t, openUnit(t, s, 4, log), now, 1, true)
}

func TestConfig_Validate(t *testing.T) {
	t.Parallel()
	err := claimstore.Config{}.Validate()
	require.ErrorContains(t, err, "directory:")
	require.ErrorContains(t, err, "cache:")
	c := claimstore.DefaultConfig()
	c.Directory = "x"
	require.NoError(t, c.Validate())
	_, err = claimstore.Open(claimstore.Options{Log: slog.New(slog.DiscardHandler)})
	require.ErrorContains(t, err, "directory:")
}
