// Package balance shares units out among the members of the consumer group.
//
// A unit is one partition number of all the topics together. Kafka's own
// strategies share out each topic by itself and would tear units apart: this one
// shares out partition numbers, and mirrors each to all topics. It is sticky (a
// unit stays where it is as long as the shares allow) and cooperative (only what
// moves stops).
package balance

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"sort"
	"strings"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// Protocol is the name under which members agree on this balancer.
const Protocol = "barnabas-units"

// Balancer is a kgo.GroupBalancer. The zero value is ready.
type Balancer struct{}

var (
	_ kgo.GroupBalancer           = Balancer{}
	_ kgo.ConsumerBalancerBalance = Balancer{}
)

// ProtocolName implements kgo.GroupBalancer.
func (Balancer) ProtocolName() string { return Protocol }

// IsCooperative implements kgo.GroupBalancer.
func (Balancer) IsCooperative() bool { return true }

// JoinGroupMetadata says what the member wants and what it has. It is the
// cooperative-sticky strategy's own encoding.
func (Balancer) JoinGroupMetadata(interests []string, current map[string][]int32, generation int32) []byte {
	meta := kmsg.NewConsumerMemberMetadata()
	meta.Version = 3
	meta.Topics = interests
	meta.Generation = generation
	topics := make([]string, 0, len(current))
	for topic := range current {
		topics = append(topics, topic)
	}
	sort.Strings(topics)
	for _, topic := range topics {
		owned := kmsg.NewConsumerMemberMetadataOwnedPartition()
		owned.Topic, owned.Partitions = topic, current[topic]
		meta.OwnedPartitions = append(meta.OwnedPartitions, owned)
	}
	return meta.AppendTo(nil)
}

// ParseSyncAssignment implements kgo.GroupBalancer.
func (Balancer) ParseSyncAssignment(assignment []byte) (map[string][]int32, error) {
	return kgo.ParseConsumerSyncAssignment(assignment)
}

// MemberBalancer implements kgo.GroupBalancer.
func (b Balancer) MemberBalancer(members []kmsg.JoinGroupResponseMember) (kgo.GroupMemberBalancer, map[string]struct{}, error) {
	cb, err := kgo.NewConsumerBalancer(b, members)
	if err != nil {
		return nil, nil, err
	}
	return cb, cb.MemberTopics(), nil
}

// Balance implements kgo.ConsumerBalancerBalance.
func (Balancer) Balance(b *kgo.ConsumerBalancer, partitions map[string]int32) kgo.IntoSyncAssignment {
	plan := b.NewPlan()
	for _, in := range installations(b) {
		units, err := wholeUnits(in.topics, partitions)
		if err != nil {
			b.SetError(err) // the members join again after a while
			return nil
		}
		// Cooperative: what is still with somebody else is given only once he has
		// let go of it, in the rebalance that his revocation brings about.
		holder := holders(in.claims)
		for id, share := range Share(units, in.ids, in.claims) {
			member := &kmsg.JoinGroupResponseMember{MemberID: id}
			for _, topic := range in.topics {
				for _, unit := range share {
					if h, held := holder[unit]; !held || h == id {
						plan.AddPartition(member, topic, unit)
					}
				}
			}
		}
	}
	return plan
}

// installation is the members that want the same topics. Two of them in one group
// are a slip of configuration: another prefix and the same group, or other tiers.
// Those that share no topic are balanced side by side. Of those that do, the one
// that most members want is, and the others get nothing until they agree: a
// partition must never be with two members.
type installation struct {
	topics []string
	ids    []string // sorted, whatever order they are told in
	claims map[string]Claim
}

func installations(b *kgo.ConsumerBalancer) []*installation {
	found := map[string]*installation{}
	b.EachMember(func(member *kmsg.JoinGroupResponseMember, meta *kmsg.ConsumerMemberMetadata) {
		topics := slices.Sorted(slices.Values(meta.Topics))
		key := strings.Join(topics, "\x00")
		in := found[key]
		if in == nil {
			in = &installation{topics: topics, claims: map[string]Claim{}}
			found[key] = in
		}
		in.ids = append(in.ids, member.MemberID)
		c := Claim{Generation: meta.Generation}
		for _, owned := range meta.OwnedPartitions {
			c.Units = append(c.Units, owned.Partitions...)
		}
		in.claims[member.MemberID] = c
	})
	keys := slices.Sorted(maps.Keys(found))
	slices.SortStableFunc(keys, func(x, y string) int { return len(found[y].ids) - len(found[x].ids) })
	taken := map[string]bool{}
	var balanced []*installation
	for _, key := range keys {
		in := found[key]
		if slices.ContainsFunc(in.topics, func(t string) bool { return taken[t] }) {
			continue
		}
		for _, t := range in.topics {
			taken[t] = true
		}
		slices.Sort(in.ids)
		balanced = append(balanced, in)
	}
	return balanced
}

// wholeUnits is how many units have a partition in every topic. A topic that the
// leader knows no partitions of is an error: a unit without it would never start,
// and would not be given that topic's part later without being torn from the rest.
func wholeUnits(topics []string, partitions map[string]int32) (int32, error) {
	units := int32(math.MaxInt32)
	for _, topic := range topics {
		n := partitions[topic]
		if n == 0 {
			return 0, fmt.Errorf("balance: no partitions are known of topic %s", topic)
		}
		units = min(units, n)
	}
	if len(topics) == 0 {
		return 0, nil
	}
	return units, nil
}

// Claim is what a member says it holds, as of which generation.
type Claim struct {
	Generation int32
	Units      []int32
}

// Share divides the units 0..n-1 among the members so that shares differ by one
// at most, and as few units move as that allows. Members are served in the order
// of ids; what a claim says beyond n, or in the name of nobody in ids, is ignored.
func Share(n int32, ids []string, claims map[string]Claim) map[string][]int32 {
	shares := make(map[string][]int32, len(ids))
	if len(ids) == 0 {
		return shares
	}
	holder := holders(claims)
	for unit, id := range holder {
		if !slices.Contains(ids, id) {
			delete(holder, unit)
		}
	}
	for unit := range n {
		if id, ok := holder[unit]; ok {
			shares[id] = append(shares[id], unit)
		}
	}
	// Those who hold most keep the larger shares: a unit less to move.
	order := slices.Clone(ids)
	slices.SortStableFunc(order, func(a, b string) int { return len(shares[b]) - len(shares[a]) })
	small, larger := int(n)/len(ids), int(n)%len(ids)
	size := make(map[string]int, len(ids))
	for i, id := range order {
		size[id] = small
		if i < larger {
			size[id]++
		}
	}
	var free []int32
	for unit := range n {
		if _, ok := holder[unit]; !ok {
			free = append(free, unit)
		}
	}
	for _, id := range order {
		if over := len(shares[id]) - size[id]; over > 0 {
			free = append(free, shares[id][size[id]:]...)
			shares[id] = shares[id][:size[id]]
		}
	}
	slices.Sort(free)
	for _, id := range order {
		want := size[id] - len(shares[id])
		shares[id] = append(shares[id], free[:want]...)
		free = free[want:]
		slices.Sort(shares[id])
	}
	return shares
}

// holders resolves who holds each unit: of several who say so, the one of the
// latest generation; of two in the same, neither is believed.
func holders(claims map[string]Claim) map[int32]string {
	type hold struct {
		id         string
		generation int32
		disputed   bool
	}
	held := map[int32]hold{}
	for id, c := range claims {
		units := slices.Clone(c.Units)
		slices.Sort(units)
		for _, unit := range slices.Compact(units) {
			old, ok := held[unit]
			switch {
			case !ok || c.Generation > old.generation:
				held[unit] = hold{id: id, generation: c.Generation}
			case c.Generation == old.generation:
				old.disputed = true
				held[unit] = old
			}
		}
	}
	holder := make(map[int32]string, len(held))
	for unit, h := range held {
		if !h.disputed {
			holder[unit] = h.id
		}
	}
	return holder
}
