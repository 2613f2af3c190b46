//go:build !linux

package realkafka

import "syscall"

// processAttributes put a broker in a group of its own. Only Linux also lets it die with its parent.
func processAttributes() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }
