package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/barnabas-webhooks/barnabas/internal/app"
	"github.com/barnabas-webhooks/barnabas/internal/config"
	"github.com/barnabas-webhooks/barnabas/internal/plan"
)

func newPlan(d *Deps) *cobra.Command {
	k := kafkaFlags{deps: d}
	in := plan.Input{}
	var asJSON bool
	c := &cobra.Command{
		Use:   "plan",
		Short: "Work out what happens when receivers fail",
		Long: `Works out from the configuration alone, without Kafka: the retry schedule as the policy really draws
it, and the bound on requests to an endpoint that does nothing but fail, which does not depend on how
many events wait.`,
		Example: `  barnabas plan
  barnabas plan --config /etc/barnabas.yaml --endpoints 3000
  barnabas plan --set breaker.open_max=5m --json`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			conf, err := k.load(c)
			if err != nil {
				return err
			}
			if !c.Flags().Changed("in-flight") {
				in.MaxInFlight = conf.Limits.EndpointInFlight
			}
			in.Policy, in.Breaker, in.AttemptTimeout = app.Policy(conf), app.Breaker(conf), conf.Timeouts.MaxTotal
			render := plan.Render
			if asJSON {
				render = plan.RenderJSON
			}
			if err := render(c.OutOrStdout(), in); err != nil {
				return fmt.Errorf("plan: %w", err)
			}
			return nil
		},
	}
	k.bind(c)
	f := c.Flags()
	f.IntVar(&in.MaxInFlight, "in-flight", config.Default().Limits.EndpointInFlight, "requests in flight to the endpoint; 1 for an ordered one. Left out: limits.endpoint_in_flight")
	f.IntVar(&in.Endpoints, "endpoints", 0, "give the bound for so many failing endpoints together, too")
	f.Uint64Var(&in.Seed, "seed", 1, "of the drawn schedule")
	f.IntVar(&in.Ladders, "ladders", 0, "deliveries to draw; 0: 10,000")
	f.BoolVar(&asJSON, "json", false, "as JSON")
	return c
}
