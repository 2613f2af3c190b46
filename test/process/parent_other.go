//go:build !linux

package process

import "syscall"

// processAttributes is nothing: only Linux lets a process die with its parent.
func processAttributes() *syscall.SysProcAttr { return nil }
