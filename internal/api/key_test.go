package api_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/barnabas-webhooks/barnabas/internal/api"
)

// do posts an event without a network; the key's header is set as it is given, also in forms that a client refuses.
func do(t *testing.T, a *api.API, token, key, body string) *httptest.ResponseRecorder {
	t.Helper()
	return doWithin(t.Context(), a, token, key, body)
}

func doWithin(ctx context.Context, a *api.API, token, key, body string) *httptest.ResponseRecorder {
	req := httptest.NewRequestWithContext(ctx, http.MethodPost, "/v1/deliveries", strings.NewReader(body))
	req.Header.Set("Authorization", "Bearer "+token)
	req.Header.Set("Content-Type", "application/json")
	req.Header["Idempotency-Key"] = []string{key}
	w := httptest.NewRecorder()
	a.Handler().ServeHTTP(w, req)
	return w
}

// The draft's form in quotes and the bare one name the same key; what is neither is refused, and says why.
func TestKey_Forms(t *testing.T) {
	t.Parallel()
	log := &fakeLog{}
	a, err := api.New(fakes(log, acme()))
	require.NoError(t, err)
	long := strings.Repeat("k", 255)
	for header, want := range map[string]string{
		`8e03978e-40d5-43dd-bc93-6894a57f9324`: "8e03978e-40d5-43dd-bc93-6894a57f9324", `"8e03978e-40d5-43dd-bc93-6894a57f9324"`: "8e03978e-40d5-43dd-bc93-6894a57f9324",
		`!`: "!", `~`: "~", `a"b`: `a"b`, `a\b`: `a\b`, `a,b;c=d`: "a,b;c=d",
		`"order 17"`: "order 17", `" a "`: " a ", `"a\"b"`: `a"b`, `"a\\b"`: `a\b`, `"a;b"`: "a;b",
		`"a";v=1`: "a", `"a" ; v=1`: "a",
		long: long, `"` + long + `"`: long, `"` + strings.Repeat(`\"`, 255) + `"`: strings.Repeat(`"`, 255),
	} {
		before := len(log.all())
		w := do(t, a, acmeProducer, header, event("e1", `1`))
		require.Equal(t, http.StatusAccepted, w.Code, "%s: %s", header, w.Body)
		events := log.all()
		require.Len(t, events, before+1)
		require.Equal(t, want, events[before].IdempotencyKey, header)
		if !strings.Contains(header, "v=1") {
			w = do(t, a, acmeProducer, api.QuoteKey(want), event("e1", `1`))
			require.Equal(t, http.StatusAccepted, w.Code)
			require.Equal(t, want, log.all()[before+1].IdempotencyKey, "what the client writes is read as it was meant")
		}
	}
	before := len(log.all())
	for _, header := range []string{
		``, ` `, `""`, `" "`, `a b`, "a\tb", `ä`, `"ä"`, "\"a\tb\"", "\"a\x7fb\"", `"a`, `"`, `"a\`, `"a\"`, `"a\x"`, `"a"b`, `"a" "b"`, `"a", "b"`,
		long + "k", `"` + long + `k"`,
	} {
		w := do(t, a, acmeProducer, header, event("e1", `1`))
		require.Equal(t, http.StatusBadRequest, w.Code, "%q", header)
		require.Contains(t, w.Body.String(), "Idempotency-Key")
	}
	require.Len(t, log.all(), before, "nothing was produced")
}
