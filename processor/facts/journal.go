package facts

import (
	"context"
	"log/slog"
	"strconv"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/barnabas-webhooks/barnabas/internal/obs"
	"github.com/barnabas-webhooks/barnabas/schemas"
	"github.com/barnabas-webhooks/barnabas/topics"
)

// again is the wait before a claim that could not be written is written again.
const again = time.Second

// Journal appends facts. Safe for concurrent use.
type Journal struct {
	ctx       context.Context //nolint:containedctx // the journal's own life: appends outlive their callers
	client    *kgo.Client     // idempotent, manual partitioner
	catalogue topics.Catalogue
	log       *slog.Logger
}

// NewJournal writes through client, whose partitioner must be manual. Appends go
// on being tried until ctx ends.
func NewJournal(ctx context.Context, client *kgo.Client, catalogue topics.Catalogue, log *slog.Logger) *Journal {
	return &Journal{ctx: ctx, client: client, catalogue: catalogue, log: log}
}

// AppendClaim writes a claim and calls done, once, when it is durable. It goes on
// trying for as long as the process lives: until then its event is not settled.
func (j *Journal) AppendClaim(partition int32, c *schemas.Claim, done func()) {
	value, err := schemas.EncodeClaim(c)
	if err != nil { // nothing of a claim can be unencodable; if it is, its event must wait visibly
		j.log.Error("claim cannot be encoded, its event stays unsettled", obs.KeyDeliveryID, c.DeliveryID, obs.KeyError, err)
		return
	}
	j.append(&kgo.Record{
		Topic: j.catalogue.Idempotency(), Partition: partition,
		Key: claimKey(c), Value: value,
	}, done)
}

// AppendBreaker writes a transition.
func (j *Journal) AppendBreaker(partition int32, t *schemas.BreakerTransition) {
	value, err := schemas.EncodeBreakerTransition(t)
	if err != nil {
		j.log.Error("breaker transition cannot be encoded", obs.KeyEndpointID, t.EndpointID, obs.KeyError, err)
		return
	}
	j.append(&kgo.Record{
		Topic: j.catalogue.Breakers(), Partition: partition, Key: []byte(t.EndpointID), Value: value,
	}, func() {})
}

func (j *Journal) append(r *kgo.Record, done func()) {
	try := &kgo.Record{Topic: r.Topic, Partition: r.Partition, Key: r.Key, Value: r.Value}
	j.client.TryProduce(j.ctx, try, func(_ *kgo.Record, err error) {
		switch {
		case err == nil:
			done()
		case j.ctx.Err() != nil: // the process ends; the event is read again by its next owner
		default:
			j.log.Warn("fact not written, will be tried again", obs.KeyTopic, r.Topic, obs.KeyPartition, r.Partition, obs.KeyWait, again, obs.KeyError, err)
			time.AfterFunc(again, func() { j.append(r, done) })
		}
	})
}

// claimKey is the compaction key of a claim: endpoint, idempotency key, and when
// it was claimed, with a separator that an endpoint id cannot hold. The time keeps
// one window's owner from being compacted away by the next one's: what was refused
// because of the first and is read again after a crash must be refused again.
func claimKey(c *schemas.Claim) []byte {
	b := make([]byte, 0, len(c.EndpointID)+len(c.Key)+16)
	b = append(b, c.EndpointID...)
	b = append(b, 0)
	b = append(b, c.Key...)
	b = append(b, 0)
	return strconv.AppendInt(b, c.ClaimedAt.UnixMilli(), 10)
}
