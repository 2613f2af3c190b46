package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"
	"github.com/twmb/franz-go/pkg/kadm"

	"github.com/barnabas-webhooks/barnabas/internal/app"
	"github.com/barnabas-webhooks/barnabas/topics"
)

func newTopics(d *Deps) *cobra.Command {
	return parent(&cobra.Command{
		Use:   "topics",
		Short: "Make and check the topics",
		Long: `Compares the topics that Barnabas needs with those of the cluster: plan shows the difference, apply
makes it go away, verify says whether the cluster can hold what Barnabas promises. Partition counts
of existing topics are never changed: keys hash to them.`,
	}, newTopicsPlan(d), newTopicsApply(d), newTopicsVerify(d))
}

func newTopicsPlan(d *Deps) *cobra.Command {
	k := kafkaFlags{deps: d}
	var asJSON bool
	c := &cobra.Command{
		Use:     "plan",
		Short:   "Show what apply would do, and change nothing",
		Long:    "Shows which topics are missing and which settings differ. Changes nothing; exits 0 whatever it finds." + kafkaHelp,
		Example: "  barnabas topics plan --brokers kafka-1:9092",
		Args:    cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			return k.topics(c, func(ctx context.Context, adm *kadm.Client, cat topics.Catalogue, o topics.Options) error {
				diff, err := topics.Plan(ctx, adm, cat, o)
				if err != nil {
					return err
				}
				return writeDiff(c, diff, asJSON)
			})
		},
	}
	k.bind(c)
	c.Flags().BoolVar(&asJSON, "json", false, "as JSON")
	return c
}

func newTopicsApply(d *Deps) *cobra.Command {
	k := kafkaFlags{deps: d}
	var asJSON bool
	c := &cobra.Command{
		Use:     "apply",
		Short:   "Create missing topics and change settings",
		Long:    "Makes the topics as Barnabas needs them and prints what was done. Safe to repeat. Where a partition count is wrong, nothing at all is done." + kafkaHelp,
		Example: "  barnabas topics apply --config /etc/barnabas.yaml --set topics.replication=3",
		Args:    cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			return k.topics(c, func(ctx context.Context, adm *kadm.Client, cat topics.Catalogue, o topics.Options) error {
				diff, err := topics.Apply(ctx, adm, cat, o)
				if len(diff.Topics) > 0 {
					err = errors.Join(err, writeDiff(c, diff, asJSON))
				}
				return err
			})
		},
	}
	k.bind(c)
	c.Flags().BoolVar(&asJSON, "json", false, "as JSON")
	return c
}

func newTopicsVerify(d *Deps) *cobra.Command {
	k := kafkaFlags{deps: d}
	c := &cobra.Command{
		Use:     "verify",
		Short:   "Say whether the cluster can hold what Barnabas promises",
		Long:    "Checks what serve checks at start: exits 1 and names topic, value and needed value for everything that is wrong." + kafkaHelp,
		Example: "  barnabas topics verify --brokers kafka-1:9092",
		Args:    cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			return k.topics(c, func(ctx context.Context, adm *kadm.Client, cat topics.Catalogue, o topics.Options) error {
				if err := topics.Verify(ctx, adm, cat, o); err != nil {
					return err
				}
				_, err := fmt.Fprintln(c.OutOrStdout(), "topics are as they must be")
				return err
			})
		},
	}
	k.bind(c)
	return c
}

func writeDiff(c *cobra.Command, diff topics.Diff, asJSON bool) error {
	if asJSON {
		return writeJSON(c.OutOrStdout(), diff)
	}
	return topics.WritePlan(c.OutOrStdout(), diff)
}

// topics connects and calls do with what the package topics wants.
func (k *kafkaFlags) topics(c *cobra.Command, do func(context.Context, *kadm.Client, topics.Catalogue, topics.Options) error) error {
	conn, err := k.connect(c)
	if err != nil {
		return err
	}
	defer conn.client.Close()
	return do(c.Context(), kadm.NewClient(conn.client), app.Catalogue(conn.conf), app.TopicOptions(conn.conf))
}
