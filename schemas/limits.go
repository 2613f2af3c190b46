package schemas

// Limits on what others hand in and on what is written, in bytes.
//
// The sums go up along the path of an event: whatever is accepted fits the
// retry tiers, and whatever fits those fits the dead-letter topic. Each counts
// a whole record: value, key, headers and the framing of a batch that holds
// nothing else. But for dead letters they stay below MaxBatchBytes, so that the
// defaults of brokers and clients hold every topic.
const (
	// MaxPayloadBytes bounds the payload of an event.
	MaxPayloadBytes = 900_000
	// MaxEventBytes leaves 64 KiB for the fields of an event and for the headers of a record that is not ours.
	MaxEventBytes = MaxPayloadBytes + 64<<10
	// MaxDeliveryBytes adds what a delivery gathers: tenant, counts, history with error and excerpt.
	MaxDeliveryBytes = MaxEventBytes + 16<<10
	// MaxBatchBytes is how large a batch the topics on the path of an event take: Kafka's own default, because producers
	// that are not ours fill their batches up to what is usual (librdkafka and franz-go to about 1,000,000).
	MaxBatchBytes = 1<<20 + 12
	// MaxDeadLetterBytes adds reason, detail, coordinates, and the framing of a raw record's key and headers: what came in
	// such a batch and cannot be read, or is too large, is kept whole.
	MaxDeadLetterBytes = MaxBatchBytes + 64<<10
	// MaxRecordBytes bounds every value that is decoded at all.
	MaxRecordBytes = MaxDeadLetterBytes

	// MaxExcerptBytes bounds what is kept of a response body; longer ones are cut.
	MaxExcerptBytes = 4 << 10
	// MaxErrorBytes bounds the error text of an attempt; longer ones are cut.
	MaxErrorBytes = 1 << 10
	// MaxDetailBytes bounds the detail text of a dead letter; longer ones are cut.
	MaxDetailBytes = 4 << 10
	// MaxNameBytes bounds endpoint ids, idempotency keys, event types, content types and tenants.
	MaxNameBytes = 255
	// MaxDeliveryIDBytes bounds a delivery id. Those minted here have 30 bytes.
	MaxDeliveryIDBytes = 64
	// MaxTraceBytes bounds traceparent and tracestate each: 512 is what W3C Trace Context (section 3.3.1.5)
	// asks to be passed on. Longer ones are left out.
	MaxTraceBytes = 512
	// MaxItems bounds each list in a record: headers, secrets, statuses, waits.
	MaxItems = 1024
)

// maxTopicBytes is Kafka's limit on the length of a topic name.
const maxTopicBytes = 249

// maxRawBytes bounds what a dead letter keeps of a record that could not be
// decoded, together with its payload if it has one: any record that fits a
// topic on the path of an event fits whole.
const maxRawBytes = MaxBatchBytes
