package topics_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/barnabas-webhooks/barnabas/topics"
)

// A unit topic was given more partitions while we run: nothing goes there, for nobody reads it.
func TestPartitioner_UnitTopicsKeepTheirPartitions(t *testing.T) {
	t.Parallel()
	c := topics.DefaultCatalogue()
	p := topics.Partitioner(c)
	for _, topic := range c.All() {
		of := p.ForTopic(topic)
		for i := range 1000 {
			r := &kgo.Record{Topic: topic, Key: fmt.Appendf(nil, "ep_%d", i)}
			require.True(t, of.RequiresConsistency(r), "also while a partition has no leader")
			want := topics.Partition(string(r.Key), c.Partitions)
			if topic == c.Endpoints() {
				want = topics.Partition(string(r.Key), 96) // any number will do
			}
			require.Equal(t, int(want), of.Partition(r, 96))
		}
	}
}
