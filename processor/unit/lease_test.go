package unit_test

import (
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/barnabas-webhooks/barnabas/processor/deliver"
)

// membership is the process's lease, as the test wants it; its zero value is held.
type membership struct {
	mu      sync.Mutex // guards what follows
	lapsed  bool
	waiting []func()
}

// Held implements unit.Lease.
func (m *membership) Held(again func()) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.lapsed {
		m.waiting = append(m.waiting, again)
	}
	return !m.lapsed
}

func (m *membership) set(lapsed bool) (waiting int) {
	m.mu.Lock()
	m.lapsed = lapsed
	called := m.waiting
	if !lapsed {
		m.waiting = nil
	}
	m.mu.Unlock()
	if !lapsed {
		for _, again := range called {
			again()
		}
	}
	return len(called)
}

// A unit whose process cannot be certain of it starts nothing: what is in flight is finished and settled, what waits
// goes on when the group has confirmed, in order.
func TestUnit_StartsNothingWithoutALease(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		r.endpoint("ep")
		r.endpoint("other")
		r.sender.script = func(deliver.Request) (deliver.Result, time.Duration) { return status(204), time.Second }
		r.start()
		r.event("ep", "", "1")
		synctest.Wait()
		require.Equal(t, 1, r.sender.underWay())
		r.lease.set(true)
		for _, payload := range []string{"2", "3"} {
			r.event("ep", "", payload)
		}
		r.event("other", "", "x")
		time.Sleep(3 * time.Second)
		require.Len(t, r.sender.seen(), 1)
		require.Equal(t, int64(1), r.committed(r.Catalogue.Events()), "what was in flight is settled")
		require.Zero(t, r.InFlight.Used())

		require.Equal(t, 1, r.lease.set(false), "one question, however often it wakes")
		time.Sleep(3 * time.Second)
		require.Len(t, r.sender.seen(), 4)
		require.Equal(t, int64(4), r.committed(r.Catalogue.Events()))
		r.end()
	})
}
