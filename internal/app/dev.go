package app

import (
	"context"
	"crypto/rand"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/barnabas-webhooks/barnabas/internal/config"
	"github.com/barnabas-webhooks/barnabas/internal/devbroker"
	"github.com/barnabas-webhooks/barnabas/internal/obs"
)

// Dev runs everything in one process on an embedded broker whose data is kept in
// dev.data_dir: for development only. out takes what is for the person at the
// terminal, stderr the log.
func Dev(ctx context.Context, cfg *config.Config, version string, out, stderr io.Writer) (err error) {
	log, err := obs.Logger(stderr, cfg.Log.Format, cfg.Log.Level)
	if err != nil {
		return fmt.Errorf("log: %w", err)
	}
	broker, err := devbroker.Start(devbroker.Options{
		Dir: cfg.Dev.DataDir, Port: cfg.Dev.BrokerPort, Partitions: cfg.Topics.Partitions, Logger: log,
	})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, broker.Close()) }()
	if cfg.Endpoints.SecretKeyFile, err = sealingKey(cfg); err != nil {
		return err
	}
	if cfg.Claims.Directory == "" {
		cfg.Claims.Directory = filepath.Join(cfg.Dev.DataDir, "claims")
	}
	cfg.Kafka.Brokers = []string{broker.Addr()}
	a, err := New(cfg, Options{Log: log, Version: version})
	if err != nil {
		return err
	}
	fmt.Fprintf(out, `Barnabas %s, for development: the broker is embedded, nothing is replicated, receivers on this machine are allowed.

  API      http://%s/v1        Kafka  %s        data  %s
  metrics  http://%s/metrics   ready  http://%s/readyz

In another terminal, a receiver and a first delivery:

  barnabas listen --addr 127.0.0.1:9000
  curl -sS http://%s/v1/deliveries -H 'Idempotency-Key: order-1' -H 'Content-Type: application/json' \
    -d '{"url":"http://127.0.0.1:9000/hook","event_type":"order.paid","payload":{"order":1}}'

`, version, cfg.API.Listen, broker.Addr(), cfg.Dev.DataDir, cfg.Metrics.Listen, cfg.Metrics.Listen, cfg.API.Listen)
	return a.Run(ctx)
}

// sealingKey finds or makes the key of the endpoints' secrets beside the broker's
// data, so that both are kept or lost together.
func sealingKey(cfg *config.Config) (path string, err error) {
	if cfg.Endpoints.SecretKeyFile != "" || cfg.Endpoints.SecretKey != "" {
		return cfg.Endpoints.SecretKeyFile, nil
	}
	path = filepath.Join(cfg.Dev.DataDir, "secret.key")
	file, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if errors.Is(err, os.ErrExist) {
		return path, nil
	}
	if err != nil {
		return "", fmt.Errorf("make the key of the endpoints' secrets: %w", err)
	}
	var key [32]byte
	_, _ = rand.Read(key[:]) // never fails: crypto/rand
	_, err = fmt.Fprintln(file, base64.StdEncoding.EncodeToString(key[:]))
	if err = errors.Join(err, file.Close()); err != nil {
		return "", fmt.Errorf("make the key of the endpoints' secrets: %w", err)
	}
	return path, nil
}
