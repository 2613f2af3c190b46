package claim_test

import (
	"fmt"
	"testing"

	"github.com/barnabas-webhooks/barnabas/internal/testkit/arbitration"
	"github.com/barnabas-webhooks/barnabas/processor/claim"
)

// forgetful is memory: a crash loses all of it, and the whole log of claims is read again.
type forgetful struct{}

func (forgetful) Open(*testing.T, claim.Log) claim.Store { return claim.NewMemory() }
func (forgetful) Sync(*testing.T)                        {}
func (forgetful) Crash(*testing.T)                       {}

// Invariant 3: whatever crashes and is read again, the verdicts are those of the whole log, read naively.
func TestArbiter_AgreesWithTheWholeLog(t *testing.T) {
	t.Parallel()
	for seed := range uint64(60) {
		t.Run(fmt.Sprintf("seed=%d", seed), func(t *testing.T) {
			t.Parallel()
			arbitration.AgreesWithTheWholeLog(t, seed, forgetful{})
		})
	}
}
