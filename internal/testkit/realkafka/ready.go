package realkafka

import (
	"context"
	"fmt"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
)

const (
	// addressTimeout is how long a cluster that is said to run may take to answer.
	addressTimeout = 30 * time.Second
	askTimeout     = 2 * time.Second
	askEvery       = 50 * time.Millisecond
)

// waitReady returns when the cluster at addrs names its brokers and a controller, which a broker does only once it
// serves requests. It returns early when ended is closed: the process is gone.
func waitReady(ctx context.Context, addrs []string, ended <-chan struct{}) error {
	cl, err := kgo.NewClient(kgo.SeedBrokers(addrs...), kgo.DialTimeout(askTimeout), kgo.RequestRetries(0))
	if err != nil {
		return fmt.Errorf("client: %w", err)
	}
	defer cl.Close()

	tick := time.NewTicker(askEvery)
	defer tick.Stop()
	for {
		last := ask(ctx, cl)
		if last == nil {
			return nil
		}
		select {
		case <-tick.C:
		case <-ended:
			return fmt.Errorf("the broker's process ended before it was ready (last answer: %w)", last)
		case <-ctx.Done():
			return fmt.Errorf("no Kafka answers: %w (last answer: %w)", context.Cause(ctx), last)
		}
	}
}

func ask(ctx context.Context, cl *kgo.Client) error {
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	m, err := kadm.NewClient(cl).BrokerMetadata(ctx)
	if err != nil {
		return err
	}
	if len(m.Brokers) == 0 || m.Controller < 0 {
		return fmt.Errorf("%d brokers, controller %d", len(m.Brokers), m.Controller)
	}
	return nil
}
