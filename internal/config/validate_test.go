package config_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/barnabas-webhooks/barnabas/internal/config"
)

func TestValidate_NamesKeyAndNumbers(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		change func(*config.Config)
		want   []string
	}{
		// C-132: what cannot hold is refused with the numbers.
		"drain shorter than a request": {
			func(c *config.Config) { c.Processor.DrainTimeout = 20 * time.Second },
			[]string{"processor.drain_timeout: 20s is shorter than timeouts.max_total 30s"},
		},
		"request longer than the drain": {
			func(c *config.Config) { c.Timeouts.MaxTotal = time.Minute },
			[]string{"processor.drain_timeout: 35s is shorter than timeouts.max_total 1m0s"},
		},
		"rebalance shorter than the drain": {
			func(c *config.Config) { c.Processor.RebalanceTimeout = 40 * time.Second },
			[]string{"processor.rebalance_timeout: 40s is shorter than drain_timeout 35s + transaction_timeout 10s = 45s"},
		},
		"session longer than rebalance": {
			func(c *config.Config) { c.Processor.SessionTimeout = 2 * time.Minute },
			[]string{"processor.session_timeout: 2m0s is longer than rebalance_timeout 1m0s"},
		},
		"session and heartbeat": {
			func(c *config.Config) { c.Processor.SessionTimeout = 5 * time.Second },
			[]string{"processor.session_timeout: 5s is shorter than three heartbeat_interval of 3s"},
		},
		"beat and transaction": {func(c *config.Config) { c.Processor.Beat = 8 * time.Second }, []string{"processor.beat: 8s"}},
		"transaction too long": {func(c *config.Config) { c.Processor.TransactionTimeout = time.Hour }, []string{"processor.transaction_timeout"}},
		"tenant's burst alone": {func(c *config.Config) { c.API.TenantBurst = 5 }, []string{"api.tenant_burst: is set, but tenant_rate is not"}},
		"tenant's share":       {func(c *config.Config) { c.API.TenantConcurrent = 2000 }, []string{"api.tenant_concurrent: must be from 0 to max_concurrent 1024"}},
		"negative limits": {
			func(c *config.Config) { c.API.TenantRate, c.API.MaxLag = -1, -1 },
			[]string{"api.tenant_rate: must not be negative", "api.max_lag: must not be negative"},
		},
		"no group":                {func(c *config.Config) { c.Processor.Group = "" }, []string{"processor.group"}},
		"no caps":                 {func(c *config.Config) { c.Retry.Caps = nil }, []string{"retry.caps: at least one"}},
		"zero cap":                {func(c *config.Config) { c.Retry.Caps[2] = 0 }, []string{"retry.caps: item 3"}},
		"negative cap":            {func(c *config.Config) { c.Retry.Caps[0] = -time.Second }, []string{"retry.caps: item 1", "-1s"}},
		"overflowing caps":        {func(c *config.Config) { c.Retry.Caps = []time.Duration{1<<63 - 1, 1<<63 - 1} }, []string{"retry.caps: item 1"}},
		"no tiers":                {func(c *config.Config) { c.Retry.Tiers = nil }, []string{"retry.tiers: at least one"}},
		"duplicate tier":          {func(c *config.Config) { c.Retry.Tiers = []time.Duration{time.Minute, time.Minute} }, []string{"retry.tiers: item 2, 1m0s, is not longer than item 1, 1m0s"}},
		"unsorted tiers":          {func(c *config.Config) { c.Retry.Tiers = []time.Duration{time.Hour, time.Minute} }, []string{"must ascend"}},
		"tier of a fraction":      {func(c *config.Config) { c.Retry.Tiers = []time.Duration{1500 * time.Millisecond} }, []string{"whole seconds"}},
		"tier beyond retention":   {func(c *config.Config) { c.Retry.Tiers = []time.Duration{200 * time.Hour} }, []string{"retry.tiers: item 1"}}, // C-133
		"lifetime too short":      {func(c *config.Config) { c.Retry.Lifetime = time.Hour }, []string{"retry.lifetime: 1h0m0s is shorter than the sum of retry.caps, 25h11m5s"}},
		"negative Retry-After":    {func(c *config.Config) { c.Retry.MaxRetryAfter = -1 }, []string{"retry.max_retry_after"}},
		"window of no use":        {func(c *config.Config) { c.Idempotency.Window = time.Second }, []string{"idempotency.window: must be at least 1m0s"}},
		"window beyond retention": {func(c *config.Config) { c.Idempotency.Window = 48 * time.Hour }, []string{"idempotency.window"}},
		"breaker thresholds":      {func(c *config.Config) { c.Breaker.ConsecutiveHard = 30 }, []string{"breaker.consecutive_any: 20 is less than consecutive_hard 30"}},
		"breaker ratio":           {func(c *config.Config) { c.Breaker.WindowRatio = 50 }, []string{"breaker.window_ratio"}},
		"breaker open":            {func(c *config.Config) { c.Breaker.OpenMax = time.Second }, []string{"breaker.open_max"}},
		"breaker jitter":          {func(c *config.Config) { c.Breaker.Jitter = 1 }, []string{"breaker.jitter"}},
		"no timeout":              {func(c *config.Config) { c.Timeouts.Connect = 0 }, []string{"timeouts.connect: must be more than 0"}},
		"total over the most":     {func(c *config.Config) { c.Timeouts.Total = time.Minute }, []string{"timeouts.total: 1m0s is longer than max_total 30s"}},
		"no memory":               {func(c *config.Config) { c.Limits.Memory = 1 }, []string{"limits.memory"}},
		"lane below a payload":    {func(c *config.Config) { c.Lanes.MaxBytes = config.KiB }, []string{"lanes.max_bytes: 1KiB is less than api.max_body 1200KiB"}},
		"huge bodies":             {func(c *config.Config) { c.API.MaxBody = config.GiB }, []string{"api.max_body"}},
		"nothing in flight":       {func(c *config.Config) { c.Limits.InFlight = 0 }, []string{"limits.in_flight"}},
		"negative rate":           {func(c *config.Config) { c.Limits.Rate = -1 }, []string{"limits.rate"}},
		"role":                    {func(c *config.Config) { c.Roles = []string{"api", "worker"} }, []string{`roles: "worker" is not a role`}},
		"role twice":              {func(c *config.Config) { c.Roles = []string{"api", "api"} }, []string{"twice"}},
		"prefix":                  {func(c *config.Config) { c.Topics.Prefix = "a b" }, []string{"topics.prefix"}},
		"partitions":              {func(c *config.Config) { c.Topics.Partitions = 0 }, []string{"topics.partitions"}},
		"replication":             {func(c *config.Config) { c.Topics.Replication = 0 }, []string{"topics.replication"}},
		"allow list typo":         {func(c *config.Config) { c.Egress.Allow = []string{"10.0.0.0/8", "10.0.0.0/33"} }, []string{`egress.allow: item 2, "10.0.0.0/33"`}}, // C-177
		"proxy":                   {func(c *config.Config) { c.Egress.Proxy = "socks5://user:planted@h:1" }, []string{"egress.proxy: must be a URL"}},
		"no_proxy alone":          {func(c *config.Config) { c.Egress.NoProxy = []string{"x"} }, []string{"egress.no_proxy"}},
		"one port for two":        {func(c *config.Config) { c.Metrics.Listen = c.API.Listen }, []string{"metrics.listen"}},
		"listen":                  {func(c *config.Config) { c.API.Listen = "8080" }, []string{`api.listen: "8080" is not host:port`}},
		"half a certificate":      {func(c *config.Config) { c.API.TLSCertFile = "x" }, []string{"api.tls_cert_file"}},
		"pprof without listener":  {func(c *config.Config) { c.Metrics.Listen = ""; c.Metrics.Pprof = true }, []string{"metrics.pprof"}},
		"two secret keys":         {func(c *config.Config) { c.Endpoints.SecretKey, c.Endpoints.SecretKeyFile = "planted", "x" }, []string{"endpoints.secret_key"}},
		"kafka's own":             {func(c *config.Config) { c.Kafka.Brokers = []string{"x"} }, []string{`kafka.brokers: item 1: "x" is not host:port`}},
		"log":                     {func(c *config.Config) { c.Log = config.Log{} }, []string{"log.level", "log.format"}},
		"broker port":             {func(c *config.Config) { c.Dev.BrokerPort = 70000 }, []string{"dev.broker_port"}},
		"everything": {
			func(c *config.Config) { *c = config.Config{} },
			[]string{"roles", "kafka.brokers", "topics.partitions", "retry.caps", "retry.tiers", "breaker.window", "timeouts.dns", "limits.in_flight", "api.listen", "log.level"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			conf := config.Default()
			c.change(&conf)
			err := conf.Validate()
			var key *config.KeyError
			require.ErrorAs(t, err, &key)
			for _, want := range c.want {
				require.ErrorContains(t, err, want)
			}
			require.NotContains(t, err.Error(), "planted")
		})
	}
}
