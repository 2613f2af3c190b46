package bench

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

// RunPlain consumes a topic from its start until ctx ends, notes when each record came, and answers questions about it.
func RunPlain(ctx context.Context, broker, topic, control string) error {
	var r Recorder
	return serveBoth(ctx, &r, control, func(reading context.Context) error {
		client, err := kgo.NewClient(kgo.SeedBrokers(broker), kgo.ConsumeTopics(topic),
			kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))
		if err != nil {
			return fmt.Errorf("plain consumer: %w", err)
		}
		defer client.Close()
		for reading.Err() == nil {
			fetches := client.PollFetches(reading)
			came := time.Now()
			fetches.EachRecord(func(record *kgo.Record) { r.Note(record.Value, came) })
			if err := fetches.Err(); err != nil && reading.Err() == nil && !errors.Is(err, context.Canceled) {
				return fmt.Errorf("plain consumer: %w", err)
			}
		}
		return nil
	})
}
