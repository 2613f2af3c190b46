package dlq

import (
	"github.com/barnabas-webhooks/barnabas/schemas"
)

// Refusal reasons of a replay beside the schemas.Reason constants that it
// shares with dead letters (unknown_endpoint, endpoint_deleted,
// endpoint_disabled, undecodable, too_large, removed).
const (
	RefusedUnreadable     = "unreadable"      // the dlq record itself cannot be decoded
	RefusedIncomplete     = "incomplete"      // it has no delivery id or endpoint id, or one that is not valid
	RefusedTenantMismatch = "tenant_mismatch" // the endpoint id belongs to another tenant by now
	RefusedDoubtful       = "mark_unreadable" // a replay mark of this delivery cannot be decoded
)

// keptRefusals bounds Result.Refusals; ReplayOptions.OnRefusal sees all.
const keptRefusals = 1000

// maxTallied bounds how many endpoints a result counts one by one; what is
// beyond goes into OtherEndpoints. Keys come from others, memory is ours.
const (
	maxTallied     = 10_000
	OtherEndpoints = "(other endpoints)"
	// NoEndpoint counts letters whose endpoint is not known.
	NoEndpoint = "(no endpoint)"
)

// Counts are a replay's numbers for one endpoint, or in all.
// Matched = Replayed + AlreadyReplayed + Refused when the replay ran to its end
// without a limit; in a dry run Replayed counts what would be replayed.
type Counts struct {
	Matched         int `json:"matched"`
	Replayed        int `json:"replayed"`
	AlreadyReplayed int `json:"already_replayed"`
	Refused         int `json:"refused"`
	// DiedAgain counts those of Replayed that an earlier replay had already
	// tried: they failed again after it.
	DiedAgain int `json:"died_again"`
}

// Refusal is one letter that was not replayed, and stays.
type Refusal struct {
	At         string `json:"at"` // partition/offset in the dlq topic
	DeliveryID string `json:"delivery_id,omitempty"`
	EndpointID string `json:"endpoint_id,omitempty"`
	Reason     string `json:"reason"`
}

// Result is what a replay came to. It is complete up to where the replay ended,
// also when that was an error.
type Result struct {
	Run    string `json:"run,omitempty"`
	DryRun bool   `json:"dry_run"`
	Counts
	Endpoints map[string]*Counts `json:"endpoints"`
	RefusedBy map[string]int     `json:"refused_by,omitempty"`
	// Refusals are the first thousand.
	Refusals []Refusal `json:"refusals,omitempty"`
	// Interrupted says that the scope was not gone through to its end.
	Interrupted bool `json:"interrupted,omitempty"`
}

func newResult(run string, dry bool) *Result {
	return &Result{Run: run, DryRun: dry, Endpoints: map[string]*Counts{}, RefusedBy: map[string]int{}}
}

// Partial says that letters of the scope were refused.
func (r *Result) Partial() bool { return r.Refused > 0 }

// count changes the numbers of a letter's endpoint and the total alike.
func (r *Result) count(endpoint string, change func(*Counts)) {
	change(&r.Counts)
	change(tally(r.Endpoints, endpoint))
}

func (r *Result) replayed(l *Letter) {
	r.count(l.Delivery.EndpointID, func(c *Counts) {
		c.Replayed++
		if l.DiedAgain() {
			c.DiedAgain++
		}
	})
}

func (r *Result) refuse(l *Letter, reason string) Refusal {
	r.count(l.Delivery.EndpointID, func(c *Counts) { c.Refused++ })
	r.RefusedBy[reason]++
	f := Refusal{At: l.Ref(), DeliveryID: l.Delivery.ID, EndpointID: l.Delivery.EndpointID, Reason: reason}
	if len(r.Refusals) < keptRefusals {
		r.Refusals = append(r.Refusals, f)
	}
	return f
}

// tally finds the entry of a key in a map that does not grow without bound.
func tally[T any](m map[string]*T, key string) *T {
	if key == "" {
		key = NoEndpoint
	}
	if v, ok := m[key]; ok {
		return v
	}
	if len(m) >= maxTallied {
		key = OtherEndpoints
		if v, ok := m[key]; ok {
			return v
		}
	}
	v := new(T)
	m[key] = v
	return v
}

// refusal says why a letter cannot be replayed now; empty when it can. The
// endpoint's configuration is that of this moment: a changed URL is used.
func refusal(l *Letter, endpoints Endpoints) string {
	switch {
	case l.Err != nil:
		return RefusedUnreadable
	case l.Reason == schemas.ReasonTooLarge, l.Reason == schemas.ReasonRemoved:
		return l.Reason
	case Undecodable(&l.DeadLetter):
		return schemas.ReasonUndecodable
	case l.Delivery.ID == "" || l.Delivery.EndpointID == "":
		return RefusedIncomplete
	case l.doubtful:
		return RefusedDoubtful
	}
	e, ok := endpoints.Get(l.Delivery.EndpointID)
	switch {
	case !ok && endpoints.Deleted(l.Delivery.EndpointID):
		return schemas.ReasonEndpointDeleted
	case !ok:
		return schemas.ReasonUnknownEndpoint
	case e.State == schemas.EndpointDisabled:
		return schemas.ReasonDisabled
	case l.Delivery.Tenant != "" && e.Tenant != l.Delivery.Tenant:
		return RefusedTenantMismatch
	}
	return ""
}
