package kafka

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/barnabas-webhooks/barnabas/internal/obs"
)

const (
	// askTimeout is how long a client is asked for its producer id.
	askTimeout = 5 * time.Second
	// replaceEvery bounds how often a client is replaced.
	replaceEvery = time.Second
)

// ErrReplaced fails the records that were under way when their client was replaced.
var ErrReplaced = errors.New("kafka: the producer was beyond recovery and has been replaced")

// Producer produces through a client that is replaced when it cannot go on. An
// idempotent client that is refused a producer id with an error that is not
// retriable (a permission that is granted later, a broker's UNKNOWN_SERVER_ERROR)
// keeps that answer and fails every record with it, for ever. Safe for concurrent use.
type Producer struct {
	newClient func() (*kgo.Client, error)
	log       *slog.Logger

	mu       sync.Mutex // guards what follows
	client   *kgo.Client
	asking   bool
	replaced time.Time
	closed   bool
	tasks    sync.WaitGroup
}

// NewProducer makes the first client.
func NewProducer(newClient func() (*kgo.Client, error), log *slog.Logger) (*Producer, error) {
	client, err := newClient()
	if err != nil {
		return nil, err
	}
	return &Producer{newClient: newClient, log: log, client: client}, nil
}

// TryProduce is kgo.Client.TryProduce.
func (p *Producer) TryProduce(ctx context.Context, r *kgo.Record, promise func(*kgo.Record, error)) {
	client := p.current()
	client.TryProduce(ctx, r, p.watch(client, promise)) //nolint:contextcheck // looking at the client outlives the record
}

// Produce is kgo.Client.Produce.
func (p *Producer) Produce(ctx context.Context, r *kgo.Record, promise func(*kgo.Record, error)) {
	client := p.current()
	client.Produce(ctx, r, p.watch(client, promise)) //nolint:contextcheck // as above
}

// watch looks at the client when a record fails.
func (p *Producer) watch(client *kgo.Client, promise func(*kgo.Record, error)) func(*kgo.Record, error) {
	return func(r *kgo.Record, err error) {
		if errors.Is(err, kgo.ErrClientClosed) && p.current() != client {
			err = ErrReplaced
		}
		if refused(err) {
			p.failed(client)
		}
		promise(r, err)
	}
}

// Close closes the client. Records that are under way fail with kgo.ErrClientClosed.
func (p *Producer) Close() {
	p.mu.Lock()
	p.closed = true
	client := p.client
	p.mu.Unlock()
	client.Close()
	p.tasks.Wait()
}

func (p *Producer) current() *kgo.Client {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.client
}

// failed looks, in the background, whether a client whose record failed can go on.
func (p *Producer) failed(client *kgo.Client) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed || p.asking || client != p.client || time.Since(p.replaced) < replaceEvery {
		return
	}
	p.asking = true
	p.tasks.Go(func() { p.look(client) })
}

// refused says that a broker answered, and that asking again will not help.
func refused(err error) bool {
	var answer *kerr.Error
	return errors.As(err, &answer) && !answer.Retriable
}

func (p *Producer) look(client *kgo.Client) {
	ctx, cancel := context.WithTimeout(context.Background(), askTimeout)
	defer cancel()
	_, _, err := client.ProducerID(ctx) // at once: it has an id, or the answer that it keeps
	p.mu.Lock()
	p.asking = false
	if !refused(err) || p.closed {
		p.mu.Unlock()
		return
	}
	next, newErr := p.newClient()
	if newErr == nil {
		p.client, p.replaced = next, time.Now()
	}
	p.mu.Unlock()
	if newErr != nil {
		p.log.Error("producer beyond recovery is not replaced", obs.KeyError, newErr)
		return
	}
	p.log.Warn("producer beyond recovery is replaced", obs.KeyError, err)
	client.Close()
}
