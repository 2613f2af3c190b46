package dlq

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"slices"
	"text/tabwriter"
	"time"
)

// Tally counts dead letters of one kind.
type Tally struct {
	Letters  int `json:"letters"`
	Waiting  int `json:"waiting"`  // not replayed
	Replayed int `json:"replayed"` // replayed since they died
	// DiedAgain counts letters of deliveries that had been replayed before they
	// died here: replays that failed.
	DiedAgain int `json:"died_again"`
}

// AgeTally counts letters that died less than Under ago, and not in an earlier
// bucket; the last bucket has no bound.
type AgeTally struct {
	Under string `json:"under"`
	Tally
}

// Stats are counts over the letters of a filter.
type Stats struct {
	Tally
	Unreadable int               `json:"unreadable"` // dlq records that cannot be decoded
	Oldest     time.Time         `json:"oldest,omitzero"`
	Newest     time.Time         `json:"newest,omitzero"`
	Endpoints  map[string]*Tally `json:"endpoints"`
	Reasons    map[string]*Tally `json:"reasons"`
	Ages       []AgeTally        `json:"ages"`
}

// Stats counts the matching letters, replayed ones always included, by
// endpoint, reason and age at now. An empty queue is not an error.
func (q *Queue) Stats(ctx context.Context, f Filter, now time.Time, o ScanOptions) (*Stats, error) {
	f.IncludeReplayed = true
	s := &Stats{
		Endpoints: map[string]*Tally{},
		Reasons:   map[string]*Tally{},
		Ages:      []AgeTally{{Under: "1h"}, {Under: "24h"}, {Under: "7d"}, {Under: "older"}},
	}
	for l, err := range q.Letters(ctx, f, o) {
		if err != nil {
			return nil, err
		}
		s.add(l, now)
	}
	return s, nil
}

func (s *Stats) add(l *Letter, now time.Time) {
	bucket := len(s.Ages) - 1
	for i, under := range [...]time.Duration{time.Hour, 24 * time.Hour, 7 * 24 * time.Hour} {
		if now.Sub(l.DeadAt) < under {
			bucket = i
			break
		}
	}
	reason := l.Reason
	if l.Err != nil {
		s.Unreadable++
		reason = RefusedUnreadable
	}
	for _, t := range []*Tally{&s.Tally, tally(s.Endpoints, l.Delivery.EndpointID), tally(s.Reasons, reason), &s.Ages[bucket].Tally} {
		t.Letters++
		if l.Replayed != nil {
			t.Replayed++
		} else {
			t.Waiting++
		}
		if l.DiedAgain() {
			t.DiedAgain++
		}
	}
	if s.Oldest.IsZero() || l.DeadAt.Before(s.Oldest) {
		s.Oldest = l.DeadAt
	}
	if l.DeadAt.After(s.Newest) {
		s.Newest = l.DeadAt
	}
}

// WriteJSON writes the counts as one JSON object.
func (s *Stats) WriteJSON(w io.Writer) error { return json.NewEncoder(w).Encode(s) }

// WriteTable writes the counts as tables, the largest first.
func (s *Stats) WriteTable(w io.Writer, now time.Time) error {
	t := tabwriter.NewWriter(w, 0, 8, 2, ' ', 0)
	row := func(name string, n *Tally) {
		fmt.Fprintf(t, "%s\t%d\t%d\t%d\t%d\n", cell(name, 48), n.Letters, n.Waiting, n.Replayed, n.DiedAgain)
	}
	head := func(name string) { fmt.Fprintf(t, "\n%s\tLETTERS\tWAITING\tREPLAYED\tDIED AGAIN\n", name) }
	fmt.Fprintf(t, "%d dead letters, %d waiting, %d replayed, %d died again after a replay, %d unreadable; oldest %s, newest %s\n",
		s.Letters, s.Waiting, s.Replayed, s.DiedAgain, s.Unreadable, age(s.Oldest, now), age(s.Newest, now))
	head("ENDPOINT")
	for _, k := range largest(s.Endpoints) {
		row(k, s.Endpoints[k])
	}
	head("REASON")
	for _, k := range largest(s.Reasons) {
		row(k, s.Reasons[k])
	}
	head("AGE UNDER")
	for i := range s.Ages {
		row(s.Ages[i].Under, &s.Ages[i].Tally)
	}
	return t.Flush()
}

func largest(m map[string]*Tally) []string {
	return slices.SortedFunc(maps.Keys(m), func(a, b string) int {
		return cmp.Or(cmp.Compare(m[b].Letters, m[a].Letters), cmp.Compare(a, b))
	})
}
