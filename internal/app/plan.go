package app

import (
	"github.com/barnabas-webhooks/barnabas/internal/config"
	"github.com/barnabas-webhooks/barnabas/internal/plan"
	"github.com/barnabas-webhooks/barnabas/processor/claimstore"
)

// Installation is what `barnabas plan` follows from, in a configuration.
func Installation(c *config.Config) plan.Installation {
	return plan.Installation{
		Policy: Policy(c), Breaker: Breaker(c), Unit: unitConfig(c), Group: groupConfig(c), Settle: settleConfig(c),
		Deliver: deliverConfig(c, ""), Egress: egressConfig(c), Topics: Catalogue(c), TopicOptions: TopicOptions(c),
		API: plan.API{
			MaxConcurrent: c.API.MaxConcurrent, MaxBody: int64(c.API.MaxBody), VerdictWait: c.API.VerdictWait,
			RotationOverlap: c.Endpoints.RotationOverlap,
			MaxLag:          int64(c.API.MaxLag), TenantRate: c.API.TenantRate, TenantConcurrent: c.API.TenantConcurrent,
		},
		Claims:      plan.Claims{OnDisk: c.Claims.Directory != "", Cache: int64(c.Claims.Cache)},
		SoftMemory:  SoftMemoryLimit,
		Descriptors: descriptors(c),
	}
}

// descriptors is how many files and connections a process may have open: one for each request in flight, as many
// idle ones at most, one for each request that the API serves, and the claims' files.
func descriptors(c *config.Config) int {
	n := 2*c.Limits.InFlight + c.API.MaxConcurrent + spareDescriptors
	if c.Claims.Directory != "" {
		n += claimstore.MaxFiles
	}
	return n
}

// spareDescriptors are for Kafka's connections, files, listeners and the runtime.
const spareDescriptors = 256
