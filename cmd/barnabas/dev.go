package main

import (
	"github.com/spf13/cobra"

	"github.com/barnabas-webhooks/barnabas/internal/config"
	"github.com/barnabas-webhooks/barnabas/internal/obs"
)

func newDev(d *Deps) *cobra.Command {
	var file string
	c := &cobra.Command{
		Use:   "dev",
		Short: "Run everything in one process, with an embedded broker",
		Long: `Runs a broker, the API and the processor in this process: for development, with nothing to install.
It listens on this machine only, asks for no keys, and delivers to receivers on this machine, which
serve refuses. Data is kept in the data directory across restarts, also after kill -9, and is never
cleaned up: delete the directory to start afresh.

The broker is a real Kafka to its clients: kcat and any producer work with it. What it is not: replicated,
authenticated, or safe against a loss of power.`,
		Example: `  barnabas dev
  barnabas dev --data-dir /tmp/barnabas --broker-port 19092 --listen 127.0.0.1:8081
  barnabas dev --data-dir /tmp/short --set retry.caps=1s,2s,5s --set retry.tiers=1s,5s     # a first dead letter within seconds`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			conf, err := load(d, c, config.Source{Dev: true}, file)
			if err != nil {
				return err
			}
			return d.Dev(c.Context(), conf, obs.ReadBuild(d.Version).Version, c.OutOrStdout(), c.ErrOrStderr())
		},
	}
	c.Flags().StringVar(&file, "config", "", "YAML `file` of settings; kafka.* and roles are not used")
	config.BindFlags(c.Flags(), true)
	return c
}
