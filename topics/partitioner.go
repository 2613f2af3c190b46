package topics

import "github.com/twmb/franz-go/pkg/kgo"

// Partitioner is Kafka's default one, but that the topics of units have as many partitions as the catalogue says, whatever
// the cluster says: what is written to a partition that was added to a running installation belongs to no unit, and
// nobody reads it. A topic with fewer takes none of the records whose partition is not there.
func Partitioner(c Catalogue) kgo.Partitioner {
	p := partitioner{units: map[string]bool{}, others: kgo.StickyKeyPartitioner(nil)}
	for _, topic := range c.Units() {
		p.units[topic] = true
	}
	p.pinned = kgo.BasicConsistentPartitioner(func(string) func(*kgo.Record, int) int {
		return func(r *kgo.Record, _ int) int { return int(Partition(string(r.Key), c.Partitions)) }
	})
	return p
}

type partitioner struct {
	units          map[string]bool
	pinned, others kgo.Partitioner
}

// ForTopic implements kgo.Partitioner.
func (p partitioner) ForTopic(topic string) kgo.TopicPartitioner {
	if p.units[topic] {
		return p.pinned.ForTopic(topic)
	}
	return p.others.ForTopic(topic)
}
