package dlq

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/barnabas-webhooks/barnabas/schemas"
	"github.com/barnabas-webhooks/barnabas/topics"
)

// clockSkew is how far the clocks of processors and brokers may be apart
// before a scan since some time could miss a letter.
const clockSkew = 10 * time.Minute

// Queue is the dead letters of one installation.
type Queue struct {
	topics topics.Catalogue
	kafka  []kgo.Opt
}

// New makes a Queue. kafka says how to reach the cluster (seeds, TLS, SASL,
// logger); consuming and producing options are the Queue's own. Each call
// opens clients and closes them again.
func New(cat topics.Catalogue, kafka ...kgo.Opt) *Queue {
	return &Queue{topics: cat, kafka: slices.Clone(kafka)}
}

// Letter is one record of the dlq topic, as a scan yields it.
type Letter struct {
	schemas.DeadLetter
	At        schemas.Coordinates // of this dead letter
	Timestamp time.Time           // of its record
	Key       []byte
	Headers   []schemas.Header
	// Size is that of the record's value, in bytes.
	Size int
	// Replayed is how this letter was replayed; nil when it was not.
	Replayed *Mark
	// Err says that the record could not be decoded (an *UnreadableError): of
	// DeadLetter only what key, headers and timestamp say is filled in.
	Err error

	doubtful bool // a mark that cannot be read may be this letter's
}

// Ref names the letter by partition and offset, as "3/1042".
func (l *Letter) Ref() string { return ref(l.At.Partition, l.At.Offset) }

// DiedAgain says that the delivery had been replayed before it died here.
func (l *Letter) DiedAgain() bool { return l.Delivery.Replays > 0 }

// Scanned is how far a scan has come.
type Scanned struct {
	Records int64 // read so far
	Span    int64 // offsets to go through in all; more than there are records, where transactions leave gaps
	Done    int64 // offsets gone through
}

// ScanOptions of [Queue.Letters].
type ScanOptions struct {
	// Progress, when set, is called about every thousand records and at the end,
	// on the caller's goroutine.
	Progress func(Scanned)
}

// Letters goes through the dead letters that match, partition by partition in
// ascending order and by offset within one, up to the end that the topic had at
// the call. One letter is in memory at a time. A record that cannot be decoded
// is a letter with Err set, not the end; an error as second value is the end.
func (q *Queue) Letters(ctx context.Context, f Filter, o ScanOptions) iter.Seq2[*Letter, error] {
	return func(yield func(*Letter, error) bool) {
		if err := f.Validate(); err != nil {
			yield(nil, err)
			return
		}
		g, err := openLog(q.kafka)
		if err != nil {
			yield(nil, err)
			return
		}
		defer g.close()
		x, err := q.extent(ctx, g, f)
		if err != nil {
			yield(nil, err)
			return
		}
		n := 0
		err = q.scan(ctx, g, x, f, o.Progress, func(l *Letter) error {
			if l.Replayed != nil && !f.IncludeReplayed {
				return nil
			}
			n++
			if !yield(l, nil) || n == f.Limit {
				return errStop
			}
			return nil
		})
		if err != nil && !errors.Is(err, errStop) {
			yield(nil, err)
		}
	}
}

// errStop is how a visitor ends a scan that is well.
var errStop = errors.New("stop")

// extent is what a scan goes through: pinned at its beginning.
type extent struct {
	letters map[int32]span
	marks   map[int32]span
	order   []int32 // the partitions to visit
}

// partitions is how many the dlq topic has.
func (x extent) partitions() int { return len(x.letters) }

func (x extent) span() (n int64) {
	for _, p := range x.order {
		n += max(0, x.letters[p].end-x.letters[p].start)
	}
	return n
}

func (q *Queue) extent(ctx context.Context, g *log, f Filter) (extent, error) {
	letters, err := g.spans(ctx, q.topics.DLQ())
	if err != nil {
		return extent{}, err
	}
	if !f.Since.IsZero() {
		if err := g.after(ctx, q.topics.DLQ(), letters, f.Since.Add(-clockSkew)); err != nil {
			return extent{}, err
		}
	}
	x := extent{letters: letters, order: f.partitions(len(letters))}
	if x.order == nil {
		for p := range letters {
			x.order = append(x.order, p)
		}
		slices.Sort(x.order)
	}
	return x, q.pinMarks(ctx, g, &x)
}

// pinMarks takes the ends of dlq.state anew.
func (q *Queue) pinMarks(ctx context.Context, g *log, x *extent) error {
	marks, err := g.spans(ctx, q.topics.DLQState())
	if err != nil {
		return err
	}
	if len(marks) != len(x.letters) {
		return &TopicError{q.topics.DLQState(), fmt.Errorf("has %d partitions, %s has %d: they must be the same", len(marks), q.topics.DLQ(), len(x.letters))}
	}
	x.marks = marks
	return nil
}

// scan visits the matching letters of an extent, replayed or not, each with its mark.
func (q *Queue) scan(ctx context.Context, g *log, x extent, f Filter, progress func(Scanned), visit func(*Letter) error) error {
	s := Scanned{Span: x.span()}
	if progress == nil {
		progress = func(Scanned) {}
	}
	for _, p := range x.order {
		letters, before := x.letters[p], s.Done
		if letters.empty() {
			continue
		}
		if err := q.scanPartition(ctx, g, x, p, f, visit, func(offset int64) {
			s.Records++
			s.Done = before + offset + 1 - letters.start
			if s.Records%1000 == 0 {
				progress(s)
			}
		}); err != nil {
			return err
		}
		s.Done = before + letters.end - letters.start
	}
	progress(s)
	return nil
}

func (q *Queue) scanPartition(ctx context.Context, g *log, x extent, p int32, f Filter, visit func(*Letter) error, read func(offset int64)) error {
	m, err := readMarks(ctx, g, q.topics.DLQState(), p, x.marks[p], x.letters[p])
	if err != nil {
		return err
	}
	return g.read(ctx, q.topics.DLQ(), p, x.letters[p], func(r *kgo.Record) error {
		read(r.Offset)
		if f.skips(r) {
			return nil
		}
		l := letterOf(r)
		if !f.matches(l) {
			return nil
		}
		l.Replayed = m.of(l)
		l.doubtful = m.doubtful(l.Delivery.ID)
		return visit(l)
	})
}

// letterOf decodes a record of the dlq topic, or takes what it says beside its value.
func letterOf(r *kgo.Record) *Letter {
	l := &Letter{At: coordinates(r), Timestamp: r.Timestamp, Key: r.Key, Size: len(r.Value)}
	for _, h := range r.Headers {
		l.Headers = append(l.Headers, schemas.Header{Key: h.Key, Value: h.Value})
	}
	dead, err := schemas.DecodeDeadLetter(r.Value)
	if err != nil {
		l.Err = &UnreadableError{l.At, err}
		l.DeadAt = r.Timestamp
		l.Delivery.EndpointID = name(string(r.Key))
		l.Delivery.ID = learn(l.Headers, topics.HeaderDeliveryID)
		l.Delivery.EventType = learn(l.Headers, topics.HeaderEventType)
		l.Reason = learn(l.Headers, topics.HeaderReason)
		return l
	}
	l.DeadLetter = dead
	return l
}
