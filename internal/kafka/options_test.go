package kafka_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// A write that a broker refuses for a moment is written a moment later, and not when the client's 5 s are over.
func TestOptions_RefusedForAMoment(t *testing.T) {
	t.Parallel()
	broker := broker(t, kfake.SeedTopics(1, "t"))
	opts, err := at(broker).Options(quietLog())
	require.NoError(t, err)
	client, err := kgo.NewClient(append(opts, kgo.DefaultProduceTopic("t"))...)
	require.NoError(t, err)
	t.Cleanup(client.Close)
	require.NoError(t, client.ProduceSync(t.Context(), kgo.StringRecord("first")).FirstErr())

	for _, refusal := range []*kerr.Error{kerr.ConcurrentTransactions, kerr.NotLeaderForPartition} {
		broker.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.Produce}, Err: refusal})
		ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
		require.NoError(t, client.ProduceSync(ctx, kgo.StringRecord(refusal.Message)).FirstErr(), refusal.Message)
		cancel()
	}
}
