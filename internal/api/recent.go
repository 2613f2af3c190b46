package api

import (
	"sync"
	"time"

	"github.com/barnabas-webhooks/barnabas/schemas"
)

// Status is what is known of a delivery.
type Status string

// The statuses of a delivery, as GET /v1/deliveries/{id} shows them.
const (
	StatusPending   Status = "pending"   // durable, verdict not known yet
	StatusAccepted  Status = "accepted"  // owns its key; not attempted yet
	StatusRetrying  Status = "retrying"  // an attempt failed, another follows
	StatusDelivered Status = "delivered" //
	StatusDead      Status = "dead"      // given up on: in the dead-letter topic
	StatusDuplicate Status = "duplicate" // a repeat: the owner of the key is delivered instead
	StatusConflict  Status = "conflict"  // same key, other content: not delivered
)

// DeliveryStatus is the body of GET /v1/deliveries/{id}.
type DeliveryStatus struct {
	DeliveryID      string     `json:"delivery_id"`
	EndpointID      string     `json:"endpoint_id"`
	Status          Status     `json:"status"`
	OwnerDeliveryID string     `json:"owner_delivery_id,omitempty"` // of a duplicate or conflict: who owns the key
	Attempts        int        `json:"attempts"`                    // POSTs in the latest run
	Replays         int        `json:"replays,omitempty"`
	LastClass       string     `json:"last_class,omitempty"`
	LastStatus      int        `json:"last_status,omitempty"` // HTTP
	LastError       string     `json:"last_error,omitempty"`
	LastAttemptAt   *time.Time `json:"last_attempt_at,omitempty"`
	NextAttemptAt   *time.Time `json:"next_attempt_at,omitempty"`
	// Partial says that the answer comes of a search that its bounds ended: something later may have happened.
	Partial bool `json:"partial,omitempty"`

	tenant string // whose it is; empty: look at the endpoint
}

// recentDeliveries remembers the deliveries seen last, bounded by count. It is filled by this node's own accepts and
// by the tails of the idempotency and attempts topics, so it knows nothing of what was before the process started.
// Safe for concurrent use.
type recentDeliveries struct {
	mu   sync.Mutex // guards what follows
	byID map[string]*DeliveryStatus
	ring []string // ids in the order of first sight, oldest at next once full
	next int
	size int
}

func newRecentDeliveries(size int) *recentDeliveries {
	return &recentDeliveries{byID: map[string]*DeliveryStatus{}, size: size}
}

// get returns a copy.
func (d *recentDeliveries) get(id string) (DeliveryStatus, bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	s, ok := d.byID[id]
	if !ok {
		return DeliveryStatus{}, false
	}
	return *s, true
}

// at returns the entry of an id, made if it is not there. The caller holds mu.
func (d *recentDeliveries) at(id string) *DeliveryStatus {
	if s, ok := d.byID[id]; ok {
		return s
	}
	if len(d.ring) < d.size {
		d.ring = append(d.ring, id)
	} else {
		delete(d.byID, d.ring[d.next])
		d.ring[d.next] = id
		d.next = (d.next + 1) % d.size
	}
	s := &DeliveryStatus{DeliveryID: id, Status: StatusPending}
	d.byID[id] = s
	return s
}

// appended notes that an event is durable, before its verdict.
func (d *recentDeliveries) appended(e *schemas.Event, tenant string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	s := d.at(e.DeliveryID)
	s.EndpointID, s.tenant = e.EndpointID, tenant
}

// answered notes the verdict on an event that this node appended.
func (d *recentDeliveries) answered(id string, a Answer) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.at(id).answered(a)
}

// claimed notes what the tail of the idempotency topic shows: the owner of a key exists. Only the answer to the owner's
// own event says something of its state: by the time of a repeat it may have been delivered long ago.
func (d *recentDeliveries) claimed(c *schemas.Claim) {
	if c.Verdict != schemas.VerdictFirst {
		return
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	s := d.at(c.DeliveryID)
	s.EndpointID = c.EndpointID
	if s.Status == StatusPending {
		s.Status = StatusAccepted
	}
}

// attempted notes what the tail of the attempts topic shows.
func (d *recentDeliveries) attempted(a *schemas.Attempt) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.at(a.DeliveryID).attempted(a)
}

// searched notes what a search found. What the tail has shown meanwhile is later, and stays.
func (d *recentDeliveries) searched(found *DeliveryStatus) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if _, there := d.byID[found.DeliveryID]; !there {
		*d.at(found.DeliveryID) = *found
	}
}

// answered takes the verdict on the delivery's event.
func (s *DeliveryStatus) answered(a Answer) {
	switch a.Verdict {
	case schemas.VerdictDuplicate:
		s.Status, s.OwnerDeliveryID = StatusDuplicate, a.OwnerID
	case schemas.VerdictConflict:
		s.Status, s.OwnerDeliveryID = StatusConflict, a.OwnerID
	case schemas.VerdictFirst:
		if s.Status == StatusPending {
			s.Status = StatusAccepted
		}
	}
}

// attempted takes a record of the attempts topic.
func (s *DeliveryStatus) attempted(a *schemas.Attempt) {
	s.EndpointID, s.tenant = a.EndpointID, a.Tenant
	switch a.Kind {
	case schemas.AttemptDuplicate:
		s.Status, s.OwnerDeliveryID = StatusDuplicate, a.OwnerDeliveryID
		return
	case schemas.AttemptConflict:
		s.Status, s.OwnerDeliveryID = StatusConflict, a.OwnerDeliveryID
		return
	case schemas.AttemptPost:
	}
	if a.Replay < s.Replays || a.Replay == s.Replays && a.Number < s.Attempts {
		return // told twice, in another order
	}
	s.Replays, s.Attempts = a.Replay, a.Number
	s.LastClass, s.LastStatus, s.LastError = a.Class, a.Status, a.Error
	s.LastAttemptAt, s.NextAttemptAt = timeOrNil(a.At), timeOrNil(a.NextAt)
	switch a.Decision {
	case "delivered":
		s.Status = StatusDelivered
	case "dead":
		s.Status = StatusDead
	default:
		s.Status = StatusRetrying
	}
}

func timeOrNil(t time.Time) *time.Time {
	if t.IsZero() {
		return nil
	}
	t = t.UTC()
	return &t
}
