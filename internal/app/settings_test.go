package app_test

import (
	"log/slog"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/barnabas-webhooks/barnabas/internal/app"
	"github.com/barnabas-webhooks/barnabas/internal/config"
	"github.com/barnabas-webhooks/barnabas/processor/breaker"
	"github.com/barnabas-webhooks/barnabas/processor/claimstore"
	"github.com/barnabas-webhooks/barnabas/retry"
	"github.com/barnabas-webhooks/barnabas/topics"
)

const sealingKey = "MDEyMzQ1Njc4OTAxMjM0NTY3ODkwMTIzNDU2Nzg5MDE="

// valid is the least that a deployment must set.
func valid() *config.Config {
	c := config.Default()
	c.Endpoints.SecretKey = sealingKey
	c.API.Keys = []string{"ops:operator:acme:" + strings.Repeat("ab", 32)}
	return &c
}

// The configuration's defaults are the parts' own: a number that is changed in one place must not stay in the other.
func TestSettings_DefaultsAreThoseOfTheParts(t *testing.T) {
	t.Parallel()
	c := valid()
	require.Equal(t, retry.DefaultPolicy(), app.Policy(c))
	require.Equal(t, breaker.DefaultConfig(), app.Breaker(c))
	require.Equal(t, topics.DefaultCatalogue(), app.Catalogue(c))
}

func TestCheck_AcceptsWhatADeploymentMustSet(t *testing.T) {
	t.Parallel()
	require.NoError(t, app.Check(valid()))
	limited := valid()
	limited.API.TenantRate, limited.API.TenantBurst, limited.API.TenantConcurrent = 0.5, 10, 100
	limited.API.Tenants = []string{" acme:12.5:0:1024 "}
	require.NoError(t, app.Check(limited))
}

// Whatever is wrong is known before Kafka is, and says which setting.
// A changed file is checked while the process runs that it is for.
func TestCheck_BesideARunningProcess(t *testing.T) {
	t.Parallel()
	conf := valid()
	conf.Claims.Directory = t.TempDir()
	store, err := claimstore.Open(claimstore.Options{
		Config: claimstore.Config{Directory: conf.Claims.Directory, Cache: conf.Claims.Cache.Bytes()},
		Window: conf.Idempotency.Window, Log: slog.New(slog.DiscardHandler),
	})
	require.NoError(t, err)
	require.NoError(t, app.Check(conf))
	conf.Egress.CAFile = "/nonexistent/ca.pem"
	require.ErrorContains(t, app.Check(conf), "/nonexistent/ca.pem", "and the rest is checked")
	require.NoError(t, store.Close())
}

func TestCheck_NamesWhatIsWrong(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		change func(c *config.Config)
		says   string
	}{
		"no sealing key":      {func(c *config.Config) { c.Endpoints.SecretKey = "" }, "endpoints.secret_key"},
		"short sealing key":   {func(c *config.Config) { c.Endpoints.SecretKey = "c2hvcnQ=" }, "endpoints.secret_key"},
		"key not hashed":      {func(c *config.Config) { c.API.Keys = []string{"PLANTED-KEY"} }, "api.keys: entry 1"},
		"unknown role":        {func(c *config.Config) { c.API.Keys = []string{"a:root::" + strings.Repeat("ab", 32)} }, "role"},
		"tenant's limits":     {func(c *config.Config) { c.API.Tenants = []string{"acme:50:100"} }, "api.tenants: entry 1"},
		"tenant's rate":       {func(c *config.Config) { c.API.Tenants = []string{"acme:fast:1:1"} }, "TENANT:RATE:BURST:CONCURRENT"},
		"tenant there twice":  {func(c *config.Config) { c.API.Tenants = []string{"acme:1:1:1", "acme:2:2:2"} }, "entry 2"},
		"tenant without key":  {func(c *config.Config) { c.API.Tenants = []string{"acmee:1:1:1"} }, "no key belongs to it"},
		"tenant's share":      {func(c *config.Config) { c.API.Tenants = []string{"acme:1:1:2000"} }, "concurrency of tenant"},
		"allow-list typo":     {func(c *config.Config) { c.Egress.Allow = []string{"10.1.2.0/33"} }, "10.1.2.0/33"},
		"no such CA file":     {func(c *config.Config) { c.Egress.CAFile = "/nonexistent/ca.pem" }, "/nonexistent/ca.pem"},
		"too few descriptors": {func(c *config.Config) { c.Limits.InFlight = 1 << 30 }, "limits.in_flight"},
		"probe never reports": {func(c *config.Config) { c.Breaker.OpenFor = 0 }, "open"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			conf := valid()
			c.change(conf)
			err := app.Check(conf)
			require.ErrorContains(t, err, c.says)
			require.NotContains(t, err.Error(), "PLANTED", "a key that was not hashed must not be shown")
		})
	}
}

// A process that fails to be built leaves nothing behind that could not be built again.
func TestNew_RollsBack(t *testing.T) {
	t.Parallel()
	conf := valid()
	conf.API.Keys = []string{"broken"}
	for range 3 {
		_, err := app.New(conf, app.Options{Log: slog.New(slog.DiscardHandler)})
		require.Error(t, err)
	}
}
