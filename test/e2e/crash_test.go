package e2e_test

import (
	"fmt"
	"io"
	"net/http"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/barnabas-webhooks/barnabas/internal/api"
	"github.com/barnabas-webhooks/barnabas/internal/api/client"
	"github.com/barnabas-webhooks/barnabas/internal/listen"
)

// kill -9 with 500 deliveries under way, restart: all 500 arrive, with the ids
// that were answered.
func TestCrash_KillServe(t *testing.T) {
	t.Parallel()
	s := newSite(t, openBroker(t), "")
	p := s.serve()
	r, url := s.receiver(listen.Options{Delay: 20 * time.Millisecond})
	ids := sendMany(t, s.client, 500, func(i int) string {
		id := fmt.Sprintf("ep_%d", i%20)
		if i < 20 {
			s.endpoint(id, url)
		}
		return id
	})
	await(t, "the first deliveries", func() bool { return r.Stats().Delivered > 50 })
	p.kill()
	before := r.Stats().Delivered
	require.Less(t, before, 500, "the kill came too late to show anything")
	s.serve()
	await(t, "all deliveries", func() bool { return r.Stats().Delivered == 500 })
	requireIDs(t, ids, r)
}

// The same for barnabas dev, whose broker dies with it.
func TestCrash_KillDev(t *testing.T) {
	t.Parallel()
	if onKafka {
		t.Skip("barnabas dev brings its own broker")
	}
	s := newSite(t, "", "")
	dev := func() *process {
		p := s.start("dev", "--set", "dev.data_dir="+filepath.Join(s.dir, "dev"), "--set", fmt.Sprintf("dev.broker_port=%d", 0),
			"--set", "api.listen="+s.api[len("http://"):], "--set", "metrics.listen="+s.ready[len("http://"):len(s.ready)-len("/readyz")])
		s.awaitReady(p)
		return p
	}
	p := dev()
	var err error
	s.client, err = client.New(client.Options{BaseURL: s.api, Timeout: 10 * time.Second})
	require.NoError(t, err)
	r, url := s.receiver(listen.Options{Delay: 20 * time.Millisecond})
	ids := sendMany(t, s.client, 500, func(i int) string {
		id := fmt.Sprintf("ep_%d", i%20)
		if i < 20 {
			s.endpoint(id, url)
		}
		return id
	})
	await(t, "the first deliveries", func() bool { return r.Stats().Delivered > 50 })
	p.kill()
	require.Less(t, r.Stats().Delivered, 500, "the kill came too late to show anything")
	dev()
	await(t, "all deliveries", func() bool { return r.Stats().Delivered == 500 })
	requireIDs(t, ids, r)
}

// SIGTERM with sends in flight: they finish, are settled, the process exits 0, and
// nothing is sent twice (C-230).
func TestCrash_SIGTERMDrains(t *testing.T) {
	t.Parallel()
	s := newSite(t, openBroker(t), "")
	p := s.serve()
	r, url := s.receiver(listen.Options{Delay: 500 * time.Millisecond})
	ids := sendMany(t, s.client, 20, func(i int) string {
		id := fmt.Sprintf("ep_%d", i)
		s.endpoint(id, url)
		return id
	})
	await(t, "requests in flight", func() bool { return r.Stats().Requests > 0 })
	require.Zero(t, p.terminate())
	s.serve()
	await(t, "all deliveries", func() bool { return r.Stats().Delivered == 20 })
	require.Zero(t, r.Stats().Repeats)
	requireIDs(t, ids, r)
}

// sendMany sends n events and returns the ids that were answered.
func sendMany(t *testing.T, c *client.Client, n int, endpoint func(i int) string) []string {
	t.Helper()
	ids := make([]string, n)
	for i := range n {
		sent, err := c.Send(t.Context(), client.Send{
			EndpointID: endpoint(i), EventType: "order.paid", Payload: fmt.Appendf(nil, `{"n":%d}`, i), JSON: true,
			IdempotencyKey: fmt.Sprintf("k-%d", i), Async: true,
		})
		require.NoError(t, err)
		require.Equal(t, api.StatusPending, sent.Status)
		ids[i] = sent.DeliveryID
	}
	return ids
}

func requireIDs(t *testing.T, ids []string, r *listen.Receiver) {
	t.Helper()
	delivered := r.Delivered()
	require.Len(t, delivered, len(ids))
	for _, id := range ids {
		require.Contains(t, delivered, id)
	}
	require.Zero(t, r.Stats().Unverified)
}

func get(t *testing.T, url string) string {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, http.NoBody)
	require.NoError(t, err)
	resp, err := http.DefaultClient.Do(req) //nolint:forbidigo // of our own process
	require.NoError(t, err)
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	require.NoError(t, err)
	return string(b)
}
