package demo

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"sort"
	"text/tabwriter"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/barnabas-webhooks/barnabas/dlq"
	"github.com/barnabas-webhooks/barnabas/processor/endpoint"
	"github.com/barnabas-webhooks/barnabas/retry"
	"github.com/barnabas-webhooks/barnabas/schemas"
	"github.com/barnabas-webhooks/barnabas/topics"
)

// Result is what the demo counted.
type Result struct {
	Sent         int      `json:"sent"`            // sends, repeats included
	Repeats      int      `json:"repeats_sent"`    // of these, sends of a key that had been sent
	Accepted     int      `json:"accepted"`        // distinct keys
	Dropped      int      `json:"repeats_dropped"` // events settled as duplicates: the script's repeats, and sends whose answer the kill cut off
	Delivered    int      `json:"delivered"`       // distinct deliveries a receiver answered with 2xx
	Attempts     int      `json:"attempts"`        // POSTs that were settled
	Retried      int      `json:"retried"`         // of these, beyond the first of a run
	DeadLettered int      `json:"dead_lettered"`
	Replayed     int      `json:"replayed"`
	Duplicates   int      `json:"duplicate_posts"` // POSTs of a delivery that had landed: only where the kill hid the outcome
	Unverified   int      `json:"unverified"`      // POSTs whose signature did not verify
	Lost         int      `json:"lost"`
	Seconds      float64  `json:"seconds"`
	Violations   []string `json:"violations"`
}

// count reads the topics and the receivers and holds them against the ledger.
func (d *demo) count(ctx context.Context, r *Result) error {
	d.progress.phase("counting", 0)
	// What the last POSTs came to is settled within a beat or two.
	delivered := map[string]int{}
	if err := d.await(ctx, "the last beat", func(ctx context.Context) (bool, error) {
		clear(delivered)
		r.Attempts, r.Retried, r.Dropped = 0, 0, 0
		err := readAll(ctx, d.broker.Addr(), d.catalogue.Attempts(), func(rec *kgo.Record) error {
			a, err := schemas.DecodeAttempt(rec.Value)
			if err != nil {
				return err
			}
			switch {
			case a.Kind != schemas.AttemptPost:
				r.Dropped++
			case a.Decision == string(retry.Delivered):
				delivered[a.DeliveryID]++
			}
			if a.Kind == schemas.AttemptPost {
				r.Attempts++
				if a.Number > 1 {
					r.Retried++
				}
			}
			return nil
		})
		return len(delivered) >= d.Events, err
	}); err != nil {
		return err
	}
	letters := map[string]int{}
	if err := readAll(ctx, d.broker.Addr(), d.catalogue.DLQ(), func(rec *kgo.Record) error {
		l, err := schemas.DecodeDeadLetter(rec.Value)
		letters[l.Delivery.ID]++
		return err
	}); err != nil {
		return err
	}

	landed := map[string]int{}
	for _, s := range d.subs {
		stats := s.receiver.Stats()
		r.Duplicates += stats.Repeats
		r.Unverified += stats.Unverified
		for id := range s.receiver.Delivered() {
			landed[id]++
		}
	}
	r.Accepted, r.Delivered = d.Events, len(landed)
	for _, n := range letters {
		r.DeadLettered += n
	}
	r.Lost = max(0, r.Accepted-r.Delivered)

	violated := func(format string, args ...any) { r.Violations = append(r.Violations, fmt.Sprintf(format, args...)) }
	r.Violations = append([]string{}, d.ledger.forked...)
	if r.Lost > 0 || r.Delivered != r.Accepted {
		violated("%d keys were accepted, %d deliveries landed", r.Accepted, r.Delivered)
	}
	for key, id := range d.ledger.owner {
		if landed[id] == 0 {
			violated("key %s: its delivery %s never landed", key, id)
		}
	}
	for id, n := range delivered {
		if n > 1 {
			violated("delivery %s was settled as delivered %d times", id, n)
		}
	}
	for id, n := range letters {
		if n > 1 {
			violated("delivery %s is %d dead letters", id, n)
		}
	}
	if r.Dropped < r.Repeats {
		violated("%d repeats were sent, %d dropped", r.Repeats, r.Dropped)
	}
	if want := d.share(2); r.DeadLettered != want || r.Replayed != want {
		violated("%d deliveries were for the dead receiver: %d dead-lettered, %d replayed", want, r.DeadLettered, r.Replayed)
	}
	if r.Unverified > 0 {
		violated("%d POSTs had a signature that does not verify", r.Unverified)
	}
	sort.Strings(r.Violations)
	return nil
}

// write prints the result.
func (r *Result) write(w io.Writer, asJSON bool) error {
	if asJSON {
		e := json.NewEncoder(w)
		e.SetIndent("", "  ")
		return e.Encode(r)
	}
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	for _, row := range []struct {
		name string
		n    int
		note string
	}{
		{"accepted", r.Accepted, "distinct idempotency keys"},
		{"repeats dropped", r.Dropped, fmt.Sprintf("%d sent on purpose; the others are sends whose answer the kill cut off", r.Repeats)},
		{"delivered", r.Delivered, "distinct delivery ids, signatures verified"},
		{"attempts", r.Attempts, "POSTs"},
		{"retried", r.Retried, "of them, not the first of their run"},
		{"dead-lettered", r.DeadLettered, "the dead receiver's"},
		{"replayed", r.Replayed, "after it came back"},
		{"duplicate POSTs", r.Duplicates, "same id again, where kill -9 hid the outcome"},
		{"lost", r.Lost, ""},
	} {
		fmt.Fprintf(t, "  %s\t%d\t\t%s\n", row.name, row.n, row.note)
	}
	if err := t.Flush(); err != nil {
		return fmt.Errorf("print result: %w", err)
	}
	for _, v := range r.Violations {
		fmt.Fprintf(w, "VIOLATED: %s\n", v)
	}
	verdict := "All invariants held"
	if len(r.Violations) > 0 {
		verdict = fmt.Sprintf("%d violations", len(r.Violations))
	}
	_, err := fmt.Fprintf(w, "%s; %.0f s.\n", verdict, r.Seconds)
	return err
}

// newQueue opens the demo's DLQ.
func newQueue(c topics.Catalogue, broker string) *dlq.Queue {
	return dlq.New(c, kgo.SeedBrokers(broker))
}

// allEnabled is the demo's endpoints as the replay asks for them: all there, all on.
type allEnabled struct{}

var _ dlq.Endpoints = allEnabled{}

// Get implements dlq.Endpoints.
func (allEnabled) Get(id string) (*endpoint.Endpoint, bool) {
	return &endpoint.Endpoint{Endpoint: schemas.Endpoint{ID: id, Tenant: endpoint.DefaultTenant, State: schemas.EndpointEnabled}}, true
}

// Deleted implements dlq.Endpoints.
func (allEnabled) Deleted(string) bool { return false }

// reader counts the records of a topic.
type reader struct {
	client *kgo.Client
	topic  string
	seen   int
}

func newReader(broker, topic string) (*reader, error) {
	c, err := kgo.NewClient(kgo.SeedBrokers(broker), kgo.ConsumeTopics(topic),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()), kgo.FetchIsolationLevel(kgo.ReadCommitted()), kgo.FetchMaxWait(time.Second))
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", topic, err)
	}
	return &reader{client: c, topic: topic}, nil
}

// count takes what has come and says how many records there are by now.
func (r *reader) count(ctx context.Context) int {
	short, cancel := context.WithTimeout(ctx, 200*time.Millisecond)
	defer cancel()
	fetches := r.client.PollFetches(short)
	r.seen += fetches.NumRecords()
	return r.seen
}

func (r *reader) close() { r.client.Close() }

// readAll reads a topic to its end as it is now, committed records only.
func readAll(ctx context.Context, broker, topic string, each func(*kgo.Record) error) error {
	base, err := kgo.NewClient(kgo.SeedBrokers(broker))
	if err != nil {
		return fmt.Errorf("read %s: %w", topic, err)
	}
	defer base.Close()
	ends, err := kadm.NewClient(base).ListCommittedOffsets(ctx, topic)
	if err == nil {
		err = ends.Error()
	}
	if err != nil {
		return fmt.Errorf("read %s: %w", topic, err)
	}
	from, left := map[int32]kgo.Offset{}, map[int32]int64{}
	ends.Each(func(o kadm.ListedOffset) {
		if o.Offset > 0 {
			from[o.Partition], left[o.Partition] = kgo.NewOffset().At(0), o.Offset
		}
	})
	if len(from) == 0 {
		return nil
	}
	c, err := kgo.NewClient(kgo.SeedBrokers(broker), kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{topic: from}),
		kgo.FetchIsolationLevel(kgo.ReadCommitted()), kgo.KeepControlRecords()) // a control record may be the last
	if err != nil {
		return fmt.Errorf("read %s: %w", topic, err)
	}
	defer c.Close()
	for len(left) > 0 {
		fetches := c.PollFetches(ctx)
		if err := ctx.Err(); err != nil {
			return fmt.Errorf("read %s: %w", topic, err)
		}
		for _, rec := range fetches.Records() {
			if !rec.Attrs.IsControl() {
				if err := each(rec); err != nil {
					return fmt.Errorf("read %s[%d] offset %d: %w", topic, rec.Partition, rec.Offset, err)
				}
			}
			if rec.Offset >= left[rec.Partition]-1 {
				delete(left, rec.Partition)
			}
		}
	}
	return nil
}
