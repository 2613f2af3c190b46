//go:build !linux

package e2e_test

import (
	"syscall"
	"testing"
)

// asPID1 is for Linux.
func asPID1(t *testing.T) *syscall.SysProcAttr {
	t.Helper()
	t.Skip("PID namespaces are Linux's")
	return nil
}
