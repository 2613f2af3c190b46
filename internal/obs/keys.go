package obs

// Keys of log attributes, in one place, so that a field means the same on every
// line and a query on the logs of one part works on the others. snake_case.
const (
	KeyComponent       = "component" // the part that logs: api, processor, kafka, ...
	KeyError           = "err"
	KeyCause           = "cause"    // why something ended: a shutdown, a revocation
	KeyDuration        = "duration" // as text, such as 12.5ms: so are all durations
	KeyEndpointID      = "endpoint_id"
	KeyTenant          = "tenant"
	KeyDeliveryID      = "delivery_id"
	KeyEventType       = "event_type"
	KeyAttempt         = "attempt" // number within the run, from 1
	KeyReplay          = "replay"  // run: 0 the first, n after the nth replay
	KeyClass           = "class"   // what an attempt came to: a retry.Class
	KeyStatus          = "status"  // HTTP status code; 0: none was read
	KeyDecision        = "decision"
	KeyReason          = "reason"
	KeyDueAt           = "due_at"
	KeyRetryAfter      = "retry_after" // that a receiver asked for, cut to the limit
	KeyHost            = "host"        // of an endpoint's URL, never its path or query
	KeyTopic           = "topic"
	KeyPartition       = "partition"
	KeyOffset          = "offset"
	KeyUnit            = "unit"
	KeyGeneration      = "generation"
	KeyMember          = "member"
	KeyGroup           = "group"
	KeyCount           = "count"
	KeyBytes           = "bytes"
	KeyState           = "state"
	KeyFrom            = "from"
	KeyTo              = "to"
	KeyAddr            = "addr"
	KeyPath            = "path"
	KeyStep            = "step" // of start-up or shutdown
	KeyVersion         = "version"
	KeySuppressed      = "suppressed" // lines that Quiet left out since the last one of the same cause
	KeyRequestID       = "request_id"
	KeyIdempotency     = "idempotency_key"
	KeyCoordinates     = "coordinates" // topic/partition/offset
	KeyTransaction     = "transactional_id"
	KeyConfigSource    = "config_source"
	KeyWait            = "wait" // until the next try
	KeyPID             = "pid"
	KeyUnits           = "units" // partition numbers
	KeyDeadline        = "deadline"
	KeyTag             = "tag"   // of a beat, as it stands in commit metadata
	KeyTrips           = "trips" // openings of a breaker in a row
	KeyOpenUntil       = "open_until"
	KeyOutcomes        = "outcomes"
	KeyTries           = "tries"
	KeyInFlight        = "in_flight"         // requests
	KeyVerdict         = "verdict"           // of the arbiter
	KeyOwnerDeliveryID = "owner_delivery_id" // the delivery that owns an idempotency key
	KeyDetail          = "detail"
	KeyBreakers        = "breakers"
	KeyClaims          = "claims"
	KeyRoute           = "route" // pattern of an API route
	KeyStack           = "stack"
	KeyRoles           = "roles"
	KeyBrokers         = "brokers"
	KeyMethod          = "method" // HTTP
)
