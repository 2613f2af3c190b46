package config

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/barnabas-webhooks/barnabas/internal/kafka"
	"github.com/barnabas-webhooks/barnabas/internal/obs"
	"github.com/barnabas-webhooks/barnabas/schemas"
)

// Bounds that follow from the topics' retention (DESIGN.md section 2).
const (
	maxWindow = 25 * time.Hour                 // the idempotency topic keeps claims for 26 h
	maxTier   = 72 * time.Hour                 // the retry topics keep deliveries for 7 d
	maxBody   = Size(schemas.MaxSendBodyBytes) // holds the largest payload in base64
	// minWindow is how long a producer's retries take at least: sends within the window are one delivery.
	minWindow = time.Minute
	// minClaimsCache holds what claims on disk cannot do without.
	minClaimsCache = 8 * MiB
	// maxTransaction is the brokers' default transaction.max.timeout.ms.
	maxTransaction = 15 * time.Minute
)

// Validate checks the values, and against each other, and reports every problem:
// each a *KeyError. It reads no file and asks no network. What a deployment must
// set itself (keys) is checked by Load only, as dev makes its own.
func (c *Config) Validate() error {
	v := &validator{}
	v.common(c)
	return errors.Join(v.errs...)
}

// validate is Validate and the rules of one command; origin tells where keys came from.
func (c *Config) validate(s Source, origin map[string]string) error {
	v := &validator{origin: origin}
	v.common(c)
	switch {
	case s.Client:
	case s.Dev:
		v.dev(c)
	default:
		v.serve(c)
	}
	return errors.Join(v.errs...)
}

type validator struct {
	origin map[string]string
	errs   []error
}

func (v *validator) bad(key, format string, args ...any) {
	v.errs = append(v.errs, &KeyError{Key: key, Source: v.origin[key], Err: fmt.Errorf(format, args...)})
}

func (v *validator) check(ok bool, key, format string, args ...any) {
	if !ok {
		v.bad(key, format, args...)
	}
}

func (v *validator) common(c *Config) {
	v.roles(c.Roles)
	v.kafka(c.Kafka)
	v.topics(c.Topics)
	v.processor(c)
	v.retry(c.Retry)
	v.breaker(c.Breaker)
	v.timeouts(c.Timeouts)
	v.bounds(c)
	v.egress(c.Egress)
	v.listeners(c)
	v.check(c.Idempotency.Window >= minWindow && c.Idempotency.Window <= maxWindow, "idempotency.window",
		"must be at least %s, as a producer's retries take as long, and at most %s, as claims are kept for 26h; not %s",
		minWindow, maxWindow, c.Idempotency.Window)
	v.check(c.Claims.Cache >= minClaimsCache, "claims.cache", "must be at least %s, not %s", minClaimsCache, c.Claims.Cache)
	v.check(c.Endpoints.RotationOverlap >= 0, "endpoints.rotation_overlap", "must not be negative")
	v.check(c.Endpoints.SecretKey == "" || c.Endpoints.SecretKeyFile == "", "endpoints.secret_key",
		"secret_key and secret_key_file are both set: give one")
	if _, err := obs.ParseLevel(c.Log.Level); err != nil {
		v.bad("log.level", "%w", err)
	}
	v.check(c.Log.Format == obs.FormatText || c.Log.Format == obs.FormatJSON, "log.format", "%w, not %q",
		obs.ErrLogFormat, c.Log.Format)
	v.check(c.Dev.DataDir != "", "dev.data_dir", "must not be empty")
	v.check(c.Dev.BrokerPort >= 0 && c.Dev.BrokerPort <= 65535, "dev.broker_port", "must be from 0 to 65535")
}

func (v *validator) roles(roles []string) {
	v.check(len(roles) > 0, "roles", "at least one is needed: %s, %s", RoleAPI, RoleProcessor)
	for i, r := range roles {
		v.check(r == RoleAPI || r == RoleProcessor, "roles", "%q is not a role: %s, %s", r, RoleAPI, RoleProcessor)
		v.check(!slices.Contains(roles[:i], r), "roles", "%q is listed twice", r)
	}
}

func (v *validator) kafka(k kafka.Config) {
	err := k.Validate()
	if err == nil {
		return
	}
	joined, ok := err.(interface{ Unwrap() []error })
	if !ok {
		v.bad("kafka", "%w", err)
		return
	}
	for _, e := range joined.Unwrap() {
		var field *kafka.FieldError
		if errors.As(e, &field) {
			v.bad("kafka."+field.Key, "%s", field.Problem)
		}
	}
}

func (v *validator) topics(t Topics) {
	v.check(regexp.MustCompile(`^[a-zA-Z0-9._-]{0,200}$`).MatchString(t.Prefix), "topics.prefix",
		"may hold letters, digits, '.', '_' and '-', at most 200; not %q", t.Prefix)
	v.check(t.Partitions >= 1 && t.Partitions <= 10000, "topics.partitions", "must be from 1 to 10000, not %d", t.Partitions)
	v.check(t.Replication == -1 || (t.Replication >= 1 && t.Replication <= 100), "topics.replication",
		"must be -1 or from 1 to 100, not %d", t.Replication)
}

// processor refuses what could let two processes work on one delivery (C-132):
// the group hands a unit on after rebalance_timeout, whoever still works on it.
func (v *validator) processor(c *Config) {
	p := c.Processor
	v.check(p.Group != "", "processor.group", "must not be empty")
	v.positive("processor.heartbeat_interval", p.HeartbeatInterval)
	v.positive("processor.beat", p.Beat)
	v.check(p.TransactionTimeout >= time.Second && p.TransactionTimeout <= maxTransaction, "processor.transaction_timeout",
		"must be from 1s to %s, not %s", maxTransaction, p.TransactionTimeout)
	v.check(p.SessionTimeout >= 3*p.HeartbeatInterval, "processor.session_timeout",
		"%s is shorter than three heartbeat_interval of %s: one lost heartbeat would cost the process its units",
		p.SessionTimeout, p.HeartbeatInterval)
	v.check(p.SessionTimeout <= p.RebalanceTimeout, "processor.session_timeout",
		"%s is longer than rebalance_timeout %s", p.SessionTimeout, p.RebalanceTimeout)
	v.check(p.DrainTimeout >= c.Timeouts.MaxTotal, "processor.drain_timeout",
		"%s is shorter than timeouts.max_total %s: a request could be cut off half-way and be sent again by the next owner",
		p.DrainTimeout, c.Timeouts.MaxTotal)
	v.check(p.RebalanceTimeout >= p.DrainTimeout+p.TransactionTimeout, "processor.rebalance_timeout",
		"%s is shorter than drain_timeout %s + transaction_timeout %s = %s: another process would own a unit while this one still works on it",
		p.RebalanceTimeout, p.DrainTimeout, p.TransactionTimeout, p.DrainTimeout+p.TransactionTimeout)
	v.check(p.Beat <= p.TransactionTimeout/2, "processor.beat", "%s is longer than half of transaction_timeout %s",
		p.Beat, p.TransactionTimeout)
}

// C-203: empty list, zero, duplicate, unsorted, negative.
func (v *validator) retry(r Retry) {
	v.check(len(r.Caps) > 0, "retry.caps", "at least one is needed")
	v.check(len(r.Caps) <= 100, "retry.caps", "at most 100 are allowed, not %d", len(r.Caps))
	var sum time.Duration
	for i, d := range r.Caps {
		v.check(d > 0 && d <= 30*24*time.Hour, "retry.caps", "item %d must be more than 0 and at most 720h, not %s", i+1, d)
		sum += d
	}
	v.check(len(r.Tiers) > 0, "retry.tiers", "at least one is needed")
	v.check(len(r.Tiers) <= 20, "retry.tiers", "at most 20 are allowed, not %d", len(r.Tiers))
	for i, d := range r.Tiers {
		v.check(d >= time.Second && d%time.Second == 0 && d <= maxTier, "retry.tiers",
			"item %d must be whole seconds, from 1s to %s, as the retry topics keep records for 7 days; not %s", i+1, maxTier, d)
		if i > 0 {
			v.check(d > r.Tiers[i-1], "retry.tiers", "item %d, %s, is not longer than item %d, %s: they must ascend",
				i+1, d, i, r.Tiers[i-1])
		}
	}
	v.positive("retry.lifetime", r.Lifetime)
	v.check(r.Lifetime >= sum, "retry.lifetime",
		"%s is shorter than the sum of retry.caps, %s: the last attempts could never be made", r.Lifetime, sum)
	v.check(r.MaxRetryAfter >= 0, "retry.max_retry_after", "must not be negative")
}

func (v *validator) breaker(b Breaker) {
	v.check(b.ConsecutiveHard >= 1, "breaker.consecutive_hard", "must be at least 1, not %d", b.ConsecutiveHard)
	v.check(b.ConsecutiveAny >= b.ConsecutiveHard, "breaker.consecutive_any",
		"%d is less than consecutive_hard %d, which would then never count", b.ConsecutiveAny, b.ConsecutiveHard)
	v.check(b.WindowRatio > 0 && b.WindowRatio <= 1, "breaker.window_ratio", "must be more than 0 and at most 1, not %v", b.WindowRatio)
	v.check(b.WindowMin >= 1, "breaker.window_min", "must be at least 1, not %d", b.WindowMin)
	v.positive("breaker.window", b.Window)
	v.check(b.OpenFor >= time.Millisecond, "breaker.open_for", "must be at least 1ms, not %s", b.OpenFor)
	v.check(b.OpenMax >= b.OpenFor && b.OpenMax <= 24*time.Hour, "breaker.open_max",
		"must be from open_for %s to 24h, not %s", b.OpenFor, b.OpenMax)
	v.check(b.Jitter >= 0 && b.Jitter <= 0.9, "breaker.jitter", "must be from 0 to 0.9, not %v", b.Jitter)
}

func (v *validator) timeouts(t Timeouts) {
	for _, part := range []struct {
		key string
		d   time.Duration
	}{
		{"timeouts.dns", t.DNS},
		{"timeouts.connect", t.Connect},
		{"timeouts.tls", t.TLS},
		{"timeouts.headers", t.Headers},
	} {
		v.positive(part.key, part.d)
		v.check(part.d <= t.MaxTotal, part.key, "%s is longer than max_total %s", part.d, t.MaxTotal)
	}
	v.positive("timeouts.total", t.Total)
	v.check(t.Total <= t.MaxTotal, "timeouts.total", "%s is longer than max_total %s", t.Total, t.MaxTotal)
	v.check(t.MaxTotal <= 10*time.Minute, "timeouts.max_total", "must be at most 10m, not %s", t.MaxTotal)
}

func (v *validator) bounds(c *Config) {
	v.check(c.Limits.InFlight >= 1, "limits.in_flight", "must be at least 1, not %d", c.Limits.InFlight)
	v.check(c.Limits.EndpointInFlight >= 1 && c.Limits.EndpointInFlight <= c.Limits.InFlight, "limits.endpoint_in_flight",
		"must be from 1 to in_flight %d, not %d", c.Limits.InFlight, c.Limits.EndpointInFlight)
	v.check(c.Limits.Rate >= 0, "limits.rate", "must not be negative")
	v.check(c.API.MaxBody >= KiB && c.API.MaxBody <= maxBody, "api.max_body", "must be from 1KiB to %s, not %s", maxBody, c.API.MaxBody)
	v.check(c.Lanes.MaxEntries >= 1, "lanes.max_entries", "must be at least 1, not %d", c.Lanes.MaxEntries)
	v.check(c.Lanes.MaxBytes >= c.API.MaxBody, "lanes.max_bytes",
		"%s is less than api.max_body %s: a lane must be able to hold the largest payload", c.Lanes.MaxBytes, c.API.MaxBody)
	v.check(c.Lanes.MaxAge >= 100*time.Millisecond, "lanes.max_age", "must be at least 100ms, not %s", c.Lanes.MaxAge)
	v.check(c.Limits.Memory >= c.Lanes.MaxBytes, "limits.memory", "%s is less than lanes.max_bytes %s", c.Limits.Memory, c.Lanes.MaxBytes)
	v.check(c.API.VerdictWait >= 0 && c.API.VerdictWait <= 10*time.Second, "api.verdict_wait", "must be from 0 to 10s, not %s", c.API.VerdictWait)
	v.check(c.API.MaxConcurrent >= 1, "api.max_concurrent", "must be at least 1, not %d", c.API.MaxConcurrent)
	v.check(c.API.MaxLag >= 0, "api.max_lag", "must not be negative")
	v.check(c.API.TenantRate >= 0, "api.tenant_rate", "must not be negative")
	v.check(c.API.TenantBurst >= 0, "api.tenant_burst", "must not be negative")
	v.check(c.API.TenantBurst == 0 || c.API.TenantRate > 0, "api.tenant_burst", "is set, but tenant_rate is not")
	v.check(c.API.TenantConcurrent >= 0 && c.API.TenantConcurrent <= c.API.MaxConcurrent, "api.tenant_concurrent",
		"must be from 0 to max_concurrent %d, not %d", c.API.MaxConcurrent, c.API.TenantConcurrent)
}

// C-177: an item that means nothing is refused and named.
func (v *validator) egress(e Egress) {
	for i, item := range e.Allow {
		_, prefixErr := netip.ParsePrefix(item)
		_, addrErr := netip.ParseAddr(item)
		v.check(prefixErr == nil || addrErr == nil, "egress.allow", "item %d, %q, is neither an IP address nor a CIDR range", i+1, item)
	}
	if e.Proxy == "" {
		v.check(len(e.NoProxy) == 0, "egress.no_proxy", "is set, but egress.proxy is not")
		return
	}
	u, err := url.Parse(e.Proxy.Reveal())
	v.check(err == nil && (u.Scheme == "http" || u.Scheme == "https") && u.Hostname() != "", "egress.proxy",
		"must be a URL like http://proxy.example:3128") // the text may hold credentials
}

func (v *validator) listeners(c *Config) {
	v.listen("api.listen", c.API.Listen)
	if c.Metrics.Listen != "" {
		v.listen("metrics.listen", c.Metrics.Listen)
	}
	v.check(c.API.Listen != c.Metrics.Listen || strings.HasSuffix(c.API.Listen, ":0"), "metrics.listen", "%q is api.listen too", c.Metrics.Listen)
	v.check(!c.Metrics.Pprof || c.Metrics.Listen != "", "metrics.pprof", "is true, but metrics.listen is empty")
	v.check((c.API.TLSCertFile == "") == (c.API.TLSKeyFile == ""), "api.tls_cert_file",
		"tls_cert_file and tls_key_file belong together: set both or none")
}

func (v *validator) listen(key, addr string) {
	_, port, err := net.SplitHostPort(addr)
	if err != nil {
		v.bad(key, "%q is not host:port", addr)
		return
	}
	n, err := strconv.Atoi(port)
	v.check(err == nil && n >= 0 && n <= 65535, key, "%q: the port must be a number from 0 to 65535", addr)
}

func (v *validator) positive(key string, d time.Duration) {
	v.check(d > 0, key, "must be more than 0, not %s", d)
}

// serve asks for what has no safe default.
func (v *validator) serve(c *Config) {
	v.check(c.Endpoints.SecretKey != "" || c.Endpoints.SecretKeyFile != "", "endpoints.secret_key",
		"secret_key_file or secret_key is needed: 32 random bytes in base64, the same in every process (openssl rand -base64 32)")
	if slices.Contains(c.Roles, RoleAPI) {
		v.check(len(c.API.Keys) > 0 || c.API.KeysFile != "", "api.keys", "keys or keys_file is needed for the role api")
	}
}

// dev keeps everything on this machine: it has no keys and a broker without authentication.
func (v *validator) dev(c *Config) {
	for _, l := range []struct{ key, addr string }{{"api.listen", c.API.Listen}, {"metrics.listen", c.Metrics.Listen}} {
		host, _, err := net.SplitHostPort(l.addr)
		if err != nil {
			continue // reported already, or empty
		}
		ip, err := netip.ParseAddr(host)
		v.check(host == "localhost" || (err == nil && ip.IsLoopback()), l.key,
			"%q is not loopback: barnabas dev serves this machine only", l.addr)
	}
}
