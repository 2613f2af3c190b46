// Package endpoint holds the subscribers' configuration: the compacted endpoints
// topic as a table that every process keeps whole, and the registry that writes it.
package endpoint

import (
	"context"
	"time"

	"github.com/barnabas-webhooks/barnabas/schemas"
)

// Endpoint is a subscriber's current configuration with its secrets unsealed.
// Values are immutable once handed out.
type Endpoint struct {
	schemas.Endpoint
	// Keys are the raw signing keys with their life spans, newest first.
	Keys []Key
}

// Key is one unsealed signing secret.
type Key struct {
	Secret    []byte
	ExpiresAt time.Time // zero: active
}

// ActiveKeys are the keys to sign with now: the newest, and older ones in their overlap.
func (e *Endpoint) ActiveKeys(now time.Time) [][]byte { panic("helper D") }

// Table is the whole endpoints topic in memory, kept current by a tail. Safe for concurrent use.
type Table struct { /* helper D */
}

// Get returns the endpoint's current configuration; false when there is none (unknown or deleted).
func (t *Table) Get(id string) (*Endpoint, bool) { panic("helper D") }

// Deleted says whether the id was known once and then deleted.
func (t *Table) Deleted(id string) bool { panic("helper D") }

// Run reads the topic from the start and follows it until ctx ends.
func (t *Table) Run(ctx context.Context) error { panic("helper D") }

// WaitReady returns when the table has caught up with the end of the topic as it was at the call of Run.
func (t *Table) WaitReady(ctx context.Context) error { panic("helper D") }
