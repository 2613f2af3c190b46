package topics

import (
	"errors"
	"fmt"
	"strings"
	"time"
)

// Catalogue names every topic of one Barnabas installation.
type Catalogue struct {
	Prefix     string          // default "barnabas."
	Partitions int             // of every unit topic
	Tiers      []time.Duration // ascending; topic names derive from them: 1m -> retry.1m
}

// DefaultCatalogue is what is used where configuration says nothing else.
func DefaultCatalogue() Catalogue {
	return Catalogue{
		Prefix:     "barnabas.",
		Partitions: 64,
		Tiers:      []time.Duration{time.Minute, 10 * time.Minute, time.Hour, 6 * time.Hour},
	}
}

// maxPartitions is far above what one group can own sensibly; it catches a slip of the keyboard.
const maxPartitions = 10_000

// Kafka's rules for topic names: these characters, at most 249 of them.
const (
	nameCharacters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-"
	maxNameBytes   = 249
)

// Validate reports everything that is wrong with the catalogue: a prefix that
// makes no topic name, partitions outside 1 to 10,000, no tiers, tiers that are not
// ascending or not whole milliseconds. The zero Catalogue is not valid.
func (c Catalogue) Validate() error {
	var errs []error
	if strings.Trim(c.Prefix, nameCharacters) != "" {
		errs = append(errs, fmt.Errorf("prefix %q: only letters, digits, '.', '_' and '-' may stand in a topic name", c.Prefix))
	}
	if c.Partitions < 1 || c.Partitions > maxPartitions {
		errs = append(errs, fmt.Errorf("partitions %d: must be 1 to %d", c.Partitions, maxPartitions))
	}
	if len(c.Tiers) == 0 {
		errs = append(errs, errors.New("tiers: at least one is needed"))
	}
	last := time.Duration(0)
	for _, tier := range c.Tiers {
		if tier < time.Millisecond || tier%time.Millisecond != 0 {
			errs = append(errs, fmt.Errorf("tiers: %s is not a whole number of milliseconds, at least one", tier))
		} else if tier <= last {
			errs = append(errs, fmt.Errorf("tiers: %s comes after %s; they must ascend", tier, last))
		}
		last = tier
	}
	for _, name := range c.All() {
		if len(name) > maxNameBytes {
			errs = append(errs, fmt.Errorf("prefix: makes topic names longer than %d characters", maxNameBytes))
			break
		}
	}
	return errors.Join(errs...)
}

// Events is where work comes in.
func (c Catalogue) Events() string { return c.Prefix + "events" }

// Replay holds dead letters that are fed in again.
func (c Catalogue) Replay() string { return c.Prefix + "replay" }

// Idempotency holds the claims of idempotency keys.
func (c Catalogue) Idempotency() string { return c.Prefix + "idempotency" }

// Breakers holds breaker transitions.
func (c Catalogue) Breakers() string { return c.Prefix + "breakers" }

// Lines holds where the lines of strict endpoints stand.
func (c Catalogue) Lines() string { return c.Prefix + "lines" }

// DLQ holds dead letters.
func (c Catalogue) DLQ() string { return c.Prefix + "dlq" }

// DLQState says which dead letters were replayed.
func (c Catalogue) DLQState() string { return c.Prefix + "dlq.state" }

// Attempts has one record for each attempt.
func (c Catalogue) Attempts() string { return c.Prefix + "attempts" }

// Endpoints is the table of endpoint configuration.
func (c Catalogue) Endpoints() string { return c.Prefix + "endpoints" }

// Tier is the topic of tier i (index into Tiers).
func (c Catalogue) Tier(i int) string { return c.tiers() + tierName(c.Tiers[i]) }

// TierOf is the tier that a topic would hold, of this catalogue or not: "7m" of barnabas.retry.7m. False: it is no tier's.
func (c Catalogue) TierOf(topic string) (tier string, ok bool) {
	return strings.CutPrefix(topic, c.tiers())
}

func (c Catalogue) tiers() string { return c.Prefix + "retry." }

// tierName is a duration in its shortest exact form: 1m, 1m30s, 6h, 200ms.
func tierName(d time.Duration) string {
	s := d.String() // 1h0m0s
	if strings.HasSuffix(s, "m0s") {
		s = strings.TrimSuffix(s, "0s")
	}
	if strings.HasSuffix(s, "h0m") {
		s = strings.TrimSuffix(s, "0m")
	}
	return s
}

// TierTopics lists the topics of the tiers, in ascending order of their waits.
func (c Catalogue) TierTopics() []string {
	names := make([]string, len(c.Tiers))
	for i := range c.Tiers {
		names[i] = c.Tier(i)
	}
	return names
}

// Consumed lists what the processor's group subscribes to: events, the tiers, replay.
func (c Catalogue) Consumed() []string {
	return append(append([]string{c.Events()}, c.TierTopics()...), c.Replay())
}

// Units lists the topics whose partition p together is unit p: all but Endpoints.
func (c Catalogue) Units() []string {
	return append(c.Consumed(), c.Idempotency(), c.Breakers(), c.Lines(), c.DLQ(), c.DLQState(), c.Attempts())
}

// All lists every topic.
func (c Catalogue) All() []string { return append(c.Units(), c.Endpoints()) }

// Names of the record headers. They repeat what the value holds, for people
// with kcat and for readers that must not decode a value to route it.
//
// On the events topic HeaderEventType means more: its presence says that the
// value is the payload itself. A record of that topic whose value is an Avro Event
// must not carry it; see schemas.ReadEvent.
const (
	HeaderEventType      = "event-type"
	HeaderContentType    = "content-type"
	HeaderIdempotencyKey = "idempotency-key"
	HeaderDeliveryID     = "delivery-id"
	HeaderDueAt          = "due-at" // Unix milliseconds, decimal
	HeaderReason         = "reason"
	HeaderTraceParent    = "traceparent"
	HeaderTraceState     = "tracestate"
	// HeaderLine of a record in a tier is its place in the line of a strict endpoint, "epoch/number", both decimal. It is
	// the one header that says something that the value does not: what cannot be read has a place, too.
	HeaderLine = "line"
)
