package client_test

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/barnabas-webhooks/barnabas/internal/api"
	"github.com/barnabas-webhooks/barnabas/internal/api/client"
)

// transport answers without a network.
type transport func(*http.Request) (*http.Response, error)

func (f transport) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// answering is a client whose nth request is answered by the nth function, and all later ones by the last.
func answering(t *testing.T, asked *[]time.Time, keys *[]string, answers ...func(w http.ResponseWriter) error) *client.Client {
	t.Helper()
	c, err := client.New(client.Options{BaseURL: "http://api.example", HTTP: &http.Client{Transport: transport(
		func(r *http.Request) (*http.Response, error) {
			answer := answers[min(len(*asked), len(answers)-1)]
			*asked, *keys = append(*asked, time.Now()), append(*keys, r.Header.Get("Idempotency-Key"))
			w := httptest.NewRecorder()
			if err := answer(w); err != nil {
				return nil, err
			}
			return w.Result(), nil
		})}})
	require.NoError(t, err)
	return c
}

func status(code int, body string, header ...string) func(http.ResponseWriter) error {
	return func(w http.ResponseWriter) error {
		for i := 0; i < len(header); i += 2 {
			w.Header().Set(header[i], header[i+1])
		}
		w.WriteHeader(code)
		_, err := io.WriteString(w, body)
		return err
	}
}

func broken(http.ResponseWriter) error { return io.ErrUnexpectedEOF }

// Whatever leaves open whether the event was taken is asked again under the same key, and not before Retry-After.
func TestSendUntil_AsksAgain(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var asked []time.Time
		var keys []string
		c := answering(t, &asked, &keys,
			broken, status(503, "", "Retry-After", "7"), status(429, "", "Retry-After", "30"), status(500, ""), status(502, "<html>"),
			status(202, `{"delivery_id":"dlv_1","endpoint_id":"e","status":"accepted"}`))
		sent, err := c.SendUntil(t.Context(), client.Send{EndpointID: "e", EventType: "t", Payload: []byte("1"), JSON: true, IdempotencyKey: "order 17"})
		require.NoError(t, err)
		require.Equal(t, "dlv_1", sent.DeliveryID)
		require.Len(t, asked, 6)
		require.GreaterOrEqual(t, asked[2].Sub(asked[1]), 7*time.Second)
		require.GreaterOrEqual(t, asked[3].Sub(asked[2]), 30*time.Second)
		for i, key := range keys {
			require.Equal(t, `"order 17"`, key, "try %d", i)
		}
	})
}

// What is refused for good is not asked again, and neither is what ctx leaves no time for.
func TestSendUntil_Ends(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		good := client.Send{EndpointID: "e", EventType: "t", Payload: []byte("1"), JSON: true, IdempotencyKey: "k"}
		for _, code := range []int{400, 401, 403, 404, 409, 413, 415, 422} {
			var asked []time.Time
			_, err := answering(t, &asked, new([]string), status(code, "")).SendUntil(t.Context(), good)
			require.Error(t, err)
			require.Len(t, asked, 1, code)
		}
		for name, bad := range map[string]client.Send{
			"no key":  {EndpointID: "e", EventType: "t", Payload: []byte("1"), JSON: true},
			"no JSON": {EndpointID: "e", EventType: "t", Payload: []byte("{"), JSON: true, IdempotencyKey: "k"},
		} {
			var asked []time.Time
			_, err := answering(t, &asked, new([]string), broken).SendUntil(t.Context(), bad)
			require.Error(t, err, name)
			require.Empty(t, asked, name)
		}
		var asked []time.Time
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		start := time.Now()
		_, err := answering(t, &asked, new([]string), broken).SendUntil(ctx, good)
		require.ErrorContains(t, err, "send it again with the same key")
		require.ErrorIs(t, err, io.ErrUnexpectedEOF)
		require.LessOrEqual(t, time.Since(start), time.Minute)
		require.Greater(t, len(asked), 5)

		// Waiting longer than there is time is of no use.
		start = time.Now()
		_, err = answering(t, new([]time.Time), new([]string), status(503, "", "Retry-After", "90")).SendUntil(ctx, good)
		require.Error(t, err)
		require.Equal(t, start, time.Now())
	})
}

// An id is one path segment, whatever is in it.
func TestClient_EscapesIDsOnce(t *testing.T) {
	t.Parallel()
	var path atomic.Value
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		path.Store(r.RequestURI)
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, `{}`)
	}))
	defer srv.Close()
	for base, prefix := range map[string]string{srv.URL: "", srv.URL + "/": "", srv.URL + "/some%2Fwhere/": "/some%2Fwhere"} {
		c, err := client.New(client.Options{BaseURL: base})
		require.NoError(t, err)
		for id, want := range map[string]string{
			"ep_1": "ep_1", "a:b.c-d": "a:b.c-d", "a b": "a%20b", "a/b": "a%2Fb", "a%2Fb": "a%252Fb", "a?b#c": "a%3Fb%23c", "ä": "%C3%A4", ".": "%2E", "..": "%2E%2E",
		} {
			_, err := c.Endpoint(t.Context(), id)
			require.NoError(t, err)
			require.Equal(t, prefix+"/v1/endpoints/"+want, path.Load())
			_, err = c.RotateSecret(t.Context(), id, api.RotateSpec{})
			require.NoError(t, err)
			require.Equal(t, prefix+"/v1/endpoints/"+want+"/rotate-secret", path.Load())
			_, err = c.Delivery(t.Context(), id, "e/1")
			require.NoError(t, err)
			require.Equal(t, prefix+"/v1/deliveries/"+want+"?endpoint_id=e%2F1", path.Load())
		}
	}
}
