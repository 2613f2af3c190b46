package balance_test

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/barnabas-webhooks/barnabas/processor/balance"
)

// ledger is who holds what, as the members' own callbacks say.
type ledger struct {
	t *testing.T

	mu     sync.Mutex // guards holder
	holder map[string]map[int32]string
}

func (l *ledger) assigned(id string, added map[string][]int32) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for topic, units := range added {
		if l.holder[topic] == nil {
			l.holder[topic] = map[int32]string{}
		}
		for _, unit := range units {
			if other := l.holder[topic][unit]; other != "" {
				l.t.Errorf("%s[%d] goes to %s while %s holds it", topic, unit, id, other)
			}
			l.holder[topic][unit] = id
		}
	}
}

func (l *ledger) revoked(gone map[string][]int32) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for topic, units := range gone {
		for _, unit := range units {
			delete(l.holder[topic], unit)
		}
	}
}

// whole checks that every unit is whole on one member, and that shares are even; it returns who has what.
func (l *ledger) whole(members, units int) map[int32]string {
	l.mu.Lock()
	defer l.mu.Unlock()
	share := map[string]int{}
	owner := map[int32]string{}
	for unit := range int32(units) {
		owner[unit] = l.holder[topics[0]][unit]
		require.NotEmpty(l.t, owner[unit], "nobody has unit %d", unit)
		for _, topic := range topics {
			require.Equal(l.t, owner[unit], l.holder[topic][unit], "unit %d is torn at %s", unit, topic)
		}
		share[owner[unit]]++
	}
	require.Len(l.t, share, members)
	for id, n := range share {
		require.GreaterOrEqual(l.t, n, units/members, id)
		require.LessOrEqual(l.t, n, (units+members-1)/members, id)
	}
	return owner
}

// Real clients of a real group: twelve units over six topics stay whole on one
// member each through joins, orderly leaves and deaths, and move no more than must.
func TestBalancer_UnitsStayWholeInAGroup(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const units = 12
		network := &kfake.VirtualNetwork{}
		cluster, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.Ports(9092), kfake.ListenFn(network.Listen),
			kfake.SeedTopics(units, topics...))
		require.NoError(t, err)
		defer cluster.Close()

		l := &ledger{t: t, holder: map[string]map[int32]string{}}
		clients := map[string]*kgo.Client{}
		polling := map[string]context.CancelFunc{}
		join := func(id string) {
			cl, err := kgo.NewClient(
				kgo.SeedBrokers("localhost:9092"), kgo.Dialer(network.DialContext),
				kgo.ConsumerGroup("g"), kgo.ConsumeTopics(topics...), kgo.Balancers(balance.Balancer{}),
				kgo.SessionTimeout(10*time.Second), kgo.HeartbeatInterval(time.Second), kgo.DisableAutoCommit(),
				kgo.OnPartitionsAssigned(func(_ context.Context, _ *kgo.Client, m map[string][]int32) { l.assigned(id, m) }),
				kgo.OnPartitionsRevoked(func(_ context.Context, _ *kgo.Client, m map[string][]int32) { l.revoked(m) }),
				kgo.OnPartitionsLost(func(_ context.Context, _ *kgo.Client, m map[string][]int32) { l.revoked(m) }),
			)
			require.NoError(t, err)
			ctx, cancel := context.WithCancel(t.Context())
			clients[id], polling[id] = cl, cancel
			go func() {
				for ctx.Err() == nil {
					cl.PollFetches(ctx)
				}
			}()
		}
		leave := func(id string) {
			polling[id]()
			clients[id].Close()
			delete(clients, id)
		}
		settle := func() map[int32]string {
			time.Sleep(time.Minute)
			return l.whole(len(clients), units)
		}

		join("a")
		before := settle()
		rnd := rand.New(rand.NewPCG(3, 3))
		for step := range 25 {
			stay := map[string]bool{}
			for id := range clients {
				stay[id] = true
			}
			joins := len(clients) == 1 || rnd.IntN(2) == 0 && len(clients) < 6
			if joins {
				join(fmt.Sprintf("m%d", step))
			} else {
				ids := slices.Sorted(maps.Keys(clients))
				id := ids[rnd.IntN(len(ids))]
				leave(id)
				delete(stay, id)
			}
			after := settle()
			// What must move: the units of those who left, and what makes room for those who came.
			moved := 0
			for unit, id := range before {
				if stay[id] && after[unit] != id {
					moved++
				}
			}
			if joins {
				require.LessOrEqual(t, moved, (units+len(clients)-1)/len(clients), "step %d", step)
			} else {
				require.Zero(t, moved, "step %d: a leave moves nothing of those who stay", step)
			}
			before = after
		}
		for id := range clients {
			leave(id)
		}
	})
}
