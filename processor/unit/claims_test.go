package unit_test

import (
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/barnabas-webhooks/barnabas/processor/claim"
	"github.com/barnabas-webhooks/barnabas/processor/settle"
	"github.com/barnabas-webhooks/barnabas/processor/unit"
	"github.com/barnabas-webhooks/barnabas/schemas"
)

// claims is a unit.Claims: gaps hold one claim at their first offset.
type claims struct {
	mu     sync.Mutex // guards what follows
	gaps   [][2]int64
	failed []error
}

func (c *claims) ReadGap(_ settle.Owner, from, to int64, done func([]schemas.Claim, int64)) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.gaps = append(c.gaps, [2]int64{from, to})
	go done([]schemas.Claim{{
		EndpointID: "ep", Key: "stale", DeliveryID: "dlv_stale", PayloadHash: make([]byte, 16), ClaimedAt: time.Now(), Verdict: schemas.VerdictFirst,
	}}, to)
}

func (c *claims) Failed(_ settle.Owner, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.failed = append(c.failed, err)
}

// seen is what it was asked to read, and what failed.
func (c *claims) seen() (gaps [][2]int64, failed []error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.gaps), slices.Clone(c.failed)
}

// watched is a store that says what was asked of it, and fails when it is told to.
type watched struct {
	claim.Store
	position atomic.Int64
	closed   atomic.Bool
	fail     atomic.Bool
}

var errDisk = errors.New("a bad disk")

func (w *watched) Get(generation int64, key claim.Fingerprint) (claim.Owner, bool, error) {
	if w.fail.Load() {
		return claim.Owner{}, false, errDisk
	}
	return w.Store.Get(generation, key)
}

func (w *watched) SetPosition(next int64) error {
	w.position.Store(next)
	return w.Store.SetPosition(next)
}

func (w *watched) Close() {
	w.closed.Store(true)
	w.Store.Close()
}

func newWatchedRig(t *testing.T) (*rig, *watched) {
	t.Helper()
	r, w := newRig(t), &watched{Store: claim.NewMemory()}
	r.endpoint("ep", parallel(64))
	r.startWith(unit.Restored{Arbiter: claim.NewArbiter(24*time.Hour, w)})
	return r, w
}

// What the unit wrote need not be read by the next owner, and what somebody else wrote in between is read by this one.
func TestUnit_ReadsWhatOthersWroteInBetween(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, store := newWatchedRig(t)
		send := func(n int) {
			for i := range n {
				r.event("ep", fmt.Sprintf("%d-%d", n, i), `{}`)
			}
			time.Sleep(10 * time.Second)
		}
		send(1500)
		require.GreaterOrEqual(t, store.position.Load(), int64(1000))
		gaps, _ := r.claims.seen()
		require.Empty(t, gaps)
		r.journal.skip(3)
		send(1600)
		gaps, _ = r.claims.seen()
		require.Equal(t, [][2]int64{{1500, 1503}}, gaps)
		require.GreaterOrEqual(t, store.position.Load(), int64(1503+600))
		r.event("ep", "stale", `{"other":1}`)
		time.Sleep(time.Second)
		require.InDelta(t, 1, r.metric("barnabas_events_total", string(schemas.VerdictConflict)), 0)
		r.end()
		require.EqualValues(t, 1500+3+1600+1, store.position.Load(), "the end saves where it is")
		require.True(t, store.closed.Load())
	})
}

// Claims that cannot be read: nothing is delivered or settled on a guess, and the unit has ended.
func TestUnit_EndsWhenClaimsCannotBeRead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, store := newWatchedRig(t)
		r.event("ep", "a", `{}`)
		time.Sleep(time.Second)
		store.fail.Store(true)
		for i := range 5 {
			r.event("ep", fmt.Sprint("b", i), `{}`)
		}
		time.Sleep(time.Minute)
		<-r.unit.Done()
		_, failed := r.claims.seen()
		require.Len(t, failed, 1)
		require.ErrorIs(t, failed[0], errDisk)
		require.Len(t, r.sender.seen(), 1)
		require.EqualValues(t, 1, r.committed(r.Catalogue.Events()))
		require.True(t, store.closed.Load())
		r.idle()
	})
}
