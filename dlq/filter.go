package dlq

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/barnabas-webhooks/barnabas/retry"
	"github.com/barnabas-webhooks/barnabas/schemas"
	"github.com/barnabas-webhooks/barnabas/topics"
)

// Filter says which dead letters are meant. The values of one field are
// alternatives, the fields narrow one another; an empty field takes all.
type Filter struct {
	Endpoints  []string
	Tenants    []string
	Reasons    []string // each a schemas.Reason or a retry.Class
	EventTypes []string
	Since      time.Time // dead at or after
	Until      time.Time // dead before
	// IDs are delivery ids, or references "partition/offset" into the dlq topic
	// as the list shows them: the only name of a letter that could not be decoded.
	IDs []string
	// Limit ends the scan after so many letters; 0: no limit. In a replay it
	// counts those to be replayed, not those refused, so that letters that
	// cannot be replayed never block the ones behind them.
	Limit int
	// All says that an empty filter is meant.
	All bool
	// IncludeReplayed takes letters that were replayed too. A replay refuses it:
	// the replayed delivery is alive, a second copy of it must not be.
	IncludeReplayed bool
}

// Scoped says whether the filter names what is meant: any narrowing field, or All.
func (f Filter) Scoped() bool {
	return f.All || len(f.Endpoints)+len(f.Tenants)+len(f.Reasons)+len(f.EventTypes)+len(f.IDs) > 0 ||
		!f.Since.IsZero() || !f.Until.IsZero()
}

// Validate refuses what can only be a slip: an empty value (a shell variable
// that was not set), a reason that does not exist, a range that is empty.
// The error is an *OptionError.
func (f Filter) Validate() error {
	for _, field := range []struct {
		name   string
		values []string
	}{
		{"endpoint", f.Endpoints}, {"tenant", f.Tenants}, {"reason", f.Reasons}, {"event-type", f.EventTypes}, {"id", f.IDs},
	} {
		if slices.ContainsFunc(field.values, func(v string) bool { return strings.TrimSpace(v) == "" }) {
			return &OptionError{field.name, "empty value"}
		}
	}
	known := Reasons()
	for _, r := range f.Reasons {
		if !slices.Contains(known, r) {
			return &OptionError{"reason", fmt.Sprintf("%q is none of %s", r, strings.Join(known, ", "))}
		}
	}
	if !f.Since.IsZero() && !f.Until.IsZero() && !f.Since.Before(f.Until) {
		return &OptionError{"since", "is not before until"}
	}
	if f.Limit < 0 {
		return &OptionError{"limit", "is negative"}
	}
	return nil
}

// Reasons is the closed set of reasons that a dead letter can have, sorted.
func Reasons() []string {
	out := []string{
		schemas.ReasonUndecodable, schemas.ReasonUnknownEndpoint, schemas.ReasonEndpointDeleted,
		schemas.ReasonDisabled, schemas.ReasonExpired, schemas.ReasonTooLarge, schemas.ReasonRemoved,
	}
	for _, c := range retry.Classes() {
		if c != retry.OK {
			out = append(out, string(c))
		}
	}
	slices.Sort(out)
	return out
}

// partitions says which of n partitions can hold a match; nil means all.
func (f Filter) partitions(n int) []int32 {
	if len(f.Endpoints) == 0 {
		return nil
	}
	var out []int32
	for _, e := range f.Endpoints {
		out = append(out, topics.Partition(e, n))
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// skips says from key and headers alone that a record cannot match, which
// spares decoding the value. A header that is not there decides nothing.
func (f Filter) skips(r *kgo.Record) bool {
	if len(f.Endpoints) > 0 && !slices.Contains(f.Endpoints, string(r.Key)) {
		return true
	}
	no := func(values []string, key string) bool {
		if len(values) == 0 {
			return false
		}
		v, ok := header(r, key)
		return ok && !slices.Contains(values, v)
	}
	if no(f.Reasons, topics.HeaderReason) || no(f.EventTypes, topics.HeaderEventType) {
		return true
	}
	return no(f.IDs, topics.HeaderDeliveryID) && !slices.Contains(f.IDs, ref(r.Partition, r.Offset))
}

// matches decides on a letter as read. Of one that could not be decoded only
// key and headers are known: it matches when those do, and never a tenant.
func (f Filter) matches(l *Letter) bool {
	in := func(values []string, v string) bool { return len(values) == 0 || slices.Contains(values, v) }
	d := &l.Delivery
	if !in(f.Endpoints, d.EndpointID) || !in(f.Tenants, d.Tenant) || !in(f.Reasons, l.Reason) || !in(f.EventTypes, d.EventType) {
		return false
	}
	if len(f.IDs) > 0 && !slices.Contains(f.IDs, d.ID) && !slices.Contains(f.IDs, l.Ref()) {
		return false
	}
	if !f.Since.IsZero() && l.DeadAt.Before(f.Since) {
		return false
	}
	return f.Until.IsZero() || l.DeadAt.Before(f.Until)
}

func header(r *kgo.Record, key string) (string, bool) {
	for _, h := range slices.Backward(r.Headers) {
		if h.Key == key {
			return string(h.Value), true
		}
	}
	return "", false
}

func ref(partition int32, offset int64) string { return fmt.Sprintf("%d/%d", partition, offset) }
