package schemas_test

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"reflect"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/require"

	"github.com/barnabas-webhooks/barnabas/schemas"
)

// fuzzKind holds a decoder to goavro: for any bytes it is of the same mind as [authority.decode], and what it read is
// written as goavro writes it. A refusal is a *DecodeError. What is made of the bytes is bounded by their number
// and by MaxItems, whatever lengths and counts they claim.
func fuzzKind(f *testing.F, name string) {
	f.Helper()
	k := kindOf(name)
	a := newAuthority(f, k)
	_, err := k.encode(k.sample()) // the schemas are compiled now, and not while it is measured
	require.NoError(f, err)
	for version := 1; version <= k.version; version++ {
		b, err := os.ReadFile(goldenFile(k, version, "bin"))
		require.NoError(f, err)
		f.Add(b)
		f.Add(b[:len(b)-1])
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		if made := allocated(func() { _, _ = k.decode(b) }); made > uint64(512<<10+4*len(b)) {
			t.Fatalf("%d bytes are allocated for %d", made, len(b))
		}
		requireOneMind(t, a, b)
	})
}

// requireOneMind says whether the bytes are a record, for the code and goavro alike.
func requireOneMind(t *testing.T, a *authority, b []byte) bool {
	t.Helper()
	k := a.kind
	v, err := k.decode(b)
	theirs, otherwise := a.decode(b)
	var lax *laxError
	if errors.As(otherwise, &lax) || (err == nil) != (otherwise == nil) {
		t.Fatalf("%q\nis %#v, error %v\nby goavro:\n%#v, error %v", b, v, err, theirs, otherwise)
	}
	if err != nil {
		var bad *schemas.DecodeError
		if !errors.As(err, &bad) || bad.Record != k.name || !reflect.ValueOf(v).IsZero() {
			t.Fatalf("%#v, %T: %v", v, err, err)
		}
		return false
	}
	require.Equal(t, theirs, v)
	written, err := k.encode(v)
	require.NoError(t, err)
	again, err := k.decode(written) // foreign text may have been cut: from here on nothing changes
	require.NoError(t, err)
	want, err := a.encode(again)
	require.NoError(t, err)
	require.Equal(t, want, written)
	return true
}

func FuzzDecodeEvent(f *testing.F)             { fuzzKind(f, "event") }
func FuzzDecodeDelivery(f *testing.F)          { fuzzKind(f, "delivery") }
func FuzzDecodeAttempt(f *testing.F)           { fuzzKind(f, "attempt") }
func FuzzDecodeDeadLetter(f *testing.F)        { fuzzKind(f, "dead_letter") }
func FuzzDecodeClaim(f *testing.F)             { fuzzKind(f, "claim") }
func FuzzDecodeEndpoint(f *testing.F)          { fuzzKind(f, "endpoint") }
func FuzzDecodeBreakerTransition(f *testing.F) { fuzzKind(f, "breaker_transition") }
func FuzzDecodeReplayMark(f *testing.F)        { fuzzKind(f, "replay_mark") }
func FuzzDecodeLine(f *testing.F)              { fuzzKind(f, "line") }

// FuzzReadEvent holds: a *DecodeError or an event that can be written; the
// payload of a record with an event-type is the record's value.
func FuzzReadEvent(f *testing.F) {
	golden, err := os.ReadFile(filepath.Join("testdata", "golden", "event.v1.bin"))
	require.NoError(f, err)
	f.Add("ep_42", golden, "", "", "", "")
	f.Add("ep_42", []byte("{}"), "event-type", "a.b", "idempotency-key", "k")
	f.Add("ep_42", []byte("{}"), "event-type", "a.b", "event-type", "a.b")
	f.Add("ep_42", []byte("{}"), "ce_type", "a.b", "ce_id", "1")
	f.Add("", []byte{0, 0, 0, 0, 1, 2}, "content-type", "application/cloudevents+json", "traceparent", "00-\n")
	f.Fuzz(func(t *testing.T, key string, value []byte, name1, value1, name2, value2 string) {
		hs := []schemas.Header{{Key: name1, Value: []byte(value1)}, {Key: name2, Value: []byte(value2)}, {Key: "ce_specversion", Value: []byte("1.0")}}
		for _, headers := range [][]schemas.Header{hs, hs[:2]} {
			event, err := schemas.ReadEvent([]byte(key), value, headers)
			if err != nil {
				var bad *schemas.DecodeError
				if !errors.As(err, &bad) || !utf8.ValidString(err.Error()) {
					t.Fatalf("%T: %v", err, err)
				}
				continue
			}
			if (name1 == "event-type" || name2 == "event-type") && string(event.Payload) != string(value) {
				t.Fatalf("payload %q of value %q", event.Payload, value)
			}
			b, err := schemas.EncodeEvent(&event)
			require.NoError(t, err)
			again, err := schemas.ReadEvent([]byte(event.EndpointID), b, nil)
			require.NoError(t, err)
			event.Payload, again.Payload = append([]byte{}, event.Payload...), append([]byte{}, again.Payload...)
			require.Equal(t, event, again)
		}
	})
}

// FuzzParseSendBody holds: a *DecodeError, or a body that encoding/json
// understands too and whose payload stands in it byte for byte.
func FuzzParseSendBody(f *testing.F) {
	f.Add([]byte(`{"endpoint_id":"ep","event_type":"t","payload": {"n": 1E400 } }`))
	f.Add([]byte(`{"url":"https://x","event_type":"t","content_type":"a/b","payload_base64":"AP8="}`))
	f.Add([]byte(`{"endpoint_id":"ep","event_type":"t","payload":"\u0041\ud83d\ude00"}`))
	f.Add([]byte(`{"endpoint_id":"ep","endpoint_id":"ep","event_type":"t","payload":[]}`))
	f.Fuzz(func(t *testing.T, b []byte) {
		body, err := schemas.ParseSendBody(b)
		if err != nil {
			var bad *schemas.DecodeError
			if !errors.As(err, &bad) {
				t.Fatalf("%T: %v", err, err)
			}
			return
		}
		var want struct {
			EndpointID    string          `json:"endpoint_id"`
			URL           string          `json:"url"`
			EventType     string          `json:"event_type"`
			Payload       json.RawMessage `json:"payload"`
			PayloadBase64 []byte          `json:"payload_base64"`
		}
		require.NoError(t, json.Unmarshal(b, &want))
		require.Equal(t, want.EndpointID+"|"+want.URL+"|"+want.EventType, body.EndpointID+"|"+body.URL+"|"+body.EventType)
		if want.Payload != nil {
			require.Equal(t, string(want.Payload), string(body.Payload))
		} else {
			require.Equal(t, string(want.PayloadBase64), string(body.Payload))
		}
		event := body.Event("ep", "")
		_, err = schemas.EncodeEvent(&event)
		require.NoError(t, err)
	})
}
