package app

import (
	"github.com/barnabas-webhooks/barnabas/internal/config"
	"github.com/barnabas-webhooks/barnabas/internal/plan"
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
		SoftMemory:  SoftMemoryLimit,
		Descriptors: descriptors(c),
	}
}

// descriptors is how many files and connections a process may have open: one for each request in flight, as many
// idle ones at most, and one for each request that the API serves.
func descriptors(c *config.Config) int {
	return 2*c.Limits.InFlight + c.API.MaxConcurrent + spareDescriptors
}

// spareDescriptors are for Kafka's connections, files, listeners and the runtime.
const spareDescriptors = 256
