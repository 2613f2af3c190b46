package dlq

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync/atomic"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// embeddedCluster is the cluster id of the embedded broker (package devbroker).
//
// Killed with a transaction open, that broker forgets it and leaves no abort
// marker in the log. Readers from the start then take everything that the same
// transactional id commits later for aborted, until a marker comes. A replay
// whose marks are hidden would be done again, so there a replay
//
//   - writes the missing markers when it takes the id, before anything else. One
//     too many is harmless: it ends a transaction that is not there;
//   - does not commit a batch during which a connection broke: half of it may
//     have been written before a restart, half after.
//
// It is for development: a kill between the two partitions' commit markers of
// one batch can still tear that batch.
const embeddedCluster = "barnabas-dev"

// errDropped is a batch on the embedded broker that lost a connection.
var errDropped = errors.New("a connection to the embedded broker broke during the batch, which was not committed")

func isEmbedded(ctx context.Context, adm *kadm.Client) (bool, error) {
	m, err := adm.BrokerMetadata(ctx)
	if err != nil {
		return false, fmt.Errorf("read cluster id: %w", err)
	}
	return m.Cluster == embeddedCluster, nil
}

// writeAbortMarkers ends what a producer id may have open in every partition of topics.
func writeAbortMarkers(ctx context.Context, cl *kgo.Client, id int64, epoch int16, topics map[string]int) error {
	req := kmsg.NewPtrWriteTxnMarkersRequest()
	m := kmsg.NewWriteTxnMarkersRequestMarker()
	m.ProducerID, m.ProducerEpoch = id, epoch
	for topic, n := range topics {
		t := kmsg.NewWriteTxnMarkersRequestMarkerTopic()
		t.Topic = topic
		for p := range n {
			t.Partitions = append(t.Partitions, int32(p))
		}
		m.Topics = append(m.Topics, t)
	}
	req.Markers = append(req.Markers, m)
	resp, err := req.RequestWith(ctx, cl)
	if err != nil {
		return fmt.Errorf("write abort markers: %w", err)
	}
	for _, m := range resp.Markers {
		for _, t := range m.Topics {
			for _, p := range t.Partitions {
				if err := kerr.ErrorForCode(p.ErrorCode); err != nil {
					return fmt.Errorf("write abort marker to %s/%d: %w", t.Topic, p.Partition, err)
				}
			}
		}
	}
	return nil
}

// drops counts the connections that a client has lost.
type drops struct{ n atomic.Int64 }

var _ kgo.HookBrokerDisconnect = (*drops)(nil)

func (d *drops) OnBrokerDisconnect(kgo.BrokerMetadata, net.Conn) { d.n.Add(1) }
