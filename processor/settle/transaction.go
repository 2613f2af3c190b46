package settle

import (
	"context"
	"errors"
	"fmt"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// generation is the group membership that a commit carries.
type generation struct {
	member string
	id     int32
}

// unwritableError is a record that the broker will never take.
type unwritableError struct {
	outcome *Outcome
	err     error
}

func (e *unwritableError) Error() string { return fmt.Sprintf("record refused for good: %v", e.err) }
func (e *unwritableError) Unwrap() error { return e.err }

// unknownError is an ending that was asked for and not answered.
type unknownError struct{ err error }

func (e *unknownError) Error() string {
	return fmt.Sprintf("outcome of the transaction is unknown: %v", e.err)
}
func (e *unknownError) Unwrap() error { return e.err }

// transact writes the batches in one transaction. On any error but an
// *unknownError nothing was written.
func (s *Settler) transact(ctx context.Context, g generation, batches []*Batch) error {
	if !hasRecords(batches) {
		return errNoRecords
	}
	if err := s.client.BeginTransaction(); err != nil {
		// It is in a transaction that could not be ended, or its id is beyond recovery.
		return &brokenError{fmt.Errorf("begin transaction: %w", err)}
	}
	err := s.produce(ctx, batches)
	if err == nil {
		err = s.addOffsets(ctx, g, batches)
	}
	if err != nil {
		return errors.Join(err, s.abort(ctx))
	}
	if err := s.client.EndTransaction(ctx, kgo.TryCommit); err != nil {
		return &unknownError{err}
	}
	if !s.producedBefore(batches) {
		return &unknownError{errUnconfirmed}
	}
	return nil
}

// errUnconfirmed is an ending whose success is not taken at the client's word.
var errUnconfirmed = errors.New("every topic in it is new to the client")

// producedBefore says whether an earlier transaction of this client produced to a topic
// of these batches. If none did, EndTransaction may have aborted and returned no error:
// franz-go v1.22.3 lets the records of a topic that is new to it go before it stores the topic's
// partitions, and when the acknowledgements are faster it finds no partition
// in the transaction. Producing to a topic again waits until they are stored.
func (s *Settler) producedBefore(batches []*Batch) bool {
	before := false
	for _, b := range batches {
		for _, o := range b.Outcomes {
			for _, r := range o.Records {
				_, known := s.produced[r.Topic]
				before = before || known
			}
		}
	}
	for _, b := range batches {
		for _, o := range b.Outcomes {
			for _, r := range o.Records {
				s.produced[r.Topic] = struct{}{}
			}
		}
	}
	return before
}

// hasRecords says whether there is anything to write. The client would not end a
// transaction that nothing was produced in, and the offsets would be lost with it.
func hasRecords(batches []*Batch) bool {
	for _, b := range batches {
		for _, o := range b.Outcomes {
			if len(o.Records) > 0 {
				return true
			}
		}
	}
	return false
}

// errNoRecords is a transaction of offsets alone. Units have no such outcomes; if one comes, it waits visibly.
var errNoRecords = errors.New("settle: a transaction without a record cannot be committed")

// produce writes every record and waits for all acknowledgements.
func (s *Settler) produce(ctx context.Context, batches []*Batch) error {
	var failed firstError
	for _, b := range batches {
		for _, o := range b.Outcomes {
			for _, r := range o.Records {
				// A copy for each try: the client writes offsets and attributes into it.
				try := &kgo.Record{Topic: r.Topic, Partition: r.Partition, Key: r.Key, Value: r.Value, Headers: r.Headers}
				s.client.Produce(ctx, try, func(_ *kgo.Record, err error) {
					if err == nil {
						return
					}
					if neverTaken(err) {
						err = &unwritableError{outcome: o, err: err}
					}
					failed.set(err)
				})
			}
		}
	}
	if err := s.client.Flush(ctx); err != nil {
		failed.set(err)
	}
	if err := failed.get(); err != nil {
		return fmt.Errorf("write outcomes: %w", err)
	}
	return nil
}

// neverTaken tells a record that cannot be written, ever, from a broker that cannot write it now.
func neverTaken(err error) bool {
	return errors.Is(err, kerr.MessageTooLarge) || errors.Is(err, kerr.RecordListTooLarge) || errors.Is(err, kerr.InvalidRecord)
}

// addOffsets adds the batches' positions to the transaction (KIP-447), as raw
// requests because the client's own call carries no metadata of ours.
func (s *Settler) addOffsets(ctx context.Context, g generation, batches []*Batch) error {
	pid, epoch, err := s.client.ProducerID(ctx)
	if err != nil {
		return fmt.Errorf("producer id: %w", err)
	}
	add := kmsg.NewPtrAddOffsetsToTxnRequest()
	add.TransactionalID, add.ProducerID, add.ProducerEpoch, add.Group = s.transactionalID, pid, epoch, s.group
	added, err := add.RequestWith(ctx, s.client)
	if err == nil {
		err = kerr.ErrorForCode(added.ErrorCode)
	}
	if err != nil {
		return fmt.Errorf("add offsets to the transaction: %w", err)
	}

	commit := kmsg.NewPtrTxnOffsetCommitRequest()
	commit.TransactionalID, commit.ProducerID, commit.ProducerEpoch = s.transactionalID, pid, epoch
	commit.Group, commit.Generation, commit.MemberID = s.group, g.id, g.member
	byTopic := map[string]int{}
	for _, b := range batches {
		for _, c := range b.Commits {
			i, ok := byTopic[c.Topic]
			if !ok {
				i = len(commit.Topics)
				byTopic[c.Topic] = i
				t := kmsg.NewTxnOffsetCommitRequestTopic()
				t.Topic, t.TopicID = c.Topic, s.topicIDs[c.Topic]
				commit.Topics = append(commit.Topics, t)
			}
			p := kmsg.NewTxnOffsetCommitRequestTopicPartition()
			p.Partition, p.Offset, p.Metadata = c.Partition, c.Offset, kmsg.StringPtr(c.Metadata)
			commit.Topics[i].Partitions = append(commit.Topics[i].Partitions, p)
		}
	}
	resp, err := commit.RequestWith(ctx, s.client)
	if err != nil {
		return fmt.Errorf("commit offsets: %w", err)
	}
	for _, t := range resp.Topics {
		for _, p := range t.Partitions {
			if err := kerr.ErrorForCode(p.ErrorCode); err != nil {
				return fmt.Errorf("commit offsets of %s[%d]: %w", t.Topic, p.Partition, err)
			}
		}
	}
	return nil
}

// abort ends the transaction so that nothing of it is seen. An abort that fails
// leaves a client that must be replaced: the error says so.
func (s *Settler) abort(ctx context.Context) error {
	if err := s.client.AbortBufferedRecords(ctx); err != nil {
		return &brokenError{fmt.Errorf("abort: %w", err)}
	}
	if err := s.client.EndTransaction(ctx, kgo.TryAbort); err != nil {
		return &brokenError{fmt.Errorf("abort: %w", err)}
	}
	return nil
}

// brokenError says that the producer cannot go on; a new one, which takes its
// transactional id over, can.
type brokenError struct{ err error }

func (e *brokenError) Error() string { return fmt.Sprintf("producer is broken: %v", e.err) }
func (e *brokenError) Unwrap() error { return e.err }
