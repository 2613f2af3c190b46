package kafka_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/barnabas-webhooks/barnabas/internal/kafka"
)

// A client that was refused a producer id fails every record from then on; the
// producer goes on with another one as soon as the broker gives ids again.
func TestProducer_OutlivesARefusedProducerID(t *testing.T) {
	t.Parallel()
	broker := broker(t, kfake.SeedTopics(1, "t"))
	made := 0
	producer, err := kafka.NewProducer(func() (*kgo.Client, error) {
		made++
		return kgo.NewClient(kgo.SeedBrokers(broker.ListenAddrs()...), kgo.ProducerLinger(0))
	}, quietLog())
	require.NoError(t, err)
	t.Cleanup(producer.Close)
	produce := func() error {
		done := make(chan error, 1)
		producer.TryProduce(t.Context(), &kgo.Record{Topic: "t", Value: []byte("v")}, func(_ *kgo.Record, err error) { done <- err })
		return <-done
	}

	broker.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.InitProducerID}, Err: kerr.ClusterAuthorizationFailed})
	require.ErrorIs(t, produce(), kerr.ClusterAuthorizationFailed)
	require.Eventually(t, func() bool { return produce() == nil }, 10*time.Second, 10*time.Millisecond)
	require.Equal(t, 2, made)

	// A record that the topic never takes says nothing of the client.
	producer.TryProduce(t.Context(), &kgo.Record{Topic: "t", Value: make([]byte, 2<<20)}, func(_ *kgo.Record, err error) {
		require.Error(t, err)
	})
	require.NoError(t, produce())
	require.Equal(t, 2, made)
}
