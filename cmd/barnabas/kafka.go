package main

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"github.com/spf13/cobra"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/barnabas-webhooks/barnabas/internal/config"
	"github.com/barnabas-webhooks/barnabas/internal/obs"
)

// reachTimeout is how long a command waits for a broker to answer at all.
const reachTimeout = 15 * time.Second

const kafkaHelp = `

Where Kafka is comes from the configuration, as for serve: --config, environment, flags. With --dev, the
defaults are those of ` + "`barnabas dev`" + `: its broker on this machine, its number of partitions.`

// kafkaFlags are those of commands that call Kafka themselves.
type kafkaFlags struct {
	deps *Deps
	file string
	dev  bool
}

func (k *kafkaFlags) bind(c *cobra.Command) {
	c.Flags().StringVar(&k.file, "config", "", "YAML `file` of settings")
	c.Flags().BoolVar(&k.dev, "dev", false, "take the defaults of barnabas dev")
	config.BindClientFlags(c.Flags())
}

func (k *kafkaFlags) load(c *cobra.Command) (*config.Config, error) {
	return load(k.deps, c, config.Source{Dev: k.dev, Client: true}, k.file)
}

// connection is a reached cluster.
type connection struct {
	conf   *config.Config
	opts   []kgo.Opt // to make further clients
	client *kgo.Client
}

// connect loads the configuration and reaches the cluster, or says soon that it
// cannot. The caller closes the client.
func (k *kafkaFlags) connect(c *cobra.Command) (*connection, error) {
	conf, err := k.load(c)
	if err != nil {
		return nil, err
	}
	log := slog.New(slog.NewTextHandler(c.ErrOrStderr(), &slog.HandlerOptions{Level: slog.LevelError}))
	opts, err := conf.Kafka.Options(log.With(obs.KeyComponent, "kafka"))
	if err != nil {
		return nil, &UsageError{Err: err}
	}
	client, err := kgo.NewClient(opts...)
	if err != nil {
		return nil, fmt.Errorf("kafka client: %w", err)
	}
	ctx, cancel := context.WithTimeout(c.Context(), reachTimeout)
	defer cancel()
	if err := conf.Kafka.Ping(ctx, client); err != nil {
		client.Close()
		return nil, err
	}
	return &connection{conf: conf, opts: opts, client: client}, nil
}
