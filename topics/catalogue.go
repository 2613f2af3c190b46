package topics

import "time"

// Catalogue names every topic of one Barnabas installation.
type Catalogue struct {
	Prefix     string          // default "barnabas."
	Partitions int             // of every unit topic
	Tiers      []time.Duration // ascending; topic names derive from them: 1m -> retry.1m
}

func (c Catalogue) Events() string      { return c.Prefix + "events" }
func (c Catalogue) Replay() string      { return c.Prefix + "replay" }
func (c Catalogue) Idempotency() string { return c.Prefix + "idempotency" }
func (c Catalogue) Breakers() string    { return c.Prefix + "breakers" }
func (c Catalogue) DLQ() string         { return c.Prefix + "dlq" }
func (c Catalogue) DLQState() string    { return c.Prefix + "dlq.state" }
func (c Catalogue) Attempts() string    { return c.Prefix + "attempts" }
func (c Catalogue) Endpoints() string   { return c.Prefix + "endpoints" }

// Tier is the topic of tier i (index into Tiers).
func (c Catalogue) Tier(i int) string { panic("helper A") }

// Consumed lists what the processor's group subscribes to: events, the tiers, replay.
func (c Catalogue) Consumed() []string { panic("helper A") }

// Partition is where Kafka's default partitioner puts a key: murmur2 mod n.
func Partition(key string, n int) int32 { panic("helper A") }

// Names of the record headers. They repeat what the value holds, for people
// with kcat and for readers that must not decode a value to route it.
const (
	HeaderEventType      = "event-type"
	HeaderContentType    = "content-type"
	HeaderIdempotencyKey = "idempotency-key"
	HeaderDeliveryID     = "delivery-id"
	HeaderDueAt          = "due-at" // Unix milliseconds, decimal
	HeaderReason         = "reason"
	HeaderTraceParent    = "traceparent"
	HeaderTraceState     = "tracestate"
)
