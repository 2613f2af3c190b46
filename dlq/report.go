package dlq

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"slices"
	"text/tabwriter"
)

// WriteJSON writes the result as one JSON object.
func (r *Result) WriteJSON(w io.Writer) error { return json.NewEncoder(w).Encode(r) }

// WriteTable writes the result for people: counts per endpoint, why letters
// were refused, and one line that sums up.
func (r *Result) WriteTable(w io.Writer) error {
	t := tabwriter.NewWriter(w, 0, 8, 2, ' ', 0)
	done := "REPLAYED"
	if r.DryRun {
		done = "TO REPLAY"
	}
	fmt.Fprintf(t, "ENDPOINT\tMATCHED\t%s\tALREADY\tREFUSED\tDIED AGAIN\n", done)
	for _, k := range slices.SortedFunc(maps.Keys(r.Endpoints), func(a, b string) int {
		return cmp.Or(cmp.Compare(r.Endpoints[b].Matched, r.Endpoints[a].Matched), cmp.Compare(a, b))
	}) {
		c := r.Endpoints[k]
		fmt.Fprintf(t, "%s\t%d\t%d\t%d\t%d\t%d\n", cell(k, 48), c.Matched, c.Replayed, c.AlreadyReplayed, c.Refused, c.DiedAgain)
	}
	for i, f := range r.Refusals {
		if i == 0 {
			fmt.Fprintf(t, "\nREFUSED\tDELIVERY\tENDPOINT\tREASON\n")
		}
		fmt.Fprintf(t, "%s\t%s\t%s\t%s\n", f.At, cell(f.DeliveryID, 40), cell(f.EndpointID, 48), f.Reason)
	}
	if more := r.Refused - len(r.Refusals); more > 0 {
		fmt.Fprintf(t, "and %d more\n", more)
	}
	verb := "replayed"
	if r.DryRun {
		verb = "would be replayed"
	}
	fmt.Fprintf(t, "\n%d matched: %d %s (%d of them had died again after an earlier replay), %d already replayed, %d refused\n",
		r.Matched, r.Replayed, verb, r.DiedAgain, r.AlreadyReplayed, r.Refused)
	for _, k := range slices.Sorted(maps.Keys(r.RefusedBy)) {
		fmt.Fprintf(t, "  refused as %s: %d\n", k, r.RefusedBy[k])
	}
	if r.Interrupted {
		fmt.Fprintln(t, "not finished: run the same command again, it goes on where this one stopped")
	}
	return t.Flush()
}
