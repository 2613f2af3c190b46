package dlq

import (
	"context"
	"errors"
	"fmt"

	"github.com/barnabas-webhooks/barnabas/schemas"
)

var (
	// ErrNoScope refuses a replay that names neither a filter nor all: without
	// it one forgotten flag would replay every tenant's letters.
	ErrNoScope = errors.New("no scope: name at least one filter (endpoint, tenant, reason, event type, since, until, id), or say --all")
	// ErrNoMatch says that no dead letter is in the scope.
	ErrNoMatch = errors.New("no dead letter matches")
	// ErrFenced says that another replay has taken over (the newer one wins), or
	// that a transaction outlived its timeout. What the result counts as replayed
	// stays so; of anything else nothing was written.
	ErrFenced = errors.New("another replay took over, or a batch took longer than the transaction timeout; what was reported as replayed stays so, running again goes on from there")
	// ErrStalled says that the brokers gave no progress for a minute.
	ErrStalled = errors.New("no progress from Kafka")
	// ErrOutcomeUnknown says that the last batch may or may not have been
	// committed, and that the brokers could not be asked in time. Never guessed:
	// running again reads what is marked and goes on.
	ErrOutcomeUnknown = errors.New("outcome of the last batch unknown; running again goes on from what was really committed")
)

// OptionError is an option out of its range; nothing was read or written.
type OptionError struct {
	Option string
	Why    string
}

func (e *OptionError) Error() string { return e.Option + ": " + e.Why }

// TopicError is a topic that cannot serve: missing, or with partitions that do
// not go with the other topics.
type TopicError struct {
	Topic string
	Err   error
}

func (e *TopicError) Error() string { return fmt.Sprintf("topic %s: %v", e.Topic, e.Err) }
func (e *TopicError) Unwrap() error { return e.Err }

// UnreadableError is a record of the dlq or dlq.state topic that cannot be decoded.
type UnreadableError struct {
	At  schemas.Coordinates
	Err error
}

func (e *UnreadableError) Error() string {
	return fmt.Sprintf("record %s/%d/%d: %v", e.At.Topic, e.At.Partition, e.At.Offset, e.Err)
}
func (e *UnreadableError) Unwrap() error { return e.Err }

// Exit codes of `barnabas dlq`.
const (
	ExitOK          = 0
	ExitError       = 1   // Kafka or anything else failed
	ExitUsage       = 2   // no scope, or an option out of range: nothing was done
	ExitPartial     = 3   // done, but letters of the scope were refused and stay
	ExitNoMatch     = 4   // nothing matches the scope
	ExitFenced      = 5   // another replay took over
	ExitInterrupted = 130 // Ctrl-C; running again goes on
)

// ExitCode maps what a call came to. r is the result of a replay, or nil.
func ExitCode(r *Result, err error) int {
	var option *OptionError
	switch {
	case err == nil && r != nil && r.Refused > 0:
		return ExitPartial
	case err == nil:
		return ExitOK
	case errors.Is(err, ErrNoScope), errors.As(err, &option):
		return ExitUsage
	case errors.Is(err, ErrNoMatch):
		return ExitNoMatch
	case errors.Is(err, ErrFenced):
		return ExitFenced
	case errors.Is(err, context.Canceled):
		return ExitInterrupted
	default:
		return ExitError
	}
}
