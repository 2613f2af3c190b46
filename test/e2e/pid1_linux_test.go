package e2e_test

import (
	"errors"
	"os/exec"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
)

// asPID1 lets what is started be the first process of a PID namespace of its own, as in a container: there
// a signal that has no handler does nothing at all.
func asPID1(t *testing.T) *syscall.SysProcAttr {
	t.Helper()
	attr := &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWPID}
	probe := exec.CommandContext(t.Context(), binary, "version")
	probe.SysProcAttr = attr
	err := probe.Run()
	if errors.Is(err, syscall.EPERM) || errors.Is(err, syscall.ENOSYS) || errors.Is(err, syscall.EINVAL) {
		t.Skipf("this machine gives no PID namespace (it takes root, or CAP_SYS_ADMIN): %v", err)
	}
	require.NoError(t, err)
	return attr
}
