package schemas_test

import (
	"encoding/base64"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/barnabas-webhooks/barnabas/schemas"
)

// C-020, C-022, C-023, C-025: the payload is what stands there.
func TestParseSendBody_PayloadStaysAsItStands(t *testing.T) {
	t.Parallel()
	for _, payload := range []string{
		`{}`, `[]`, `null`, `true`, `""`, `"text"`, `0`, `-0`, `1.0`, `1E400`, `9007199254740993`, strings.Repeat("9", 400),
		`{"b":1,"a":2,"a":3}`, `{ "a" : [ ] ,` + "\r\n\t" + ` "b" : { } }`,
		`{"s":"\u0041\/\u2028` + "\u2028\u2029" + `<>&","e":"` + "😀é" + `","x":"\ud83d\ude00","l":"\ud800"}`,
		strings.Repeat("[", 5000) + strings.Repeat("]", 5000),
	} {
		body := "{ \"endpoint_id\" : \"ep_1\",\"payload\" :\n " + payload + " \t, \"event_type\":\"a.b\" }\n"
		got, err := schemas.ParseSendBody([]byte(body))
		require.NoError(t, err, payload)
		require.Equal(t, payload, string(got.Payload))
		require.Equal(t, schemas.SendBody{EndpointID: "ep_1", EventType: "a.b", ContentType: "application/json", Payload: []byte(payload)}, got)

		e, err := schemas.EventFromJSON([]byte(body))
		require.NoError(t, err)
		require.Equal(t, payload, string(e.Payload))
	}
}

func TestParseSendBody_Base64(t *testing.T) {
	t.Parallel()
	for _, payload := range []string{"", "\n", "\x00\xff", strings.Repeat("x", schemas.MaxPayloadBytes)} {
		got, err := schemas.ParseSendBody(fmt.Appendf(nil,
			`{"url":"https://u:secret@example.com/a%%2Fb?q","event_type":"a","content_type":"text/plain","payload_base64":%q}`,
			base64.StdEncoding.EncodeToString([]byte(payload))))
		require.NoError(t, err)
		require.Equal(t, payload, string(got.Payload))
		require.Equal(t, "https://u:secret@example.com/a%2Fb?q", got.URL)
		require.Equal(t, "text/plain", got.ContentType)
	}
}

func TestParseSendBody_Refuses(t *testing.T) {
	t.Parallel()
	with := func(fields string) string { return `{"endpoint_id":"ep","event_type":"t",` + fields + `}` }
	tests := []struct{ name, body, want string }{
		{"nothing", ``, "is not JSON: it ends too early"},
		{"cut", `{"endpoint_id":"ep"`, "is not JSON: it ends too early"},
		{"cut payload", with(`"payload":{`), "is not JSON: it ends too early"},
		{"no object", `[1]`, "is not a JSON object"},
		{"null", `null`, "is not a JSON object"},
		{"two objects", with(`"payload":1`) + `{}`, "more than one JSON object"},
		{"tail", with(`"payload":1`) + ` x`, "more than one JSON object"},
		{"broken payload", with(`"payload":{a}`), "is not JSON: invalid character 'a'"},
		{"leading zero", with(`"payload":01`), "is not JSON"},
		{"bare payload", with(`"payload":`), "is not JSON"},
		{"comma", with(`"payload":1,`), "is not JSON"},
		{"deep", with(`"payload":` + strings.Repeat("[", 20000)), "exceeds the depth of 10,000 levels"},
		{"not UTF-8", with(`"payload":"` + "\xff" + `"`), "is not UTF-8"},
		{"unknown field", with(`"payload":1,"Payload":2`), `"Payload" is not a field of this body`},
		{"key in the body", with(`"payload":1,"idempotency_key":"k"`), `"idempotency_key" is not a field of this body`},
		{"payload twice", with(`"payload":1,"payload":2`), `"payload" stands twice`},
		{"escaped twice", with(`"payload":1,"p\u0061yload":2`), `"payload" stands twice`},
		{"both payloads", with(`"payload":1,"payload_base64":"","content_type":"a/b"`), "payload or payload_base64 must be there, and not both"},
		{"no payload", with(`"content_type":"a/b"`), "payload or payload_base64 must be there, and not both"},
		{"base64 without type", with(`"payload_base64":""`), "content_type is missing"},
		{"unpadded base64", with(`"payload_base64":"YQ","content_type":"a/b"`), "payload_base64 is not padded base 64"},
		{"base64 number", with(`"payload_base64":1,"content_type":"a/b"`), "payload_base64 is not a string"},
		{"type is null", `{"endpoint_id":"ep","event_type":null,"payload":1}`, "event_type is not a string"},
		{"type is a number", `{"endpoint_id":"ep","event_type":1,"payload":1}`, "event_type is not a string"},
		{"no type", `{"endpoint_id":"ep","payload":1}`, "event_type is missing or empty"},
		{"empty type", `{"endpoint_id":"ep","event_type":"","payload":1}`, "event_type is empty"},
		{"line break in type", `{"endpoint_id":"ep","event_type":"a\nb","payload":1}`, "event_type has the unprintable character U+000A"},
		{"bad content type", with(`"payload":1,"content_type":"a/b\r\nx: y"`), "content_type may hold only printable ASCII"},
		{"no target", `{"event_type":"t","payload":1}`, "endpoint_id or url must be there, and not both"},
		{"two targets", with(`"payload":1,"url":"https://x"`), "endpoint_id or url must be there, and not both"},
		{"empty url", `{"event_type":"t","payload":1,"url":""}`, "url is empty"},
		{"long url", `{"event_type":"t","payload":1,"url":"` + strings.Repeat("u", 8193) + `"}`, "url has 8193 bytes, the limit is 8192"},
		{"long endpoint", `{"event_type":"t","payload":1,"endpoint_id":"` + strings.Repeat("u", 256) + `"}`, "endpoint_id has 256 bytes"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			_, err := schemas.ParseSendBody([]byte(tt.body))
			requireDecodeError(t, err, "decode send body: ")
			require.ErrorContains(t, err, tt.want)
			require.Less(t, len(err.Error()), 300)
		})
	}
}

// C-014
func TestParseSendBody_TooLarge(t *testing.T) {
	t.Parallel()
	body := func(n int) []byte {
		return fmt.Appendf(nil, `{"endpoint_id":"ep","event_type":"t","payload":"%s"}`, strings.Repeat("x", n-2))
	}
	_, err := schemas.ParseSendBody(body(schemas.MaxPayloadBytes))
	require.NoError(t, err)
	_, err = schemas.ParseSendBody(body(schemas.MaxPayloadBytes + 1))
	require.ErrorIs(t, err, schemas.ErrTooLarge)
	requireDecodeError(t, err, "payload has 900001 bytes, the limit is 900000")
	_, err = schemas.ParseSendBody(body(4 << 20))
	require.ErrorIs(t, err, schemas.ErrTooLarge)
	requireDecodeError(t, err, "body has")
}

func TestEventFromJSON(t *testing.T) {
	t.Parallel()
	got, err := schemas.EventFromJSON([]byte(`{"endpoint_id":"ep_1","event_type":"a.b","idempotency_key":"k","payload":{"n": 1}}`))
	require.NoError(t, err)
	require.Equal(t, &schemas.Event{
		EndpointID: "ep_1", EventType: "a.b", IdempotencyKey: "k", ContentType: "application/json", Payload: []byte(`{"n": 1}`),
	}, got)

	for body, want := range map[string]string{
		`{"url":"https://x","event_type":"t","payload":1}`:                           `"url" is not a field`,
		`{"event_type":"t","payload":1}`:                                             "endpoint_id is missing",
		`{"endpoint_id":"ep","event_type":"t","payload":1,"idempotency_key":""}`:     "idempotency_key is empty",
		`{"endpoint_id":"ep","event_type":"t","payload":1,"idempotency_key":"a\nb"}`: "idempotency_key has the unprintable",
	} {
		_, err := schemas.EventFromJSON([]byte(body))
		requireDecodeError(t, err, "decode event: ")
		require.ErrorContains(t, err, want)
	}
}
