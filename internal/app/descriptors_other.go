//go:build !unix

package app

import "github.com/barnabas-webhooks/barnabas/internal/config"

// checkDescriptors knows no limit on this system.
func checkDescriptors(*config.Config) error { return nil }
