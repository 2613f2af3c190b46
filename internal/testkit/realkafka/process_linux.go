package realkafka

import "syscall"

// processAttributes put a broker in a group of its own, and let it die with the test binary even where that is
// killed or runs into go test's timeout, so that no broker is left behind.
func processAttributes() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}
