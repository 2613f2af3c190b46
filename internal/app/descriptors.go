//go:build unix

package app

import (
	"fmt"
	"syscall"

	"github.com/barnabas-webhooks/barnabas/internal/config"
)

// checkDescriptors refuses a process that may not open as many connections as its
// limits allow it to use: it would find out in the middle of an outage, when
// connections pile up. Go has raised the soft limit to the hard one by itself.
func checkDescriptors(c *config.Config) error {
	var limit syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil {
		return fmt.Errorf("descriptor limit: %w", err)
	}
	needed := uint64(max(descriptors(c), 0))
	if limit.Cur < needed {
		return fmt.Errorf("descriptor limit is %d, limits.in_flight %d, api.max_concurrent %d and the files in claims.directory need %d: "+
			"raise it (ulimit -n, LimitNOFILE) or lower them", limit.Cur, c.Limits.InFlight, c.API.MaxConcurrent, needed)
	}
	return nil
}
