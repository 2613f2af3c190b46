package schemas

import "fmt"

// DecodeError is foreign bytes that are not the record they should be.
type DecodeError struct {
	Record string // the record type wanted
	Err    error
}

func (e *DecodeError) Error() string { return fmt.Sprintf("decode %s: %v", e.Record, e.Err) }
func (e *DecodeError) Unwrap() error { return e.Err }

func EncodeEvent(v *Event) ([]byte, error)                         { panic("helper A") }
func DecodeEvent(b []byte) (Event, error)                          { panic("helper A") }
func EncodeDelivery(v *Delivery) ([]byte, error)                   { panic("helper A") }
func DecodeDelivery(b []byte) (Delivery, error)                    { panic("helper A") }
func EncodeAttempt(v *Attempt) ([]byte, error)                     { panic("helper A") }
func DecodeAttempt(b []byte) (Attempt, error)                      { panic("helper A") }
func EncodeDeadLetter(v *DeadLetter) ([]byte, error)               { panic("helper A") }
func DecodeDeadLetter(b []byte) (DeadLetter, error)                { panic("helper A") }
func EncodeClaim(v *Claim) ([]byte, error)                         { panic("helper A") }
func DecodeClaim(b []byte) (Claim, error)                          { panic("helper A") }
func EncodeEndpoint(v *Endpoint) ([]byte, error)                   { panic("helper A") }
func DecodeEndpoint(b []byte) (Endpoint, error)                    { panic("helper A") }
func EncodeBreakerTransition(v *BreakerTransition) ([]byte, error) { panic("helper A") }
func DecodeBreakerTransition(b []byte) (BreakerTransition, error)  { panic("helper A") }
func EncodeReplayMark(v *ReplayMark) ([]byte, error)               { panic("helper A") }
func DecodeReplayMark(b []byte) (ReplayMark, error)                { panic("helper A") }

// ReadEvent reads any record of the events topic: Avro single-object, a plain
// record with headers, or CloudEvents in Kafka binary mode. The error is a *DecodeError.
func ReadEvent(key, value []byte, headers []Header) (Event, error) { panic("helper A") }

// MintDeliveryID makes the id of a delivery that the send API accepts.
func MintDeliveryID() string { panic("helper A") }

// DeriveDeliveryID makes the id of a delivery whose producer gave none: the same
// coordinates and record timestamp (Unix ms, which tells a recreated topic's
// offsets apart) always give the same id.
func DeriveDeliveryID(c Coordinates, timestampMillis int64) string { panic("helper A") }

// ContentHash is what an idempotency key is bound to: SHA-256 over event type,
// content type and payload, each length-prefixed.
func ContentHash(e *Event) []byte { panic("helper A") }
