package topics

import (
	"context"
	"errors"
	"fmt"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
)

// PartitionLag is how far a group is behind in one partition.
type PartitionLag struct {
	Topic     string
	Partition int32
	Start     int64 // the first offset that is still there
	End       int64 // the offset of the next record
	Committed int64 // the lowest offset that is not settled; -1: none was ever committed
	// Lag is how many offsets from Committed, or from Start if that is later, to End. It is an upper bound
	// of what waits: records that were settled out of order and control records of transactions count too.
	Lag int64
	// Gap is how many offsets lie between Committed and the log that is there: positive, so many are
	// gone unread (retention, deletion); negative, the log ends so far before Committed (the topic was
	// made anew). 0 is right.
	Gap int64
}

// TopicLag is the sum over a topic's partitions.
type TopicLag struct {
	Topic string
	Lag   int64
	Gap   int64 // the sum of what is gone: positive gaps only
}

// Lag reads how far the group is behind in every consumed topic, in the order
// of [Catalogue.Consumed] and of partitions. For the tiers that is how many
// deliveries wait in each.
func Lag(ctx context.Context, adm *kadm.Client, group string, c Catalogue) ([]PartitionLag, error) {
	return lagOf(ctx, adm, group, c.Consumed())
}

// EventsLag is Lag of the events topic alone, by partition: how many events wait for their first attempt, at most.
func EventsLag(ctx context.Context, adm *kadm.Client, group string, c Catalogue) (map[int32]int64, error) {
	lags, err := lagOf(ctx, adm, group, []string{c.Events()})
	if err != nil {
		return nil, err
	}
	out := make(map[int32]int64, len(lags))
	for _, l := range lags {
		out[l.Partition] = l.Lag
	}
	return out, nil
}

// Committed reads the offsets that the group has committed; none of a group that does not exist yet.
func Committed(ctx context.Context, adm *kadm.Client, group string) (kadm.OffsetResponses, error) {
	committed, err := adm.FetchOffsets(ctx, group)
	if err != nil && !errors.Is(err, kerr.GroupIDNotFound) {
		return nil, fmt.Errorf("fetch offsets of group %s: %w", group, err)
	}
	if err := committed.Error(); err != nil {
		return nil, fmt.Errorf("fetch offsets of group %s: %w", group, err)
	}
	return committed, nil
}

func lagOf(ctx context.Context, adm *kadm.Client, group string, topics []string) ([]PartitionLag, error) {
	committed, err := Committed(ctx, adm, group)
	if err != nil {
		return nil, err
	}
	// The committed offsets are read first: read last, they could lie behind the end that was read.
	starts, err := adm.ListStartOffsets(ctx, topics...)
	if err != nil {
		return nil, fmt.Errorf("list start offsets: %w", err)
	}
	ends, err := adm.ListEndOffsets(ctx, topics...)
	if err != nil {
		return nil, fmt.Errorf("list end offsets: %w", err)
	}
	var lags []PartitionLag
	var errs []error
	for _, topic := range topics {
		if _, found := ends[topic]; !found {
			errs = append(errs, fmt.Errorf("list offsets of topic %s: %w", topic, kerr.UnknownTopicOrPartition))
			continue
		}
		for p := range int32(len(ends[topic])) {
			lag, err := partitionLag(topic, p, starts, ends, committed)
			if err != nil {
				errs = append(errs, err)
				break
			}
			lags = append(lags, lag)
		}
	}
	return lags, errors.Join(errs...)
}

func partitionLag(topic string, p int32, starts, ends kadm.ListedOffsets, committed kadm.OffsetResponses) (PartitionLag, error) {
	start, hasStart := starts.Lookup(topic, p)
	end, hasEnd := ends.Lookup(topic, p)
	if !hasStart || !hasEnd { // kadm answers for an unknown topic with partition -1
		return PartitionLag{}, fmt.Errorf("list offsets of topic %s: %w", topic, kerr.UnknownTopicOrPartition)
	}
	if err := errors.Join(start.Err, end.Err); err != nil {
		return PartitionLag{}, fmt.Errorf("list offsets of topic %s, partition %d: %w", topic, p, err)
	}
	lag := PartitionLag{Topic: topic, Partition: p, Start: start.Offset, End: end.Offset, Committed: -1}
	if c, ok := committed.Lookup(topic, p); ok {
		lag.Committed = c.At
	}
	switch {
	case lag.Committed < 0:
		lag.Lag = lag.End - lag.Start
	case lag.Committed > lag.End:
		lag.Gap = lag.End - lag.Committed
		lag.Lag = lag.End - lag.Start // what a group does that finds its offset out of range: from the earliest
	default:
		lag.Gap = max(lag.Start-lag.Committed, 0)
		lag.Lag = lag.End - max(lag.Committed, lag.Start)
	}
	return lag, nil
}

// Sum adds the partitions of each topic up, in the order they come in.
func Sum(lags []PartitionLag) []TopicLag {
	var sums []TopicLag
	at := map[string]int{}
	for _, l := range lags {
		i, known := at[l.Topic]
		if !known {
			i = len(sums)
			at[l.Topic] = i
			sums = append(sums, TopicLag{Topic: l.Topic})
		}
		sums[i].Lag += l.Lag
		sums[i].Gap += max(l.Gap, 0)
	}
	return sums
}
