package main

import (
	"errors"
	"fmt"
	"math"

	"github.com/spf13/cobra"

	"github.com/barnabas-webhooks/barnabas/internal/app"
	"github.com/barnabas-webhooks/barnabas/internal/config"
	"github.com/barnabas-webhooks/barnabas/internal/plan"
	"github.com/barnabas-webhooks/barnabas/schemas"
)

// How a plan is written.
const (
	asMarkdown = "markdown"
	asJSON     = "json"
)

func newPlan(d *Deps) *cobra.Command {
	k := kafkaFlags{deps: d}
	in := plan.Input{Volume: plan.DefaultVolume()}
	payload, order, output := config.Size(in.Payload).String(), string(in.Order), asMarkdown
	memory := ""
	c := &cobra.Command{
		Use:   "plan",
		Short: "Work out from your volume what an installation will do and need",
		Long: `Works out a Markdown document from your volume and the configuration, without Kafka: whether it fits, and
which setting to change to what where it does not; the delivery contract; the retry schedule as the policy
really draws it; how endpoints are kept apart; timeouts and limits; partitions, processes, memory,
descriptors and disk; dead letters and replay; signing and idempotency; backpressure; and the bound on
requests per minute, hour and day when every endpoint fails, which does not depend on how many events wait.

Each number comes with its formula. The volume is what the flags say; everything else is what a process
with this configuration would do (--config, environment, --set), so that a change can be tried before it
is made. The exit code is 0 also where it does not fit: the document, or "verdict.fits" in the JSON, says so.`,
		Example: `  # The volume of the defaults: 200 events/s to 1,000 ordered endpoints.
  barnabas plan

  # Your own: 1,500 events/s of 4 KiB, up to 50,000 at once, to 20,000 endpoints that answer within 300 ms.
  barnabas plan --rate 1500 --burst 50000 --payload 4KiB --endpoints 20000 --latency 300ms

  # One customer gets a fifth of everything: does one request at a time do for it?
  barnabas plan --rate 50 --busiest 0.2 --latency 150ms
  barnabas plan --rate 50 --busiest 0.2 --latency 150ms --order parallel --in-flight 8

  # What does it cost when nothing may be overtaken?
  barnabas plan --rate 50 --endpoints 200 --latency 150ms --order strict

  # What would a shorter breaker cost when everything is down?
  barnabas plan --endpoints 3000 --set breaker.open_max=5m

  # For a script: the bound on requests in an hour, and whether it fits.
  barnabas plan --config barnabas.yaml -o json | jq '.verdict.fits, .outage.windows[1].requests'`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			if old, _ := c.Flags().GetBool(asJSON); old {
				output = asJSON
			}
			if output != asMarkdown && output != asJSON {
				return usage("--output: %q is neither %s nor %s", output, asMarkdown, asJSON)
			}
			conf, err := k.load(c)
			if err != nil {
				return err
			}
			in.Installation = app.Installation(conf)
			size, err := config.ParseSize(payload)
			if err != nil {
				return usage("--payload: %w", err)
			}
			if memory != "" {
				limit, err := config.ParseSize(memory)
				if err != nil {
					return usage("--memory: %w", err)
				}
				in.Memory = limit.Bytes()
			}
			in.Payload, in.Order = int(min(size, math.MaxInt32)), schemas.Order(order)
			if in.InFlight > 1 && !c.Flags().Changed("order") {
				in.Order = schemas.OrderParallel
			}
			render := plan.Render
			if output == asJSON {
				render = plan.RenderJSON
			}
			if err := render(c.OutOrStdout(), in); err != nil {
				if errors.Is(err, plan.ErrInvalid) {
					return usage("plan: %w", err)
				}
				return fmt.Errorf("plan: %w", err)
			}
			return nil
		},
	}
	k.bind(c)
	f := c.Flags()
	f.Float64Var(&in.Rate, "rate", in.Rate, "`events` per second, the mean over hours")
	f.IntVar(&in.Burst, "burst", in.Burst, "`events` that come at once on top of it")
	f.IntVar(&in.Endpoints, "endpoints", in.Endpoints, "`number` of endpoints")
	f.StringVar(&payload, "payload", payload, "mean `size` of a payload, such as 800 or 4KiB")
	f.DurationVar(&in.Latency, "latency", in.Latency, "how long receivers take, connecting to the end of the answer: the mean")
	f.StringVar(&order, "order", order, "`order` of the endpoints: ordered (one request at a time), parallel, or strict (what fails holds what comes after it)")
	f.IntVar(&in.InFlight, "in-flight", in.InFlight, "`requests` in flight to a parallel endpoint. 0: limits.endpoint_in_flight")
	f.Float64Var(&in.Busiest, "busiest", in.Busiest, "`share` of the events that the busiest endpoint gets, 0 to 1. 0: all get the same")
	f.Float64Var(&in.Failing, "failing", in.Failing, "`share` of the endpoints that do nothing but fail, 0 to 1")
	f.Float64Var(&in.Keyed, "keyed", in.Keyed, "`share` of the events with an idempotency key, 0 to 1")
	f.IntVar(&in.Processes, "processes", in.Processes, "`number` of processors. 0: as many as needed, and one to spare")
	f.StringVar(&memory, "memory", "", "`size` of what one process may use, such as 4GiB. Left out: nothing is held against it")
	f.IntVar(&in.Copies, "copies", in.Copies, "`copies` that Kafka keeps, where topics.replication leaves it to the broker")
	f.StringVarP(&output, "output", "o", output, "`form` of the document: markdown or json")
	f.Uint64Var(&in.Seed, "seed", 1, "of what is drawn: the same `number`, the same document")
	f.IntVar(&in.Ladders, "ladders", 0, "`deliveries` to draw; 0: 10,000")
	f.Bool(asJSON, false, "the same as -o json")
	return c
}
