// Package process runs the real binary for tests that measure or kill it: a process with its output in a file, that
// dies with its parent, and that can be signalled, ended and looked at. It has what such runs share besides: the
// endpoints that they save, their waits, the checks of their options and their results as JSON.
package process
