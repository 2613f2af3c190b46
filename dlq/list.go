package dlq

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"time"
)

// tableBlock is how many rows are aligned with one another: a table is written
// as it is read, however long it gets.
const tableBlock = 200

// OutputOptions of [Queue.List] and [Queue.Show].
type OutputOptions struct {
	// JSON writes one JSON object per line instead of a table or text.
	JSON     bool
	Progress func(Scanned)
}

// Listed is what a list showed.
type Listed struct {
	Letters    int
	Unreadable int // of them, records that could not be decoded
}

// List writes the matching letters to w, one line each, without their payloads.
// The error is ErrNoMatch when there is none.
func (q *Queue) List(ctx context.Context, w io.Writer, f Filter, o OutputOptions) (Listed, error) {
	var n Listed
	rows := newRows(w, o.JSON, time.Now())
	for l, err := range q.Letters(ctx, f, ScanOptions{Progress: o.Progress}) {
		if err != nil {
			return n, flushed(rows, err)
		}
		n.Letters++
		if l.Err != nil {
			n.Unreadable++
		}
		if err := rows.write(l); err != nil {
			return n, fmt.Errorf("write list: %w", err)
		}
	}
	if n.Letters == 0 {
		return n, ErrNoMatch
	}
	return n, flushed(rows, nil)
}

func flushed(r *rows, err error) error {
	if ferr := r.flush(); err == nil && ferr != nil {
		return fmt.Errorf("write list: %w", ferr)
	}
	return err
}

// rows writes letters as a table or as JSON lines.
type rows struct {
	json *json.Encoder
	tab  *tabwriter.Writer
	now  time.Time
	n    int
}

func newRows(w io.Writer, asJSON bool, now time.Time) *rows {
	if asJSON {
		return &rows{json: json.NewEncoder(w)}
	}
	return &rows{tab: tabwriter.NewWriter(w, 0, 8, 2, ' ', 0), now: now}
}

func (r *rows) write(l *Letter) error {
	if r.json != nil {
		return r.json.Encode(viewOf(l, false))
	}
	if r.n == 0 {
		fmt.Fprintln(r.tab, "REF\tDELIVERY\tENDPOINT\tTENANT\tEVENT TYPE\tREASON\tATTEMPTS\tREPLAYS\tDIED\tREPLAYED\tLAST ERROR")
	}
	r.n++
	replayed := "no"
	if l.Replayed != nil {
		replayed = age(l.Replayed.At, r.now) + " ago"
	}
	last := l.Delivery.History.LastError
	if l.Detail != "" {
		last = l.Detail
	}
	if l.Err != nil {
		last = l.Err.Error()
	}
	d := &l.Delivery
	_, err := fmt.Fprintln(r.tab, strings.Join([]string{
		l.Ref(), cell(d.ID, 40), cell(d.EndpointID, 32), cell(d.Tenant, 24), cell(d.EventType, 32), cell(l.Reason, 24),
		fmt.Sprint(d.History.TotalAttempts), fmt.Sprint(d.Replays),
		age(l.DeadAt, r.now) + " ago", replayed, cell(last, 60),
	}, "\t"))
	if err == nil && r.n%tableBlock == 0 {
		err = r.tab.Flush()
	}
	return err
}

func (r *rows) flush() error {
	if r.tab == nil {
		return nil
	}
	return r.tab.Flush()
}
