package chaos

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/barnabas-webhooks/barnabas/internal/api"
	"github.com/barnabas-webhooks/barnabas/internal/api/client"
	"github.com/barnabas-webhooks/barnabas/internal/secret"
	"github.com/barnabas-webhooks/barnabas/schemas"
	"github.com/barnabas-webhooks/barnabas/topics"
)

const (
	eventType   = "chaos.made"
	contentType = "application/json"
	// callers is how many sends to the API are under way at most.
	callers = 128
	// memory is how many of the last keys may be sent again.
	memory = 2000
	// giveUp is how long a producer goes on with one send. All faults are shorter by far.
	giveUp = 2 * time.Minute
)

// send is one thing that a producer does.
type send struct {
	endpoint string
	key      string // empty: none
	payload  string
	stray    bool // into a partition that its key does not belong to
}

// Sent is what a producer was told of a send.
type Sent struct {
	Endpoint string
	Key      string
	ID       string              // by the API: the delivery; empty otherwise
	Pending  bool                // by the API: the verdict was late, the id may not be the key's
	Replayed bool                // by the API: the key was known
	Conflict bool                // by the API: refused with 422
	At       schemas.Coordinates // by Kafka: where the record is
}

// load sends at a steady rate until it is told to stop.
type load struct {
	rate       int
	endpoints  []string
	partitions int
	events     string // topic
	apis       []*client.Client
	kafka      *kgo.Client
	rnd        *rand.Rand // owned by run

	calls chan send

	mu     sync.Mutex // guards what follows
	sent   []Sent
	tries  int // calls of the API, those without an answer included
	failed []string
	shed   int // sends that were not begun because too many were under way
}

func newLoad(s *site, o *Options, endpoints, apis []string, rnd *rand.Rand) (*load, error) {
	l := &load{
		rate: o.Rate, endpoints: endpoints, partitions: o.Partitions, events: s.catalogue.Events(), rnd: rnd,
		calls: make(chan send, 4*callers),
	}
	transport := &http.Transport{MaxIdleConnsPerHost: callers, ResponseHeaderTimeout: 5 * time.Second}
	for _, url := range apis {
		c, err := client.New(client.Options{
			BaseURL: url, Token: secret.String(s.token), HTTP: &http.Client{Transport: transport, Timeout: 5 * time.Second},
		})
		if err != nil {
			return nil, fmt.Errorf("load: %w", err)
		}
		l.apis = append(l.apis, c)
	}
	var err error
	// As a careful producer does it: acks=all, idempotent, tried until it is there. Records name their partition.
	if l.kafka, err = kgo.NewClient(kgo.SeedBrokers(s.broker), kgo.RecordPartitioner(kgo.ManualPartitioner()),
		kgo.ProducerLinger(5*time.Millisecond), kgo.MaxBufferedRecords(5000)); err != nil {
		return nil, fmt.Errorf("load: %w", err)
	}
	return l, nil
}

// run sends until ctx ends, and returns when everything that was begun is answered or given up.
func (l *load) run(ctx context.Context) error {
	defer l.kafka.Close()
	// Answers are waited for when no new sends are begun any more.
	finish, cancel := context.WithCancel(context.WithoutCancel(ctx))
	defer cancel()
	var senders sync.WaitGroup
	for i := range callers {
		senders.Go(func() {
			for s := range l.calls {
				l.call(finish, s, i)
			}
		})
	}
	l.generate(ctx, finish)
	close(l.calls)
	senders.Wait()
	limited, stop := context.WithTimeout(finish, giveUp)
	defer stop()
	if err := l.kafka.Flush(limited); err != nil {
		return fmt.Errorf("load: what was produced is not acknowledged: %w", err)
	}
	return nil
}

// generate draws sends: half of them for the API, half for Kafka.
func (l *load) generate(ctx, finish context.Context) {
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	var recent []send
	began, made := time.Now(), 0
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		for due := int(time.Since(began).Seconds() * float64(l.rate)); made < due; made++ {
			s, fresh := l.draw(recent, made)
			if fresh && s.key != "" {
				if len(recent) < memory {
					recent = append(recent, s)
				} else {
					recent[l.rnd.IntN(memory)] = s
				}
			}
			if s.key == "" || s.stray || l.rnd.IntN(2) == 0 {
				l.produce(finish, s)
				continue
			}
			select {
			case l.calls <- s:
			default:
				l.mu.Lock()
				l.shed++
				l.mu.Unlock()
			}
		}
	}
}

// draw makes the nth send: of 100, 10 repeat a recent one, 1 has its key and another payload, 3 have no key, 1 lies
// in the wrong partition.
func (l *load) draw(recent []send, n int) (s send, fresh bool) {
	chance := l.rnd.IntN(100)
	if chance < 11 && len(recent) > 0 {
		s = recent[l.rnd.IntN(len(recent))]
		s.stray = false
		if chance == 10 {
			s.payload = fmt.Sprintf(`{"key":%q,"other":%d}`, s.key, n)
		}
		return s, false
	}
	s = send{endpoint: l.endpoints[l.rnd.IntN(len(l.endpoints))], key: fmt.Sprintf("k-%06d", n)}
	s.payload = fmt.Sprintf(`{"key":%q,"note":"9007199254740993 – é"}`, s.key)
	switch {
	case chance < 14:
		s.key = ""
	case chance == 14:
		s.stray = true
	}
	return s, true
}

// produce hands an event over through Kafka; the client tries until it is there.
func (l *load) produce(ctx context.Context, s send) {
	at := topics.Partition(s.endpoint, l.partitions)
	if s.stray && l.partitions > 1 {
		at = (at + 1 + int32(l.rnd.IntN(l.partitions-1))) % int32(l.partitions)
	}
	r := &kgo.Record{
		Topic: l.events, Partition: at, Key: []byte(s.endpoint), Value: []byte(s.payload),
		Headers: []kgo.RecordHeader{
			{Key: topics.HeaderEventType, Value: []byte(eventType)}, {Key: topics.HeaderContentType, Value: []byte(contentType)},
		},
	}
	if s.key != "" {
		r.Headers = append(r.Headers, kgo.RecordHeader{Key: topics.HeaderIdempotencyKey, Value: []byte(s.key)})
	}
	l.kafka.Produce(ctx, r, func(r *kgo.Record, err error) {
		if err != nil {
			l.fail(fmt.Sprintf("produce for %s, key %q: %v", s.endpoint, s.key, err))
			return
		}
		l.note(Sent{Endpoint: s.endpoint, Key: s.key, At: schemas.Coordinates{Topic: r.Topic, Partition: r.Partition, Offset: r.Offset}})
	})
}

// call hands an event over through the API, and again with the same key, at the other process, until it is answered.
func (l *load) call(ctx context.Context, s send, first int) {
	deadline := time.Now().Add(giveUp)
	for try := first; ; try++ {
		l.mu.Lock()
		l.tries++
		l.mu.Unlock()
		sent, err := l.apis[try%len(l.apis)].Send(ctx, client.Send{
			EndpointID: s.endpoint, EventType: eventType, Payload: []byte(s.payload), JSON: true, ContentType: contentType, IdempotencyKey: s.key,
		})
		if err == nil {
			l.note(Sent{
				Endpoint: s.endpoint, Key: s.key, ID: sent.DeliveryID, Pending: sent.Status == api.StatusPending, Replayed: sent.Replayed,
			})
			return
		}
		if answer, ok := errors.AsType[*client.Error](err); ok && answer.Status < 500 && !answer.Temporary() {
			if answer.Status == http.StatusUnprocessableEntity {
				l.note(Sent{Endpoint: s.endpoint, Key: s.key, Conflict: true})
			} else {
				l.fail(fmt.Sprintf("send for %s, key %q: %v", s.endpoint, s.key, err))
			}
			return
		}
		if time.Now().After(deadline) {
			l.fail(fmt.Sprintf("send for %s, key %q: no answer within %s: %v", s.endpoint, s.key, giveUp, err))
			return
		}
		time.Sleep(time.Duration(50+rand.IntN(200)) * time.Millisecond)
	}
}

func (l *load) note(s Sent) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.sent = append(l.sent, s)
}

// fail notes a send that a producer had to give up. Nothing here should make it.
func (l *load) fail(what string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.failed = append(l.failed, what)
}

// accepted is how many sends were answered.
func (l *load) accepted() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.sent)
}
