package main

import (
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/barnabas-webhooks/barnabas/dlq"
	"github.com/barnabas-webhooks/barnabas/internal/app"
)

func newDLQ(d *Deps) *cobra.Command {
	return parent(&cobra.Command{
		Use:   "dlq",
		Short: "Look at dead letters, and replay them",
		Long: `Dead letters are deliveries that were given up on, with all that is known of them: list and stats show
which there are, show tells everything about one, replay gives them a fresh start.`,
	}, newDLQList(d), newDLQShow(d), newDLQStats(d), newDLQReplay(d))
}

// filterFlags say which dead letters are meant.
type filterFlags struct {
	filter       dlq.Filter
	since, until string
}

func (f *filterFlags) bind(c *cobra.Command) {
	fs := c.Flags()
	fs.StringArrayVar(&f.filter.Endpoints, "endpoint", nil, "only of this endpoint `id`; may be repeated")
	fs.StringArrayVar(&f.filter.Tenants, "tenant", nil, "only of this `tenant`; may be repeated")
	fs.StringArrayVar(&f.filter.Reasons, "reason", nil, "only with this `reason`, such as timeout or http_5xx; may be repeated")
	fs.StringArrayVar(&f.filter.EventTypes, "event-type", nil, "only of this event `type`; may be repeated")
	fs.StringArrayVar(&f.filter.IDs, "id", nil, "only this delivery `id`, or partition/offset as the list shows it; may be repeated")
	fs.StringVar(&f.since, "since", "", "dead at or after this `time`: 2026-01-31T10:00:00Z, or how long ago, like 2h")
	fs.StringVar(&f.until, "until", "", "dead before this `time`")
}

// resolve reads the times.
func (f *filterFlags) resolve(now time.Time) (dlq.Filter, error) {
	var err error
	if f.filter.Since, err = readTime("since", f.since, now); err != nil {
		return f.filter, err
	}
	f.filter.Until, err = readTime("until", f.until, now)
	return f.filter, err
}

// readTime reads a time, or how long ago it was.
func readTime(flag, text string, now time.Time) (time.Time, error) {
	if text == "" {
		return time.Time{}, nil
	}
	if ago, err := time.ParseDuration(text); err == nil && ago >= 0 {
		return now.Add(-ago), nil
	}
	at, err := time.Parse(time.RFC3339, text)
	if err != nil {
		return at, usage("--%s: %q is neither a time like 2026-01-31T10:00:00Z nor a duration like 2h", flag, text)
	}
	return at, nil
}

// queue connects to the dead letters. The caller closes the connection's client.
func (k *kafkaFlags) queue(c *cobra.Command) (*dlq.Queue, *connection, error) {
	conn, err := k.connect(c)
	if err != nil {
		return nil, nil, err
	}
	return dlq.New(app.Catalogue(conn.conf), conn.opts...), conn, nil
}

// dlqError gives a call's outcome its exit code. r is a replay's result, or nil.
func dlqError(r *dlq.Result, err error) error {
	code := dlq.ExitCode(r, err)
	if code == ExitOK {
		return nil
	}
	if code == ExitUsage {
		return &UsageError{Err: err}
	}
	return &codeError{code: code, err: err}
}

func newDLQList(d *Deps) *cobra.Command {
	k := kafkaFlags{deps: d}
	var f filterFlags
	var o dlq.OutputOptions
	c := &cobra.Command{
		Use:   "list",
		Short: "List dead letters",
		Long: `Lists the dead letters that match, one per line, without their payloads. Those that were replayed are left
out, unless --include-replayed.` + kafkaHelp,
		Example: `  barnabas dlq list --dev
  barnabas dlq list --endpoint ep_1 --since 24h --reason timeout`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			filter, err := f.resolve(time.Now())
			if err != nil {
				return err
			}
			if err := filter.Validate(); err != nil {
				return &UsageError{Err: err}
			}
			q, conn, err := k.queue(c)
			if err != nil {
				return err
			}
			defer conn.client.Close()
			listed, err := q.List(c.Context(), c.OutOrStdout(), filter, o)
			if err == nil && listed.Unreadable > 0 {
				fmt.Fprintf(c.ErrOrStderr(), "%d of %d cannot be decoded; name them by partition/offset\n", listed.Unreadable, listed.Letters)
			}
			return dlqError(nil, err)
		},
	}
	k.bind(c)
	f.bind(c)
	c.Flags().IntVar(&f.filter.Limit, "limit", 0, "at most so many; 0: all")
	c.Flags().BoolVar(&f.filter.IncludeReplayed, "include-replayed", false, "those that were replayed, too")
	c.Flags().BoolVar(&o.JSON, "json", false, "a JSON object per line")
	return c
}

func newDLQShow(d *Deps) *cobra.Command {
	k := kafkaFlags{deps: d}
	var o dlq.OutputOptions
	c := &cobra.Command{
		Use:   "show ID",
		Short: "Show everything about one delivery's dead letters",
		Long: `Shows the dead letters of a delivery id, or the one at a place partition/offset, with payload and all that is known of it.
A delivery that was replayed and died again has several.` + kafkaHelp,
		Example: `  barnabas dlq show 3/1042 --dev`,
		Args:    oneID,
		RunE: func(c *cobra.Command, args []string) error {
			q, conn, err := k.queue(c)
			if err != nil {
				return err
			}
			defer conn.client.Close()
			return dlqError(nil, q.Show(c.Context(), c.OutOrStdout(), args[0], o))
		},
	}
	k.bind(c)
	c.Flags().BoolVar(&o.JSON, "json", false, "a JSON object per letter")
	return c
}

func newDLQStats(d *Deps) *cobra.Command {
	k := kafkaFlags{deps: d}
	var f filterFlags
	var asJSON bool
	c := &cobra.Command{
		Use:     "stats",
		Short:   "Count dead letters by endpoint, reason and age",
		Long:    "Counts the dead letters that match, by endpoint, reason and age; those that were replayed are counted apart." + kafkaHelp,
		Example: "  barnabas dlq stats --since 24h",
		Args:    cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			now := time.Now()
			filter, err := f.resolve(now)
			if err != nil {
				return err
			}
			if err := filter.Validate(); err != nil {
				return &UsageError{Err: err}
			}
			q, conn, err := k.queue(c)
			if err != nil {
				return err
			}
			defer conn.client.Close()
			s, err := q.Stats(c.Context(), filter, now, dlq.ScanOptions{})
			if err != nil {
				return dlqError(nil, err)
			}
			if asJSON {
				return s.WriteJSON(c.OutOrStdout())
			}
			return s.WriteTable(c.OutOrStdout(), now)
		},
	}
	k.bind(c)
	f.bind(c)
	c.Flags().BoolVar(&asJSON, "json", false, "as JSON")
	return c
}
