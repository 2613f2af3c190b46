package dlq

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/barnabas-webhooks/barnabas/schemas"
)

const (
	// fetchBytes bounds what one fetch holds in memory.
	fetchBytes = 8 << 20
	// idle is how long an empty poll lasts before the partition is looked at again.
	idle = time.Second
	// stall is how long a read may go without any progress. It is far over the
	// transaction timeouts of our producers (10 s), which a read may have to sit out.
	stall = time.Minute
)

// span is a range of offsets, [start, end).
type span struct{ start, end int64 }

func (s span) empty() bool { return s.start >= s.end }

// log reads ranges of topic-partitions, read_committed, one at a time, with a
// client of its own. It belongs to one goroutine.
type log struct {
	cl  *kgo.Client
	adm *kadm.Client
}

func openLog(kafka []kgo.Opt) (*log, error) {
	opts := append(append([]kgo.Opt{}, kafka...),
		kgo.FetchIsolationLevel(kgo.ReadCommitted()),
		// Without control records the end of a range that ends in one, or in an
		// aborted transaction, would never be seen.
		kgo.KeepControlRecords(),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()),
		kgo.FetchMaxBytes(fetchBytes),
		kgo.FetchMaxPartitionBytes(fetchBytes),
		kgo.FetchMaxWait(idle/2),
	)
	cl, err := kgo.NewClient(opts...)
	if err != nil {
		return nil, fmt.Errorf("make Kafka client: %w", err)
	}
	return &log{cl: cl, adm: kadm.NewClient(cl)}, nil
}

func (g *log) close() { g.cl.Close() }

// read calls visit for each record of the range, in offset order. An error of
// visit ends it and is returned as it is.
//
// Why it terminates: s.end is a last stable offset, so whatever lies before it
// was decided, or is decided soon. If the record at s.end-1 is data or a marker
// it comes, and is the last. If it is data of an aborted transaction it does not
// come, but that transaction's marker does, at a higher offset, and says as much.
// Where neither comes (retention, the embedded broker), nothingUntil says so.
func (g *log) read(ctx context.Context, topic string, p int32, s span, visit func(*kgo.Record) error) error {
	if s.empty() {
		return nil
	}
	g.cl.AddConsumePartitions(map[string]map[int32]kgo.Offset{topic: {p: kgo.NewOffset().At(s.start)}})
	defer g.cl.RemoveConsumePartitions(map[string][]int32{topic: {p}})

	last, next := time.Now(), s.start
	for {
		poll, cancel := context.WithTimeout(ctx, idle)
		fetches := g.cl.PollFetches(poll)
		cancel()
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if err := fetchError(fetches, topic, p); err != nil {
			return fmt.Errorf("read %s/%d: %w", topic, p, err)
		}
		progress := false
		for it := fetches.RecordIter(); !it.Done(); {
			r := it.Next()
			if r.Topic != topic || r.Partition != p {
				continue
			}
			progress, next = true, r.Offset+1
			if r.Offset >= s.end {
				return nil
			}
			if !r.Attrs.IsControl() {
				if err := visit(r); err != nil {
					return err
				}
			}
			if r.Offset == s.end-1 {
				return nil
			}
		}
		if progress {
			last = time.Now() // after visit, which may have waited for a rate limit
			continue
		}
		done, err := g.nothingUntil(ctx, topic, p, next, s.end)
		if done && err == nil {
			return nil
		}
		if time.Since(last) > stall {
			return fmt.Errorf("read %s/%d from %d to %d: %w for %v", topic, p, s.start, s.end, errors.Join(ErrStalled, err), stall)
		}
	}
}

// fetchError picks the error that ends a read. Timeouts are ours, data loss is
// retention at work: the client has reset to the start, which is right.
func fetchError(fetches kgo.Fetches, topic string, p int32) error {
	var out error
	fetches.EachError(func(t string, part int32, err error) {
		var loss *kgo.ErrDataLoss
		switch {
		case errors.Is(err, context.DeadlineExceeded), errors.Is(err, context.Canceled), errors.As(err, &loss):
		case t != "" && (t != topic || part != p):
		case kerr.IsRetriable(err):
		default:
			out = err
		}
	})
	return out
}

// spans takes the range of each partition of a topic: from its start to its
// last stable offset, both as they are now.
func (g *log) spans(ctx context.Context, topic string) (map[int32]span, error) {
	starts, err := g.adm.ListStartOffsets(ctx, topic)
	if err == nil {
		err = starts.Error()
	}
	if err != nil {
		return nil, topicError(topic, err)
	}
	ends, err := g.adm.ListCommittedOffsets(ctx, topic)
	if err == nil {
		err = ends.Error()
	}
	if err != nil {
		return nil, topicError(topic, err)
	}
	out := make(map[int32]span, len(starts[topic]))
	for p, o := range starts[topic] {
		end, ok := ends.Lookup(topic, p)
		if !ok {
			return nil, &TopicError{topic, fmt.Errorf("no end offset for partition %d", p)}
		}
		out[p] = span{o.Offset, end.Offset}
	}
	if len(out) == 0 {
		return nil, &TopicError{topic, errors.New("no partitions")}
	}
	return out, nil
}

// after moves the starts of spans to the first record with a timestamp of at
// least t. Every record before that has a lower one, whatever their order.
func (g *log) after(ctx context.Context, topic string, spans map[int32]span, t time.Time) error {
	listed, err := g.adm.ListOffsetsAfterMilli(ctx, t.UnixMilli(), topic)
	if err == nil {
		err = listed.Error()
	}
	if err != nil {
		return topicError(topic, err)
	}
	for p, s := range spans {
		if o, ok := listed.Lookup(topic, p); ok && o.Offset > s.start {
			spans[p] = span{o.Offset, s.end}
		}
	}
	return nil
}

func topicError(topic string, err error) error {
	if errors.Is(err, kerr.UnknownTopicOrPartition) {
		return &TopicError{topic, fmt.Errorf("does not exist (barnabas topics apply makes it): %w", err)}
	}
	return fmt.Errorf("list offsets of %s: %w", topic, err)
}

func coordinates(r *kgo.Record) schemas.Coordinates {
	return schemas.Coordinates{Topic: r.Topic, Partition: r.Partition, Offset: r.Offset}
}
