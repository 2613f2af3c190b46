//go:build unix

package app

import (
	"fmt"
	"syscall"

	"github.com/barnabas-webhooks/barnabas/internal/config"
	"github.com/barnabas-webhooks/barnabas/processor/claimstore"
)

// spareDescriptors are for Kafka's connections, files, listeners and the runtime.
const spareDescriptors = 256

// checkDescriptors refuses a process that may not open as many connections as its
// limits allow it to use: it would find out in the middle of an outage, when
// connections pile up. Go has raised the soft limit to the hard one by itself.
func checkDescriptors(c *config.Config) error {
	var limit syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil {
		return fmt.Errorf("descriptor limit: %w", err)
	}
	// One connection for each request in flight, and as many idle ones at most.
	needed := uint64(2*c.Limits.InFlight + c.API.MaxConcurrent + spareDescriptors)
	if c.Claims.Directory != "" {
		needed += claimstore.MaxFiles
	}
	if limit.Cur < needed {
		return fmt.Errorf("descriptor limit is %d, limits.in_flight %d, api.max_concurrent %d and the files in claims.directory need %d: "+
			"raise it (ulimit -n, LimitNOFILE) or lower them", limit.Cur, c.Limits.InFlight, c.API.MaxConcurrent, needed)
	}
	return nil
}
