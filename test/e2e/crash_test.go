package e2e_test

import (
	"fmt"
	"io"
	"net/http"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	"github.com/barnabas-webhooks/barnabas/internal/api/client"
	"github.com/barnabas-webhooks/barnabas/internal/listen"
)

// kill -9 with 500 deliveries under way, restart: all 500 arrive, with the ids
// that were answered.
func TestCrash_KillServe(t *testing.T) {
	t.Parallel()
	s := newSite(t, openBroker(t), "")
	p := s.serve()
	r, url := s.receiver(listen.Options{Delay: 100 * time.Millisecond})
	ids := sendMany(s, url, 500, 10)
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
	r, url := s.receiver(listen.Options{Delay: 100 * time.Millisecond})
	ids := sendMany(s, url, 500, 10)
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
	ids := sendMany(s, url, 20, 20)
	await(t, "requests in flight", func() bool { return r.Stats().Requests > 0 })
	require.Zero(t, p.terminate())
	s.serve()
	await(t, "all deliveries", func() bool { return r.Stats().Delivered == 20 })
	require.Zero(t, r.Stats().Repeats)
	requireIDs(t, ids, r)
}

// sendMany sends n events round some endpoints and returns the ids that were answered.
func sendMany(s *site, url string, n, endpoints int) []string {
	s.t.Helper()
	for i := range endpoints {
		s.endpoint(fmt.Sprintf("ep_%d", i), url)
	}
	ids := make([]string, n)
	var senders errgroup.Group
	senders.SetLimit(16)
	for i := range n {
		senders.Go(func() error {
			sent, err := s.client.Send(s.t.Context(), client.Send{
				EndpointID: fmt.Sprintf("ep_%d", i%endpoints), EventType: "order.paid", Payload: fmt.Appendf(nil, `{"n":%d}`, i), JSON: true,
				IdempotencyKey: fmt.Sprintf("k-%d", i), Async: true,
			})
			ids[i] = sent.DeliveryID
			return err
		})
	}
	require.NoError(s.t, senders.Wait())
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
	resp, err := http.DefaultClient.Do(req)
	require.NoError(t, err)
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	require.NoError(t, err)
	return string(b)
}
