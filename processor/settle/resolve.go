package settle

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/barnabas-webhooks/barnabas/internal/obs"
	"github.com/barnabas-webhooks/barnabas/processor/tracker"
)

// connect makes the transactional client.
func (s *Settler) connect() error {
	client, err := s.newClient(s.transactionalID)
	if err != nil {
		return fmt.Errorf("settler: %w", err)
	}
	s.client, s.produced = client, map[string]struct{}{}
	return nil
}

// reconnect replaces a client that cannot go on. The transactional id stays, so
// that the new client's first request fences whatever the old one left open.
func (s *Settler) reconnect() error {
	old := s.client
	if err := s.connect(); err != nil {
		s.client = old
		return err
	}
	old.Close()
	return nil
}

// resolve finds out whether a transaction was committed whose ending was asked
// for and not answered. It goes on until it knows or ctx ends: to write the same
// batches again on a guess could fork every delivery in them.
func (s *Settler) resolve(ctx context.Context, batches []*Batch) (committed bool, err error) {
	for wait := s.cfg.Beat; ; wait = min(2*wait, s.cfg.MaxBackoff) {
		if err = s.fence(ctx); err == nil {
			if committed, err = s.carries(ctx, batches); err == nil {
				return committed, nil
			}
		}
		if wait > s.cfg.Beat { // a moment after its end the offsets are often unstable still
			s.log.Warn("the outcome of a transaction is not known yet", obs.KeyTag, batches[0].Tag, obs.KeyWait, wait, obs.KeyError, err)
		}
		select {
		case <-ctx.Done():
			return false, fmt.Errorf("resolve transaction %s: %w", batches[0].Tag, err)
		case <-time.After(wait):
		}
	}
}

// fence makes sure that nothing of the unanswered transaction can happen any
// more: ending it again reloads the producer id, and so does a new client.
func (s *Settler) fence(ctx context.Context) error {
	err := s.client.EndTransaction(ctx, kgo.TryAbort)
	if err == nil {
		// Loads the id where the call above did not.
		_, _, err = s.client.ProducerID(ctx)
	}
	if err != nil { // fenced by the broker, say, which has aborted what took too long: this client can't go on
		if err := s.reconnect(); err != nil {
			return err
		}
		_, _, err = s.client.ProducerID(ctx)
	}
	if err != nil {
		return fmt.Errorf("fence the unanswered transaction: %w", err)
	}
	return nil
}

// carries reads the committed offsets, stable ones only, and looks for the batches'
// tags. The transaction is atomic, so one partition that carries its tag speaks for all.
func (s *Settler) carries(ctx context.Context, batches []*Batch) (bool, error) {
	resp, err := s.askOffsets(batches).RequestWith(ctx, s.client)
	if err != nil {
		return false, fmt.Errorf("read committed offsets: %w", err)
	}
	errs := []error{kerr.ErrorForCode(resp.ErrorCode)}
	tags := map[place]string{}
	for _, g := range resp.Groups {
		errs = append(errs, kerr.ErrorForCode(g.ErrorCode))
		for _, t := range g.Topics {
			for _, p := range t.Partitions {
				switch err := kerr.ErrorForCode(p.ErrorCode); {
				case err != nil: // an unstable offset, say: the ending is still under way
					errs = append(errs, fmt.Errorf("committed offset of %s[%d]: %w", t.Topic, p.Partition, err))
				case p.Metadata == nil:
					tags[place{t.Topic, p.Partition}] = ""
				default:
					tags[place{t.Topic, p.Partition}] = tracker.Tag(*p.Metadata)
				}
			}
		}
	}
	for _, b := range batches {
		for _, c := range b.Commits {
			tag, ok := tags[place{c.Topic, c.Partition}]
			switch {
			case !ok: // said above, or left out; either way it is not known
				errs = append(errs, fmt.Errorf("committed offset of %s[%d] is not known", c.Topic, c.Partition))
			case tag == b.Tag:
				return true, nil
			}
		}
	}
	return false, errors.Join(errs...)
}

// place is one topic-partition.
type place struct {
	topic     string
	partition int32
}

// askOffsets asks for the batches' partitions, each by its name. A request for all
// that the group has will not do: from the answer to that, Kafka leaves a partition out
// whose first commit ever is still being ended, without a word of its being
// unstable, and it would be taken for one that was not committed.
func (s *Settler) askOffsets(batches []*Batch) *kmsg.OffsetFetchRequest {
	partitions := map[string][]int32{}
	for _, b := range batches {
		for _, c := range b.Commits {
			partitions[c.Topic] = append(partitions[c.Topic], c.Partition)
		}
	}
	group := kmsg.NewOffsetFetchRequestGroup()
	group.Group = s.group
	for topic, of := range partitions {
		t := kmsg.NewOffsetFetchRequestGroupTopic()
		t.Topic, t.TopicID, t.Partitions = topic, s.topicIDs[topic], of
		group.Topics = append(group.Topics, t)
	}
	req := kmsg.NewPtrOffsetFetchRequest()
	req.RequireStable, req.Groups = true, append(req.Groups, group)
	return req
}
