package sim_test

import (
	"bytes"
	"fmt"
	"slices"
	"time"

	"github.com/barnabas-webhooks/barnabas/schemas"
	"github.com/barnabas-webhooks/barnabas/topics"
)

// Account is everything that is known of one delivery: where it lives, what was
// attempted, what became of it. One that cannot be read is an account too, by
// its coordinates.
type Account struct {
	Name     string
	ID       string // empty: cannot be read
	Endpoint string
	Key      string
	Payload  []byte
	Verdict  schemas.Verdict // of its event; empty: no key
	Refused  bool            // by the verdict: must not be delivered
	Raw      bool            // cannot be read
	Origin   schemas.Coordinates

	Live     []string // every place where it waits
	Letters  []LetterAt
	Posted   []AttemptAt
	Answers  []AttemptAt // records that say it was refused
	Tiers    []Source
	Replayed int // records of the replay topic
}

// Model is what ought to be, worked out from the log alone by the plainest means.
type Model struct {
	accounts map[string]*Account
	// owner is the delivery that owns a key now, by the last verdict.
	byWhere map[schemas.Coordinates]*Account
	// firsts lists, for each endpoint and key, the deliveries that own it, one a window.
	problems []string
}

func (m *Model) bad(invariant int, format string, args ...any) {
	m.badly(fmt.Sprintf("invariant %d", invariant), format, args...)
}

func (m *Model) badly(promise, format string, args ...any) {
	m.problems = append(m.problems, promise+": "+fmt.Sprintf(format, args...))
}

func (m *Model) account(name string) *Account {
	a := m.accounts[name]
	if a == nil {
		a = &Account{Name: name}
		m.accounts[name] = a
	}
	return a
}

func coordinates(c schemas.Coordinates) string {
	return fmt.Sprintf("%s[%d]@%d", c.Topic, c.Partition, c.Offset)
}

type ownedKey struct {
	id   string
	hash []byte
	at   time.Time
}

// NewModel reads the log of events as the design says it is to be read.
func NewModel(r *Reading, c topics.Catalogue, window time.Duration) *Model {
	m := &Model{accounts: map[string]*Account{}, byWhere: map[schemas.Coordinates]*Account{}}
	owners := map[string]ownedKey{}
	copies := map[schemas.Coordinates]int{} // of misrouted events: how often each was re-routed
	for _, s := range r.Events {
		event, err := schemas.ReadEvent(s.Key, s.Value, headers(s))
		if err != nil {
			m.raw(s)
			continue
		}
		id := event.DeliveryID
		if id == "" {
			id = schemas.DeriveDeliveryID(s.At, s.Timestamp.UnixMilli())
		}
		a := m.account(id)
		m.byWhere[s.At] = a
		a.ID, a.Endpoint, a.Key, a.Payload = id, event.EndpointID, event.IdempotencyKey, event.Payload
		if event.Origin != (schemas.Coordinates{}) {
			copies[event.Origin]++
			a.Origin = event.Origin
		} else {
			a.Origin = s.At
		}
		if topics.Partition(event.EndpointID, c.Partitions) != s.Partition {
			if !s.Settled {
				a.Live = append(a.Live, coordinates(s.At)+" (misrouted)")
			}
			continue
		}
		if event.IdempotencyKey != "" {
			key := event.EndpointID + "\x00" + event.IdempotencyKey
			hash := schemas.ContentHash(&event)
			o, held := owners[key]
			switch {
			case !held || s.Timestamp.Sub(o.at) >= window:
				owners[key] = ownedKey{id, hash, s.Timestamp}
				a.Verdict = schemas.VerdictFirst
			case bytes.Equal(o.hash, hash):
				a.Verdict = schemas.VerdictDuplicate
			default:
				a.Verdict = schemas.VerdictConflict
			}
			a.Refused = a.Verdict != schemas.VerdictFirst
		}
		if !s.Settled {
			a.Live = append(a.Live, coordinates(s.At))
		}
	}
	for _, s := range r.Events {
		a := m.byWhere[s.At]
		if a == nil || a.Raw || topics.Partition(a.Endpoint, c.Partitions) == s.Partition {
			continue
		}
		if n := copies[s.At]; s.Settled && n != 1 || !s.Settled && n != 0 {
			m.bad(2, "misrouted event %s (settled: %t) was re-routed %d times", coordinates(s.At), s.Settled, n)
		}
	}
	m.follow(r)
	return m
}

// raw opens the account of a record that cannot be read.
func (m *Model) raw(s Source) {
	a := m.account(coordinates(s.At))
	m.byWhere[s.At] = a
	a.Raw, a.Origin, a.Payload = true, s.At, s.Value
	if !s.Settled {
		a.Live = append(a.Live, coordinates(s.At))
	}
}

// follow books everything that came of the events.
func (m *Model) follow(r *Reading) {
	for _, sources := range [][]Source{r.Waiting, r.Replays} {
		for _, s := range sources {
			if s.Delivery == nil {
				m.raw(s)
				continue
			}
			a := m.accounts[s.Delivery.ID]
			if a == nil {
				m.bad(12, "%s holds delivery %s, which no event asks for", coordinates(s.At), s.Delivery.ID)
				continue
			}
			m.byWhere[s.At] = a
			if !bytes.Equal(a.Payload, s.Delivery.Payload) {
				m.bad(1, "%s holds delivery %s with another payload", coordinates(s.At), a.ID)
			}
			if !s.Settled {
				a.Live = append(a.Live, coordinates(s.At))
			}
			if s.Delivery.DueAt.IsZero() {
				a.Replayed++
			} else {
				a.Tiers = append(a.Tiers, s)
			}
		}
	}
	for _, l := range r.Letters {
		a := m.byWhere[l.Source]
		if a == nil {
			m.bad(12, "dead letter %s is of %s, which does not exist", coordinates(l.At), coordinates(l.Source))
			continue
		}
		a.Letters = append(a.Letters, l)
		switch marks := r.Marks[l.At]; {
		case marks == 0:
			a.Live = append(a.Live, coordinates(l.At))
		case marks > 1:
			m.bad(2, "dead letter %s was replayed %d times", coordinates(l.At), marks)
		}
	}
	marked := 0
	for _, n := range r.Marks {
		marked += n
	}
	if marked != len(m.replays(r)) {
		m.bad(2, "%d dead letters are marked as replayed, the replay topic holds %d", marked, len(m.replays(r)))
	}
	for _, at := range r.Attempts {
		a := m.accounts[at.DeliveryID]
		switch {
		case a == nil:
			m.bad(12, "an attempt is recorded of %s, which no event asks for", at.DeliveryID)
		case at.Kind == schemas.AttemptPost:
			a.Posted = append(a.Posted, at)
		default:
			a.Answers = append(a.Answers, at)
		}
	}
	for _, a := range m.accounts {
		slices.SortFunc(a.Posted, func(x, y AttemptAt) int { return x.At.Compare(y.At) })
	}
}

// replays are the readable records of the replay topic.
func (m *Model) replays(r *Reading) []Source {
	var all []Source
	for _, s := range r.Replays {
		if s.Delivery != nil {
			all = append(all, s)
		}
	}
	return all
}

// Delivered counts the attempts that the log calls delivered.
func (a *Account) Delivered() int {
	n := 0
	for _, p := range a.Posted {
		if p.Decision == "delivered" {
			n++
		}
	}
	return n
}

func headers(s Source) []schemas.Header {
	hs := make([]schemas.Header, 0, len(s.Headers))
	for _, h := range s.Headers {
		hs = append(hs, schemas.Header{Key: h.Key, Value: h.Value})
	}
	return hs
}
