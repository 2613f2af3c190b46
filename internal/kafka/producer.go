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

// replaceEvery bounds how often a client is replaced.
const replaceEvery = time.Second

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
	// While the broker refuses, there is a replacement a second.
	return &Producer{newClient: newClient, log: slog.New(obs.NewQuiet(log.Handler(), obs.QuietOptions{})), client: client}, nil
}

// TryProduce is kgo.Client.TryProduce.
func (p *Producer) TryProduce(ctx context.Context, r *kgo.Record, promise func(*kgo.Record, error)) {
	client := p.current()
	client.TryProduce(ctx, r, p.watch(client, promise))
}

// Produce is kgo.Client.Produce.
func (p *Producer) Produce(ctx context.Context, r *kgo.Record, promise func(*kgo.Record, error)) {
	client := p.current()
	client.Produce(ctx, r, p.watch(client, promise))
}

// watch replaces the client when a record fails with what every other would fail with.
func (p *Producer) watch(client *kgo.Client, promise func(*kgo.Record, error)) func(*kgo.Record, error) {
	return func(r *kgo.Record, err error) {
		if errors.Is(err, kgo.ErrClientClosed) && p.current() != client {
			err = ErrReplaced
		}
		if beyondRecovery(err) {
			p.failed(client, err)
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

// beyondRecovery says that a broker refused something for good that is not the record: its client keeps such an answer
// and gives it to every record that follows. (The client could be asked for its producer id instead; but it answers
// only when it has done waiting for one.)
func beyondRecovery(err error) bool {
	var answer *kerr.Error
	if !errors.As(err, &answer) || answer.Retriable {
		return false
	}
	for _, ofRecord := range []*kerr.Error{
		kerr.MessageTooLarge, kerr.RecordListTooLarge, kerr.InvalidRecord, kerr.InvalidTimestamp, kerr.CorruptMessage,
		kerr.TopicAuthorizationFailed, kerr.InvalidTopicException, kerr.PolicyViolation, kerr.UnsupportedForMessageFormat,
	} {
		if answer.Code == ofRecord.Code {
			return false
		}
	}
	return true
}

// failed replaces, in the background, a client that cannot go on.
func (p *Producer) failed(client *kgo.Client, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed || client != p.client || time.Since(p.replaced) < replaceEvery {
		return
	}
	next, newErr := p.newClient()
	if newErr != nil {
		p.log.Error("producer beyond recovery is not replaced", obs.KeyError, newErr)
		return
	}
	p.client, p.replaced = next, time.Now()
	p.log.Warn("producer beyond recovery is replaced", obs.KeyError, err)
	p.tasks.Go(client.Close) // not by the client's own callback
}
