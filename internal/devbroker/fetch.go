package devbroker

import (
	"math"

	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// WholeFetches mends limit 11 of a cluster: an answer is bounded partition by
// partition, each by what the request allows all of them, and not as a whole.
// It stays in force as long as the cluster.
func WholeFetches(cluster *kfake.Cluster) {
	cluster.ControlKey(int16(kmsg.Fetch), func(kreq kmsg.Request) (kmsg.Response, error, bool) {
		cluster.KeepControl()
		req := kreq.(*kmsg.FetchRequest)
		for i := range req.Topics {
			for j := range req.Topics[i].Partitions {
				p := &req.Topics[i].Partitions[j]
				p.PartitionMaxBytes = min(p.PartitionMaxBytes, req.MaxBytes)
			}
		}
		req.MaxBytes = math.MaxInt32
		return nil, nil, false
	})
}
