package process

import "syscall"

// processAttributes let a process die with its parent, even where that is killed: nothing is left behind.
func processAttributes() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
}
