package e2e_test

import (
	"context"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/barnabas-webhooks/barnabas/schemas"
)

// follow reads a topic from its start, committed records only, and hands out what it has read so far.
func follow[T any](s *site, topic string, decode func([]byte) (T, error)) func() []T {
	s.t.Helper()
	c := s.kafka(kgo.ConsumeTopics(topic), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()),
		kgo.FetchIsolationLevel(kgo.ReadCommitted()), kgo.FetchMaxWait(200*time.Millisecond))
	var read []T
	return func() []T {
		s.t.Helper()
		ctx, cancel := context.WithTimeout(s.t.Context(), 300*time.Millisecond)
		defer cancel()
		for _, r := range c.PollFetches(ctx).Records() {
			v, err := decode(r.Value)
			require.NoError(s.t, err)
			read = append(read, v)
		}
		return read
	}
}

// deadLetters follows the DLQ.
func (s *site) deadLetters() func() []schemas.DeadLetter {
	s.t.Helper()
	return follow(s, s.catalogue().DLQ(), schemas.DecodeDeadLetter)
}

// attempts follows the attempts topic.
func (s *site) attempts() func() []schemas.Attempt {
	s.t.Helper()
	return follow(s, s.catalogue().Attempts(), schemas.DecodeAttempt)
}
