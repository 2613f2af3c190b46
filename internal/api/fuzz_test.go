package api_test

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/barnabas-webhooks/barnabas/internal/api"
)

// FuzzSend: whatever the key and the body, an answer from the documented set, and what is accepted is in the log byte
// for byte.
func FuzzSend(f *testing.F) {
	for _, body := range []string{
		event("e1", `{"a":1}`), event("nobody", `1`), `{"endpoint_id":"e1","event_type":"t","payload": 1E400 }`,
		`{"endpoint_id":"e1","event_type":"t","content_type":"a/b","payload_base64":"AP8="}`, `{"url":"https://h.example/"}`, "{", "",
	} {
		f.Add("K", []byte(body))
	}
	f.Fuzz(func(t *testing.T, key string, body []byte) {
		log := &fakeLog{}
		a, err := api.New(fakes(log, acme()))
		if err != nil {
			t.Fatal(err)
		}
		req := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/v1/deliveries", bytes.NewReader(body))
		req.Header.Set("Authorization", "Bearer "+acmeProducer)
		req.Header.Set("Content-Type", "application/json")
		req.Header["Idempotency-Key"] = []string{key}
		w := httptest.NewRecorder()
		if bytes.Contains(body, []byte(`"url"`)) {
			return // there is no registry here
		}
		a.Handler().ServeHTTP(w, req)
		events := log.all()
		switch w.Code {
		case http.StatusAccepted:
			if len(events) != 1 || events[0].EndpointID != "e1" || events[0].IdempotencyKey != key && !strings.HasPrefix(strings.TrimSpace(key), `"`) {
				t.Fatalf("accepted, and the log has %+v", events)
			}
			payload := events[0].Payload
			if !bytes.Contains(body, payload) && !base64Of(body, payload) {
				t.Fatalf("%q became %q", body, payload)
			}
		case http.StatusBadRequest, http.StatusNotFound, http.StatusRequestEntityTooLarge:
			if len(events) != 0 {
				t.Fatalf("%d, and the log has %d events", w.Code, len(events))
			}
		default:
			t.Fatalf("%d: %s", w.Code, w.Body)
		}
		if !json.Valid(w.Body.Bytes()) {
			t.Fatalf("no JSON: %s", w.Body)
		}
	})
}

// base64Of says whether payload is what the body's payload_base64 stands for.
func base64Of(body, payload []byte) bool {
	var v struct {
		Payload string `json:"payload_base64"`
	}
	if json.Unmarshal(body, &v) != nil {
		return false
	}
	raw, err := base64.StdEncoding.DecodeString(v.Payload)
	return err == nil && bytes.Equal(raw, payload)
}
