package main_test

import (
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	main "github.com/barnabas-webhooks/barnabas/cmd/barnabas"
	"github.com/barnabas-webhooks/barnabas/internal/config"
	"github.com/barnabas-webhooks/barnabas/internal/demo"
)

func writeFile(t *testing.T, content string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "file")
	require.NoError(t, os.WriteFile(file, []byte(content), 0o600))
	return file
}

const validConfig = "kafka: {brokers: [file:1]}\nendpoints: {secret_key: planted-secret}\napi: {keys: [k]}\n"

func TestServe_RunsWithTheMergedConfiguration(t *testing.T) {
	t.Parallel()
	var got *config.Config
	deps := parts(t)
	deps.Environ = []string{"BARNABAS_CONFIG=" + writeFile(t, validConfig), "BARNABAS_LIMITS__IN_FLIGHT=99"}
	deps.Serve = func(_ context.Context, c *config.Config, version string, _ io.Writer) error {
		got = c
		require.NotEmpty(t, version)
		return nil
	}
	o := world{deps: deps}.run(t, "serve", "--roles", "processor", "--set", "processor.beat=200ms")
	requireCode(t, main.ExitOK, o)
	require.Equal(t, []string{"file:1"}, got.Kafka.Brokers)
	require.Equal(t, 99, got.Limits.InFlight)
	require.Equal(t, []string{"processor"}, got.Roles)
	require.Equal(t, 200*time.Millisecond, got.Processor.Beat)

	deps.Serve = func(context.Context, *config.Config, string, io.Writer) error { return errors.New("no cluster") }
	o = world{deps: deps}.run(t, "serve")
	requireCode(t, main.ExitFailure, o)
	require.Contains(t, o.stderr, "error: no cluster")
}

func TestServe_CheckConfig(t *testing.T) {
	t.Parallel()
	deps := parts(t)
	deps.Check = func(*config.Config) error { return nil }
	o := world{deps: deps}.run(t, "serve", "--check-config", "--config", writeFile(t, validConfig))
	requireCode(t, main.ExitOK, o)
	require.Equal(t, "configuration is valid\n", o.out)

	for name, c := range map[string]struct {
		args []string
		want string
	}{
		"unknown key":  {[]string{"--config", writeFile(t, validConfig+"lanse: {}\n")}, "lanse (file:4): unknown key; did you mean lanes"},
		"absent file":  {[]string{"--config", "/absent"}, "/absent"},
		"missing keys": {nil, "endpoints.secret_key"},
		"bad value":    {[]string{"--config", writeFile(t, validConfig), "--set", "retry.caps=5"}, "needs a unit"},
		"absent file of a setting": {
			[]string{"--config", writeFile(t, validConfig), "--set", "egress.ca_file=/absent/ca.pem"},
			"egress.ca_file: open /absent/ca.pem",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			o := world{deps: parts(t)}.run(t, append([]string{"serve", "--check-config"}, c.args...)...)
			requireCode(t, main.ExitUsage, o)
			require.Contains(t, o.stderr, c.want)
			require.NotContains(t, o.stderr, "planted-secret")
			require.Empty(t, o.out)
		})
	}

	deps.Check = func(*config.Config) error { return errors.New("api.keys: entry 1") }
	o = world{deps: deps}.run(t, "serve", "--check-config", "--config", writeFile(t, validConfig))
	requireCode(t, main.ExitUsage, o)
	require.Contains(t, o.stderr, "entry 1")
}

func TestDev_HasItsOwnDefaults(t *testing.T) {
	t.Parallel()
	var got *config.Config
	deps := parts(t)
	deps.Dev = func(_ context.Context, c *config.Config, _ string, out, _ io.Writer) error {
		got = c
		_, err := io.WriteString(out, "hello")
		return err
	}
	o := world{deps: deps}.run(t, "dev", "--data-dir", "/tmp/d", "--listen", "127.0.0.1:0")
	requireCode(t, main.ExitOK, o)
	require.Equal(t, "hello", o.out)
	require.Equal(t, "/tmp/d", got.Dev.DataDir)
	require.Equal(t, 8, got.Topics.Partitions)

	o = world{deps: parts(t)}.run(t, "dev", "--listen", "0.0.0.0:80")
	requireCode(t, main.ExitUsage, o)
	require.Contains(t, o.stderr, "not loopback")
}

func TestDemo_ChecksItsOptions(t *testing.T) {
	t.Parallel()
	deps := parts(t)
	deps.Demo = func(_ context.Context, o demo.Options) error {
		require.Equal(t, 50, o.Events)
		require.NotEmpty(t, o.Executable)
		require.False(t, o.TTY)
		return demo.ErrViolated
	}
	requireCode(t, main.ExitFailure, world{deps: deps}.run(t, "demo", "--events", "50"))
	o := world{deps: parts(t)}.run(t, "demo", "--events", "1")
	requireCode(t, main.ExitUsage, o)
}

func TestConfigReference(t *testing.T) {
	t.Parallel()
	o := world{deps: parts(t)}.run(t, "config", "reference")
	requireCode(t, main.ExitOK, o)
	require.Contains(t, o.out, "`BARNABAS_KAFKA__BROKERS`")
	file := filepath.Join(t.TempDir(), "configuration.md")
	requireCode(t, main.ExitOK, world{deps: parts(t)}.run(t, "config", "reference", "-o", file))
	written, err := os.ReadFile(file)
	require.NoError(t, err)
	require.Equal(t, o.out, string(written))
}
