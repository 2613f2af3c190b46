package main

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/barnabas-webhooks/barnabas/internal/api"
	"github.com/barnabas-webhooks/barnabas/internal/api/client"
	"github.com/barnabas-webhooks/barnabas/internal/secret"
)

func newEndpoints(d *Deps) *cobra.Command {
	return parent(&cobra.Command{
		Use:   "endpoints",
		Short: "Manage the receivers of webhooks",
		Long: `Manages endpoints: a receiver's URL with its secrets, limits and state. Changes count from the next
attempt on, also for deliveries that wait already. The signing secret is shown once, when it is made.`,
	}, newEndpointsPut(d), newEndpointsGet(d), newEndpointsList(d), newEndpointsDelete(d),
		newEndpointsEnable(d), newEndpointsDisable(d), newEndpointsResetBreaker(d), newEndpointsRotate(d))
}

func newEndpointsGet(d *Deps) *cobra.Command {
	a := apiFlags{deps: d}
	var asJSON bool
	c := &cobra.Command{
		Use:     "get ID",
		Short:   "Show one endpoint",
		Long:    "Shows the settings of one endpoint. Secrets and header values are not shown." + apiHelp,
		Example: "  barnabas endpoints get ep_1 --json",
		Args:    oneID,
		RunE: func(c *cobra.Command, args []string) error {
			return a.one(c, asJSON, func(cl *client.Client) (api.Endpoint, error) { return cl.Endpoint(c.Context(), args[0]) })
		},
	}
	a.bind(c)
	c.Flags().BoolVar(&asJSON, "json", false, "as JSON")
	return c
}

func newEndpointsList(d *Deps) *cobra.Command {
	a := apiFlags{deps: d}
	var tenant string
	var asJSON bool
	c := &cobra.Command{
		Use:     "list",
		Short:   "List endpoints",
		Long:    "Lists the endpoints that the key may see, in the order of their ids." + apiHelp,
		Example: "  barnabas endpoints list --tenant acme",
		Args:    cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			cl, err := a.client()
			if err != nil {
				return err
			}
			all := []api.Endpoint{}
			for after := ""; ; {
				page, err := cl.Endpoints(c.Context(), tenant, after, 0)
				if err != nil {
					return fmt.Errorf("list endpoints: %w", err)
				}
				all = append(all, page.Endpoints...)
				if after = page.Next; after == "" {
					break
				}
			}
			if asJSON {
				return writeJSON(c.OutOrStdout(), all)
			}
			w := tabwriter.NewWriter(c.OutOrStdout(), 0, 0, 2, ' ', 0)
			fmt.Fprintln(w, "ID\tTENANT\tSTATE\tORDER\tURL")
			for _, e := range all {
				fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\n", e.ID, e.Tenant, e.State, e.Order, e.URL)
			}
			return w.Flush()
		},
	}
	a.bind(c)
	c.Flags().StringVar(&tenant, "tenant", "", "only this tenant's; for admins")
	c.Flags().BoolVar(&asJSON, "json", false, "as JSON")
	return c
}

func newEndpointsDelete(d *Deps) *cobra.Command {
	a := apiFlags{deps: d}
	c := &cobra.Command{
		Use:     "delete ID",
		Short:   "Delete an endpoint",
		Long:    "Deletes an endpoint. Deliveries that wait for it become dead letters. To stop deliveries for a while, disable it." + apiHelp,
		Example: "  barnabas endpoints delete ep_1",
		Args:    oneID,
		RunE: func(c *cobra.Command, args []string) error {
			cl, err := a.client()
			if err != nil {
				return err
			}
			if err := cl.DeleteEndpoint(c.Context(), args[0]); err != nil {
				return apiError(fmt.Errorf("delete endpoint: %w", err))
			}
			_, err = fmt.Fprintf(c.OutOrStdout(), "deleted %s\n", args[0])
			return err
		},
	}
	a.bind(c)
	return c
}

func newEndpointsEnable(d *Deps) *cobra.Command {
	a := apiFlags{deps: d}
	var asJSON bool
	c := &cobra.Command{
		Use:     "enable ID",
		Short:   "Let deliveries be attempted again",
		Long:    "Enables an endpoint that was disabled, by hand or by an answer 410. Its breaker is closed, its failures are counted from zero." + apiHelp,
		Example: "  barnabas endpoints enable ep_1",
		Args:    oneID,
		RunE: func(c *cobra.Command, args []string) error {
			return a.one(c, asJSON, func(cl *client.Client) (api.Endpoint, error) { return cl.EnableEndpoint(c.Context(), args[0]) })
		},
	}
	a.bind(c)
	c.Flags().BoolVar(&asJSON, "json", false, "as JSON")
	return c
}

func newEndpointsResetBreaker(d *Deps) *cobra.Command {
	a := apiFlags{deps: d}
	var asJSON bool
	c := &cobra.Command{
		Use:   "reset-breaker ID",
		Short: "Close an endpoint's breaker: its receiver is well again",
		Long: `Closes the circuit breaker of an endpoint, wherever its unit is, and counts its failures from zero. What is
held already comes back at the time it was held for; what comes from now on is attempted at once.` + apiHelp,
		Example: "  barnabas endpoints reset-breaker ep_1",
		Args:    oneID,
		RunE: func(c *cobra.Command, args []string) error {
			return a.one(c, asJSON, func(cl *client.Client) (api.Endpoint, error) { return cl.ResetBreaker(c.Context(), args[0]) })
		},
	}
	a.bind(c)
	c.Flags().BoolVar(&asJSON, "json", false, "as JSON")
	return c
}

func newEndpointsDisable(d *Deps) *cobra.Command {
	a := apiFlags{deps: d}
	var reason string
	var asJSON bool
	c := &cobra.Command{
		Use:     "disable ID",
		Short:   "Stop deliveries from being attempted",
		Long:    "Disables an endpoint. What waits for it, and what comes, become dead letters, which can be replayed once it is enabled." + apiHelp,
		Example: "  barnabas endpoints disable ep_1 --reason 'moving to a new host'",
		Args:    oneID,
		RunE: func(c *cobra.Command, args []string) error {
			return a.one(c, asJSON, func(cl *client.Client) (api.Endpoint, error) { return cl.DisableEndpoint(c.Context(), args[0], reason) })
		},
	}
	a.bind(c)
	c.Flags().StringVar(&reason, "reason", "", "why, for those who look at it later")
	c.Flags().BoolVar(&asJSON, "json", false, "as JSON")
	return c
}

func newEndpointsRotate(d *Deps) *cobra.Command {
	a := apiFlags{deps: d}
	var overlap time.Duration
	var secretFile string
	var asJSON bool
	c := &cobra.Command{
		Use:   "rotate-secret ID",
		Short: "Give an endpoint a new signing secret",
		Long: `Gives an endpoint a new signing secret and prints it, once. For the overlap the old one signs too, so
that the receiver can change over without losing a delivery.` + apiHelp,
		Example: `  barnabas endpoints rotate-secret ep_1
  barnabas endpoints rotate-secret ep_1 --overlap 0s            # the old one has leaked`,
		Args: oneID,
		RunE: func(c *cobra.Command, args []string) error {
			var spec api.RotateSpec
			if c.Flags().Changed("overlap") {
				d := api.Duration(overlap)
				spec.Overlap = &d
			}
			var err error
			if spec.Secret, err = readSecret(secretFile); err != nil {
				return err
			}
			return a.one(c, asJSON, func(cl *client.Client) (api.Endpoint, error) { return cl.RotateSecret(c.Context(), args[0], spec) })
		},
	}
	a.bind(c)
	c.Flags().DurationVar(&overlap, "overlap", 24*time.Hour, "how long the old secret signs too")
	c.Flags().StringVar(&secretFile, "secret-file", "", "`file` with the new secret (whsec_...); left out: one is made")
	c.Flags().BoolVar(&asJSON, "json", false, "as JSON")
	return c
}

func readSecret(file string) (string, error) {
	if file == "" {
		return "", nil
	}
	s, err := secret.ReadFile(file)
	if err != nil {
		return "", usage("--secret-file: %w", err)
	}
	return s.Reveal(), nil
}

// one makes a call that answers with an endpoint, and shows it.
func (a *apiFlags) one(c *cobra.Command, asJSON bool, call func(*client.Client) (api.Endpoint, error)) error {
	cl, err := a.client()
	if err != nil {
		return err
	}
	e, err := call(cl)
	if err != nil {
		return apiError(fmt.Errorf("%s endpoint: %w", c.Name(), err))
	}
	if asJSON {
		return writeJSON(c.OutOrStdout(), e)
	}
	return showEndpoint(c.OutOrStdout(), &e)
}

// showEndpoint writes what is set, a line each.
func showEndpoint(out io.Writer, e *api.Endpoint) error {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	line := func(name string, value any) {
		if text := fmt.Sprint(value); text != "" && text != "0" && text != "0s" && text != "[]" {
			fmt.Fprintf(w, "%s\t%s\n", name, text)
		}
	}
	line("id", e.ID)
	line("tenant", e.Tenant)
	line("url", e.URL)
	line("description", e.Description)
	line("state", e.State)
	line("disabled", e.DisabledReason)
	line("order", e.Order)
	line("max in flight", e.MaxInFlight)
	line("rate per second", e.RatePerSecond)
	line("timeout", time.Duration(e.Timeout))
	line("permanent", e.PermanentStatuses)
	for _, d := range e.RetryCaps {
		line("retry cap", time.Duration(d))
	}
	for _, name := range slices.Sorted(maps.Keys(e.Headers)) {
		line("header", name)
	}
	line("unusable", e.Unusable)
	line("secret", e.Secret)
	if err := w.Flush(); err != nil {
		return fmt.Errorf("write endpoint: %w", err)
	}
	if e.Secret != "" {
		_, err := fmt.Fprintln(out, "\nThe secret is not shown again: give it to the receiver now.")
		return err
	}
	return nil
}
