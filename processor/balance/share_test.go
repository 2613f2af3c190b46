package balance_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"sort"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/barnabas-webhooks/barnabas/processor/balance"
)

var topics = []string{"dlv.events", "dlv.replay", "dlv.retry.1m", "dlv.retry.10m", "dlv.retry.1h", "dlv.retry.6h"}

// group is a consumer group whose members do what kgo does: they give up what they
// are not given any more, join again when they did, and say what they hold.
type group struct {
	t          *testing.T
	rnd        *rand.Rand
	units      int32
	generation int32
	next       int
	members    map[string]*member
}

type member struct {
	held       []int32
	generation int32 // of which held is told
}

func (g *group) join() {
	g.next++
	g.members[fmt.Sprintf("m%d-%d", g.rnd.IntN(10), g.next)] = &member{generation: -1}
}

func (g *group) ids() []string {
	ids := make([]string, 0, len(g.members))
	for id := range g.members {
		ids = append(ids, id)
	}
	sort.Strings(ids)
	return ids
}

// joinRequests are the members as the leader sees them, in any order.
func (g *group) joinRequests() []kmsg.JoinGroupResponseMember {
	var joined []kmsg.JoinGroupResponseMember
	for _, id := range g.ids() {
		m := g.members[id]
		current := map[string][]int32{}
		for _, topic := range topics {
			if len(m.held) > 0 {
				current[topic] = slices.Clone(m.held)
			}
		}
		r := kmsg.NewJoinGroupResponseMember()
		r.MemberID = id
		r.ProtocolMetadata = balance.Balancer{}.JoinGroupMetadata(topics, current, m.generation)
		joined = append(joined, r)
	}
	g.rnd.Shuffle(len(joined), func(i, j int) { joined[i], joined[j] = joined[j], joined[i] })
	return joined
}

// plan runs the balancer as kgo's group leader does.
func plan(t *testing.T, joined []kmsg.JoinGroupResponseMember, counts map[string]int32) (map[string]map[string][]int32, error) {
	t.Helper()
	mb, _, err := balance.Balancer{}.MemberBalancer(joined)
	require.NoError(t, err)
	into, err := mb.(kgo.GroupMemberBalancerOrError).BalanceOrError(counts)
	if err != nil {
		return nil, err
	}
	given := map[string]map[string][]int32{}
	for _, a := range into.IntoSyncAssignment() {
		given[a.MemberID], err = balance.Balancer{}.ParseSyncAssignment(a.MemberAssignment)
		require.NoError(t, err)
	}
	return given, nil
}

func (g *group) counts() map[string]int32 {
	counts := map[string]int32{}
	for _, topic := range topics {
		counts[topic] = g.units
	}
	return counts
}

// rebalance is one generation; it returns whether anybody gave something up, so that another one follows.
func (g *group) rebalance() (again bool) {
	g.generation++
	joined := g.joinRequests()
	given, err := plan(g.t, joined, g.counts())
	require.NoError(g.t, err)
	if g.rnd.IntN(4) == 0 {
		other, err := plan(g.t, g.joinRequests(), g.counts())
		require.NoError(g.t, err)
		require.Equal(g.t, given, other, "the order in which members come changes nothing")
	}

	holder := map[int32]string{}
	for id, m := range g.members {
		for _, unit := range m.held {
			holder[unit] = id
		}
	}
	for _, id := range g.ids() {
		var units []int32
		for i, topic := range topics {
			got := given[id][topic]
			slices.Sort(got)
			if i == 0 {
				units = got
			}
			require.Equal(g.t, units, got, "%s has units torn apart: %v", id, given[id])
		}
		for _, unit := range units {
			h, held := holder[unit]
			if held && h != id {
				require.Fail(g.t, "given while held", "unit %d goes to %s while %s holds it", unit, id, h)
			}
		}
		m := g.members[id]
		for _, unit := range m.held {
			again = again || !slices.Contains(units, unit)
		}
		m.held, m.generation = units, g.generation
	}
	return again
}

// converge rebalances until nothing moves and returns how many units changed hands.
func (g *group) converge() (moved int) {
	before := map[int32]string{}
	for id, m := range g.members {
		for _, unit := range m.held {
			before[unit] = id
		}
	}
	for rounds := 0; g.rebalance(); rounds++ {
		require.Less(g.t, rounds, 3, "it goes on and on")
	}
	owner := map[int32]string{}
	least, most := int(g.units), 0
	for id, m := range g.members {
		least, most = min(least, len(m.held)), max(most, len(m.held))
		for _, unit := range m.held {
			require.Empty(g.t, owner[unit], "unit %d is twice", unit)
			owner[unit] = id
		}
	}
	require.Len(g.t, owner, int(g.units), "every unit is somewhere")
	require.LessOrEqual(g.t, most-least, 1, "shares")
	for unit, id := range before {
		if owner[unit] != id {
			moved++
		}
	}
	return moved
}

// fewest is how many held units must move at least: what is above the larger shares
// of those who hold most, and above the smaller shares of the others.
func (g *group) fewest() (n int) {
	var held []int
	for _, m := range g.members {
		held = append(held, len(m.held))
	}
	sort.Sort(sort.Reverse(sort.IntSlice(held)))
	small, larger := int(g.units)/len(held), int(g.units)%len(held)
	for i, h := range held {
		size := small
		if i < larger {
			size++
		}
		n += max(0, h-size)
	}
	return n
}

// Thousands of random joins, leaves and losses: every unit stays whole and ends on
// exactly one member, shares differ by one at most, no more moves than must, and
// nobody is given what another still holds.
func TestBalancer_RandomMembership(t *testing.T) {
	t.Parallel()
	for seed := range uint64(8) {
		t.Run(fmt.Sprintf("seed=%d", seed), func(t *testing.T) {
			t.Parallel()
			rnd := rand.New(rand.NewPCG(seed, 1))
			g := &group{t: t, rnd: rnd, units: 1 + rnd.Int32N(64), members: map[string]*member{}}
			g.join()
			g.converge()
			for range 100 {
				for range 1 + rnd.IntN(3) {
					ids := g.ids()
					switch victim := ids[rnd.IntN(len(ids))]; {
					case rnd.IntN(2) == 0 && len(ids) < 12:
						g.join()
					case rnd.IntN(3) == 0: // lost its session: joins as new, with nothing
						g.members[victim] = &member{generation: -1}
					case len(ids) > 1:
						delete(g.members, victim)
					}
				}
				want := g.fewest()
				require.Equal(t, want, g.converge(), "moves")
				require.Zero(t, g.converge(), "what is balanced stays")
			}
		})
	}
}

// A frozen member that still names units of an old generation does not get them
// back from whoever has them now, nor stop them from being shared out.
func TestBalancer_StaleClaims(t *testing.T) {
	t.Parallel()
	joined := func(id string, generation int32, units ...int32) kmsg.JoinGroupResponseMember {
		current := map[string][]int32{}
		for _, topic := range topics {
			current[topic] = units
		}
		r := kmsg.NewJoinGroupResponseMember()
		r.MemberID, r.ProtocolMetadata = id, balance.Balancer{}.JoinGroupMetadata(topics, current, generation)
		return r
	}
	counts := map[string]int32{}
	for _, topic := range topics {
		counts[topic] = 4
	}
	for name, tc := range map[string]struct {
		members []kmsg.JoinGroupResponseMember
		want    map[string][]int32
	}{
		"the newer generation is believed": {
			[]kmsg.JoinGroupResponseMember{joined("a", 3, 0, 1, 2, 3), joined("b", 5, 2, 3)},
			map[string][]int32{"a": {0, 1}, "b": {2, 3}},
		},
		"of one generation neither is believed": {
			[]kmsg.JoinGroupResponseMember{joined("a", 5, 0, 1), joined("b", 5, 1, 2), joined("c", 2, 1, 3)},
			map[string][]int32{"a": {0, 1}, "b": {2}, "c": {3}},
		},
		"units that do not exist": {
			[]kmsg.JoinGroupResponseMember{joined("a", 5, 0, 1, 7, 4, -1), joined("b", 5)},
			map[string][]int32{"a": {0, 1}, "b": {2, 3}},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			given, err := plan(t, tc.members, counts)
			require.NoError(t, err)
			for id, units := range tc.want {
				for _, topic := range topics {
					got := given[id][topic]
					slices.Sort(got)
					require.Equal(t, units, got, "%s %s", id, topic)
				}
			}
		})
	}
}

// A leader that does not know a topic yet must not share out units without it: they
// would never start. Where topics have different numbers of partitions, only units
// that are whole are shared out.
func TestBalancer_NoTornUnits(t *testing.T) {
	t.Parallel()
	g := &group{t: t, rnd: rand.New(rand.NewPCG(1, 1)), units: 4, members: map[string]*member{}}
	g.join()
	counts := g.counts()
	counts["dlv.retry.1h"] = 0
	_, err := plan(t, g.joinRequests(), counts)
	require.ErrorContains(t, err, "dlv.retry.1h")

	counts = g.counts()
	delete(counts, "dlv.retry.1h")
	_, err = plan(t, g.joinRequests(), counts)
	require.ErrorContains(t, err, "dlv.retry.1h")

	counts["dlv.retry.1h"], counts["dlv.events"] = 4, 8
	given, err := plan(t, g.joinRequests(), counts)
	require.NoError(t, err)
	for _, id := range g.ids() {
		for _, topic := range topics {
			require.ElementsMatch(t, []int32{0, 1, 2, 3}, given[id][topic], topic)
		}
	}
}

// Members that want other topics are another installation. Where both want a topic,
// its partitions are with the larger one only.
func TestBalancer_OtherTopics(t *testing.T) {
	t.Parallel()
	joined := func(id string, topics ...string) kmsg.JoinGroupResponseMember {
		r := kmsg.NewJoinGroupResponseMember()
		r.MemberID, r.ProtocolMetadata = id, balance.Balancer{}.JoinGroupMetadata(topics, nil, 1)
		return r
	}
	given, err := plan(t, []kmsg.JoinGroupResponseMember{
		joined("a", "x.events", "x.retry.1m"), joined("b", "x.events", "x.retry.1m"),
		joined("other-prefix", "y.events"),
		joined("other-tiers", "x.events", "x.retry.2m"),
	}, map[string]int32{"x.events": 4, "x.retry.1m": 4, "x.retry.2m": 4, "y.events": 2})
	require.NoError(t, err)
	require.ElementsMatch(t, []int32{0, 1, 2, 3}, slices.Concat(given["a"]["x.events"], given["b"]["x.events"]))
	require.Len(t, given["a"]["x.events"], 2)
	require.ElementsMatch(t, given["a"]["x.events"], given["a"]["x.retry.1m"])
	require.ElementsMatch(t, []int32{0, 1}, given["other-prefix"]["y.events"])
	require.Empty(t, given["other-prefix"]["x.events"])
	require.Empty(t, given["other-tiers"])
}

func TestShare_NoMembersNoShares(t *testing.T) {
	t.Parallel()
	require.Empty(t, balance.Share(4, nil, nil))
	require.Equal(t, map[string][]int32{"a": {0, 1}}, balance.Share(2, []string{"a"}, map[string]balance.Claim{
		"gone": {Generation: 9, Units: []int32{0}},
	}), "what one who is not a member says counts for nothing")
	require.Equal(t, []int32{0}, balance.Share(1, []string{"a", "b", "c"}, nil)["a"], "fewer units than members")
}
