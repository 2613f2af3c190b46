package demo

import (
	"errors"
	"fmt"
	"io"
)

// Options of a demo.
type Options struct {
	// Executable is the barnabas binary, run as a process of its own.
	Executable string
	// Events is how many are sent, repeats not counted: 30 to 100,000.
	Events int
	// JSON prints the result as JSON in place of the table.
	JSON bool
	// Keep leaves the data directory behind and says where it is.
	Keep bool
	Out  io.Writer // the result
	Err  io.Writer // progress
	TTY  bool      // Err is a terminal
}

// Bounds of Options.Events.
const (
	MinEvents     = 30
	MaxEvents     = 100_000
	DefaultEvents = 1000
)

// ErrViolated is a demo whose counts do not add up.
var ErrViolated = errors.New("an invariant was violated")

// Validate refuses options out of their range.
func (o Options) Validate() error {
	if o.Events < MinEvents || o.Events > MaxEvents {
		return fmt.Errorf("events: %d is outside %d to %d", o.Events, MinEvents, MaxEvents)
	}
	return nil
}
