package api

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/barnabas-webhooks/barnabas/internal/obs"
	"github.com/barnabas-webhooks/barnabas/schemas"
)

// tailBack is how far before its start the tail begins: an event may be sent and judged before the client has found
// the topics' ends, and clocks differ.
const tailBack = 10 * time.Second

// runTail follows the idempotency and attempts topics, from shortly before it starts, until ctx ends. What it misses,
// because it was not there or not caught up, makes verdicts late and look-ups fail, never wrong.
func (a *API) runTail(ctx context.Context) error {
	start := time.Now().Add(-tailBack).UnixMilli()
	cl, err := a.opts.Client(
		kgo.ConsumeTopics(a.opts.Topics.Idempotency(), a.opts.Topics.Attempts()),
		kgo.ConsumeStartOffset(kgo.NewOffset().AfterMilli(start)),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtEnd()),
		// Claims are not written in transactions; attempts are, and those of an aborted one have not happened.
		kgo.FetchIsolationLevel(kgo.ReadCommitted()),
	)
	if err != nil {
		return fmt.Errorf("api tail: %w", err)
	}
	defer cl.Close()
	wait, lastLog := time.Duration(0), time.Time{}
	for ctx.Err() == nil {
		fetches := cl.PollFetches(ctx)
		if fetches.IsClientClosed() {
			return nil
		}
		fetches.EachRecord(a.tailed)
		err := firstError(fetches)
		if err == nil || ctx.Err() != nil {
			wait = 0
			continue
		}
		if time.Since(lastLog) > 10*time.Second {
			lastLog = time.Now()
			a.log.Warn("api_tail_read_failed", obs.KeyError, err)
		}
		wait = min(max(2*wait, 100*time.Millisecond), 5*time.Second)
		select {
		case <-time.After(wait):
		case <-ctx.Done():
		}
	}
	return nil
}

// tailed takes one record of either topic.
func (a *API) tailed(r *kgo.Record) {
	if r.Value == nil {
		return
	}
	var err error
	if r.Topic == a.opts.Topics.Idempotency() {
		var claim schemas.Claim
		if claim, err = a.verdicts.take(r); err == nil {
			a.recent.claimed(&claim)
		}
	} else {
		var attempt schemas.Attempt
		if attempt, err = schemas.DecodeAttempt(r.Value); err == nil {
			a.recent.attempted(&attempt)
		}
	}
	if err != nil {
		a.metrics.tailUndecodable.Inc()
		a.log.Debug("api_tail_record_undecodable",
			obs.KeyTopic, r.Topic, obs.KeyPartition, r.Partition, obs.KeyOffset, r.Offset)
	}
}

func firstError(fetches kgo.Fetches) error {
	for _, e := range fetches.Errors() {
		if !errors.Is(e.Err, context.Canceled) && !errors.Is(e.Err, context.DeadlineExceeded) {
			return e.Err
		}
	}
	return nil
}
