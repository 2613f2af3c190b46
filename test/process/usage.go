package process

import (
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"
)

// Usage is what a process has needed of the machine.
type Usage struct {
	CPU  time.Duration // user and system, since it was started, in steps of 10 ms
	RSS  int64         // resident bytes now
	Peak int64         // the most that was resident
}

// errNoProc is a system that does not say what a process needs.
var errNoProc = errors.New("what a process needs cannot be read (this needs Linux)")

// tick is the unit of the times in /proc/PID/stat: USER_HZ, 100 on every Linux that Go runs on.
const tick = 10 * time.Millisecond

// ReadUsage reads it from /proc.
func ReadUsage(pid int) (Usage, error) {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return Usage{}, fmt.Errorf("%w: %w", errNoProc, err)
	}
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return Usage{}, fmt.Errorf("%w: %w", errNoProc, err)
	}
	return ParseUsage(string(stat), string(status))
}

// ParseUsage reads the texts of /proc/PID/stat and /proc/PID/status.
func ParseUsage(stat, status string) (Usage, error) {
	// The second field is the command's name, in parentheses, and may hold anything, parentheses too.
	fields := strings.Fields(stat[strings.LastIndexByte(stat, ')')+1:])
	const user, system = 11, 12 // fields 14 and 15 of proc_pid_stat(5), counted from the one after the name
	if len(fields) <= system {
		return Usage{}, errNoProc
	}
	var u Usage
	for _, field := range []int{user, system} {
		ticks, err := strconv.ParseInt(fields[field], 10, 64)
		if err != nil {
			return Usage{}, fmt.Errorf("%w: %w", errNoProc, err)
		}
		u.CPU += time.Duration(ticks) * tick
	}
	for line := range strings.Lines(status) {
		name, rest, _ := strings.Cut(line, ":")
		value := strings.Fields(rest)
		if len(value) == 0 {
			continue
		}
		kib, err := strconv.ParseInt(value[0], 10, 64)
		switch {
		case err != nil:
		case name == "VmRSS":
			u.RSS = kib << 10
		case name == "VmHWM":
			u.Peak = kib << 10
		}
	}
	if u.RSS == 0 {
		return Usage{}, errNoProc
	}
	return u, nil
}
