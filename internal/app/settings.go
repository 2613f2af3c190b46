package app

import (
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/barnabas-webhooks/barnabas/internal/api"
	"github.com/barnabas-webhooks/barnabas/internal/config"
	"github.com/barnabas-webhooks/barnabas/processor"
	"github.com/barnabas-webhooks/barnabas/processor/breaker"
	"github.com/barnabas-webhooks/barnabas/processor/claimstore"
	"github.com/barnabas-webhooks/barnabas/processor/deliver"
	"github.com/barnabas-webhooks/barnabas/processor/egress"
	"github.com/barnabas-webhooks/barnabas/processor/settle"
	"github.com/barnabas-webhooks/barnabas/processor/unit"
	"github.com/barnabas-webhooks/barnabas/retry"
	"github.com/barnabas-webhooks/barnabas/topics"
)

// ErrAPIKey is an entry of api.keys that cannot be read.
var ErrAPIKey = errors.New("want NAME:ROLE:TENANT:SHA256 (role producer, operator or admin; admins have no tenant)")

// Errors of an entry of api.tenants.
var (
	ErrAPITenant      = errors.New("want TENANT:RATE:BURST:CONCURRENT, such as acme:50:100:32 (0: the default of each)")
	ErrAPITenantTwice = errors.New("the tenant is there twice")
)

// Catalogue names the topics of a configuration.
func Catalogue(c *config.Config) topics.Catalogue {
	return topics.Catalogue{Prefix: c.Topics.Prefix, Partitions: c.Topics.Partitions, Tiers: c.Retry.Tiers}
}

// Policy is the retry schedule of a configuration.
func Policy(c *config.Config) retry.Policy {
	return retry.Policy{
		Caps: c.Retry.Caps, Tiers: c.Retry.Tiers, Lifetime: c.Retry.Lifetime, MaxRetryAfter: c.Retry.MaxRetryAfter,
	}
}

// Breaker is the breaker's configuration.
func Breaker(c *config.Config) breaker.Config {
	b := c.Breaker
	return breaker.Config{
		ConsecutiveHard: b.ConsecutiveHard, ConsecutiveAny: b.ConsecutiveAny,
		WindowRatio: b.WindowRatio, WindowMin: b.WindowMin, Window: b.Window,
		OpenFor: b.OpenFor, OpenMax: b.OpenMax, Jitter: b.Jitter,
		ProbeTimeout: 4 * c.Timeouts.MaxTotal, // every probe reports within MaxTotal: this is for one that is lost to a fault of ours
	}
}

func groupConfig(c *config.Config) processor.Config {
	return processor.Config{
		FetchWait: processor.DefaultConfig().FetchWait,
		Group:     c.Processor.Group, SessionTimeout: c.Processor.SessionTimeout, Heartbeat: c.Processor.HeartbeatInterval,
		RebalanceTimeout: c.Processor.RebalanceTimeout, DrainTimeout: c.Processor.DrainTimeout,
		MaxInFlight: c.Limits.InFlight, Rate: c.Limits.Rate, MaxMemory: int64(c.Limits.Memory), Window: c.Idempotency.Window,
	}
}

func claimsConfig(c *config.Config) claimstore.Config {
	return claimstore.Config{Directory: c.Claims.Directory, Cache: c.Claims.Cache.Bytes()}
}

func unitConfig(c *config.Config) unit.Config {
	u := unit.DefaultConfig()
	u.LaneEntries, u.LaneBytes, u.LaneAge = c.Lanes.MaxEntries, int64(c.Lanes.MaxBytes), c.Lanes.MaxAge
	u.MaxInFlight = c.Limits.EndpointInFlight
	return u
}

func settleConfig(c *config.Config) settle.Config {
	s := settle.DefaultConfig()
	s.Beat, s.TransactionTimeout = c.Processor.Beat, c.Processor.TransactionTimeout
	return s
}

func egressConfig(c *config.Config) egress.Config {
	e := egress.DefaultConfig()
	e.Allow, e.AllowLoopback, e.AllowHTTP = c.Egress.Allow, c.Egress.AllowLoopback, c.Egress.AllowHTTP
	e.Proxy, e.NoProxy = c.Egress.Proxy.Reveal(), c.Egress.NoProxy
	e.ResolveTimeout, e.ConnectTimeout = c.Timeouts.DNS, c.Timeouts.Connect
	return e
}

func deliverConfig(c *config.Config, version string) deliver.Config {
	d := deliver.DefaultConfig()
	d.Version = version
	d.Timeout, d.MaxTimeout = c.Timeouts.Total, c.Timeouts.MaxTotal
	d.TLSTimeout, d.HeaderTimeout = c.Timeouts.TLS, c.Timeouts.Headers
	d.MaxRetryAfter = c.Retry.MaxRetryAfter
	d.CAFile = c.Egress.CAFile
	return d
}

func apiConfig(c *config.Config) (api.Config, error) {
	a := api.DefaultConfig()
	a.Addr = c.API.Listen
	a.MaxBodyBytes = int64(c.API.MaxBody)
	a.RotationOverlap = c.Endpoints.RotationOverlap
	a.VerdictTimeout, a.MaxConcurrent = c.API.VerdictWait, c.API.MaxConcurrent
	a.MaxLag = int64(c.API.MaxLag)
	a.Tenant = api.TenantLimits{Rate: c.API.TenantRate, Burst: c.API.TenantBurst, Concurrent: c.API.TenantConcurrent}
	a.Tenants = map[string]api.TenantLimits{}
	entries, err := c.API.Entries()
	if err != nil {
		return a, err
	}
	var errs []error
	for i, entry := range c.API.Tenants {
		name, limits, err := parseTenant(entry)
		if _, twice := a.Tenants[name]; err == nil && twice {
			err = ErrAPITenantTwice
		}
		if err != nil {
			errs = append(errs, fmt.Errorf("api.tenants: entry %d, %q: %w", i+1, entry, err))
			continue
		}
		a.Tenants[name] = limits
	}
	for i, entry := range entries {
		k, err := parseKey(entry)
		if err != nil {
			errs = append(errs, fmt.Errorf("api.keys: entry %d: %w", i+1, err))
			continue
		}
		a.Keys = append(a.Keys, k)
	}
	return a, errors.Join(errs...)
}

// parseTenant reads TENANT:RATE:BURST:CONCURRENT.
func parseTenant(entry string) (name string, l api.TenantLimits, err error) {
	parts := strings.Split(strings.TrimSpace(entry), ":")
	if len(parts) != 4 {
		return "", l, ErrAPITenant
	}
	var errs [3]error
	l.Rate, errs[0] = strconv.ParseFloat(parts[1], 64)
	l.Burst, errs[1] = strconv.Atoi(parts[2])
	l.Concurrent, errs[2] = strconv.Atoi(parts[3])
	if errors.Join(errs[:]...) != nil {
		return "", l, ErrAPITenant
	}
	return parts[0], l, nil
}

// parseKey reads NAME:ROLE:TENANT:SHA256. The error does not repeat the entry: it
// may be a key that somebody forgot to hash.
func parseKey(entry string) (api.Key, error) {
	parts := strings.Split(strings.TrimSpace(entry), ":")
	if len(parts) != 4 {
		return api.Key{}, ErrAPIKey
	}
	return api.Key{Name: parts[0], Role: api.Role(parts[1]), Tenant: parts[2], SHA256: parts[3]}, nil
}

// TopicOptions is what the wanted topic settings of a configuration depend on.
func TopicOptions(c *config.Config) topics.Options {
	return topics.Options{
		ReplicationFactor: int16(c.Topics.Replication),
		LongestWait:       max(c.Retry.Lifetime, c.Retry.MaxRetryAfter), Window: c.Idempotency.Window,
	}
}
