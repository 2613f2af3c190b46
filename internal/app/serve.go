package app

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"

	"github.com/barnabas-webhooks/barnabas/internal/config"
	"github.com/barnabas-webhooks/barnabas/internal/obs"
	"github.com/barnabas-webhooks/barnabas/processor/claimstore"
)

// Serve runs a process against the Kafka of its configuration until ctx ends.
// Its log goes to stderr.
func Serve(ctx context.Context, cfg *config.Config, version string, stderr io.Writer) error {
	log, flush, err := obs.BatchedLogger(stderr, cfg.Log.Format, cfg.Log.Level)
	if err != nil {
		return fmt.Errorf("log: %w", err)
	}
	defer flush()
	a, err := New(cfg, Options{Log: log, Version: version})
	if err != nil {
		return err
	}
	defer boundMemory(cfg, log)()
	log.Info("starting", obs.KeyVersion, version, obs.KeyRoles, cfg.Roles, obs.KeyBrokers, cfg.Kafka.Brokers, obs.KeyPID, os.Getpid())
	return a.Run(ctx)
}

// Check builds the process without starting it, so that everything that can be
// known without Kafka is known: `serve --check-config`. That the claims are in use is no fault: a changed file is checked
// beside the process that runs with the old one.
func Check(cfg *config.Config) error {
	build := func(cfg *config.Config) error {
		a, err := New(cfg, Options{Log: slog.New(slog.DiscardHandler)})
		if err != nil {
			return err
		}
		a.close()
		return nil
	}
	err := build(cfg)
	if errors.Is(err, claimstore.ErrInUse) {
		without := *cfg
		without.Claims.Directory = ""
		err = build(&without)
	}
	return err
}
