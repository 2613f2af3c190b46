package main_test

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	main "github.com/barnabas-webhooks/barnabas/cmd/barnabas"
)

// fakeAPI answers as the API does and notes what it was asked.
type fakeAPI struct {
	server *httptest.Server

	mu    sync.Mutex // guards calls
	calls []call
}

type call struct {
	method, path, query string
	header              http.Header
	body                string
}

func newFakeAPI(t *testing.T, status int, answer any) *fakeAPI {
	t.Helper()
	f := &fakeAPI{}
	f.server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		f.mu.Lock()
		f.calls = append(f.calls, call{r.Method, r.URL.Path, r.URL.RawQuery, r.Header, string(body)})
		f.mu.Unlock()
		w.Header().Set("Content-Type", "application/json")
		if status >= 400 {
			w.Header().Set("Content-Type", "application/problem+json")
		}
		w.WriteHeader(status)
		if answer != nil {
			_ = json.NewEncoder(w).Encode(answer)
		}
	}))
	t.Cleanup(f.server.Close)
	return f
}

func (f *fakeAPI) last(t *testing.T) call {
	t.Helper()
	f.mu.Lock()
	defer f.mu.Unlock()
	require.NotEmpty(t, f.calls)
	return f.calls[len(f.calls)-1]
}

func (f *fakeAPI) world(t *testing.T) world {
	t.Helper()
	deps := parts(t)
	deps.Environ = []string{"BARNABAS_URL=" + f.server.URL, "BARNABAS_API_KEY=planted-api-key-0"}
	return world{deps: deps}
}

func TestSend_HandsTheBytesOver(t *testing.T) {
	t.Parallel()
	f := newFakeAPI(t, http.StatusAccepted, map[string]string{"delivery_id": "dlv_1", "status": "accepted"})
	o := f.world(t).run(t, "send", "--endpoint", "ep_1", "--type", "order.paid", "--key", "k1", "--data", `{ "n": 9007199254740993 }`)
	requireCode(t, main.ExitOK, o)
	require.Equal(t, "dlv_1 accepted\n", o.out)
	got := f.last(t)
	require.Equal(t, "POST /v1/deliveries", got.method+" "+got.path)
	require.Equal(t, "k1", got.header.Get("Idempotency-Key"))
	require.Equal(t, "Bearer planted-api-key-0", got.header.Get("Authorization"))
	require.Contains(t, got.body, `"payload":{ "n": 9007199254740993 }`, "C-022: byte for byte")

	w := f.world(t)
	w.stdin = "Tue\n"
	o = w.run(t, "send", "--url", "http://127.0.0.1:9/x", "--type", "tick", "--content-type", "text/plain", "--file", "-", "--async", "--json")
	requireCode(t, main.ExitOK, o)
	require.Contains(t, o.stderr, "idempotency key ", "a key that was made is told")
	got = f.last(t)
	require.NotEmpty(t, got.header.Get("Idempotency-Key"))
	require.Contains(t, got.body, `"payload_base64":"VHVlCg=="`)
	require.Equal(t, "respond-async", got.header.Get("Prefer"))
	require.Contains(t, o.out, `"delivery_id": "dlv_1"`)
	require.Contains(t, o.out, `"replayed": false`)
}

func TestSend_RefusesBeforeCalling(t *testing.T) {
	t.Parallel()
	for name, args := range map[string][]string{
		"no target":        {"--type", "t", "--data", "{}"},
		"two targets":      {"--endpoint", "e", "--url", "u", "--type", "t", "--data", "{}"},
		"no type":          {"--endpoint", "e", "--data", "{}"},
		"no payload":       {"--endpoint", "e", "--type", "t"},
		"two payloads":     {"--endpoint", "e", "--type", "t", "--data", "{}", "--file", "-"},
		"absent file":      {"--endpoint", "e", "--type", "t", "--file", "/absent"},
		"address":          {"--endpoint", "e", "--type", "t", "--data", "{}", "--api", "ftp://x"},
		"absent key file":  {"--endpoint", "e", "--type", "t", "--data", "{}", "--api-key-file", "/absent"},
		"no JSON":          {"--endpoint", "e", "--type", "t", "--data", "{oops"},
		"payload too long": {"--endpoint", "e", "--type", "t", "--file", writeFile(t, string(make([]byte, 900_001)))},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFakeAPI(t, http.StatusOK, nil)
			o := f.world(t).run(t, append([]string{"send"}, args...)...)
			requireCode(t, main.ExitUsage, o)
			require.NotContains(t, o.stderr, "idempotency key", "nothing was sent that could be repeated")
			require.Empty(t, f.calls)
		})
	}
}

func TestSend_ShowsWhatTheAPISays(t *testing.T) {
	t.Parallel()
	f := newFakeAPI(t, http.StatusUnprocessableEntity, map[string]any{"title": "Key reused", "detail": "The key is in use with another payload."})
	o := f.world(t).run(t, "send", "--endpoint", "e", "--type", "t", "--key", "k", "--data", "{}")
	requireCode(t, main.ExitFailure, o)
	require.Contains(t, o.stderr, "another payload")
	require.NotContains(t, o.stderr, "planted-api-key")
}

func TestEndpoints_Put(t *testing.T) {
	t.Parallel()
	f := newFakeAPI(t, http.StatusOK, map[string]any{"id": "ep_1", "url": "https://x", "state": "enabled", "secret": "whsec_once"})
	o := f.world(t).run(t, "endpoints", "put", "ep_1", "--url", "https://x/y?z=1", "--order", "parallel", "--max-in-flight", "8", "--rate", "2.5",
		"--timeout", "20s", "--header", "X-Team: a: b", "--permanent-status", "404", "--permanent-status", "422", "--retry-cap", "5s",
		"--secret-file", writeFile(t, "whsec_given\n"))
	requireCode(t, main.ExitOK, o)
	require.Contains(t, o.out, "whsec_once")
	require.Contains(t, o.out, "not shown again")
	got := f.last(t)
	require.Equal(t, "PUT /v1/endpoints/ep_1", got.method+" "+got.path)
	require.JSONEq(t, `{"id":"ep_1","url":"https://x/y?z=1","order":"parallel","max_in_flight":8,"rate_per_second":2.5,"timeout":"20s",
		"headers":{"X-Team":"a: b"},"permanent_statuses":[404,422],"retry_caps":["5s"],"secret":"whsec_given"}`, got.body)

	o = f.world(t).run(t, "endpoints", "put", "--file", writeFile(t, `{"id":"ep_2","url":"https://x"}`), "--json")
	requireCode(t, main.ExitOK, o)
	require.Equal(t, "/v1/endpoints/ep_2", f.last(t).path)

	o = f.world(t).run(t, "endpoints", "put", "--url", "https://x")
	requireCode(t, main.ExitOK, o)
	require.Equal(t, "POST", f.last(t).method, "without an id one is made")
}

func TestEndpoints_PutRefuses(t *testing.T) {
	t.Parallel()
	for name, args := range map[string][]string{
		"nothing":            {"ep_1"},
		"file and flags":     {"--file", "-", "--url", "https://x"},
		"unknown field":      {"--file", writeFile(t, `{"url":"https://x","ulr":1}`)},
		"no url in the file": {"--file", writeFile(t, `{"id":"e"}`)},
		"two values":         {"--file", writeFile(t, `{"url":"https://x"}{}`)},
		"two ids":            {"ep_1", "--file", writeFile(t, `{"id":"ep_2","url":"https://x"}`)},
		"header":             {"--url", "https://x", "--header", "planted-header-secret"},
		"header twice":       {"--url", "https://x", "--header", "A: 1", "--header", "A: planted-header-secret"},
		"secret file":        {"--url", "https://x", "--secret-file", "/absent"},
		"no unit":            {"--url", "https://x", "--timeout", "20"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFakeAPI(t, http.StatusOK, nil)
			o := f.world(t).run(t, append([]string{"endpoints", "put"}, args...)...)
			requireCode(t, main.ExitUsage, o)
			require.Empty(t, f.calls)
			require.NotContains(t, o.stderr, "planted-header-secret")
		})
	}
}

func TestEndpoints_OtherCalls(t *testing.T) {
	t.Parallel()
	one := map[string]any{"id": "ep_1", "url": "https://x", "tenant": "acme", "state": "enabled", "order": "ordered"}
	for name, c := range map[string]struct {
		args []string
		call string
		body string
	}{
		"get":     {[]string{"get", "ep_1"}, "GET /v1/endpoints/ep_1", ""},
		"enable":  {[]string{"enable", "ep_1"}, "POST /v1/endpoints/ep_1/enable", ""},
		"disable": {[]string{"disable", "ep_1", "--reason", "moving"}, "POST /v1/endpoints/ep_1/disable", `{"reason":"moving"}`},
		"rotate":  {[]string{"rotate-secret", "ep_1"}, "POST /v1/endpoints/ep_1/rotate-secret", `{}`},
		"rotate without overlap": {
			[]string{"rotate-secret", "ep_1", "--overlap", "0s"}, "POST /v1/endpoints/ep_1/rotate-secret", `{"overlap":"0s"}`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFakeAPI(t, http.StatusOK, one)
			o := f.world(t).run(t, append([]string{"endpoints"}, c.args...)...)
			requireCode(t, main.ExitOK, o)
			require.Contains(t, o.out, "ep_1")
			got := f.last(t)
			require.Equal(t, c.call, got.method+" "+got.path)
			if c.body != "" {
				require.JSONEq(t, c.body, got.body)
			}
		})
	}

	f := newFakeAPI(t, http.StatusNoContent, nil)
	o := f.world(t).run(t, "endpoints", "delete", "ep_1")
	requireCode(t, main.ExitOK, o)
	require.Equal(t, "DELETE", f.last(t).method)

	f = newFakeAPI(t, http.StatusNotFound, map[string]any{"title": "Not found"})
	for _, args := range [][]string{{"get", "x"}, {"delete", "x"}, {"enable", "x"}, {"disable", "x"}, {"rotate-secret", "x"}} {
		requireCode(t, main.ExitNoMatch, f.world(t).run(t, append([]string{"endpoints"}, args...)...))
	}

	f = newFakeAPI(t, http.StatusOK, map[string]any{"endpoints": []any{one}})
	o = f.world(t).run(t, "endpoints", "list", "--tenant", "acme")
	requireCode(t, main.ExitOK, o)
	require.Contains(t, o.out, "ep_1  acme    enabled  ordered  https://x")
	require.Equal(t, "tenant=acme", f.last(t).query)

	f.server.Close()
	requireCode(t, main.ExitFailure, f.world(t).run(t, "endpoints", "list"))
}

func TestSend_RetriesForAsLongAsItIsTold(t *testing.T) {
	t.Parallel()
	f := newFakeAPI(t, http.StatusServiceUnavailable, map[string]any{"title": "Not available now"})
	o := f.world(t).run(t, "send", "--endpoint", "e", "--type", "t", "--key", "a key", "--data", "{}", "--retry-for", "700ms")
	requireCode(t, main.ExitFailure, o)
	require.Contains(t, o.stderr, "send it again with the same key")
	require.Greater(t, len(f.calls), 1)
	for _, c := range f.calls {
		require.Equal(t, `"a key"`, c.header.Get("Idempotency-Key"))
	}
}
