package plan

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/barnabas-webhooks/barnabas/processor"
	"github.com/barnabas-webhooks/barnabas/processor/breaker"
	"github.com/barnabas-webhooks/barnabas/processor/deliver"
	"github.com/barnabas-webhooks/barnabas/processor/egress"
	"github.com/barnabas-webhooks/barnabas/processor/settle"
	"github.com/barnabas-webhooks/barnabas/processor/unit"
	"github.com/barnabas-webhooks/barnabas/retry"
	"github.com/barnabas-webhooks/barnabas/schemas"
	"github.com/barnabas-webhooks/barnabas/topics"
)

// Installation is the part of the configuration that the plan follows from, in the types of the
// packages that do the work. The zero value is not valid; app.Installation makes one.
type Installation struct {
	Policy       retry.Policy
	Breaker      breaker.Config
	Unit         unit.Config
	Group        processor.Config
	Settle       settle.Config
	Deliver      deliver.Config
	Egress       egress.Config
	Topics       topics.Catalogue
	TopicOptions topics.Options
	API          API
	Claims       Claims
	// SoftMemory is what a process tells the Go runtime to keep its memory under, where it may hold so many bytes of
	// records and so many bytes live.
	SoftMemory func(records, live int64) int64
	// Descriptors is how many one process may need, as it checks at its start.
	Descriptors int
}

// Claims is where idempotency keys are kept.
type Claims struct {
	OnDisk bool  // in claims.directory; otherwise in memory
	Cache  int64 // bytes of memory for those on disk
}

// API is what the HTTP interface is held to.
type API struct {
	MaxConcurrent   int           `json:"max_concurrent"`      // requests at a time
	MaxBody         int64         `json:"max_body_bytes"`      // bytes of one
	VerdictWait     time.Duration `json:"verdict_wait_ns"`     // a send waits so long at most
	RotationOverlap time.Duration `json:"rotation_overlap_ns"` // a rotated-out secret signs for so long
	MaxLag          int64         `json:"max_lag"`             // events of one partition that may wait before sends to it are refused; 0: any number
	// Of one tenant, on each API process: sends per second (0: any number), and requests at a time (0: a share of all).
	TenantRate       float64 `json:"tenant_rate"`
	TenantConcurrent int     `json:"tenant_concurrent"`
}

// Volume is what is asked of the installation. DefaultVolume is a place to start from.
type Volume struct {
	// Rate is how many events per second are accepted, the mean over hours. In (0, MaxRate].
	Rate float64 `json:"rate"`
	// Burst is how many events come at once on top of it. 0 to MaxBurst.
	Burst int `json:"burst"`
	// Endpoints is how many there are. 1 to MaxEndpoints.
	Endpoints int `json:"endpoints"`
	// Payload is the mean size of an event's payload, in bytes. 0 to schemas.MaxPayloadBytes.
	Payload int `json:"payload_bytes"`
	// Latency is how long receivers take, connecting to the end of their answer: the mean. Over 0,
	// and less than the timeout of an attempt.
	Latency time.Duration `json:"latency_ns"`
	// Order is that of the endpoints: schemas.OrderOrdered, OrderParallel or OrderStrict.
	Order schemas.Order `json:"order"`
	// InFlight is max_in_flight of a parallel endpoint. 0: limits.endpoint_in_flight. At most MaxInFlight.
	InFlight int `json:"in_flight,omitempty"`
	// Busiest is the share of the events that goes to the busiest endpoint. 0 to 1; 0, and whatever is less: the
	// same as to every other.
	Busiest float64 `json:"busiest"`
	// Failing is the share of the endpoints that do nothing but fail. 0 to 1.
	Failing float64 `json:"failing"`
	// Keyed is the share of the events that carry an idempotency key. 0 to 1.
	Keyed float64 `json:"keyed"`
	// Processes is how many processors there are to be. 0: as many as are needed. At most topics.Catalogue's partitions.
	Processes int `json:"processes,omitempty"`
	// Memory is what one process may use, in bytes. 0: nothing is held against it.
	Memory int64 `json:"memory_bytes,omitempty"`
	// Copies is how many copies Kafka keeps of each record where the configuration leaves it to the broker. 1 to 10.
	Copies int `json:"copies"`
}

// Limits of a volume: far above what one installation carries, they catch a slip of the keyboard.
const (
	MaxRate      = 1e6
	MaxBurst     = 100_000_000
	MaxEndpoints = 1_000_000
	MaxInFlight  = 100_000
	maxProcesses = 10_000
	maxCopies    = 10
)

// DefaultVolume is the volume of the examples: 200 events a second of 2 KiB to 1,000 ordered endpoints that answer
// within 200 ms, the busiest of which gets 1 %, and 5 % of which are down.
func DefaultVolume() Volume {
	return Volume{
		Rate: 200, Burst: 2000, Endpoints: 1000, Payload: 2048, Latency: 200 * time.Millisecond, Order: schemas.OrderOrdered,
		Busiest: 0.01, Failing: 0.05, Keyed: 1, Copies: 3,
	}
}

// Validate names every problem at once.
func (v Volume) Validate() error {
	var errs []error
	check := func(ok bool, format string, args ...any) {
		if !ok {
			errs = append(errs, fmt.Errorf("%w: "+format, append([]any{ErrInvalid}, args...)...))
		}
	}
	within := func(name string, value, least, most int) {
		check(value >= least && value <= most, "%s: %d is outside %d to %d", name, value, least, most)
	}
	share := func(name string, value float64) {
		check(value >= 0 && value <= 1, "%s: %v is no share, 0 to 1", name, value)
	}
	check(v.Rate > 0 && v.Rate <= MaxRate, "rate: %v is not over 0 and up to %v events per second", v.Rate, float64(MaxRate))
	within("burst", v.Burst, 0, MaxBurst)
	within("endpoints", v.Endpoints, 1, MaxEndpoints)
	within("payload", v.Payload, 0, schemas.MaxPayloadBytes)
	check(v.Latency > 0, "latency: %s is not over 0", v.Latency)
	check(slices.Contains([]schemas.Order{schemas.OrderOrdered, schemas.OrderParallel, schemas.OrderStrict}, v.Order),
		"order: %q is none of %s, %s and %s", v.Order, schemas.OrderOrdered, schemas.OrderParallel, schemas.OrderStrict)
	within("in_flight", v.InFlight, 0, MaxInFlight)
	check(v.InFlight <= 1 || v.Order == schemas.OrderParallel, "in_flight: %d, but an %s endpoint has one request in flight", v.InFlight, v.Order)
	share("busiest", v.Busiest)
	share("failing", v.Failing)
	share("keyed", v.Keyed)
	within("processes", v.Processes, 0, maxProcesses)
	check(v.Memory >= 0, "memory: %d must not be negative", v.Memory)
	within("copies", v.Copies, 1, maxCopies)
	return errors.Join(errs...)
}

// validate checks what the parts' own rules do not: they are asked as well, so that a plan is never made of what
// no process would start with.
func (i Installation) validate() error {
	errs := []error{
		i.Policy.Validate(), i.Breaker.Validate(), i.Unit.Validate(), i.Group.Validate(), i.Settle.Validate(), i.Topics.Validate(),
	}
	bad := func(format string, args ...any) {
		errs = append(errs, fmt.Errorf("%w: "+format, append([]any{ErrInvalid}, args...)...))
	}
	if i.Deliver.Timeout <= 0 || i.Deliver.HeaderTimeout <= 0 || i.Deliver.MaxTimeout < i.Deliver.Timeout {
		bad("timeouts: %s is not over 0 and up to max_total of %s", i.Deliver.Timeout, i.Deliver.MaxTimeout)
	}
	if p := i.Breaker.ProbeTimeout; p > 0 && p <= i.Deliver.MaxTimeout {
		bad("probe_timeout: %s is not longer than an attempt may take, %s: a second probe could start beside the first",
			p, i.Deliver.MaxTimeout)
	}
	if i.API.MaxConcurrent < 1 || i.Descriptors < 1 || i.SoftMemory == nil {
		bad("api: %d requests at a time and %d descriptors must be positive, and the memory limit known", i.API.MaxConcurrent, i.Descriptors)
	}
	return errors.Join(errs...)
}

// width is how many requests one endpoint may have in flight.
func (in *Input) width() int {
	switch {
	case in.Order != schemas.OrderParallel:
		return 1
	case in.InFlight > 0:
		return in.InFlight
	}
	return in.Unit.MaxInFlight
}

// turn is how long one request of an endpoint keeps the next one waiting: that of a strict endpoint waits until the one
// before is settled, which takes a beat at least.
func (in *Input) turn() time.Duration {
	if in.Order == schemas.OrderStrict {
		return in.Latency + in.Settle.Beat
	}
	return in.Latency
}

// bears is how many requests a second an endpoint bears.
func (in *Input) bears() float64 { return float64(in.width()) / in.turn().Seconds() }

// busiest is the share of the events that goes to the busiest endpoint.
func (in *Input) busiest() float64 { return max(in.Busiest, 1/float64(in.Endpoints)) }

// failing is how many endpoints do nothing but fail.
func (in *Input) failing() int { return int(in.Failing*float64(in.Endpoints) + 0.5) }

// copies is how many copies Kafka keeps of each record.
func (in *Input) copies() int {
	if r := in.TopicOptions.ReplicationFactor; r > 0 {
		return int(r)
	}
	return in.Copies
}
