package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/barnabas-webhooks/barnabas/internal/config"
	"github.com/barnabas-webhooks/barnabas/internal/obs"
)

func newServe(d *Deps) *cobra.Command {
	var file string
	var check bool
	c := &cobra.Command{
		Use:   "serve",
		Short: "Run Barnabas on a Kafka cluster",
		Long: `Runs the roles api and processor, or one of them, against the Kafka of the configuration, until
SIGINT or SIGTERM; then requests in flight are waited for, settled, and the process exits 0. A second
signal ends it at once. Any number of processes may run: they share the work by partitions.

Configuration comes from --config (or ` + config.EnvConfig + `), the environment and flags, later ones win;
` + "`barnabas config reference`" + ` lists every key. Needed are kafka.brokers, a key for the endpoints' secrets
(endpoints.secret_key_file: openssl rand -base64 32) and, for the role api, API keys. An API key is any text
of at least 16 characters; configured is its hash, as NAME:ROLE:TENANT:SHA256 with the role producer,
operator or admin (an admin has no tenant):

  KEY=$(openssl rand -hex 24); printf %s "$KEY" | sha256sum

Topics are made by ` + "`barnabas topics apply`" + `, or at start with topics.create. Start-up refuses a cluster
whose topics cannot hold what Barnabas promises, and says why.`,
		Example: `  barnabas serve --config /etc/barnabas.yaml --check-config
  barnabas serve --config /etc/barnabas.yaml
  barnabas serve --roles processor --brokers kafka-1:9092,kafka-2:9092 --set limits.in_flight=200`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			conf, err := load(d, c, config.Source{}, file)
			if err != nil {
				return err
			}
			if !check {
				return d.Serve(c.Context(), conf, obs.ReadBuild(d.Version).Version, c.ErrOrStderr())
			}
			if err := conf.CheckFiles(); err != nil {
				return usage("%w", err)
			}
			if err := d.Check(conf); err != nil {
				return usage("%w", err)
			}
			fmt.Fprintln(c.OutOrStdout(), "configuration is valid")
			return nil
		},
	}
	c.Flags().StringVar(&file, "config", "", "YAML `file` of settings")
	c.Flags().BoolVar(&check, "check-config", false, "say what is wrong with the configuration, and start nothing")
	config.BindFlags(c.Flags(), false)
	return c
}

// load reads the configuration of a command; every error is one of usage.
func load(d *Deps, c *cobra.Command, s config.Source, file string) (*config.Config, error) {
	s.File, s.Environ, s.Flags = config.FilePath(file, d.Environ), d.Environ, c.Flags()
	conf, err := config.Load(s)
	if err != nil {
		return nil, usage("configuration:\n%w", err)
	}
	return conf, nil
}
