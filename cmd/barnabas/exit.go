package main

import (
	"context"
	"errors"
	"fmt"
	"os"

	"github.com/barnabas-webhooks/barnabas/dlq"
	"github.com/barnabas-webhooks/barnabas/internal/config"
)

// Exit codes, the same for every command.
const (
	ExitOK          = 0   // done; of a server: stopped in order
	ExitFailure     = 1   // it did not work: Kafka, the API, the disk, an invariant
	ExitUsage       = 2   // unknown command or flag, bad value, bad configuration: nothing was done
	ExitPartial     = 3   // done in part: some items were refused, and said which
	ExitNoMatch     = 4   // nothing matches
	ExitFenced      = 5   // another replay took over
	ExitInterrupted = 130 // Ctrl-C or a second signal
)

const exitHelp = `Exit codes: 0 done; 1 failure; 2 usage or configuration, nothing was done; 3 done in part;
4 nothing matched; 5 another replay took over; 130 interrupted.`

// UsageError is a command line that cannot be carried out.
type UsageError struct{ Err error }

func (e *UsageError) Error() string { return e.Err.Error() }

// Unwrap returns what is wrong with it.
func (e *UsageError) Unwrap() error { return e.Err }

func usage(format string, args ...any) error { return &UsageError{Err: fmt.Errorf(format, args...)} }

// SignalError is why the process was told to stop.
type SignalError struct{ Signal os.Signal }

func (e *SignalError) Error() string { return "signal " + e.Signal.String() }

// codeError is an error with an exit code of its own.
type codeError struct {
	code int
	err  error // nil: everything was said already
}

func (e *codeError) Error() string {
	if e.err == nil {
		return ""
	}
	return e.err.Error()
}

func (e *codeError) Unwrap() error { return e.err }

// exitCode maps what a command came to.
func exitCode(err error) int {
	var code *codeError
	var bad *UsageError
	var key *config.KeyError
	switch {
	case err == nil:
		return ExitOK
	case errors.As(err, &code):
		return code.code
	case errors.As(err, &bad), errors.As(err, &key):
		return ExitUsage
	case errors.Is(err, dlq.ErrNoMatch):
		return ExitNoMatch
	case errors.Is(err, context.Canceled):
		return ExitInterrupted
	default:
		return ExitFailure
	}
}
