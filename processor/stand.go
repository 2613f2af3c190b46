package processor

import (
	"sync"

	"github.com/twmb/franz-go/pkg/kgo"
)

// place is one topic-partition.
type place struct {
	topic     string
	partition int32
}

// why is a reason for a partition to stand still.
type why uint8

const (
	unitFull   why = 1 << iota // its unit has enough, or is not restored yet
	fetchFails                 // it is asked again after a wait
)

// stand is which partitions are not fetched, and why: the client knows one pause only, and one is
// fetched when there is no reason left. Pauses are of one assignment.
type stand struct {
	mu      sync.Mutex // guards reasons, and that the client is told in their order
	reasons map[place]why
}

// still lets a partition stand for a reason, or not for it any more.
func (s *stand) still(cl *kgo.Client, at place, reason why, on bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.reasons == nil {
		s.reasons = map[place]why{}
	}
	before := s.reasons[at]
	after := before &^ reason
	if on {
		after = before | reason
	}
	one := map[string][]int32{at.topic: {at.partition}}
	if s.reasons[at] = after; after != 0 {
		cl.PauseFetchPartitions(one)
		return
	}
	delete(s.reasons, at)
	cl.ResumeFetchPartitions(one)
}

// begun lets partitions that were just given to this process stand, for their units.
func (s *stand) begun(cl *kgo.Client, given map[string][]int32) {
	s.ended(cl, given) // those of an earlier stint: in the client they survive revocation
	for topic, partitions := range given {
		for _, p := range partitions {
			s.still(cl, place{topic, p}, unitFull, true)
		}
	}
}

// ended forgets partitions that have gone.
func (s *stand) ended(cl *kgo.Client, gone map[string][]int32) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for topic, partitions := range gone {
		for _, p := range partitions {
			delete(s.reasons, place{topic, p})
		}
	}
	cl.ResumeFetchPartitions(gone)
}
