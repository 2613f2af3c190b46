package schemas_test

import (
	"time"

	"github.com/barnabas-webhooks/barnabas/schemas"
)

// The samples fill every field with a value that tells it from its neighbours.

func at(minutes int) time.Time {
	return time.Date(2026, 3, 1, 12, minutes, 0, 123_000_000, time.UTC)
}

func origin() schemas.Coordinates {
	return schemas.Coordinates{Topic: "barnabas.events", Partition: 7, Offset: 1 << 40}
}

func event() schemas.Event {
	return schemas.Event{
		DeliveryID:     "dlv_01kjp5k9vwesrtc8g9d2zj4m3n",
		EndpointID:     "ep_42",
		IdempotencyKey: "invoice-7/ß",
		EventType:      "invoice.paid",
		ContentType:    "application/json; charset=utf-8",
		Payload:        []byte("{\"total\": 1E400}\n"),
		AcceptedAt:     at(1),
		Origin:         origin(),
		TraceParent:    "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
		TraceState:     "vendor=1",
	}
}

func delivery() schemas.Delivery {
	return schemas.Delivery{
		ID:             "dlv_01kjp5k9vwesrtc8g9d2zj4m3n",
		EndpointID:     "ep_42",
		Tenant:         "acme",
		EventType:      "invoice.paid",
		ContentType:    "application/json",
		IdempotencyKey: "invoice-7",
		Payload:        []byte(`{"total": 9007199254740993}`),
		AcceptedAt:     at(1),
		Origin:         origin(),
		TraceParent:    "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
		TraceState:     "vendor=1",
		Attempts:       3,
		Replays:        2,
		Holds:          4,
		DueAt:          at(9),
		RunStartedAt:   at(2),
		History: schemas.History{
			TotalAttempts:  12,
			FirstAttemptAt: at(3),
			LastAttemptAt:  at(4),
			LastClass:      "http_5xx",
			LastStatus:     503,
			LastError:      "503 Service Unavailable",
			LastExcerpt:    []byte("busy\x00\xff"),
		},
	}
}

func attempt() schemas.Attempt {
	return schemas.Attempt{
		Kind:            schemas.AttemptDuplicate,
		DeliveryID:      "dlv_01kjp5k9vwesrtc8g9d2zj4m3n",
		EndpointID:      "ep_42",
		Tenant:          "acme",
		EventType:       "invoice.paid",
		Number:          3,
		Replay:          1,
		At:              at(5),
		Duration:        1234567 * time.Microsecond,
		Class:           "timeout",
		Status:          504,
		Error:           "no answer within 15s",
		Excerpt:         []byte("late"),
		Decision:        "retry",
		NextAt:          at(6),
		Source:          origin(),
		OwnerDeliveryID: "dlv_01kjp5k9vwesrtc8g9d2zj4m3p",
	}
}

func deadLetter() schemas.DeadLetter {
	return schemas.DeadLetter{
		Delivery:   delivery(),
		Reason:     schemas.ReasonUndecodable,
		Detail:     "decode event: 3 bytes are no event",
		DeadAt:     at(8),
		Source:     schemas.Coordinates{Topic: "barnabas.retry.1m", Partition: 1, Offset: 99},
		RawKey:     []byte{},
		Raw:        []byte{0, 0xff, 1},
		RawHeaders: []schemas.Header{{Key: "a\xff", Value: nil}, {Key: "b", Value: []byte{}}, {Key: "b", Value: []byte("2")}},
	}
}

func claim() schemas.Claim {
	return schemas.Claim{
		EndpointID:     "ep_42",
		Key:            "invoice-7",
		DeliveryID:     "dlv_01kjp5k9vwesrtc8g9d2zj4m3n",
		PayloadHash:    []byte("0123456789abcdef0123456789abcdef"),
		ClaimedOffset:  41,
		ClaimedAt:      at(1),
		AnsweredOffset: 1 << 33,
		Verdict:        schemas.VerdictConflict,
	}
}

func endpoint() schemas.Endpoint {
	return schemas.Endpoint{
		ID:          "ep_42",
		Tenant:      "acme",
		URL:         "https://example.com/hook?x=%2F",
		Description: "the one in the cellar",
		Secrets: []schemas.SealedSecret{
			{ID: "sec_2", Ciphertext: []byte{1, 2, 3}, CreatedAt: at(2)},
			{ID: "sec_1", Ciphertext: []byte{4, 5}, CreatedAt: at(1), ExpiresAt: at(30)},
		},
		Headers:           []schemas.Header{{Key: "X-Env", Value: []byte("prod")}},
		State:             schemas.EndpointDisabled,
		DisabledReason:    "gone",
		Order:             schemas.OrderParallel,
		MaxInFlight:       8,
		RatePerSecond:     2.5,
		Timeout:           20 * time.Second,
		PermanentStatuses: []int{401, 404},
		RetryCaps:         []time.Duration{time.Second, time.Minute},
		CreatedAt:         at(1),
		UpdatedAt:         at(2), BreakerResetAt: at(2),
	}
}

func transition() schemas.BreakerTransition {
	return schemas.BreakerTransition{
		EndpointID: "ep_42", State: "half_open", Trips: 3, OpenUntil: at(7), At: at(6), Reason: "connect",
	}
}

func replayMark() schemas.ReplayMark {
	return schemas.ReplayMark{
		DeadLetter: schemas.Coordinates{Topic: "barnabas.dlq", Partition: 3, Offset: 12},
		DeliveryID: "dlv_01kjp5k9vwesrtc8g9d2zj4m3n", EndpointID: "ep_42",
		Run: "run_1", Operator: "max", ReplayedAt: at(59),
	}
}

func line() schemas.Line {
	return schemas.Line{
		EndpointID: "ep_42", Epoch: 1780000000000, Taken: 300, TakenOffset: 1 << 33, Done: 41, Gone: []int64{44, 45},
		Open: []schemas.Place{{Number: 42, Offset: 977}, {Number: 46, Offset: 1001}}, DueAt: at(8), Since: at(7),
	}
}

// kind is one record type with its sample, its types erased.
type kind struct {
	name    string
	version int // the newest
	sample  func() any
	encode  func(any) ([]byte, error)
	decode  func([]byte) (any, error)
	listed  func() []string // the fields that the code names
}

func newKind[T any](name string, version int, sample func() T, encode func(*T) ([]byte, error), decode func([]byte) (T, error)) kind {
	listed := func() []string { return schemas.Listed(any(new(T)).(schemas.Lister)) }
	return kind{
		name: name, version: version,
		sample: func() any { return sample() },
		encode: func(v any) ([]byte, error) { t := v.(T); return encode(&t) },
		decode: func(b []byte) (any, error) { return decode(b) },
		listed: listed,
	}
}

func kinds() []kind {
	return []kind{
		newKind("event", 1, event, schemas.EncodeEvent, schemas.DecodeEvent),
		newKind("delivery", 1, delivery, schemas.EncodeDelivery, schemas.DecodeDelivery),
		newKind("attempt", 1, attempt, schemas.EncodeAttempt, schemas.DecodeAttempt),
		newKind("dead_letter", 1, deadLetter, schemas.EncodeDeadLetter, schemas.DecodeDeadLetter),
		newKind("claim", 1, claim, schemas.EncodeClaim, schemas.DecodeClaim),
		newKind("endpoint", 1, endpoint, schemas.EncodeEndpoint, schemas.DecodeEndpoint),
		newKind("breaker_transition", 1, transition, schemas.EncodeBreakerTransition, schemas.DecodeBreakerTransition),
		newKind("replay_mark", 1, replayMark, schemas.EncodeReplayMark, schemas.DecodeReplayMark),
		newKind("line", 1, line, schemas.EncodeLine, schemas.DecodeLine),
	}
}

func kindOf(name string) kind {
	for _, k := range kinds() {
		if k.name == name {
			return k
		}
	}
	panic("there is no " + name)
}
