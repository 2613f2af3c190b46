package facts

import (
	"container/list"
	"context"
	"errors"
	"log/slog"
	"strconv"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/barnabas-webhooks/barnabas/internal/obs"
	"github.com/barnabas-webhooks/barnabas/schemas"
	"github.com/barnabas-webhooks/barnabas/topics"
)

// again is the wait before a claim that could not be written is written again.
const again = time.Second

// warnEvery bounds how often it is said that facts are not written, for each cause.
const warnEvery = 10 * time.Second

// Producer writes records, each to the partition that it names. *kgo.Client is one.
type Producer interface {
	TryProduce(ctx context.Context, r *kgo.Record, promise func(*kgo.Record, error))
}

// Journal appends facts. Safe for concurrent use.
type Journal struct {
	ctx       context.Context //nolint:containedctx // the journal's own life: appends outlive their callers
	client    Producer
	catalogue topics.Catalogue
	log       *slog.Logger
	quiet     *slog.Logger // for what each of thousands would say every second

	mu sync.Mutex // guards what follows
	// newest numbers the last transition of each endpoint that is under way: an older
	// one that is written again must not come to lie behind it in the log.
	newest map[string]uint64
	number uint64
	// underWay are the times at which appends began that Kafka has not acknowledged, in their order.
	underWay list.List
}

// Unwritten is how many facts Kafka has not acknowledged, and for how long the oldest of them has waited: zero when there is
// none. A second and more says that claims are not durable, so that what is keyed is not settled, and verdicts are late.
func (j *Journal) Unwritten(now time.Time) (count int, oldest time.Duration) {
	j.mu.Lock()
	defer j.mu.Unlock()
	first := j.underWay.Front()
	if first == nil {
		return 0, 0
	}
	return j.underWay.Len(), max(0, now.Sub(first.Value.(time.Time)))
}

func (j *Journal) begin() *list.Element {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.underWay.PushBack(time.Now())
}

func (j *Journal) end(a *list.Element) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.underWay.Remove(a)
}

// NewJournal writes through client, whose partitioner must be manual. Appends go
// on being tried until ctx ends.
func NewJournal(ctx context.Context, client Producer, catalogue topics.Catalogue, log *slog.Logger) *Journal {
	return &Journal{
		ctx: ctx, client: client, catalogue: catalogue, newest: map[string]uint64{},
		log: log, quiet: slog.New(obs.NewQuiet(log.Handler(), obs.QuietOptions{Burst: 1, Window: warnEvery})),
	}
}

// AppendClaim writes a claim and calls done, once, when it is durable, with the offset at which it lies. It goes on
// trying for as long as the process lives: until then its event is not settled.
func (j *Journal) AppendClaim(partition int32, c *schemas.Claim, done func(offset int64)) {
	value, err := schemas.EncodeClaim(c)
	if err != nil { // nothing of a claim can be unencodable; if it is, its event must wait visibly
		j.log.Error("claim cannot be encoded, its event stays unsettled", obs.KeyDeliveryID, c.DeliveryID, obs.KeyError, err)
		return
	}
	j.append(&kgo.Record{
		Topic: j.catalogue.Idempotency(), Partition: partition,
		Key: claimKey(c), Value: value,
	}, j.begin(), func(r *kgo.Record) { done(r.Offset) }, func() bool { return true })
}

// AppendBreaker writes a transition, unless a later one of the endpoint overtakes it.
func (j *Journal) AppendBreaker(partition int32, t *schemas.BreakerTransition) {
	value, err := schemas.EncodeBreakerTransition(t)
	if err != nil {
		j.log.Error("breaker transition cannot be encoded", obs.KeyEndpointID, t.EndpointID, obs.KeyError, err)
		return
	}
	j.mu.Lock()
	j.number++
	mine := j.number
	j.newest[t.EndpointID] = mine
	j.mu.Unlock()
	isNewest := func() bool {
		j.mu.Lock()
		defer j.mu.Unlock()
		return j.newest[t.EndpointID] == mine
	}
	written := func(*kgo.Record) {
		j.mu.Lock()
		defer j.mu.Unlock()
		if j.newest[t.EndpointID] == mine {
			delete(j.newest, t.EndpointID)
		}
	}
	j.append(&kgo.Record{
		Topic: j.catalogue.Breakers(), Partition: partition, Key: []byte(t.EndpointID), Value: value,
	}, j.begin(), written, isNewest)
}

// append writes a record and calls done; it tries again for as long as the record is worth it.
func (j *Journal) append(r *kgo.Record, a *list.Element, done func(*kgo.Record), worth func() bool) {
	try := &kgo.Record{Topic: r.Topic, Partition: r.Partition, Key: r.Key, Value: r.Value}
	j.client.TryProduce(j.ctx, try, func(_ *kgo.Record, err error) {
		switch {
		case err == nil:
			j.end(a)
			done(try)
		case j.ctx.Err() != nil, errors.Is(err, kgo.ErrClientClosed): // the process ends; the event is read again by its next owner
			j.end(a)
		case !worth():
			j.end(a)
		default:
			j.quiet.Warn("facts not written, will be tried again",
				obs.KeyTopic, r.Topic, obs.KeyPartition, r.Partition, obs.KeyWait, again, obs.KeyError, err)
			time.AfterFunc(again, func() {
				if !worth() {
					j.end(a)
					return
				}
				j.append(r, a, done, worth)
			})
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
