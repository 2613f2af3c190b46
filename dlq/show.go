package dlq

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"time"
)

// Show writes everything about the dead letters of one delivery id (or the one
// at a reference partition/offset) to w: a delivery that was replayed and died
// again has several. Payload, raw bytes and headers are shown as text where they
// are text, else in base64. The error is ErrNoMatch when there is none.
func (q *Queue) Show(ctx context.Context, w io.Writer, id string, o OutputOptions) error {
	f := Filter{IDs: []string{id}, IncludeReplayed: true}
	n := 0
	for l, err := range q.Letters(ctx, f, ScanOptions{Progress: o.Progress}) {
		if err != nil {
			return err
		}
		if err := show(w, l, o.JSON, n); err != nil {
			return fmt.Errorf("write letter: %w", err)
		}
		n++
	}
	if n == 0 {
		return ErrNoMatch
	}
	return nil
}

func show(w io.Writer, l *Letter, asJSON bool, before int) error {
	v := viewOf(l, true)
	if asJSON {
		return json.NewEncoder(w).Encode(v)
	}
	out := bufio.NewWriter(w)
	if before > 0 {
		fmt.Fprintln(out)
	}
	line := func(key, value string) {
		if value != "" {
			fmt.Fprintf(out, "%-16s %s\n", key, cell(value, 4096))
		}
	}
	at := func(key string, t time.Time) {
		if !t.IsZero() {
			line(key, t.UTC().Format(time.RFC3339Nano))
		}
	}
	c := v.Content
	line("dead letter", v.Ref)
	line("unreadable", v.Unreadable)
	line("delivery", v.DeliveryID)
	line("endpoint", v.EndpointID)
	line("tenant", v.Tenant)
	line("event type", v.EventType)
	line("content type", c.ContentType)
	line("idempotency key", c.IdempotencyKey)
	line("reason", v.Reason)
	line("detail", v.Detail)
	at("accepted", v.AcceptedAt)
	at("dead", v.DeadAt)
	line("attempts", fmt.Sprintf("%d in all, %d in the last run", v.Attempts, c.RunAttempts))
	at("first attempt", v.FirstAttemptAt)
	at("last attempt", v.LastAttemptAt)
	line("last class", v.LastClass)
	if v.LastStatus != 0 {
		line("last status", fmt.Sprint(v.LastStatus))
	}
	line("last error", v.LastError)
	line("holds", fmt.Sprintf("%d in the last run", c.RunHolds))
	line("replays", fmt.Sprint(v.Replays))
	at("run started", c.RunStartedAt)
	if m := v.Replayed; m != nil {
		line("replayed", fmt.Sprintf("%s by %q, run %s", m.At.UTC().Format(time.RFC3339Nano), m.Operator, m.Run))
	} else {
		line("replayed", "no")
	}
	line("origin", v.Origin)
	line("source", v.Source)
	line("traceparent", c.TraceParent)
	line("tracestate", c.TraceState)
	for _, h := range c.RecordHeaders {
		line("record header", h.Key+": "+h.Value.String())
	}
	for _, h := range c.RawHeaders {
		line("raw header", h.Key+": "+h.Value.String())
	}
	block := func(key string, b *blob) {
		if b != nil {
			fmt.Fprintf(out, "%s (%d bytes)\n%s\n", key, len(*b), b)
		}
	}
	block("raw key", c.RawKey)
	block("raw", c.Raw)
	block("last response, beginning", c.LastExcerpt)
	block("payload", c.Payload)
	return out.Flush()
}
