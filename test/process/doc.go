// Package process runs the real binary for tests that measure or kill it: a process with its output in a file, that
// dies with its parent, and that can be signalled, ended and looked at.
package process
