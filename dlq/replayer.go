package dlq

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math"
	"strconv"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"golang.org/x/time/rate"

	"github.com/barnabas-webhooks/barnabas/schemas"
	"github.com/barnabas-webhooks/barnabas/topics"
)

const (
	// beat is how much of the rate one batch takes, so that a transaction costs
	// little and progress is smooth.
	beat      = 200 * time.Millisecond
	maxBatch  = 500
	batchSize = 4 << 20 // bytes of one batch
	// windowBytes is how much is read ahead to restore the original order.
	windowBytes = 64 << 20
	// overhead is what a record costs beside its value, on the safe side.
	overhead = 1024
	// maxProduce bounds a produced record whatever the topics would take.
	maxProduce = 64 << 20
	// defaultMaxRecord is Kafka's own default of max.message.bytes.
	defaultMaxRecord = 1048588
)

// replayer is one replay under way.
type replayer struct {
	q   *Queue
	log *log
	x   extent
	o   ReplayOptions
	res *Result

	w       *writer
	limiter *rate.Limiter
	batch   int // letters in one
	total   int64

	window []*Letter
	bytes  int
	taken  int // letters that went into a window: what Filter.Limit counts
}

func (r *replayer) run(ctx context.Context) error {
	if err := r.prepare(ctx); err != nil {
		return err
	}
	defer r.w.close()
	defer r.w.settled(ctx)
	if err := r.w.fence(ctx); err != nil {
		return err
	}
	// Only now are the marks of every earlier replay final: see the package doc.
	if err := r.q.pinMarks(ctx, r.log, &r.x); err != nil {
		return err
	}
	for _, p := range r.x.order {
		if r.x.letters[p].empty() {
			continue
		}
		err := r.q.scanPartition(ctx, r.log, r.x, p, r.o.Filter, func(l *Letter) error { return r.take(ctx, l) }, func(int64) {})
		stop := errors.Is(err, errStop)
		if err != nil && !stop {
			return err
		}
		if err := r.flush(ctx); err != nil {
			return err
		}
		if stop {
			break
		}
	}
	return nil
}

// prepare checks that the topics go together and opens the writer.
func (r *replayer) prepare(ctx context.Context) error {
	replay := r.q.topics.Replay()
	spans, err := r.log.spans(ctx, replay)
	if err != nil {
		return err
	}
	if len(spans) != r.x.partitions() {
		return &TopicError{replay, fmt.Errorf("has %d partitions, %s has %d: they must be the same", len(spans), r.q.topics.DLQ(), r.x.partitions())}
	}
	r.batch = int(math.Ceil(min(r.o.Rate*beat.Seconds(), maxBatch)))
	r.limiter = rate.NewLimiter(rate.Limit(r.o.Rate), r.batch)

	id := r.o.TransactionalID
	if id == "" {
		id = r.q.topics.Prefix + "dlq-replay"
	}
	embedded, err := isEmbedded(ctx, r.log.adm)
	if err != nil {
		return err
	}
	if r.w, err = openWriter(r.q.kafka, id, r.limit(ctx)); err != nil {
		return err
	}
	if embedded {
		r.w.heal = map[string]int{replay: len(spans), r.q.topics.DLQState(): len(spans)}
	}
	return nil
}

// limit is the smallest max.message.bytes of the topics written to. A cluster
// that does not tell (ACLs) is taken to have Kafka's default.
func (r *replayer) limit(ctx context.Context) int {
	limit := maxProduce
	configs, err := r.log.adm.DescribeTopicConfigs(ctx, r.q.topics.Replay(), r.q.topics.DLQState())
	if err != nil {
		return defaultMaxRecord
	}
	found := false
	for _, c := range configs {
		for _, kv := range c.Configs {
			if n, err := strconv.Atoi(kv.MaybeValue()); kv.Key == "max.message.bytes" && err == nil && n > 0 {
				limit, found = min(limit, n), true
			}
		}
	}
	if !found {
		return defaultMaxRecord
	}
	return limit
}

// take judges a letter of the scan and puts it into the window.
func (r *replayer) take(ctx context.Context, l *Letter) error {
	ok, refused := r.res.judge(l, r.o.Endpoints)
	if refused != nil {
		r.o.OnRefusal(*refused)
	}
	if !ok {
		return nil
	}
	// What points into the fetched batch would keep all of it in memory.
	l.Key, l.Headers = nil, nil
	l.Delivery.Payload = bytes.Clone(l.Delivery.Payload)
	l.Delivery.History.LastExcerpt = bytes.Clone(l.Delivery.History.LastExcerpt)
	r.window = append(r.window, l)
	r.bytes += l.Size + overhead
	r.taken++
	if r.taken == r.o.Filter.Limit {
		return errStop
	}
	if r.bytes >= windowBytes {
		return r.flush(ctx)
	}
	return nil
}

// flush replays the window, batch by batch, at the wanted rate.
func (r *replayer) flush(ctx context.Context) error {
	inOriginalOrder(r.window)
	for len(r.window) > 0 {
		n, bytes := 0, 0
		for n < min(r.batch, len(r.window)) && (n == 0 || bytes+r.window[n].Size <= batchSize) {
			bytes += r.window[n].Size
			n++
		}
		if err := r.limiter.WaitN(ctx, n); err != nil {
			return fmt.Errorf("replay: %w", cause(ctx, err))
		}
		if err := r.send(ctx, r.window[:n]); err != nil {
			return err
		}
		clear(r.window[:n])
		r.window = r.window[n:]
	}
	r.window, r.bytes = nil, 0
	return nil
}

// send replays one batch in one transaction. Endpoints are asked again: between
// reading and sending minutes may lie.
func (r *replayer) send(ctx context.Context, letters []*Letter) error {
	now := time.Now()
	sent := make([]*Letter, 0, len(letters))
	records := make([]*kgo.Record, 0, 2*len(letters))
	for _, l := range letters {
		pair, reason, err := r.records(l, now)
		if err != nil {
			return err
		}
		if reason != "" {
			r.o.OnRefusal(r.res.refuse(l, reason))
			continue
		}
		records = append(records, pair[0], pair[1])
		sent = append(sent, l)
	}
	if len(sent) > 0 {
		committed, err := r.w.commit(ctx, records)
		if committed {
			for _, l := range sent {
				r.res.replayed(l)
			}
		}
		if err != nil {
			return err
		}
	}
	r.o.Progress(Progress{
		Phase: PhaseReplay, Done: int64(r.res.Replayed), Total: r.total, Refused: r.res.Refused,
	})
	return nil
}

// records makes the pair that replays a letter: the delivery and the mark.
func (r *replayer) records(l *Letter, now time.Time) (pair [2]*kgo.Record, reason string, err error) {
	if reason := refusal(l, r.o.Endpoints); reason != "" {
		return pair, reason, nil
	}
	d := revived(l.Delivery, now)
	value, err := schemas.EncodeDelivery(&d)
	if err != nil {
		// A letter keeps what a delivery may not have, an id with a dot in it say.
		return pair, RefusedIncomplete, nil //nolint:nilerr // the refusal is the report
	}
	if len(value)+overhead > r.w.maxRecord {
		return pair, schemas.ReasonTooLarge, nil
	}
	mark, err := schemas.EncodeReplayMark(&schemas.ReplayMark{
		DeadLetter: l.At, DeliveryID: d.ID, EndpointID: d.EndpointID,
		Run: r.o.Run, Operator: r.o.Operator, ReplayedAt: now,
	})
	if err != nil {
		return pair, "", fmt.Errorf("encode replay mark of %s: %w", d.ID, err)
	}
	pair[0] = &kgo.Record{
		Topic:     r.q.topics.Replay(),
		Partition: topics.Partition(d.EndpointID, r.x.partitions()),
		Key:       []byte(d.EndpointID),
		Value:     value,
		Headers:   []kgo.RecordHeader{{Key: topics.HeaderDeliveryID, Value: []byte(d.ID)}},
	}
	if d.EventType != "" {
		pair[0].Headers = append(pair[0].Headers, kgo.RecordHeader{Key: topics.HeaderEventType, Value: []byte(d.EventType)})
	}
	pair[1] = &kgo.Record{
		Topic: r.q.topics.DLQState(),
		// Where the letter is: a scan reads marks and letters partition by partition.
		Partition: l.At.Partition,
		Key:       []byte(d.ID),
		Value:     mark,
	}
	return pair, "", nil
}
