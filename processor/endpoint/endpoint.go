// Package endpoint holds the subscribers' configuration: the compacted endpoints
// topic as a table that every process keeps whole, and the registry that writes it.
//
//	a change ──> Registry ──produce──> endpoints topic ──tail──> Table ──Get──> an attempt
//	                ^                                              │
//	                └───────────── sees its own write ─────────────┘
//
// # Table
//
// The topic is read from its start, whole, by every process; it is compacted, so the last record of an id is its
// configuration and a tombstone its deletion. Configuration is read at send time (policy P9), so [Table.Get] is
// called for every attempt and is one map look-up. Secrets are unsealed once, when the record comes in.
//
// A table is not the delivery log: a record that makes no sense is counted, logged and passed over, and the previous
// version stays. Where there is no previous version, or where a secret cannot be unsealed with this process's key,
// the endpoint is kept with [Endpoint.Locked] set: its deliveries must wait. That is our own trouble (a newer schema, a
// wrong key), so it may neither cost an attempt nor end a delivery.
//
// # Registry
//
// A change reads the current version, changes it and writes it. Nothing in Kafka compares and swaps, but the log has
// one order, so a lost update can be seen afterwards: when another process's version lies between the one that was
// read and the one that was written, the change is made again on top of it (see [Registry]).
//
// Lock order: Registry's lock of an id, then Table.mu. No lock is held while waiting for Kafka but the former.
package endpoint

import (
	"fmt"
	"log/slog"
	"time"

	"github.com/barnabas-webhooks/barnabas/internal/obs"
	"github.com/barnabas-webhooks/barnabas/internal/secret"
	"github.com/barnabas-webhooks/barnabas/schemas"
)

// Endpoint is a subscriber's current configuration with its secrets unsealed.
// Values are immutable once handed out.
type Endpoint struct {
	schemas.Endpoint
	// Keys are the raw signing keys with their life spans, newest first.
	Keys []Key
	// Locked says why this process cannot use the endpoint although it exists: nil, or an error that wraps
	// ErrUnseal or a *schemas.DecodeError. Its deliveries are held, attempts unspent.
	Locked error
	// Epoch changes when the endpoint is made or switched on again, and with nothing else: what was counted against
	// it before says nothing any more (C-104). Means something within one table only.
	Epoch int64
}

// Key is one unsealed signing secret. It prints as ***.
type Key struct {
	Secret    []byte    `json:"-"`
	ExpiresAt time.Time // zero: active
}

// ActiveKeys are the keys to sign with now: the newest, and older ones in their overlap.
// A key is active up to, not including, its ExpiresAt.
func (e *Endpoint) ActiveKeys(now time.Time) [][]byte {
	keys := make([][]byte, 0, len(e.Keys))
	for i := range e.Keys {
		if k := &e.Keys[i]; k.ExpiresAt.IsZero() || now.Before(k.ExpiresAt) {
			keys = append(keys, k.Secret)
		}
	}
	return keys
}

// Enabled says whether deliveries may be attempted, as far as the configuration goes.
func (e *Endpoint) Enabled() bool { return e.State != schemas.EndpointDisabled }

// Format keeps secrets, and the path and query of the URL, out of anything printed with package fmt.
func (e *Endpoint) Format(f fmt.State, _ rune) { fmt.Fprintf(f, "endpoint %q", e.ID) }

// LogValue keeps secrets, and the path and query of the URL, out of logs.
func (e *Endpoint) LogValue() slog.Value {
	return slog.GroupValue(slog.String(obs.KeyEndpointID, e.ID), slog.String(obs.KeyState, string(e.State)))
}

// Format prints ***, whatever the verb.
func (k Key) Format(f fmt.State, _ rune) { fmt.Fprint(f, secret.Mask) }

// LogValue prints ***.
func (k Key) LogValue() slog.Value { return slog.StringValue(secret.Mask) }
