package claimstore_test

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/stretchr/testify/require"

	"github.com/barnabas-webhooks/barnabas/internal/testkit/arbitration"
	"github.com/barnabas-webhooks/barnabas/processor/claim"
)

// machines are two with a store each, of which either may be the next owner. Their disks lose what was not
// synced when the power fails: all of it, a part, or nothing.
type machines struct {
	rnd   *rand.Rand
	disks [2]*vfs.MemFS
	store [2]*store // nil: not running
	at    int       // which is the owner
}

func (m *machines) Open(t *testing.T, log claim.Log) claim.Store {
	t.Helper()
	if m.rnd.IntN(3) == 0 {
		m.at = 1 - m.at
	}
	if m.store[m.at] == nil {
		m.store[m.at] = open(t, m.disks[m.at])
	}
	u, err := m.store[m.at].Open(3, log)
	require.NoError(t, err)
	return u
}

func (m *machines) Sync(t *testing.T) {
	t.Helper()
	require.NoError(t, m.store[m.at].Flush())
}

func (m *machines) Crash(t *testing.T) {
	t.Helper()
	switch m.rnd.IntN(4) {
	case 0: // it is only taken away
		return
	case 1:
		require.NoError(t, m.store[m.at].Close())
	default:
		m.disks[m.at] = m.disks[m.at].CrashClone(vfs.CrashCloneCfg{UnsyncedDataPercent: 50 * m.rnd.IntN(3), RNG: m.rnd})
	}
	m.store[m.at] = nil
}

// Invariant 3: as the arbiter in memory, over kills, power failures and orderly ends of its process.
func TestStore_AgreesWithTheWholeLog(t *testing.T) {
	t.Parallel()
	for seed := range uint64(24) {
		t.Run(fmt.Sprintf("seed=%d", seed), func(t *testing.T) {
			t.Parallel()
			rnd := rand.New(rand.NewPCG(seed, 8))
			arbitration.AgreesWithTheWholeLog(t, seed, &machines{
				rnd: rnd, disks: [2]*vfs.MemFS{vfs.NewCrashableMem(), vfs.NewCrashableMem()},
			})
		})
	}
}
