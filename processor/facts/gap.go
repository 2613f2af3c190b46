package facts

import (
	"context"
	"fmt"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/barnabas-webhooks/barnabas/schemas"
)

// maxGap bounds how many offsets are read at once for a unit at work.
const maxGap = 10_000

// Gap reads claims that somebody else has written to a unit's partition, at offsets from ... to-1,
// and says how far it has read: a wide gap is filled in several goes. A later record than those must be there.
func (r *Restorer) Gap(ctx context.Context, unit int32, from, to int64) (claims []schemas.Claim, upTo int64, err error) {
	to = min(to, from+maxGap)
	topic := r.Catalogue.Idempotency()
	client, err := r.reader(map[string]map[int32]kgo.Offset{topic: {unit: kgo.NewOffset().At(from)}})
	if err != nil {
		return nil, from, fmt.Errorf("read claims: %w", err)
	}
	defer client.Close()
	for upTo = from; upTo < to; {
		fetches := client.PollFetches(ctx)
		if err := ctx.Err(); err != nil {
			return nil, from, fmt.Errorf("read claims: %w", err)
		}
		r.warn(fetches)
		fetches.EachRecord(func(record *kgo.Record) {
			if record.Offset < to {
				if c, ok := r.claim(record); ok {
					claims = append(claims, c)
				}
			}
			upTo = min(record.Offset+1, to)
		})
	}
	return claims, to, nil
}
