package schemas_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/barnabas-webhooks/barnabas/schemas"
)

// headers reads "name=value" pairs.
func headers(pairs ...string) []schemas.Header {
	var hs []schemas.Header
	for _, p := range pairs {
		name, value, _ := strings.Cut(p, "=")
		hs = append(hs, schemas.Header{Key: name, Value: []byte(value)})
	}
	return hs
}

func TestReadEvent_Plain(t *testing.T) {
	t.Parallel()
	got, err := schemas.ReadEvent([]byte("ep_1"), []byte(`{"n": 1.0 }`), headers("event-type=a.b"))
	require.NoError(t, err)
	require.Equal(t, schemas.Event{
		EndpointID: "ep_1", EventType: "a.b", ContentType: "application/json", Payload: []byte(`{"n": 1.0 }`),
	}, got)

	got, err = schemas.ReadEvent([]byte("ep_1"), []byte("hi"), headers("event-type=a.b", "content-type=text/plain",
		"idempotency-key=k 1", "traceparent=00-x-y-01", "tracestate=v=1", "x-other=", "x-other="))
	require.NoError(t, err)
	require.Equal(t, schemas.Event{
		EndpointID: "ep_1", EventType: "a.b", ContentType: "text/plain", IdempotencyKey: "k 1",
		Payload: []byte("hi"), TraceParent: "00-x-y-01", TraceState: "v=1",
	}, got)
}

// C-025, C-020: payloads are bytes, whatever they look like.
func TestReadEvent_PlainPayloadsAreOpaque(t *testing.T) {
	t.Parallel()
	own := event()
	avro, err := schemas.EncodeEvent(&own)
	require.NoError(t, err)
	for _, payload := range [][]byte{{}, []byte("\n"), []byte("{}\n"), []byte("{}   "), []byte("a\r\nb"), {0, 0, 0, 0, 1}, {0xff}, avro} {
		got, err := schemas.ReadEvent([]byte("ep_1"), payload, headers("event-type=a.b"))
		require.NoError(t, err)
		require.Equal(t, payload, got.Payload)
		require.Equal(t, "ep_1", got.EndpointID)
	}
}

func TestReadEvent_CloudEvent(t *testing.T) {
	t.Parallel()
	ce := headers("ce_specversion=1.0", "ce_type=com.example.paid", "ce_source=/billing", "ce_id=7",
		"ce_time=2026-03-01T12:00:00Z", "content-type=application/xml", "ce_traceparent=00-x-y-01", "ce_tracestate=v=1")
	got, err := schemas.ReadEvent([]byte("ep_1"), []byte("<a/>"), ce)
	require.NoError(t, err)
	require.Equal(t, schemas.Event{
		EndpointID: "ep_1", EventType: "com.example.paid", ContentType: "application/xml", IdempotencyKey: "/billing#7",
		Payload: []byte("<a/>"), TraceParent: "00-x-y-01", TraceState: "v=1",
	}, got)

	got, err = schemas.ReadEvent([]byte("ep_1"), []byte("<a/>"), append(ce, headers("idempotency-key=mine", "traceparent=00-p")...))
	require.NoError(t, err)
	require.Equal(t, "mine", got.IdempotencyKey)
	require.Equal(t, "00-p", got.TraceParent)
	require.Empty(t, got.TraceState, "the state of another parent")
}

func TestReadEvent_Avro(t *testing.T) {
	t.Parallel()
	want := event()
	b, err := schemas.EncodeEvent(&want)
	require.NoError(t, err)
	for _, key := range [][]byte{nil, {}, []byte("ep_42")} {
		got, err := schemas.ReadEvent(key, b, headers("delivery-id=ignored"))
		require.NoError(t, err)
		require.Equal(t, want, got)
	}
	_, err = schemas.ReadEvent([]byte("ep_43"), b, nil)
	requireDecodeError(t, err, "record key differs from endpoint_id")
}

// C-127, C-190: whatever is wrong is said, and said in the producer's words.
func TestReadEvent_Refuses(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("x", 256)
	ce := func(more ...string) []schemas.Header {
		return headers(append([]string{"ce_specversion=1.0", "ce_type=t"}, more...)...)
	}
	delivered := delivery()
	otherRecord, err := schemas.EncodeDelivery(&delivered)
	require.NoError(t, err)
	tests := []struct {
		name    string
		key     string
		value   []byte
		headers []schemas.Header
		want    string
	}{
		{"no key", "", []byte("{}"), headers("event-type=t"), "record key is missing: it must be the endpoint id"},
		{"long key", long, []byte("{}"), headers("event-type=t"), "record key has 256 bytes, the limit is 255"},
		{"key not UTF-8", "\xff", []byte("{}"), headers("event-type=t"), "record key is not UTF-8"},
		{"key with NUL", "a\x00", []byte("{}"), headers("event-type=t"), "record key has the unprintable character U+0000"},
		{"null value", "ep", nil, headers("event-type=t"), "value is null"},
		{"empty type", "ep", []byte("{}"), headers("event-type="), "header event-type is empty"},
		{"blank type", "ep", []byte("{}"), headers("event-type= "), "header event-type is empty"},
		{"two types", "ep", []byte("{}"), headers("event-type=t", "event-type=t"), "header event-type stands more than once"},
		{"long type", "ep", []byte("{}"), headers("event-type=" + long), "header event-type has 256 bytes"},
		{"empty idempotency key", "ep", []byte("{}"), headers("event-type=t", "idempotency-key="), "header idempotency-key is empty"},
		{"two idempotency keys", "ep", []byte("{}"), headers("event-type=t", "idempotency-key=a", "idempotency-key=b"), "stands more than once"},
		{"long idempotency key", "ep", []byte("{}"), headers("event-type=t", "idempotency-key="+long), "header idempotency-key has 256 bytes, the limit is 255"},
		{"unprintable idempotency key", "ep", []byte("{}"), headers("event-type=t", "idempotency-key=a\tb"), "header idempotency-key has the unprintable"},
		{"two content types", "ep", []byte("{}"), headers("event-type=t", "content-type=a/b", "content-type=a/b"), "header content-type stands more than once"},
		{"injecting content type", "ep", []byte("{}"), headers("event-type=t", "content-type=a/b\r\nx: y"), "header content-type may hold only printable ASCII"},
		{"odd content type", "ep", []byte("{}"), headers("event-type=t", "content-type=json"), "header content-type is not a media type"},
		{"both forms", "ep", []byte("{}"), ce("event-type=t", "ce_source=s", "ce_id=1"), "both an event-type and ce_ headers"},
		{"no source", "ep", []byte("{}"), ce("ce_id=1"), "header ce_source is missing"},
		{"no id", "ep", []byte("{}"), ce("ce_source=s"), "header ce_id is missing"},
		{"no CloudEvents type", "ep", []byte("{}"), headers("ce_specversion=1.0", "ce_source=s", "ce_id=1"), "header ce_type is missing"},
		{"no version", "ep", []byte("{}"), headers("ce_type=t", "ce_source=s", "ce_id=1"), "header ce_specversion is missing"},
		{"old version", "ep", []byte("{}"), headers("ce_type=t", "ce_source=s", "ce_id=1", "ce_specversion=0.3"), "header ce_specversion is not 1.0"},
		{"two ids", "ep", []byte("{}"), ce("ce_source=s", "ce_id=1", "ce_id=2"), "header ce_id stands more than once"},
		{"long source and id", "ep", []byte("{}"), ce("ce_source="+long, "ce_id=1"), "ce_source#ce_id has 258 bytes, the limit is 255"},
		{"long CloudEvents type", "ep", []byte("{}"), headers("ce_type="+long, "ce_source=s", "ce_id=1", "ce_specversion=1.0"), "header ce_type has 256"},
		{"structured CloudEvent", "ep", []byte("{}"), headers("content-type=application/cloudevents+json"), "binary content mode only"},
		{"upper case", "ep", []byte("{}"), headers("Event-Type=t"), "header names are in lower case"},
		{"garbage", "ep", []byte("garbage"), nil, "7 bytes are no event"},
		{"nothing", "", nil, nil, "0 bytes are no event"},
		{"Confluent without registry", "ep", []byte{0, 0, 0, 0, 7, 1}, nil, "schema id 7), and no schema registry is configured"},
		{"Confluent cut", "ep", []byte{0, 0}, nil, "2 bytes are too short for a schema id"},
		{"other record", "ep", otherRecord, nil, "is a delivery.v1"},
		{"other version", "ep", append([]byte{0xC3, 1}, "12345678"...), nil, "unknown schema fingerprint 3837363534333231"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			_, err := schemas.ReadEvent([]byte(tt.key), tt.value, tt.headers)
			requireDecodeError(t, err, tt.want)
		})
	}
}

// C-014
func TestReadEvent_PayloadLimit(t *testing.T) {
	t.Parallel()
	for n, tooLarge := range map[int]bool{
		schemas.MaxPayloadBytes - 1: false, schemas.MaxPayloadBytes: false, schemas.MaxPayloadBytes + 1: true, 8 << 20: true,
	} {
		_, err := schemas.ReadEvent([]byte("ep"), make([]byte, n), headers("event-type=t"))
		if !tooLarge {
			require.NoError(t, err)
			continue
		}
		require.ErrorIs(t, err, schemas.ErrTooLarge)
		requireDecodeError(t, err, fmt.Sprintf("payload has %d bytes, the limit is 900000", n))
	}
}

func TestReadEvent_BrokenTraceContextCostsNothing(t *testing.T) {
	t.Parallel()
	for name, hs := range map[string][]schemas.Header{
		"long":     headers("event-type=t", "traceparent="+strings.Repeat("0", 513)),
		"injected": headers("event-type=t", "traceparent=00\r\nx: y"),
		"twice":    headers("event-type=t", "traceparent=00", "traceparent=01", "tracestate=a"),
		"empty":    headers("event-type=t", "traceparent=", "tracestate=a"),
		"orphaned": headers("event-type=t", "tracestate=a"),
	} {
		got, err := schemas.ReadEvent([]byte("ep"), []byte("{}"), hs)
		require.NoError(t, err, name)
		require.Empty(t, got.TraceParent+got.TraceState, name)
	}
	got, err := schemas.ReadEvent([]byte("ep"), []byte("{}"), headers("event-type=t", "traceparent=00", "tracestate=a", "tracestate=b"))
	require.NoError(t, err)
	require.Equal(t, "00", got.TraceParent)
	require.Empty(t, got.TraceState)
}

// registry is a schema registry in memory that counts its calls.
type registry struct {
	texts map[int]string
	down  error
	calls int
}

func (r *registry) SchemaByID(_ context.Context, id int) (string, error) {
	r.calls++
	if r.down != nil {
		return "", r.down
	}
	text, ok := r.texts[id]
	if !ok {
		return "", fmt.Errorf("registry answered 404: %w", schemas.ErrUnknownSchema)
	}
	return text, nil
}

func framed(id byte, datum []byte) []byte { return append([]byte{0, 0, 0, 0, id}, datum...) }

func TestReader_Confluent(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("event.v1.avsc")
	require.NoError(t, err)
	claimText, err := os.ReadFile("claim.v1.avsc")
	require.NoError(t, err)
	// Java's Avro adds this attribute to the schemas of its string class.
	java := strings.ReplaceAll(string(text), `"type": "string"`, `"type": {"type": "string", "avro.java.string": "String"}`)
	require.NotEqual(t, string(text), java)
	reg := &registry{texts: map[int]string{
		1: string(text), 2: java, 3: string(claimText), 4: `{"type":`, 5: `"long"`,
		6: `{"type": "record", "name": "Loop", "fields": [{"name": "next", "type": ["null", "Loop"]}]}`,
		7: `{"type": "record", "name": 7, "fields": [7]}`, 8: `"nowhere"`, 9: strings.Repeat(" ", 300<<10) + `"long"`,
		10: strings.Repeat(`[`, 9000) + strings.Repeat(`]`, 9000),
	}}
	r := schemas.Reader{Schemas: reg}
	want := event()
	b, err := schemas.EncodeEvent(&want)
	require.NoError(t, err)

	for range 3 {
		for _, id := range []byte{1, 2} {
			got, err := r.ReadEvent(t.Context(), []byte("ep_42"), framed(id, b[10:]), nil)
			require.NoError(t, err)
			require.Equal(t, want, got)
		}
	}
	require.Equal(t, 2, reg.calls, "the registry is asked once for each id")

	for id, text := range map[byte]string{
		3: "schema id 3: is a claim.v1", 4: "schema id 4: schema is not JSON", 5: "schema id 5: unknown schema fingerprint",
		6: "schema id 6: unknown schema", 7: "schema id 7: record field is not an object", 8: "schema id 8:",
		9: "schema text has", 10: "schema id 10: schema is nested deeper than 64 types", 77: "schema id 77: registry answered 404",
	} {
		_, err := r.ReadEvent(t.Context(), nil, framed(id, b[10:]), nil)
		requireDecodeError(t, err, text)
	}
	_, err = r.ReadEvent(t.Context(), nil, framed(1, b[10:len(b)-1]), nil)
	requireDecodeError(t, err, "schema id 1: tracestate ends too early")
	_, err = r.ReadEvent(t.Context(), []byte("ep_1"), framed(1, b[10:]), nil)
	requireDecodeError(t, err, "record key differs")
}

// A registry that is down says nothing of the record: it is no DecodeError, or the record would be a dead letter.
func TestReader_RegistryDownIsNotUndecodable(t *testing.T) {
	t.Parallel()
	down := errors.New("connection refused")
	r := schemas.Reader{Schemas: &registry{down: down}}
	_, err := r.ReadEvent(t.Context(), nil, framed(1, nil), nil)
	require.ErrorIs(t, err, down)
	require.EqualError(t, err, "resolve schema id 1: connection refused")
	var bad *schemas.DecodeError
	require.NotErrorAs(t, err, &bad)
}
