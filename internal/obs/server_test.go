package obs_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/barnabas-webhooks/barnabas/internal/obs"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func discard() *slog.Logger { return slog.New(slog.DiscardHandler) }

func get(t *testing.T, h http.Handler, path, accept string) (int, string) {
	t.Helper()
	r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, path, nil)
	if accept != "" {
		r.Header.Set("Accept", accept)
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w.Code, w.Body.String()
}

// C-210, C-234: not ready with the reason, ready by itself later.
func TestHandler_ReadyWhenEveryCheckPasses(t *testing.T) {
	t.Parallel()
	var ready obs.Readiness
	h := obs.Handler(obs.ServerOptions{Registry: prometheus.NewRegistry(), Readiness: &ready, Log: discard()})

	code, _ := get(t, h, "/readyz", "")
	require.Equal(t, 200, code, "nothing was announced")

	ready.Announce("topics", "group")
	code, body := get(t, h, "/readyz", "")
	require.Equal(t, 503, code)
	require.Equal(t, "not ready\n[-] group: starting\n[-] topics: starting\n", body)

	ready.Report("group", nil)
	ready.Report("topics", errors.New("topic barnabas.events is missing"))
	code, body = get(t, h, "/readyz", "application/json")
	require.Equal(t, 503, code)
	var answer struct {
		Ready  bool
		Checks []obs.Check
	}
	require.NoError(t, json.Unmarshal([]byte(body), &answer))
	require.False(t, answer.Ready)
	require.Equal(t, []obs.Check{{Name: "group", Ready: true}, {Name: "topics", Reason: "topic barnabas.events is missing"}}, answer.Checks)

	ready.Report("topics", nil)
	code, body = get(t, h, "/readyz", "")
	require.Equal(t, 200, code)
	require.Equal(t, "ok\n[+] group\n[+] topics\n", body)
}

func TestHandler_Health(t *testing.T) {
	t.Parallel()
	var dead error
	h := obs.Handler(obs.ServerOptions{Registry: prometheus.NewRegistry(), Alive: func() error { return dead }, Log: discard()})
	code, _ := get(t, h, "/healthz", "")
	require.Equal(t, 200, code)
	dead = errors.New("the poll loop has not turned for 2m0s")
	code, body := get(t, h, "/healthz", "")
	require.Equal(t, 503, code)
	require.Contains(t, body, "poll loop")
}

func TestHandler_Metrics(t *testing.T) {
	t.Parallel()
	reg := obs.NewRegistry(obs.Build{Version: "v1.2.3", Commit: "abc", Go: "go1.26"})
	h := obs.Handler(obs.ServerOptions{Registry: reg, Log: discard()})
	code, body := get(t, h, "/metrics", "")
	require.Equal(t, 200, code)
	require.Contains(t, body, `barnabas_build_info{commit="abc",goversion="go1.26",version="v1.2.3"} 1`)
	require.Contains(t, body, "go_goroutines")
	require.Contains(t, body, "process_open_fds")

	code, _ = get(t, h, "/debug/pprof/", "")
	require.Equal(t, 404, code, "pprof is off unless asked for")
	code, _ = get(t, obs.Handler(obs.ServerOptions{Registry: reg, Pprof: true, Log: discard()}), "/debug/pprof/", "")
	require.Equal(t, 200, code)
	code, _ = get(t, h, "/", "")
	require.Equal(t, 404, code)
}

func TestServe_ListensAndCloses(t *testing.T) {
	t.Parallel()
	s, err := obs.Serve(t.Context(), obs.ServerOptions{Listen: "127.0.0.1:0", Registry: obs.NewRegistry(obs.ReadBuild("")), Log: discard()})
	require.NoError(t, err)
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+s.Addr()+"/healthz", nil)
	require.NoError(t, err)
	resp, err := client.Do(req)
	require.NoError(t, err)
	_, _ = io.Copy(io.Discard, resp.Body)
	require.NoError(t, resp.Body.Close())
	require.Equal(t, 200, resp.StatusCode)

	_, err = obs.Serve(t.Context(), obs.ServerOptions{Listen: s.Addr(), Registry: obs.NewRegistry(obs.ReadBuild("")), Log: discard()})
	require.ErrorContains(t, err, "metrics listener")
	require.NoError(t, s.Close())
}

func TestLogger_FormatsAndLevels(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	log, err := obs.Logger(&out, obs.FormatJSON, "warn")
	require.NoError(t, err)
	log.Info("no")
	log.Warn("yes", obs.KeyEndpointID, "e1", obs.KeyDuration, 1500*time.Millisecond)
	require.JSONEq(t, `{"level":"WARN","msg":"yes","endpoint_id":"e1","duration":"1.5s"}`, dropTime(t, out.Bytes()))

	out.Reset()
	log, err = obs.Logger(&out, obs.FormatText, "DEBUG")
	require.NoError(t, err)
	log.Debug("yes")
	require.Contains(t, out.String(), "level=DEBUG msg=yes")

	_, err = obs.Logger(&out, "xml", "info")
	require.ErrorIs(t, err, obs.ErrLogFormat)
	_, err = obs.Logger(&out, "text", "loud")
	require.ErrorIs(t, err, obs.ErrLogLevel)
}

func dropTime(t *testing.T, line []byte) string {
	t.Helper()
	var m map[string]any
	require.NoError(t, json.Unmarshal(line, &m))
	require.Contains(t, m, "time")
	delete(m, "time")
	b, err := json.Marshal(m)
	require.NoError(t, err)
	return string(b)
}

func TestBuild_String(t *testing.T) {
	t.Parallel()
	require.Equal(t, "barnabas v1 (0123456789ab, modified) go1.26", obs.Build{Version: "v1", Commit: "0123456789abcdef", Modified: true, Go: "go1.26"}.String())
	require.Equal(t, "barnabas dev go1.26", obs.Build{Version: "dev", Go: "go1.26"}.String())
	require.Equal(t, "v9", obs.ReadBuild("v9").Version)
	require.NotEmpty(t, obs.ReadBuild("").Version)
}
