package dlq

import (
	"context"
	"hash/maphash"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/barnabas-webhooks/barnabas/schemas"
)

// Mark says when, by what run and by whom a dead letter was replayed.
type Mark struct {
	At       time.Time `json:"at"`
	Run      string    `json:"run"`
	Operator string    `json:"operator,omitempty"`
}

// marks are the replay marks of one partition: about 50 bytes for each, as the
// ids are kept as hashes and the names of runs once.
type marks struct {
	seed maphash.Seed
	by   map[int64]mark
	// unreadable marks cannot say which letter they belong to. Their key is a
	// delivery id: no letter of that delivery is replayed until they expire.
	unreadable map[uint64]struct{}
	names      map[string]string
}

type mark struct {
	id       uint64 // hash of the delivery id: a recreated dlq topic reuses offsets
	at       int64  // Unix ms
	run      string
	operator string
}

// readMarks reads the marks that concern the letters of one partition.
func readMarks(ctx context.Context, g *log, topic string, p int32, s span, letters span) (*marks, error) {
	m := &marks{
		seed:       maphash.MakeSeed(),
		by:         map[int64]mark{},
		unreadable: map[uint64]struct{}{},
		names:      map[string]string{},
	}
	err := g.read(ctx, topic, p, s, func(r *kgo.Record) error {
		v, err := schemas.DecodeReplayMark(r.Value)
		if err != nil {
			m.unreadable[m.hash(string(r.Key))] = struct{}{}
			return nil
		}
		if v.DeadLetter.Partition != p || v.DeadLetter.Offset < letters.start || v.DeadLetter.Offset >= letters.end {
			return nil
		}
		m.by[v.DeadLetter.Offset] = mark{
			id: m.hash(v.DeliveryID), at: v.ReplayedAt.UnixMilli(),
			run: m.intern(v.Run), operator: m.intern(v.Operator),
		}
		return nil
	})
	return m, err
}

// of finds the mark of a letter; nil when it was not replayed.
func (m *marks) of(l *Letter) *Mark {
	k, ok := m.by[l.At.Offset]
	if !ok || k.id != m.hash(l.Delivery.ID) {
		return nil
	}
	return &Mark{At: time.UnixMilli(k.at).UTC(), Run: k.run, Operator: k.operator}
}

// doubtful says that a mark of this delivery exists but cannot be read.
func (m *marks) doubtful(id string) bool {
	_, ok := m.unreadable[m.hash(id)]
	return ok
}

func (m *marks) hash(s string) uint64 { return maphash.String(m.seed, s) }

func (m *marks) intern(s string) string {
	if have, ok := m.names[s]; ok {
		return have
	}
	m.names[s] = s
	return s
}
