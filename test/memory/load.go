package memory

import (
	"context"
	"encoding/hex"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	crand "crypto/rand"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/barnabas-webhooks/barnabas/topics"
)

const (
	// blockBytes of random bytes is what payloads are cut from: no two alike, and nothing to compress.
	blockBytes = 32 << 20
	// healthyEvery is how many preloaded events there are to one for a healthy endpoint.
	healthyEvery = 500
	// producing bounds what is on its way to the broker, in bytes.
	producing = 128 << 20
)

// load produces events as a service would, but for the preload's asking only the leader's acknowledgement.
type load struct {
	site   *site
	size   int
	keys   bool
	block  []byte
	kafka  *kgo.Client
	number uint64

	loaded atomic.Int64 // preloaded events that are in Kafka
	among  int          // of them for healthy endpoints

	mu   sync.Mutex // guards sent
	sent map[kind]int
}

func newLoad(s *site, broker string, o *Options) (*load, error) {
	l := &load{site: s, size: o.Size, keys: o.Keys, block: make([]byte, blockBytes), sent: map[kind]int{}}
	_, _ = crand.Read(l.block) // never fails: crypto/rand
	var err error
	l.kafka, err = kgo.NewClient(kgo.SeedBrokers(broker), kgo.RecordPartitioner(kgo.ManualPartitioner()),
		kgo.RequiredAcks(kgo.LeaderAck()), kgo.DisableIdempotentWrite(), kgo.MaxProduceRequestsInflightPerBroker(4),
		kgo.ProducerBatchCompression(kgo.NoCompression()), kgo.ProducerLinger(20*time.Millisecond),
		kgo.MaxBufferedBytes(producing), kgo.MaxBufferedRecords(producing), kgo.BrokerMaxWriteBytes(16<<20),
		kgo.ProducerBatchMaxBytesFn(s.catalogue.MaxMessageBytes))
	if err != nil {
		return nil, fmt.Errorf("load: %w", err)
	}
	return l, nil
}

// record is one event; a healthy one carries a mark.
func (l *load) record(endpoint string, k kind) *kgo.Record {
	at := rand.IntN(len(l.block) - l.size)
	payload := l.block[at : at+l.size : at+l.size]
	l.number++
	if k != 0 {
		payload = append([]byte{}, payload...)
		mark(payload, k, l.number, time.Now())
	}
	r := &kgo.Record{
		Topic: l.site.catalogue.Events(), Partition: l.site.partition(endpoint), Key: []byte(endpoint), Value: payload,
		Headers: []kgo.RecordHeader{
			{Key: topics.HeaderEventType, Value: []byte("memory.made")},
			{Key: topics.HeaderContentType, Value: []byte("application/octet-stream")},
		},
	}
	if l.keys {
		var key [8]byte
		_, _ = crand.Read(key[:])
		r.Headers = append(r.Headers, kgo.RecordHeader{Key: topics.HeaderIdempotencyKey, Value: []byte(hex.EncodeToString(key[:]))})
	}
	return r
}

// preload produces all events and returns when Kafka has them.
func (l *load) preload(ctx context.Context, events int) error {
	var failed atomic.Pointer[error]
	done := func(_ *kgo.Record, err error) {
		if err != nil {
			failed.CompareAndSwap(nil, &err)
			return
		}
		l.loaded.Add(1)
	}
	for i := range events {
		if ctx.Err() != nil || failed.Load() != nil {
			break
		}
		if i%healthyEvery == healthyEvery/2 {
			l.among++
			l.kafka.Produce(ctx, l.record(l.site.near[l.among%len(l.site.near)], among), done)
			continue
		}
		l.kafka.Produce(ctx, l.record(l.site.dead[i%len(l.site.dead)], 0), done)
	}
	if err := l.kafka.Flush(ctx); err != nil {
		return fmt.Errorf("preload: %w", err)
	}
	if err := failed.Load(); err != nil {
		return fmt.Errorf("preload: %w", *err)
	}
	return nil
}

// trickle produces live events for the healthy endpoints until ctx ends.
func (l *load) trickle(ctx context.Context, rate int) {
	tick := time.NewTicker(time.Second / time.Duration(rate))
	defer tick.Stop()
	for i := 0; ; i++ {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		k, of := near, l.site.near
		if i%2 == 1 {
			k, of = apart, l.site.apart
		}
		// What was begun is to be finished: it counts as sent once it is acknowledged.
		l.kafka.Produce(context.WithoutCancel(ctx), l.record(of[i/2%len(of)], k), func(_ *kgo.Record, err error) {
			if err == nil {
				l.mu.Lock()
				defer l.mu.Unlock()
				l.sent[k]++
			}
		})
	}
}

// acknowledged is how many live events of each kind Kafka has.
func (l *load) acknowledged() map[kind]int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return map[kind]int{among: l.among, near: l.sent[near], apart: l.sent[apart]}
}
