package main

import (
	"fmt"
	"text/tabwriter"

	"github.com/spf13/cobra"
	"github.com/twmb/franz-go/pkg/kadm"

	"github.com/barnabas-webhooks/barnabas/internal/app"
	"github.com/barnabas-webhooks/barnabas/topics"
)

func newLag(d *Deps) *cobra.Command {
	k := kafkaFlags{deps: d}
	var partitions, asJSON bool
	c := &cobra.Command{
		Use:   "lag",
		Short: "Show how much waits in each topic",
		Long: `Shows how far the processors are behind. Of events and replay, what is not settled; of the retry
tiers, what waits there, which is normal while receivers fail. The numbers are upper bounds: what was
settled out of order counts until everything before it is, and so do the ends of transactions, which have
offsets of their own: a tier in which nothing waits may show 1 for each partition. GAP is what was deleted
unread (retention).

Tiers are those of retry.tiers: where serve or dev has others, say so here too (--config, --set).` + kafkaHelp,
		Example: `  barnabas lag --dev
  barnabas lag --config /etc/barnabas.yaml --partitions`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			conn, err := k.connect(c)
			if err != nil {
				return err
			}
			defer conn.client.Close()
			lags, err := topics.Lag(c.Context(), kadm.NewClient(conn.client), conn.conf.Processor.Group, app.Catalogue(conn.conf))
			if err != nil {
				return err
			}
			switch {
			case asJSON && partitions:
				return writeJSON(c.OutOrStdout(), lags)
			case asJSON:
				return writeJSON(c.OutOrStdout(), topics.Sum(lags))
			}
			w := tabwriter.NewWriter(c.OutOrStdout(), 0, 0, 2, ' ', 0)
			if partitions {
				fmt.Fprintln(w, "TOPIC\tPARTITION\tCOMMITTED\tEND\tLAG\tGAP")
				for _, l := range lags {
					fmt.Fprintf(w, "%s\t%d\t%d\t%d\t%d\t%d\n", l.Topic, l.Partition, l.Committed, l.End, l.Lag, l.Gap)
				}
				return w.Flush()
			}
			fmt.Fprintln(w, "TOPIC\tLAG\tGAP")
			for _, t := range topics.Sum(lags) {
				fmt.Fprintf(w, "%s\t%d\t%d\n", t.Topic, t.Lag, t.Gap)
			}
			return w.Flush()
		},
	}
	k.bind(c)
	c.Flags().BoolVar(&partitions, "partitions", false, "a line per partition")
	c.Flags().BoolVar(&asJSON, "json", false, "as JSON")
	return c
}
