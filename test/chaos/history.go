package chaos

import (
	"crypto/sha256"
	"fmt"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/barnabas-webhooks/barnabas/schemas"
	"github.com/barnabas-webhooks/barnabas/topics"
)

// History is what stands in the topics, read committed.
type History struct {
	Events   []Event
	Steps    []Step
	Attempts []Attempt
	Letters  []Letter
	// Live are the source records that nothing has settled yet, by the group's committed offsets and their maps.
	Live []schemas.Coordinates
}

// Event is one record of the events topic.
type Event struct {
	At       schemas.Coordinates
	ID       string // of the delivery that it would be
	Endpoint string
	Key      string
	Content  [sha256.Size]byte // what a key is bound to
	Body     [sha256.Size]byte // of the payload
	Strayed  bool              // it lies in a partition that its key does not belong to, and is to be moved
	Origin   schemas.Coordinates
}

// Step is one record of a tier or of replay: a place where a delivery waits. Each move of a delivery within a run
// spends an attempt or a hold, so that Attempts + Holds numbers its steps.
type Step struct {
	At       schemas.Coordinates
	ID       string
	Run      int // 0 the first, n after the nth replay
	Attempts int
	Holds    int
	Due      time.Time // zero in replay
	Replay   bool
}

// Attempt is one record of attempts.
type Attempt struct{ schemas.Attempt }

// Letter is one record of dlq.
type Letter struct {
	At     schemas.Coordinates
	ID     string
	Run    int
	Reason string
}

// add reads one record.
func (h *History) add(c *topics.Catalogue, r *kgo.Record) error {
	at := schemas.Coordinates{Topic: r.Topic, Partition: r.Partition, Offset: r.Offset}
	var err error
	switch r.Topic {
	case c.Events():
		err = h.addEvent(c, at, r)
	case c.Attempts():
		var a schemas.Attempt
		a, err = schemas.DecodeAttempt(r.Value)
		a.Excerpt = nil
		h.Attempts = append(h.Attempts, Attempt{a})
	case c.DLQ():
		var l schemas.DeadLetter
		l, err = schemas.DecodeDeadLetter(r.Value)
		h.Letters = append(h.Letters, Letter{At: at, ID: l.Delivery.ID, Run: l.Delivery.Replays, Reason: l.Reason})
	default:
		var d schemas.Delivery
		d, err = schemas.DecodeDelivery(r.Value)
		h.Steps = append(h.Steps, Step{
			At: at, ID: d.ID, Run: d.Replays, Attempts: d.Attempts, Holds: d.Holds, Due: d.DueAt, Replay: r.Topic == c.Replay(),
		})
	}
	if err != nil {
		return fmt.Errorf("read %s[%d] offset %d: %w", r.Topic, r.Partition, r.Offset, err)
	}
	return nil
}

func (h *History) addEvent(c *topics.Catalogue, at schemas.Coordinates, r *kgo.Record) error {
	headers := make([]schemas.Header, len(r.Headers))
	for i, hd := range r.Headers {
		headers[i] = schemas.Header{Key: hd.Key, Value: hd.Value}
	}
	e, err := schemas.ReadEvent(r.Key, r.Value, headers)
	if err != nil {
		return err
	}
	id := e.DeliveryID
	if id == "" {
		id = schemas.DeriveDeliveryID(at, r.Timestamp.UnixMilli())
	}
	h.Events = append(h.Events, Event{
		At: at, ID: id, Endpoint: e.EndpointID, Key: e.IdempotencyKey, Content: [sha256.Size]byte(schemas.ContentHash(&e)),
		Body: sha256.Sum256(e.Payload), Strayed: topics.Partition(e.EndpointID, c.Partitions) != at.Partition, Origin: e.Origin,
	})
	return nil
}
