package demo

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"time"

	"github.com/barnabas-webhooks/barnabas/internal/api"
	"github.com/barnabas-webhooks/barnabas/internal/api/client"
)

// ledger is what the sender was told: which delivery owns each key.
type ledger struct {
	mu      sync.Mutex // guards what follows
	owner   map[string]string
	replays int // sends that were answered as repeats
	retried int // sends that had to be repeated because there was no answer, or a 503
	forked  []string
}

// accept notes an answer. Two answers with different ids for one key are a violation.
func (l *ledger) accept(key string, sent client.Sent) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if sent.Replayed {
		l.replays++
	}
	if sent.Status == api.StatusPending {
		return // the id is provisional: the attempts topic will tell who owns the key
	}
	if old, ok := l.owner[key]; ok && old != sent.DeliveryID {
		l.forked = append(l.forked, fmt.Sprintf("key %s: answered with %s and with %s", key, old, sent.DeliveryID))
	}
	l.owner[key] = sent.DeliveryID
}

// event is one send: a repeat has the key of an earlier one.
type event struct {
	endpoint string
	key      string
	payload  string
}

// script makes the sends: n events round the endpoints, every tenth of them twice.
func script(n int, endpoints []string) (sends []event, repeats int) {
	for i := range n {
		e := event{
			endpoint: endpoints[i%len(endpoints)], key: fmt.Sprintf("order-%05d", i),
			payload: fmt.Sprintf(`{"order":%d,"total":"%d.50","note":"caf\u00e9 – 9007199254740993"}`, i, i%97),
		}
		sends = append(sends, e)
		if i%10 == 9 {
			sends = append(sends, e)
			repeats++
		}
	}
	return sends, repeats
}

// send hands one event over, and again with the same key until it is accepted.
func (l *ledger) send(ctx context.Context, c *client.Client, e event) error {
	for {
		sent, err := c.Send(ctx, client.Send{
			EndpointID: e.endpoint, EventType: "order.paid", Payload: []byte(e.payload), JSON: true, IdempotencyKey: e.key,
		})
		if err == nil {
			l.accept(e.key, sent)
			return nil
		}
		var answer *client.Error
		if errors.As(err, &answer) && !answer.Temporary() && answer.Status != http.StatusUnauthorized {
			return fmt.Errorf("send %s: %w", e.key, err)
		}
		l.mu.Lock()
		l.retried++
		l.mu.Unlock()
		select {
		case <-ctx.Done():
			return fmt.Errorf("send %s: %w", e.key, err)
		case <-time.After(100 * time.Millisecond):
		}
	}
}

// sendAll sends with a few workers and calls each after every accepted send. The
// sends of one key stay in order: a repeat follows its first.
func (l *ledger) sendAll(ctx context.Context, c *client.Client, sends []event, each func()) error {
	const workers = 8
	queues := make([]chan event, workers)
	failed := make(chan error, workers)
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	for i := range queues {
		queues[i] = make(chan event)
		go func() {
			var err error
			for e := range queues[i] {
				if err == nil {
					if err = l.send(ctx, c, e); err == nil {
						each()
					} else {
						cancel(err)
					}
				}
			}
			failed <- err
		}()
	}
	key, worker := "", 0
	for _, e := range sends {
		if e.key != key {
			key, worker = e.key, (worker+1)%workers
		}
		queues[worker] <- e
	}
	for _, q := range queues {
		close(q)
	}
	var errs []error
	for range queues {
		errs = append(errs, <-failed)
	}
	return errors.Join(errs...)
}
