package bench

import (
	"context"
	"fmt"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/barnabas-webhooks/barnabas/test/process"
	"github.com/barnabas-webhooks/barnabas/topics"
)

const (
	eventType   = "bench.made"
	contentType = "application/json"
	// producing bounds what is on its way to the broker, in bytes.
	producing = 64 << 20
)

// producer hands events over through Kafka as a service would: acks=all, idempotent. Records name their partitions.
type producer struct {
	client    *kgo.Client
	catalogue topics.Catalogue
	failed    atomic.Pointer[error]
}

// newProducer waits up to linger for more records before it sends some.
func (m *run) newProducer(catalogue topics.Catalogue, linger time.Duration) (*producer, error) {
	client, err := kgo.NewClient(kgo.SeedBrokers(m.broker.Addr()), kgo.RecordPartitioner(kgo.ManualPartitioner()),
		kgo.ProducerLinger(linger), kgo.ProducerBatchCompression(kgo.NoCompression()),
		kgo.MaxBufferedBytes(producing), kgo.MaxBufferedRecords(producing),
		// The topics take less at once than the client's own limit, which a burst for one partition reaches.
		kgo.ProducerBatchMaxBytesFn(catalogue.MaxMessageBytes))
	if err != nil {
		return nil, fmt.Errorf("producer: %w", err)
	}
	return &producer{client: client, catalogue: catalogue}, nil
}

// event produces one; without a key if it is empty.
func (p *producer) event(ctx context.Context, endpoint, key string, payload []byte) {
	r := &kgo.Record{
		Topic: p.catalogue.Events(), Partition: topics.Partition(endpoint, p.catalogue.Partitions),
		Key: []byte(endpoint), Value: payload,
		Headers: []kgo.RecordHeader{
			{Key: topics.HeaderEventType, Value: []byte(eventType)}, {Key: topics.HeaderContentType, Value: []byte(contentType)},
		},
	}
	if key != "" {
		r.Headers = append(r.Headers, kgo.RecordHeader{Key: topics.HeaderIdempotencyKey, Value: []byte(key)})
	}
	p.produce(ctx, r)
}

func (p *producer) produce(ctx context.Context, r *kgo.Record) {
	p.client.Produce(ctx, r, func(_ *kgo.Record, err error) {
		if err != nil {
			p.failed.CompareAndSwap(nil, &err)
		}
	})
}

// broken is the first failure, if there was one.
func (p *producer) broken() error {
	if failed := p.failed.Load(); failed != nil {
		return fmt.Errorf("produce: %w", *failed)
	}
	return nil
}

// finish waits until Kafka has everything.
func (p *producer) finish(ctx context.Context) error {
	defer p.client.Close()
	if err := p.client.Flush(ctx); err != nil {
		return fmt.Errorf("produce: %w", err)
	}
	return p.broken()
}

// preload produces events, the endpoints in turn, and returns when Kafka has them.
func (s *site) preload(ctx context.Context, events, endpoints int, keys bool) error {
	p, err := s.run.newProducer(s.catalogue, 5*time.Millisecond)
	if err != nil {
		return err
	}
	for n := 0; n < events && ctx.Err() == nil; n++ {
		key := ""
		if keys {
			key = "key-" + strconv.Itoa(n)
		}
		p.event(ctx, endpointID(n%endpoints), key, s.run.payloads.Make(Measured, uint64(n), time.Now()))
	}
	return p.finish(ctx)
}

// pace calls send for a while at an even rate, each call at its time or, where the one before took too long, at once. The
// first ones are for warming up.
func pace(ctx context.Context, rate int, warming, lasting time.Duration, send func(n int, class Class)) {
	began := time.Now()
	total := int((warming + lasting).Seconds() * float64(rate))
	for n := range total {
		at := time.Duration(float64(n) / float64(rate) * float64(time.Second))
		if wait := at - time.Since(began); wait > 0 && !process.Pause(ctx, wait) {
			return
		}
		if at < warming {
			send(n, Warming)
		} else {
			send(n, Measured)
		}
	}
}
