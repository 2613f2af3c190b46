package schemas

import (
	"errors"
	"fmt"
)

var (
	// ErrTooLarge is a payload or a record over its limit; the text around it names limit and size.
	ErrTooLarge = errors.New("too large")
	// ErrUnknownSchema is what a [SchemaResolver] wraps when the registry answered that it has no such id.
	ErrUnknownSchema = errors.New("unknown schema id")
)

// DecodeError is foreign bytes that are not the record they should be.
type DecodeError struct {
	Record string // the record type wanted: event, delivery, dead_letter, ...
	Err    error  // holds no part of the bytes but lengths and names
}

func (e *DecodeError) Error() string { return fmt.Sprintf("decode %s: %v", e.Record, e.Err) }
func (e *DecodeError) Unwrap() error { return e.Err }

// FieldError is one field or header that breaks its rule.
type FieldError struct {
	Field   string // as the sender wrote it: endpoint_id, header idempotency-key, ...
	Problem string // what is wrong and what would be right
	Err     error  // ErrTooLarge, or nil
}

func (e *FieldError) Error() string { return e.Field + " " + e.Problem }
func (e *FieldError) Unwrap() error { return e.Err }

func tooLarge(what string, size, limit int) error {
	return &FieldError{Field: what, Problem: fmt.Sprintf("has %d bytes, the limit is %d", size, limit), Err: ErrTooLarge}
}
