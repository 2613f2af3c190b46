package processor

import (
	"context"
	"errors"
	"fmt"

	"github.com/twmb/franz-go/pkg/kadm"

	"github.com/barnabas-webhooks/barnabas/processor/unit"
)

// logs asks what there is of the consumed topics, by unit and topic: a unit compares it
// with its positions before it starts, since what is gone is never fetched and so would
// not be missed (C-129).
func (o *ownership) logs(ctx context.Context) (map[int32]map[string]unit.Log, error) {
	names := o.shared.Catalogue.Consumed()
	starts, err := o.restorer.Admin.ListStartOffsets(ctx, names...)
	if err == nil {
		err = starts.Error()
	}
	if err != nil {
		return nil, fmt.Errorf("list start offsets: %w", err)
	}
	ends, err := o.restorer.Admin.ListEndOffsets(ctx, names...)
	if err == nil {
		err = ends.Error()
	}
	if err != nil {
		return nil, fmt.Errorf("list end offsets: %w", err)
	}
	logs := map[int32]map[string]unit.Log{}
	starts.Each(func(start kadm.ListedOffset) {
		end, ok := ends.Lookup(start.Topic, start.Partition)
		if !ok {
			err = errors.Join(err, fmt.Errorf("list end offsets: %s[%d] is missing from the answer", start.Topic, start.Partition))
			return
		}
		if logs[start.Partition] == nil {
			logs[start.Partition] = map[string]unit.Log{}
		}
		logs[start.Partition][start.Topic] = unit.Log{Start: start.Offset, End: end.Offset}
	})
	return logs, err
}
