package api

import (
	"errors"
	"fmt"
	"log/slog"
	"math"
	"net/http"
	"slices"
	"sync/atomic"
	"time"

	"golang.org/x/sync/semaphore"
	"golang.org/x/time/rate"

	"github.com/barnabas-webhooks/barnabas/internal/obs"
)

// TenantLimits bound what one tenant may do on one API node. Nodes do not tell one another: with n nodes behind a
// balancer, a tenant may do up to n times as much.
type TenantLimits struct {
	// Rate is how many sends per second go on to Kafka. 0: any number.
	Rate float64
	// Burst is how many may go at once after a pause. 0: those of one second, at least 1.
	Burst int
	// Concurrent is how many requests may be in progress. 0: half of Config.MaxConcurrent, at least 1, so that no tenant
	// can take the others' room; all of it where there are no others. The tenant's share of MaxBufferedBytes is the same,
	// and at least one largest body.
	Concurrent int
}

// maxRate is far above what a node can do; it catches a slip of the keyboard.
const maxRate = 1e6

func (l TenantLimits) validate(whose string, most int) error {
	var problems []error
	if !(l.Rate >= 0 && l.Rate <= maxRate) { // so that NaN is refused too
		problems = append(problems, fmt.Errorf("api: rate of %s is %v; want 0 to %.0f per second", whose, l.Rate, maxRate))
	}
	if l.Burst < 0 || l.Burst > maxRate {
		problems = append(problems, fmt.Errorf("api: burst of %s is %d; want 0 to %.0f", whose, l.Burst, maxRate))
	}
	if l.Burst > 0 && l.Rate == 0 {
		problems = append(problems, fmt.Errorf("api: burst of %s is %d, but there is no rate", whose, l.Burst))
	}
	if l.Concurrent < 0 || l.Concurrent > most {
		problems = append(problems, fmt.Errorf("api: concurrency of %s is %d; want 0 to %d, that of all", whose, l.Concurrent, most))
	}
	return errors.Join(problems...)
}

// gate holds one tenant's callers to its limits. Safe for concurrent use. There is one for each tenant that a key
// names, made at the start: their number is bounded by the configuration and none is ever forgotten.
type gate struct {
	tenant string        // empty: the admins, together
	rate   *rate.Limiter // nil: no limit
	slots  chan struct{}
	bytes  *semaphore.Weighted
	log    *slog.Logger
	logged atomic.Int64 // when a refusal was last logged, Unix seconds
}

// limited refuses limits for a tenant that nobody can be.
func (k *keyring) limited(tenants map[string]TenantLimits) error {
	var problems []error
	for tenant := range tenants {
		if tenant == "" || !slices.Contains(k.tenants(), tenant) {
			problems = append(problems, fmt.Errorf("api: limits for tenant %q, but no key belongs to it", tenant))
		}
	}
	return errors.Join(problems...)
}

// gates makes the gates of all tenants that the keys name.
func (c Config) gates(keys *keyring, log *slog.Logger) map[string]*gate {
	all := map[string]*gate{}
	tenants := keys.tenants()
	for _, tenant := range tenants {
		limits, own := c.Tenants[tenant]
		if !own {
			limits = c.Tenant
		}
		all[tenant] = c.gate(tenant, limits, len(tenants) == 1, log)
	}
	return all
}

func (c Config) gate(tenant string, l TenantLimits, alone bool, log *slog.Logger) *gate {
	concurrent := l.Concurrent
	switch {
	case concurrent == 0 && alone:
		concurrent = c.MaxConcurrent
	case concurrent == 0:
		concurrent = max(c.MaxConcurrent/2, 1)
	}
	bytes := float64(c.MaxBufferedBytes) * float64(concurrent) / float64(c.MaxConcurrent)
	g := &gate{
		tenant: tenant, log: log, slots: make(chan struct{}, concurrent),
		bytes: semaphore.NewWeighted(max(int64(bytes), c.MaxBodyBytes)),
	}
	if l.Rate > 0 {
		burst := l.Burst
		if burst == 0 {
			burst = max(int(math.Ceil(l.Rate)), 1)
		}
		g.rate = rate.NewLimiter(rate.Limit(l.Rate), burst)
	}
	return g
}

// enter takes one of the tenant's places, which leave gives back.
func (g *gate) enter() error {
	select {
	case g.slots <- struct{}{}:
		return nil
	default:
		return g.refuse(CodeConcurrencyLimited, "Too many requests at once",
			fmt.Sprintf("Your tenant may have %d requests in progress on this server.", cap(g.slots)), overloadedRetryAfter)
	}
}

func (g *gate) leave() { <-g.slots }

// hold takes room for a body of n bytes, which g.bytes.Release gives back.
func (g *gate) hold(n int64) error {
	if g.bytes.TryAcquire(n) {
		return nil
	}
	return g.refuse(CodeConcurrencyLimited, "Too many bytes at once",
		"Your tenant's requests in progress on this server hold too many bytes together.", overloadedRetryAfter)
}

// mayPass says whether a send could go on now; it spends nothing. It is asked before a body is read.
func (g *gate) mayPass(now time.Time) error {
	if g.rate == nil || g.rate.TokensAt(now) >= 1 {
		return nil
	}
	return g.tooFast(now)
}

// pass lets one send go on to Kafka.
func (g *gate) pass(now time.Time) error {
	if g.rate == nil || g.rate.AllowN(now, 1) {
		return nil
	}
	return g.tooFast(now)
}

func (g *gate) tooFast(now time.Time) error {
	wait := (1 - g.rate.TokensAt(now)) / float64(g.rate.Limit())
	return g.refuse(CodeRateLimited, "Too many sends",
		fmt.Sprintf("Your tenant may send %g per second to this server, and %d at once. Send again later with the same "+
			"Idempotency-Key.", float64(g.rate.Limit()), g.rate.Burst()), time.Duration(wait*float64(time.Second)))
}

// refuse says 429, and once a minute tells the log whose limit it was: a metric's label must not.
func (g *gate) refuse(code, title, detail string, after time.Duration) error {
	now, last := time.Now().Unix(), g.logged.Load()
	if now-last >= 60 && g.logged.CompareAndSwap(last, now) {
		g.log.Warn("api_tenant_limited", obs.KeyTenant, g.tenant, obs.KeyReason, code)
	}
	return retryLater(http.StatusTooManyRequests, code, title, detail, after)
}
