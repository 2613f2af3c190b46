package main

import (
	"encoding/json"
	"errors"
	"io"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/barnabas-webhooks/barnabas/internal/api"
	"github.com/barnabas-webhooks/barnabas/internal/api/client"
)

// maxSpec bounds a file of endpoint settings, in bytes.
const maxSpec = 1 << 20

func newEndpointsPut(d *Deps) *cobra.Command {
	a := apiFlags{deps: d}
	var p putFlags
	c := &cobra.Command{
		Use:   "put [ID]",
		Short: "Create or replace an endpoint",
		Long: `Creates an endpoint, or replaces the settings of the one with that id: what is left out gets its
default, but for tenant, state and secret, which stay. Without an id, one is made. A new endpoint's
signing secret is printed, once.

Settings come from flags, or from --file as the JSON object that the API takes.` + apiHelp,
		Example: `  barnabas endpoints put ep_1 --url https://hooks.example.com/barnabas
  barnabas endpoints put ep_1 --url https://hooks.example.com/b --order parallel --max-in-flight 8 --rate 50 \
    --timeout 20s --header 'X-Team: billing' --permanent-status 404 --permanent-status 422
  barnabas endpoints put --file endpoint.json`,
		Args: cobra.MaximumNArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			spec, err := p.spec(c, args)
			if err != nil {
				return err
			}
			return a.one(c, p.json, func(cl *client.Client) (api.Endpoint, error) { return cl.PutEndpoint(c.Context(), spec) })
		},
	}
	a.bind(c)
	f := c.Flags()
	f.StringVar(&p.flags.URL, "url", "", "where deliveries are posted to")
	f.StringVar(&p.flags.Tenant, "tenant", "", "who it belongs to; for admins")
	f.StringVar(&p.flags.Description, "description", "", "for people")
	f.StringArrayVar(&p.headers, "header", nil, "custom request header, `'Name: value'`; may be repeated")
	f.StringVar(&p.flags.Order, "order", "", "ordered (one delivery at a time, in their order), parallel, or strict (one that fails holds those after it)")
	f.IntVar(&p.flags.MaxInFlight, "max-in-flight", 0, "deliveries at a time, when parallel; 0: the deployment's default")
	f.Float64Var(&p.flags.RatePerSecond, "rate", 0, "deliveries per second at most; 0: no limit")
	f.DurationVar(&p.timeout, "timeout", 0, "limit of one attempt; 0: the deployment's default")
	f.IntSliceVar(&p.flags.PermanentStatuses, "permanent-status", nil, "HTTP `status` that ends a delivery at once; may be repeated")
	f.DurationSliceVar(&p.caps, "retry-cap", nil, "longest `wait` before a retry, such as 10m, in place of the deployment's schedule; may be repeated")
	f.StringVar(&p.secretFile, "secret-file", "", "`file` with the signing secret (whsec_...); left out: the present one, or one is made")
	f.StringVar(&p.file, "file", "", "`file` with the settings as JSON, in place of the other flags; - is standard input")
	f.BoolVar(&p.json, "json", false, "as JSON")
	c.MarkFlagsOneRequired("url", "file")
	for _, name := range []string{"url", "tenant", "description", "header", "order", "max-in-flight", "rate", "timeout", "permanent-status", "retry-cap", "secret-file"} {
		c.MarkFlagsMutuallyExclusive("file", name)
	}
	return c
}

// putFlags are the settings as flags give them.
type putFlags struct {
	flags      api.EndpointSpec
	headers    []string
	timeout    time.Duration
	caps       []time.Duration
	secretFile string
	file       string
	json       bool
}

func (p *putFlags) spec(c *cobra.Command, args []string) (api.EndpointSpec, error) {
	spec := p.flags
	if p.file != "" {
		var err error
		if spec, err = readSpec(c.InOrStdin(), p.file); err != nil {
			return spec, err
		}
	}
	if len(args) > 0 {
		if spec.ID != "" && spec.ID != args[0] {
			return spec, usage("the file is of endpoint %q, not of %q", spec.ID, args[0])
		}
		spec.ID = args[0]
	}
	if p.file != "" {
		return spec, nil
	}
	for _, h := range p.headers {
		name, value, ok := strings.Cut(h, ":")
		if !ok || strings.TrimSpace(name) == "" { // the value may be a secret
			return spec, usage("--header: want 'Name: value'")
		}
		if spec.Headers == nil {
			spec.Headers = make(map[string]string)
		}
		name = strings.TrimSpace(name)
		if _, twice := spec.Headers[name]; twice {
			return spec, usage("--header: %s is given twice", name)
		}
		spec.Headers[name] = strings.TrimSpace(value)
	}
	spec.Timeout = api.Duration(p.timeout)
	for _, d := range p.caps {
		spec.RetryCaps = append(spec.RetryCaps, api.Duration(d))
	}
	var err error
	spec.Secret, err = readSecret(p.secretFile)
	return spec, err
}

func readSpec(stdin io.Reader, file string) (api.EndpointSpec, error) {
	var spec api.EndpointSpec
	in := stdin
	if file != "-" {
		f, err := os.Open(file)
		if err != nil {
			return spec, usage("--file: %w", err)
		}
		defer func() { _ = f.Close() }()
		in = f
	}
	dec := json.NewDecoder(io.LimitReader(in, maxSpec))
	dec.DisallowUnknownFields()
	if err := dec.Decode(&spec); err != nil {
		return spec, usage("--file: %w", err)
	}
	if _, err := dec.Token(); !errors.Is(err, io.EOF) {
		return spec, usage("--file: more than one JSON value")
	}
	if spec.URL == "" {
		return spec, usage("--file: url is missing")
	}
	return spec, nil
}
