package schemas_test

import (
	"encoding/binary"
	"encoding/hex"
	"errors"
	"math"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/barnabas-webhooks/barnabas/schemas"
)

func requireDecodeError(t *testing.T, err error, text string) {
	t.Helper()
	var bad *schemas.DecodeError
	require.ErrorAs(t, err, &bad)
	require.ErrorContains(t, err, text)
}

func TestCodec_RoundTrip(t *testing.T) {
	t.Parallel()
	for _, k := range kinds() {
		t.Run(k.name, func(t *testing.T) {
			t.Parallel()
			b, err := k.encode(k.sample())
			require.NoError(t, err)
			got, err := k.decode(b)
			require.NoError(t, err)
			require.Equal(t, k.sample(), got)
		})
	}
}

// C-127: truncated, lengthened and foreign records are told apart from good ones, wherever they are cut.
func TestCodec_UndecodableIsATypedError(t *testing.T) {
	t.Parallel()
	for i, k := range kinds() {
		t.Run(k.name, func(t *testing.T) {
			t.Parallel()
			b, err := k.encode(k.sample())
			require.NoError(t, err)

			for n := range b {
				_, err := k.decode(b[:n])
				requireDecodeError(t, err, "decode "+k.name)
			}
			_, err = k.decode(append(b[:len(b):len(b)], 0))
			requireDecodeError(t, err, "1 bytes follow the record")

			wrong := append([]byte(nil), b...)
			wrong[2] ^= 0xff
			_, err = k.decode(wrong)
			requireDecodeError(t, err, "unknown schema fingerprint")

			other := kinds()[(i+1)%len(kinds())]
			_, err = other.decode(b)
			requireDecodeError(t, err, "is a "+k.name+".v1")

			_, err = k.decode(nil) // a tombstone
			requireDecodeError(t, err, "0 bytes are not Avro")
			_, err = k.decode(make([]byte, schemas.MaxRecordBytes+1))
			require.ErrorIs(t, err, schemas.ErrTooLarge)
		})
	}
}

// datum is the start of a record: the header of its golden bytes and what the test puts behind it.
func datum(t *testing.T, k kind, tail ...byte) []byte {
	t.Helper()
	b, err := k.encode(k.sample())
	require.NoError(t, err)
	return append(b[:10:10], tail...)
}

func TestCodec_LyingLengthsDoNotAllocate(t *testing.T) { // not parallel: it measures
	long := binary.AppendVarint(nil, math.MaxInt32)
	most := binary.AppendVarint(nil, math.MaxInt64)
	least := binary.AppendVarint(nil, math.MinInt64)
	ep := []byte{2, 'e', 0, 2, 'u', 0} // id, tenant, url, description: what precedes secrets
	noSecrets := append(append([]byte(nil), ep...), 0)

	event, endpoint := kinds()[0], kinds()[5]
	tests := []struct {
		name string
		k    kind
		tail []byte
		want string
	}{
		{"string of 2 GB", event, long, "ends too early"},
		{"string of 2^63", event, most, "ends too early"},
		{"negative length", event, []byte{1}, "negative length"},
		{"endless number", event, []byte(strings.Repeat("\xff", 40)), "longer than 64 bits"},
		{"not UTF-8", event, []byte{2, 0xff}, "endpoint_id is not UTF-8"},
		{"array of 2^31 items", endpoint, append(ep, long...), "more than 1024 items"},
		{"array of -2^63 items", endpoint, append(append(append([]byte(nil), ep...), least...), 0), "more than 1024 items"},
		{"blocks that add up", endpoint, append(noSecrets, headerBlocks(1025)...), "more than 1024 items"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			b := datum(t, tt.k, tt.tail...)
			_, err := tt.k.decode(b)
			requireDecodeError(t, err, tt.want)
			require.Less(t, allocated(func() { _, _ = tt.k.decode(b) }), uint64(128<<10)) // the 1024 that are there take 90 KB
		})
	}
}

// allocated is how many bytes f allocates; only for tests that are not parallel.
func allocated(f func()) uint64 {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	f()
	runtime.ReadMemStats(&after)
	return after.TotalAlloc - before.TotalAlloc
}

// headerBlocks is an array of n empty headers, each in a block of its own.
func headerBlocks(n int) []byte {
	var b []byte
	for range n {
		b = append(b, 2, 0, 0)
	}
	return b
}

// The bytes are those that Avro 1.12 for Java wrote for a record built from event.v1.avsc with the
// three required fields set.
func TestDecodeEvent_WrittenByJava(t *testing.T) {
	t.Parallel()
	b, err := hex.DecodeString("c3016a30d52254b858900865705f3106612e62047b7d000000000000000000")
	require.NoError(t, err)
	got, err := schemas.ReadEvent([]byte("ep_1"), b, nil)
	require.NoError(t, err)
	require.Equal(t, schemas.Event{EndpointID: "ep_1", EventType: "a.b", ContentType: "application/json", Payload: []byte("{}")}, got)
}

func TestCodec_TimesAreNeverEarly(t *testing.T) {
	t.Parallel()
	due := time.Date(2026, 3, 1, 12, 0, 0, 1, time.UTC) // one nanosecond past the second
	d := delivery()
	d.DueAt, d.AcceptedAt = due, due
	b, err := schemas.EncodeDelivery(&d)
	require.NoError(t, err)
	got, err := schemas.DecodeDelivery(b)
	require.NoError(t, err)
	require.Equal(t, due.Add(time.Millisecond-1), got.DueAt)
	require.Equal(t, due.Add(-1), got.AcceptedAt)

	a := attempt()
	a.NextAt, a.At = due, due
	b, err = schemas.EncodeAttempt(&a)
	require.NoError(t, err)
	gotAttempt, err := schemas.DecodeAttempt(b)
	require.NoError(t, err)
	require.Equal(t, due.Add(time.Millisecond-1), gotAttempt.NextAt)
	require.Equal(t, due.Add(-1), gotAttempt.At)

	tr := transition()
	tr.OpenUntil, tr.At = due, due
	b, err = schemas.EncodeBreakerTransition(&tr)
	require.NoError(t, err)
	gotTransition, err := schemas.DecodeBreakerTransition(b)
	require.NoError(t, err)
	require.Equal(t, due.Add(time.Millisecond-1), gotTransition.OpenUntil)
	require.Equal(t, due.Add(-1), gotTransition.At)
}

func TestCodec_TimesOutsideTheirRangeAreHeldToIt(t *testing.T) {
	t.Parallel()
	for in, want := range map[time.Time]time.Time{
		{}:                                  {},
		time.UnixMilli(-1):                  {},
		time.UnixMilli(1 << 60):             time.UnixMilli(253402300799999).UTC(),
		at(1).In(time.FixedZone("x", 3600)): at(1),
	} {
		c := claim()
		c.ClaimedAt = in
		b, err := schemas.EncodeClaim(&c)
		require.NoError(t, err)
		got, err := schemas.DecodeClaim(b)
		require.NoError(t, err)
		require.Equal(t, want, got.ClaimedAt)
	}
}

func TestCodec_RulesHoldBothWays(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("x", 256)
	event := func(change func(*schemas.Event)) func() error {
		return func() error { e := event(); change(&e); _, err := schemas.EncodeEvent(&e); return err }
	}
	tests := []struct {
		name string
		try  func() error
		want string
	}{
		{"no endpoint", event(func(e *schemas.Event) { e.EndpointID = "" }), "endpoint_id is missing or empty"},
		{"long endpoint", event(func(e *schemas.Event) { e.EndpointID = long }), "endpoint_id has 256 bytes, the limit is 255"},
		{"line break in endpoint", event(func(e *schemas.Event) { e.EndpointID = "a\nb" }), "unprintable character U+000A at byte 1"},
		{"endpoint not UTF-8", event(func(e *schemas.Event) { e.EndpointID = "\xff" }), "endpoint_id is not UTF-8"},
		{"no type", event(func(e *schemas.Event) { e.EventType = "" }), "event_type is missing or empty"},
		{"long key", event(func(e *schemas.Event) { e.IdempotencyKey = long }), "idempotency_key has 256 bytes"},
		{"dotted id", event(func(e *schemas.Event) { e.DeliveryID = "a.b" }), "delivery_id may hold only"},
		{"header injection", event(func(e *schemas.Event) { e.ContentType = "a/b\r\nX: y" }), "content_type may hold only printable ASCII"},
		{"no media type", event(func(e *schemas.Event) { e.ContentType = "json" }), "content_type is not a media type"},
		{"negative origin", event(func(e *schemas.Event) { e.Origin.Offset = -1 }), "origin has a negative"},
		{"payload", event(func(e *schemas.Event) { e.Payload = make([]byte, schemas.MaxPayloadBytes+1) }), "payload has 900001 bytes, the limit is 900000"},
		{"negative attempts", func() error {
			d := delivery()
			d.Attempts = -1
			_, err := schemas.EncodeDelivery(&d)
			return err
		}, "attempts is -1"},
		{"unknown verdict", func() error {
			c := claim()
			c.Verdict = "maybe"
			_, err := schemas.EncodeClaim(&c)
			return err
		}, `verdict is none of ["first" "duplicate" "conflict"]`},
		{"rate", func() error {
			e := endpoint()
			e.RatePerSecond = math.NaN()
			_, err := schemas.EncodeEndpoint(&e)
			return err
		}, "rate_per_second is not a number"},
		{"items", func() error {
			e := endpoint()
			e.PermanentStatuses = make([]int, 1025)
			_, err := schemas.EncodeEndpoint(&e)
			return err
		}, "more than 1024 items"},
		{"endpoint description not UTF-8", func() error {
			e := endpoint()
			e.Description = "\xff"
			_, err := schemas.EncodeEndpoint(&e)
			return err
		}, "description is not UTF-8"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			require.ErrorContains(t, tt.try(), tt.want)
		})
	}
}

func TestEncodeDelivery_CutsWhatIsKeptOfAnAnswer(t *testing.T) {
	t.Parallel()
	d := delivery()
	d.History.LastError = strings.Repeat("ß", 1000) + "\xff"
	d.History.LastExcerpt = make([]byte, 1<<20)
	b, err := schemas.EncodeDelivery(&d)
	require.NoError(t, err)
	got, err := schemas.DecodeDelivery(b)
	require.NoError(t, err)
	require.Equal(t, strings.Repeat("ß", 512), got.History.LastError)
	require.Len(t, got.History.LastExcerpt, schemas.MaxExcerptBytes)
}

func TestDecode_PayloadDoesNotReachIntoTheRecord(t *testing.T) {
	t.Parallel()
	e := event()
	b, err := schemas.EncodeEvent(&e)
	require.NoError(t, err)
	got, err := schemas.DecodeEvent(b)
	require.NoError(t, err)
	before := string(b)
	_ = append(got.Payload, "overwrites what follows?"...)
	require.Equal(t, before, string(b))
}

func TestDecodeEvent_CopiesNoPayload(t *testing.T) { // not parallel: it measures
	e := event()
	e.Payload = make([]byte, schemas.MaxPayloadBytes)
	b, err := schemas.EncodeEvent(&e)
	require.NoError(t, err)
	require.Less(t, allocated(func() { _, _ = schemas.DecodeEvent(b) }), uint64(16<<10))
}

// C-142, C-148: a dead letter is written whatever foreign bytes it holds, and whole wherever the
// record it holds could have been written itself.
func TestDeadLetter_AlwaysFits(t *testing.T) {
	t.Parallel()
	many := make([]schemas.Header, 5000)
	for i := range many {
		many[i] = schemas.Header{Key: "h\xff", Value: []byte("v")}
	}
	tests := []struct {
		name   string
		change func(*schemas.DeadLetter)
		cut    string
	}{
		{"largest payload", func(d *schemas.DeadLetter) { d.Delivery.Payload = make([]byte, schemas.MaxPayloadBytes) }, ""},
		{"largest record", func(d *schemas.DeadLetter) {
			d.Delivery = schemas.Delivery{}
			d.Raw = make([]byte, schemas.MaxEventBytes)
		}, ""},
		{"huge record", func(d *schemas.DeadLetter) { d.Raw = make([]byte, 5<<20) }, "bytes of the raw record are cut off"},
		{"huge key", func(d *schemas.DeadLetter) { d.RawKey = make([]byte, 5<<20) }, "bytes of the raw record are cut off"},
		{"many headers", func(d *schemas.DeadLetter) { d.RawHeaders = many }, "(11928 bytes of the raw record are cut off)"},
		{"broken text", func(d *schemas.DeadLetter) {
			d.Delivery.EndpointID = strings.Repeat("\xff", 1000)
			d.Detail = strings.Repeat("\xff", 1<<20)
		}, ""},
		{"everything", func(d *schemas.DeadLetter) {
			d.Delivery.Payload = make([]byte, schemas.MaxPayloadBytes)
			d.Raw, d.RawKey, d.RawHeaders = make([]byte, 1<<20), make([]byte, 1<<20), many
			d.Detail = strings.Repeat("x", 1<<20)
			d.Delivery.History.LastExcerpt = make([]byte, 1<<20)
			d.Delivery.History.LastError = strings.Repeat("x", 1<<20)
		}, "bytes of the raw record are cut off"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			d := deadLetter()
			tt.change(&d)
			b, err := schemas.EncodeDeadLetter(&d)
			require.NoError(t, err)
			require.LessOrEqual(t, len(b), schemas.MaxDeadLetterBytes-32<<10) // room for key and headers
			got, err := schemas.DecodeDeadLetter(b)
			require.NoError(t, err)
			require.Equal(t, d.Delivery.Payload, got.Delivery.Payload)
			if tt.cut == "" {
				require.Equal(t, d.Raw, got.Raw)
				require.Equal(t, d.RawKey, got.RawKey)
				require.Equal(t, d.RawHeaders, got.RawHeaders)
				require.NotContains(t, got.Detail, "cut off")
			} else {
				require.Contains(t, got.Detail, tt.cut)
			}
		})
	}
}

// C-014: whatever is accepted fits every later topic.
func TestLimits_TheSumsHold(t *testing.T) {
	t.Parallel()
	name, id := strings.Repeat("n", schemas.MaxNameBytes), strings.Repeat("i", schemas.MaxDeliveryIDBytes)
	trace, topic := strings.Repeat("t", schemas.MaxTraceBytes), strings.Repeat("t", 249)
	payload := make([]byte, schemas.MaxPayloadBytes)
	last := schemas.Coordinates{Topic: topic, Partition: math.MaxInt32, Offset: math.MaxInt64}
	const headers = 8 << 10 // what our own records carry in key, headers and framing

	e := schemas.Event{
		DeliveryID: id, EndpointID: name, IdempotencyKey: name, EventType: name, ContentType: "a/" + name[2:],
		Payload: payload, AcceptedAt: at(1), Origin: last, TraceParent: trace, TraceState: trace,
	}
	b, err := schemas.EncodeEvent(&e)
	require.NoError(t, err)
	require.LessOrEqual(t, len(b)+headers, schemas.MaxEventBytes)

	d := schemas.Delivery{
		ID: id, EndpointID: name, Tenant: name, EventType: name, ContentType: name, IdempotencyKey: name,
		Payload: payload, AcceptedAt: at(1), Origin: last, TraceParent: trace, TraceState: trace,
		Attempts: math.MaxInt32, Replays: math.MaxInt32, Holds: math.MaxInt32, DueAt: at(1), RunStartedAt: at(1),
		History: schemas.History{
			TotalAttempts: math.MaxInt32, FirstAttemptAt: at(1), LastAttemptAt: at(1), LastClass: name, LastStatus: 599,
			LastError: strings.Repeat("x", schemas.MaxErrorBytes), LastExcerpt: make([]byte, schemas.MaxExcerptBytes),
		},
	}
	b, err = schemas.EncodeDelivery(&d)
	require.NoError(t, err)
	require.LessOrEqual(t, len(b)+headers, schemas.MaxDeliveryBytes)
	require.Less(t, schemas.MaxDeliveryBytes, schemas.MaxBatchBytes, "the defaults of brokers and clients hold every topic but the dead letters")
}

func TestDecodeError_Unwraps(t *testing.T) {
	t.Parallel()
	inner := errors.New("why")
	err := error(&schemas.DecodeError{Record: "event", Err: inner})
	require.ErrorIs(t, err, inner)
	require.EqualError(t, err, "decode event: why")
}
