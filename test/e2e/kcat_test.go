//go:build kafka

package e2e_test

import (
	"bytes"
	"io"
	"net/http"
	"net/http/httptest"
	"os/exec"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/barnabas-webhooks/barnabas/internal/listen"
	"github.com/barnabas-webhooks/barnabas/test/interop"
)

// A producer that is not ours (kcat) and verifiers that are not ours (the npm and
// PyPI packages standardwebhooks): an event of one shell line arrives, and its
// signature verifies.
func TestKcat_ProducesAndStandardWebhooksVerifies(t *testing.T) {
	t.Parallel()
	kcat, err := exec.LookPath("kcat")
	require.NoError(t, err, "kcat is needed here: apt-get install kcat")
	s := newSite(t, openBroker(t), "")
	s.serve()
	var mu sync.Mutex
	var requests []interop.Request
	r, _ := s.receiver(listen.Options{})
	tap := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		body, _ := io.ReadAll(req.Body)
		headers := map[string]string{}
		for name := range req.Header {
			headers[strings.ToLower(name)] = req.Header.Get(name)
		}
		mu.Lock()
		requests = append(requests, interop.Request{Headers: headers, Body: body, Secret: signingSecret})
		mu.Unlock()
		req.Body = io.NopCloser(bytes.NewReader(body))
		r.ServeHTTP(w, req)
	}))
	t.Cleanup(tap.Close)
	s.endpoint("ep_kcat", tap.URL+"/hook")

	for _, payload := range []string{`{"order":1}`, `{ "n" : 9007199254740993, "s": "é\u2028 <&>" }`} {
		cmd := exec.CommandContext(t.Context(), kcat, "-P", "-b", s.broker, "-t", s.catalogue().Events(), "-k", "ep_kcat",
			"-X", "partitioner=murmur2_random", "-H", "event-type=order.paid", "-H", "idempotency-key="+payload[:9])
		cmd.Stdin = strings.NewReader(payload)
		out, err := cmd.CombinedOutput()
		require.NoError(t, err, string(out))
	}
	await(t, "two deliveries", func() bool { return r.Stats().Delivered == 2 })
	require.Zero(t, r.Stats().Unverified)

	// librdkafka's own partitioner puts keys elsewhere: such records are moved, not lost.
	cmd := exec.CommandContext(t.Context(), kcat, "-P", "-b", s.broker, "-t", s.catalogue().Events(), "-k", "ep_kcat",
		"-X", "partitioner=consistent", "-H", "event-type=order.paid")
	cmd.Stdin = strings.NewReader(`{"order":2}`)
	out, err := cmd.CombinedOutput()
	require.NoError(t, err, string(out))
	await(t, "the third delivery", func() bool { return r.Stats().Delivered == 3 })

	mu.Lock()
	defer mu.Unlock()
	require.NoError(t, interop.CheckAll(t.Context(), requests))
}
