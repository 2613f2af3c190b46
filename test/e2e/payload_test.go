package e2e_test

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync"
	"testing"

	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"
	"github.com/stretchr/testify/require"

	"github.com/barnabas-webhooks/barnabas/internal/api/client"
)

// arrived is one POST as it came over the wire.
type arrived struct {
	header http.Header
	length int64
	body   []byte
}

// payloads is what other senders have been seen to alter: by name, as JSON or as bytes.
func payloads() (asJSON, asBytes map[string]string) {
	asJSON = map[string]string{
		// C-022: numbers that no float64 holds.
		"2^53+1": `9007199254740993`, "-0": `-0`, "1.0": `1.0`, "trailing zeros": `{"total":12.500}`, "1E400": `1E400`,
		"400 digits": strings.Repeat("9", 400), "1e-400": `[1e-400,1E+2]`,
		// C-023: what encoders escape, unescape or normalise.
		"line separators": "\"\u2028\u2029\"", "beyond the BMP": "\"\U0001F600\"", "its escape": `"\ud83d\ude00"`, "lone surrogate": `"\ud800"`,
		"combining": "\"e\u0301 \u00e9\"", "html": `"<>&"`, "solidus": `"\/ /"`, "escaped letter": `"\u0041"`, "nul": `"\u0000"`, "bom inside": "\"\ufeff\"",
		// C-020, C-025: order, repeats, space, nothing.
		"key order": `{"z":1,"a":2,"m":3}`, "duplicate keys": `{"a":1,"a":2,"a":1}`, "nested empties": `{"a":[],"b":{},"c":[[],{}],"d":""}`,
		"spaces": "{ \"a\" :\t1 ,\r\n\t\"b\" : [ 1 , 2 ]\n}", "null": `null`, "empty string": `""`, "false": `false`,
	}
	asBytes = map[string]string{
		"nothing": "", "line end": "\n", "json and line end": "{}\n", "json and spaces": "{}   ", "crlf": "a\r\nb\r\n", "bom": "\ufeff{}",
		"no text": "\x00\xff\xfe\x80", "form": "a=1&b=%20+",
	}
	return asJSON, asBytes
}

// What is posted to the API is what arrives, byte for byte, also at the second try, with a right Content-Length and a
// signature that somebody else's library verifies: C-020, C-022, C-023, C-025.
func TestDelivery_PayloadsArriveByteForByte(t *testing.T) {
	t.Parallel()
	s := newSite(t, openBroker(t), "")
	s.serve()
	webhook, err := standardwebhooks.NewWebhook(signingSecret)
	require.NoError(t, err)

	var mu sync.Mutex // guards got
	got := map[string][]arrived{}
	receiver := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			t.Errorf("read: %v", err)
		}
		if err := webhook.Verify(body, r.Header); err != nil {
			t.Errorf("%q: %v", body, err)
		}
		mu.Lock()
		defer mu.Unlock()
		id := r.Header.Get("Webhook-Id")
		got[id] = append(got[id], arrived{r.Header.Clone(), r.ContentLength, bytes.Clone(body)})
		if len(got[id]) == 1 {
			w.WriteHeader(http.StatusInternalServerError) // the second try is made of what was written to a tier
		}
	}))
	defer receiver.Close()

	asJSON, asBytes := payloads()
	sent := map[string]client.Send{}
	n := 0
	send := func(payload, contentType string) {
		n++
		e := client.Send{
			// Endpoints of their own: failures of many in a row would open one breaker.
			EndpointID: fmt.Sprintf("ep_%d", n), EventType: "t", Payload: []byte(payload), JSON: contentType == "", ContentType: contentType,
			IdempotencyKey: "k " + strconv.Itoa(n),
		}
		s.endpoint(e.EndpointID, receiver.URL+"/hook")
		answer, err := s.client.Send(t.Context(), e)
		require.NoError(t, err, "%q", payload)
		sent[answer.DeliveryID] = e
	}
	for _, payload := range asJSON {
		send(payload, "")
	}
	for _, payload := range asBytes {
		send(payload, "text/plain; charset=utf-8")
	}
	await(t, "two posts of each", func() bool {
		mu.Lock()
		defer mu.Unlock()
		for id := range sent {
			if len(got[id]) < 2 {
				return false
			}
		}
		return true
	})
	mu.Lock()
	defer mu.Unlock()
	for id, e := range sent {
		want := e.ContentType
		if e.JSON {
			want = "application/json"
		}
		for _, a := range got[id] {
			require.Equal(t, string(e.Payload), string(a.body))
			require.EqualValues(t, len(e.Payload), a.length)
			require.Equal(t, want, a.header.Get("Content-Type"))
		}
	}
}
