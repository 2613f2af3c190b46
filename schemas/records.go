package schemas

import "time"

// Coordinates name one record of the log for ever: what was read, from where.
type Coordinates struct {
	Topic     string
	Partition int32
	Offset    int64
}

// Header is one Kafka record header, or one HTTP header of an endpoint.
type Header struct {
	Key   string
	Value []byte
}

// Event is what a producer hands over: payload bytes for one endpoint.
type Event struct {
	// DeliveryID is set by the send API, and by a re-route; empty for direct
	// Kafka producers, whose deliveries take an id derived from coordinates.
	DeliveryID     string
	EndpointID     string
	IdempotencyKey string // empty: the record's coordinates are its identity
	EventType      string
	ContentType    string
	Payload        []byte    // opaque: signed and sent byte for byte
	AcceptedAt     time.Time // read after a re-route only; else the record's own timestamp counts
	// Origin is where the event was first written; zero but after a re-route.
	Origin      Coordinates
	TraceParent string // W3C trace context, passed on as it came
	TraceState  string
}

// Delivery is one event owed to one endpoint: the value of the retry tiers and
// of the replay topic, and the body of a dead letter.
type Delivery struct {
	ID             string
	EndpointID     string
	Tenant         string
	EventType      string
	ContentType    string
	IdempotencyKey string
	Payload        []byte
	AcceptedAt     time.Time
	Origin         Coordinates // of the event's own record
	TraceParent    string
	TraceState     string

	Attempts int       // POSTs spent in this run: since acceptance, or since the last replay
	Replays  int       // how often it was replayed; attempt numbers restart with each
	Holds    int       // how often it waited without spending an attempt, in this run
	DueAt    time.Time // not to be attempted before; zero outside the tiers
	// RunStartedAt is AcceptedAt, or the last replay's time: the lifetime counts from it.
	RunStartedAt time.Time
	History      History
}

// History is the bounded memory of a delivery's attempts over all its runs.
type History struct {
	TotalAttempts  int
	FirstAttemptAt time.Time // zero: none yet
	LastAttemptAt  time.Time
	LastClass      string // a retry.Class, or the reason of the last hold
	LastStatus     int    // 0: no HTTP status was read
	LastError      string // safe to show: no secret, no path, no query
	LastExcerpt    []byte // at most 4 KiB of the last response body
}

// AttemptKind says what a record of the attempts topic reports.
type AttemptKind string

// Kinds of attempt records.
const (
	AttemptPost      AttemptKind = "post"      // a real POST
	AttemptDuplicate AttemptKind = "duplicate" // an event settled as a repeat of its key
	AttemptConflict  AttemptKind = "conflict"  // same key, other payload: not delivered
)

// Attempt is one record of the attempts topic.
type Attempt struct {
	Kind       AttemptKind
	DeliveryID string // of a duplicate or conflict: the id that was refused
	EndpointID string
	Tenant     string
	EventType  string
	Number     int // 1-based within the run; 0 where nothing was posted
	Replay     int // run: 0 the first, n after the nth replay
	At         time.Time
	Duration   time.Duration
	Class      string
	Status     int
	Error      string
	Excerpt    []byte
	Decision   string    // delivered, retry, hold, dead
	NextAt     time.Time // zero: nothing follows
	Source     Coordinates
	// OwnerDeliveryID is the delivery that owns the key; set on duplicates and conflicts.
	OwnerDeliveryID string
}

// DeadLetter is a delivery that was given up on, with its full context.
type DeadLetter struct {
	Delivery Delivery // of an undecodable record: only what could be learnt
	Reason   string   // closed set: see the Reason constants and the classes of package retry
	Detail   string
	DeadAt   time.Time
	Source   Coordinates // the record that was read when it was given up on
	// RawKey, Raw and RawHeaders keep a record that could not be decoded, byte for byte.
	RawKey     []byte
	Raw        []byte
	RawHeaders []Header
}

// Claim says which delivery owns an idempotency key, and answers one event.
type Claim struct {
	EndpointID     string
	Key            string
	DeliveryID     string // the owner
	PayloadHash    []byte // SHA-256 of what the key is bound to
	ClaimedOffset  int64  // of the owner's record in events
	ClaimedAt      time.Time
	AnsweredOffset int64   // the record that this write answers
	Verdict        Verdict // of that record
}

// Verdict is what the arbiter says of an event.
type Verdict string

// Verdicts.
const (
	VerdictFirst     Verdict = "first"
	VerdictDuplicate Verdict = "duplicate"
	VerdictConflict  Verdict = "conflict"
)

// SealedSecret is a signing secret as it rests in the endpoints topic.
type SealedSecret struct {
	ID         string
	Ciphertext []byte // AES-256-GCM, nonce first
	CreatedAt  time.Time
	ExpiresAt  time.Time // zero: active until rotated out
}

// EndpointState is whether deliveries to an endpoint are attempted.
type EndpointState string

// States of an endpoint.
const (
	EndpointEnabled  EndpointState = "enabled"
	EndpointDisabled EndpointState = "disabled"
)

// Order is how the deliveries of one endpoint may run beside one another.
type Order string

// Orders.
const (
	OrderOrdered  Order = "ordered"  // one in flight, attempts start in log order
	OrderParallel Order = "parallel" // up to MaxInFlight
	OrderStrict   Order = "strict"   // one in flight, and none before all that were taken before it have ended
)

// Endpoint is a subscriber's configuration: one record of the endpoints topic.
// A tombstone (nil value) is a deleted endpoint.
type Endpoint struct {
	ID                string
	Tenant            string
	URL               string
	Description       string
	Secrets           []SealedSecret // newest first
	Headers           []Header       // custom request headers; in the topic their values are sealed
	State             EndpointState
	DisabledReason    string
	Order             Order
	MaxInFlight       int             // 0: the deployment's default
	RatePerSecond     float64         // 0: unlimited
	Timeout           time.Duration   // 0: the deployment's default
	PermanentStatuses []int           // statuses that end a delivery at once
	RetryCaps         []time.Duration // empty: the deployment's schedule
	CreatedAt         time.Time
	UpdatedAt         time.Time
	// BreakerResetAt is when an operator last said that the endpoint is well again: a
	// breaker that opened before is closed.
	BreakerResetAt time.Time
}

// BreakerTransition is one record of the breakers topic.
type BreakerTransition struct {
	EndpointID string
	State      string // closed, open, half_open
	Trips      int    // consecutive openings: drives the doubling
	OpenUntil  time.Time
	At         time.Time
	Reason     string // a retry.Class, or "reset_by_operator"
}

// Line is one record of the lines topic: where the line of a strict endpoint stands. The deliveries in it are numbered
// from 1 in the order of the log, and the header topics.HeaderLine of a record in a tier says which it is.
type Line struct {
	EndpointID  string
	Epoch       int64     // tells this line from earlier ones of the endpoint
	Taken       int64     // the highest number of which anything is settled; 0: none
	TakenOffset int64     // where in events that one was read: what lies behind it has no number yet
	Done        int64     // all numbers up to this have ended
	Gone        []int64   // numbers above Done that ended out of turn, ascending
	Open        []Place   // numbers up to Taken whose events are not settled, ascending: read again, they get the same number
	DueAt       time.Time // when the next in line may be attempted; zero: it waits for nothing, or that is not known
	Since       time.Time // when the next in line became that
}

// Place is a number in a line and where in events it was given.
type Place struct{ Number, Offset int64 }

// ReplayMark is one record of dlq.state: this dead letter was replayed.
type ReplayMark struct {
	DeadLetter Coordinates
	DeliveryID string
	EndpointID string
	Run        string // id of the replay run
	Operator   string
	ReplayedAt time.Time
}

// Reasons of dead letters that are not attempt classes.
const (
	ReasonUndecodable     = "undecodable"
	ReasonUnknownEndpoint = "unknown_endpoint"
	ReasonEndpointDeleted = "endpoint_deleted"
	ReasonDisabled        = "endpoint_disabled"
	ReasonExpired         = "expired" // the lifetime ended, whatever the attempts
	ReasonTooLarge        = "too_large"
	ReasonRemoved         = "removed" // records that were gone from the log before they were read; it has no content
)
