package main

import (
	"context"
	"crypto/rand"
	"encoding/base64"
	"errors"
	"fmt"
	"os/user"
	"slices"
	"sync"
	"time"

	"github.com/spf13/cobra"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/barnabas-webhooks/barnabas/dlq"
	"github.com/barnabas-webhooks/barnabas/internal/app"
	"github.com/barnabas-webhooks/barnabas/internal/secret"
	"github.com/barnabas-webhooks/barnabas/processor/endpoint"
)

func newDLQReplay(d *Deps) *cobra.Command {
	k := kafkaFlags{deps: d}
	var f filterFlags
	o := dlq.ReplayOptions{Rate: dlq.DefaultRate}
	var asJSON bool
	c := &cobra.Command{
		Use:   "replay",
		Short: "Give dead letters a fresh start",
		Long: `Feeds the dead letters that match back to the processors: each keeps its delivery id and gets a fresh budget
of attempts. It goes through the same lane, limits and breaker as live traffic and yields to it. What dies
again is one new dead letter. Letters whose endpoint is gone or disabled are refused, said so, and stay.

A scope is needed: at least one filter, or --all. Ctrl-C and kill -9 are safe: running the same again goes on
where it stopped, and of two replays at a time the newer wins.

` + exitHelp + kafkaHelp,
		Example: `  barnabas dlq replay --endpoint ep_1 --dry-run
  barnabas dlq replay --endpoint ep_1 --since 2026-01-31T02:00:00Z --rate 20
  barnabas dlq replay --all --dev`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			var err error
			if o.Filter, err = f.resolve(time.Now()); err != nil {
				return err
			}
			o.Endpoints = noEndpoints{} // the table comes once all else is known to be right
			if err := o.Validate(); err != nil {
				return &UsageError{Err: err}
			}
			q, conn, err := k.queue(c)
			if err != nil {
				return err
			}
			defer conn.client.Close()
			table, stop, err := endpointTable(c.Context(), conn)
			if err != nil {
				return err
			}
			defer stop()
			o.Endpoints = table
			if o.Operator == "" {
				o.Operator = operator()
			}
			reporter := dlq.NewReporter(c.ErrOrStderr(), isTerminal(c.ErrOrStderr()))
			o.Progress = reporter.Update
			result, err := q.Replay(c.Context(), o)
			reporter.Close()
			if result != nil && !errors.Is(err, dlq.ErrNoMatch) {
				write := result.WriteTable
				if asJSON {
					write = result.WriteJSON
				}
				if werr := write(c.OutOrStdout()); werr != nil {
					return errors.Join(err, fmt.Errorf("write result: %w", werr))
				}
			}
			return dlqError(result, err)
		},
	}
	k.bind(c)
	f.bind(c)
	fs := c.Flags()
	fs.BoolVar(&f.filter.All, "all", false, "every dead letter is meant")
	fs.IntVar(&f.filter.Limit, "limit", 0, "replay at most so many; 0: all")
	fs.BoolVar(&o.DryRun, "dry-run", false, "count per endpoint what would be replayed, and change nothing")
	fs.Float64Var(&o.Rate, "rate", o.Rate, "deliveries per second to hand over; the endpoints' own limits hold beside it")
	fs.StringVar(&o.Operator, "operator", "", "who replays, for the record; left out: the user's name")
	fs.BoolVar(&asJSON, "json", false, "the result as JSON")
	return c
}

// noEndpoints stands for the table while the options are checked.
type noEndpoints struct{}

var _ dlq.Endpoints = noEndpoints{}

func (noEndpoints) Get(string) (*endpoint.Endpoint, bool) { return nil, false }
func (noEndpoints) Deleted(string) bool                   { return false }

// endpointTable reads the endpoints topic. A replay looks at states only, so the
// key of the signing secrets is not needed: any other does.
func endpointTable(ctx context.Context, conn *connection) (*endpoint.Table, func(), error) {
	var key [32]byte
	_, _ = rand.Read(key[:]) // never fails: crypto/rand
	sealer, err := endpoint.NewSealer(secret.String(base64.StdEncoding.EncodeToString(key[:])))
	if err != nil {
		return nil, nil, fmt.Errorf("read endpoints: %w", err)
	}
	table := endpoint.NewTable(endpoint.TableOptions{
		Topic:  app.Catalogue(conn.conf).Endpoints(),
		Client: func(more ...kgo.Opt) (*kgo.Client, error) { return kgo.NewClient(slices.Concat(conn.opts, more)...) },
		Sealer: sealer,
	})
	ctx, cancel := context.WithCancel(ctx)
	waiting, failed := context.WithCancelCause(ctx)
	var reading sync.WaitGroup
	reading.Go(func() { failed(table.Run(ctx)) }) // what ends the reading ends the wait for it
	stop := func() {
		cancel()
		reading.Wait()
	}
	limited, stopWaiting := context.WithTimeout(waiting, reachTimeout)
	defer stopWaiting()
	if err := table.WaitReady(limited); err != nil {
		stop()
		return nil, nil, fmt.Errorf("read endpoints: %w", errors.Join(err, context.Cause(waiting)))
	}
	return table, stop, nil
}

// operator is the name of the user who runs the command.
func operator() string {
	if u, err := user.Current(); err == nil {
		return u.Username
	}
	return "unknown"
}
