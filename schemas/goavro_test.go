package schemas_test

import (
	"os"
	"testing"
	"time"

	"github.com/linkedin/goavro/v2"
	"github.com/stretchr/testify/require"

	"github.com/barnabas-webhooks/barnabas/schemas"
)

// A Go producer that encodes with goavro and the schema file as it stands writes
// goavro's own fingerprint of it, which is not Avro's: it is read all the same.
func TestReadEvent_WrittenWithGoavroAndTheSchemaFile(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("event.v1.avsc")
	require.NoError(t, err)
	codec, err := goavro.NewCodec(string(text))
	require.NoError(t, err)
	at := time.Date(2026, 11, 29, 12, 0, 0, 0, time.UTC)
	value, err := codec.SingleFromNative(nil, map[string]any{
		"delivery_id": "", "endpoint_id": "ep_1", "idempotency_key": "k-1", "event_type": "order.paid",
		"content_type": "application/json", "payload": []byte(`{"n":1}`), "accepted_at": at,
		"origin": map[string]any{"topic": "", "partition": 0, "offset": 0}, "traceparent": "", "tracestate": "",
	})
	require.NoError(t, err)
	ours, err := schemas.EncodeEvent(&schemas.Event{EndpointID: "ep_1", EventType: "order.paid"})
	require.NoError(t, err)
	require.NotEqual(t, ours[2:10], value[2:10], "goavro has learnt Avro's fingerprint: the alias can go")

	event, err := schemas.ReadEvent([]byte("ep_1"), value, nil)
	require.NoError(t, err)
	require.Equal(t, "k-1", event.IdempotencyKey)
	require.Equal(t, `{"n":1}`, string(event.Payload))
	require.True(t, at.Equal(event.AcceptedAt))
}
