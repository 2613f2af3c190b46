package demo

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"sync/atomic"
	"time"

	"github.com/barnabas-webhooks/barnabas/dlq"
	"github.com/barnabas-webhooks/barnabas/internal/api"
	"github.com/barnabas-webhooks/barnabas/internal/api/client"
	"github.com/barnabas-webhooks/barnabas/internal/devbroker"
	"github.com/barnabas-webhooks/barnabas/internal/secret"
	"github.com/barnabas-webhooks/barnabas/topics"
)

const (
	// lifetime is how long a delivery is tried here before it is a dead letter. A
	// breaker that is open spends no attempts, so it is the lifetime and not the
	// attempts that ends most deliveries of the dead receiver.
	lifetime = 15 * time.Second
	// patience bounds each wait of the demo.
	patience = 90 * time.Second
	// flakyFailures is how many requests the flaky receiver refuses: enough to open its breaker and to fail probes.
	flakyFailures = 8
	// replayRate is in deliveries per second.
	replayRate    = 200
	signingSecret = "whsec_YmFybmFiYXMtZGVtby1zaWduaW5nLXNlY3JldC0wMQ==" //nolint:gosec // of receivers that live for a minute
)

// demo is one run.
type demo struct {
	Options
	catalogue topics.Catalogue
	broker    *devbroker.Broker
	worker    *worker
	client    *client.Client
	subs      []*subscriber // healthy, flaky, dead
	ledger    *ledger
	progress  *progress
}

// Run runs the demo and prints its result. The error is ErrViolated when the
// counts do not add up, and whatever kept it from running otherwise.
func Run(ctx context.Context, o Options) (err error) {
	if err := o.Validate(); err != nil {
		return err
	}
	dir, err := os.MkdirTemp("", "barnabas-demo-")
	if err != nil {
		return fmt.Errorf("demo: %w", err)
	}
	d := &demo{
		Options: o, ledger: &ledger{owner: map[string]string{}}, progress: newProgress(o.Err, o.TTY),
		catalogue: topics.Catalogue{Prefix: "barnabas.", Partitions: 8, Tiers: []time.Duration{time.Second, 2 * time.Second, 4 * time.Second}},
	}
	defer func() { //nolint:contextcheck // ctx may have ended; closing bounds itself
		err = errors.Join(err, d.close())
		if o.Keep || err != nil && !errors.Is(err, context.Canceled) {
			fmt.Fprintf(o.Err, "The data and the process's log are in %s\n", dir)
			return
		}
		_ = os.RemoveAll(dir)
	}()
	started := time.Now()
	if err := d.setUp(ctx, dir); err != nil {
		return err
	}
	result := &Result{}
	for _, act := range []func(context.Context, *Result) error{d.send, d.settle, d.replay, d.count} {
		if err := act(ctx, result); err != nil {
			return err
		}
	}
	result.Seconds = time.Since(started).Seconds()
	d.progress.end()
	if err := result.write(o.Out, o.JSON); err != nil {
		return err
	}
	if len(result.Violations) > 0 {
		return ErrViolated
	}
	return nil
}

// setUp starts the broker, the receivers and the process, and saves the endpoints.
func (d *demo) setUp(ctx context.Context, dir string) (err error) {
	d.progress.phase("starting the embedded broker and barnabas", 0)
	if d.broker, err = devbroker.Start(devbroker.Options{
		Dir: filepath.Join(dir, "data"), Partitions: 8, Logger: slog.New(slog.DiscardHandler),
	}); err != nil {
		return err
	}
	for _, name := range []string{"healthy", "flaky", "dead"} {
		sub, err := subscribe(name, signingSecret)
		if err != nil {
			return err
		}
		d.subs = append(d.subs, sub)
	}
	d.subs[1].failsFirst(flakyFailures)
	d.subs[2].receiver.Answer(http.StatusServiceUnavailable)
	if d.worker, err = newWorker(d.Options, dir, d.broker.Addr()); err != nil {
		return err
	}
	limited, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	if err := d.worker.start(limited); err != nil {
		return err
	}
	if d.client, err = client.New(client.Options{BaseURL: d.worker.api, Token: secret.String(d.worker.token), Timeout: 5 * time.Second}); err != nil {
		return err
	}
	for _, s := range d.subs {
		if _, err := d.client.PutEndpoint(limited, api.EndpointSpec{ID: s.endpoint, URL: s.url, Secret: signingSecret}); err != nil {
			return fmt.Errorf("save endpoint %s: %w", s.endpoint, err)
		}
	}
	return nil
}

// send sends everything, and kills the process half-way.
func (d *demo) send(ctx context.Context, r *Result) error {
	names := make([]string, len(d.subs))
	for i, s := range d.subs {
		names[i] = s.endpoint
	}
	sends, repeats := script(d.Events, names)
	r.Sent, r.Repeats = len(sends), repeats
	d.progress.phase("sending, and killing the process half-way", len(sends))
	limited, cancel := context.WithTimeout(ctx, patience)
	defer cancel()

	var accepted atomic.Int64
	half := make(chan struct{})
	restarted := make(chan error, 1)
	go func() {
		select {
		case <-half:
			if err := d.worker.kill(); err != nil {
				restarted <- err
				return
			}
			restarted <- d.worker.start(limited)
		case <-limited.Done():
			restarted <- nil
		}
	}()
	err := d.ledger.sendAll(limited, d.client, sends, func() {
		n := accepted.Add(1)
		d.progress.set(int(n))
		if int(n) == len(sends)/2 {
			close(half)
		}
	})
	if err != nil {
		return errors.Join(err, limited.Err())
	}
	return <-restarted
}

// settle waits until every delivery of the living receivers has landed and every one of the dead is a dead letter.
func (d *demo) settle(ctx context.Context, _ *Result) error {
	healthy, flaky, dead := d.share(0), d.share(1), d.share(2)
	d.progress.phase("delivering; what the dead receiver refuses becomes dead letters", d.Events)
	reader, err := newReader(d.broker.Addr(), d.catalogue.DLQ())
	if err != nil {
		return err
	}
	defer reader.close()
	return d.await(ctx, "deliveries and dead letters", func(ctx context.Context) (bool, error) {
		letters := reader.count(ctx)
		landed := d.subs[0].receiver.Stats().Delivered + d.subs[1].receiver.Stats().Delivered
		d.progress.set(landed + letters)
		return landed == healthy+flaky && letters >= dead, nil
	})
}

// replay lets the dead receiver come back and replays its dead letters, as `barnabas dlq replay` does.
func (d *demo) replay(ctx context.Context, r *Result) error {
	d.subs[2].receiver.Answer(http.StatusOK)
	queue := newQueue(d.catalogue, d.broker.Addr())
	total := d.share(2)
	d.progress.phase("the dead receiver is back: replaying its dead letters", total)
	limited, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	result, err := queue.Replay(limited, dlq.ReplayOptions{
		Filter: dlq.Filter{Endpoints: []string{d.subs[2].endpoint}}, Rate: replayRate, Endpoints: allEnabled{}, Operator: "demo",
	})
	if err != nil {
		return fmt.Errorf("replay: %w", err)
	}
	r.Replayed = result.Replayed
	if result.Replayed != total {
		return fmt.Errorf("replay: %d of %d dead letters were replayed; refused: %v", result.Replayed, total, result.RefusedBy)
	}
	return d.await(ctx, "replayed deliveries", func(context.Context) (bool, error) {
		landed := d.subs[2].receiver.Stats().Delivered
		d.progress.set(landed)
		return landed == total, nil
	})
}

// share is how many of the events go to the ith endpoint.
func (d *demo) share(i int) int {
	n := d.Events / len(d.subs)
	if i < d.Events%len(d.subs) {
		n++
	}
	return n
}

// await asks until it is so; what takes longer than the demo's patience is a failure that says what was waited for.
func (d *demo) await(ctx context.Context, what string, so func(context.Context) (bool, error)) error {
	limited, cancel := context.WithTimeoutCause(ctx, patience, fmt.Errorf("%s: not within %s", what, patience))
	defer cancel()
	for {
		ok, err := so(limited)
		if err != nil || ok {
			return err
		}
		select {
		case <-limited.Done():
			return context.Cause(limited)
		case <-time.After(100 * time.Millisecond):
		}
	}
}

func (d *demo) close() error {
	d.progress.end()
	var errs []error
	if d.worker != nil {
		errs = append(errs, d.worker.stop())
	}
	for _, s := range d.subs {
		s.close()
	}
	if d.broker != nil {
		errs = append(errs, d.broker.Close())
	}
	return errors.Join(errs...)
}
