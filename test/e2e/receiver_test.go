package e2e_test

import (
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/barnabas-webhooks/barnabas/internal/api"
)

// scripted is a receiver that answers as its script says, which gets the number of the POST from 1, and keeps the ids.
type scripted struct {
	script func(n int) (status int, after time.Duration)

	mu  sync.Mutex // guards what follows
	ids []string
}

func (r *scripted) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	r.mu.Lock()
	r.ids = append(r.ids, req.Header.Get("webhook-id"))
	status, after := r.script(len(r.ids))
	r.mu.Unlock()
	<-time.After(after) // a receiver's own time, which is what the test is about
	w.WriteHeader(status)
}

// answer changes the script.
func (r *scripted) answer(script func(n int) (int, time.Duration)) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.script = script
}

func (r *scripted) seen() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return append([]string(nil), r.ids...)
}

// C-065: four deliveries wait in tiers, one is answered 410 by a proxy's page, and twenty more are queued behind it. The endpoint
// is disabled, which the log and the API say; there is no further POST; all of them end with that reason; and it can be undone:
// enabled again and replayed, each is delivered, under its own id, and new ones are too.
func TestGone_EndsWhatWaitsAndIsUndone(t *testing.T) {
	t.Parallel()
	s := newSite(t, openBroker(t), "")
	p := s.serve()
	receiver := &scripted{script: func(n int) (int, time.Duration) {
		if n <= 4 { // fewer than open the breaker
			return http.StatusServiceUnavailable, 0
		}
		return http.StatusGone, 500 * time.Millisecond
	}}
	server := httptest.NewServer(receiver)
	t.Cleanup(server.Close)
	spec := api.EndpointSpec{ID: "ep_gone", URL: server.URL, Secret: signingSecret, RetryCaps: []api.Duration{api.Duration(20 * time.Second)}}
	_, err := s.client.PutEndpoint(t.Context(), spec)
	require.NoError(t, err)

	letters := s.deadLetters()
	accepted := map[string]bool{}
	send := func(key string) {
		sent, err := s.send("ep_gone", key, `{}`)
		require.NoError(t, err)
		accepted[sent.DeliveryID] = true
	}
	for i := range 4 {
		send(fmt.Sprintf("waits-%d", i))
	}
	await(t, "four refusals", func() bool { return len(receiver.seen()) >= 4 })
	for i := range 21 {
		send(fmt.Sprintf("behind-%d", i))
	}
	await(t, "the endpoint to be disabled", func() bool {
		ep, err := s.client.Endpoint(t.Context(), "ep_gone")
		return err == nil && ep.State == "disabled"
	})
	ep, err := s.client.Endpoint(t.Context(), "ep_gone")
	require.NoError(t, err)
	require.Contains(t, ep.DisabledReason, "410")
	await(t, "all to end", func() bool { return len(letters()) == 25 })
	require.Len(t, receiver.seen(), 5, "no further POST")
	for _, l := range letters() {
		require.True(t, accepted[l.Delivery.ID])
		require.Equal(t, "gone", l.Reason)
		require.Contains(t, l.Detail, "410")
	}
	await(t, "the operator to be told", func() bool { return strings.Contains(p.text(), "endpoint disabled") })

	receiver.answer(func(int) (int, time.Duration) { return http.StatusOK, 0 })
	out, code := s.run("", "endpoints", "enable", "ep_gone")
	require.Zero(t, code, out)
	out, code = s.run("", "dlq", "replay", "--reason", "gone", "--rate", "100")
	require.Zero(t, code, out)
	await(t, "all to be delivered", func() bool { return len(receiver.seen()) == 5+25 })
	again := map[string]bool{}
	for _, id := range receiver.seen()[5:] {
		require.True(t, accepted[id], "its own id")
		require.False(t, again[id], "once")
		again[id] = true
	}
	_, err = s.send("ep_gone", "new", `{}`)
	require.NoError(t, err)
	await(t, "a new one", func() bool { return len(receiver.seen()) == 31 })
}

// C-068: the receiver acts, and answers 0.2 s after the time that its endpoint has. It acts again, since nobody knows that it did:
// under the same id, by which it can tell. The endpoint's own time is raised, which the next attempt keeps to. The metrics tell
// what was too slow from what was refused.
func TestTimeout_SameIDAndALimitOfItsOwn(t *testing.T) {
	t.Parallel()
	s := newSite(t, openBroker(t), "")
	s.serve()
	const limit = 300 * time.Millisecond
	receiver := &scripted{script: func(int) (int, time.Duration) { return http.StatusOK, limit + 200*time.Millisecond }}
	server := httptest.NewServer(receiver)
	t.Cleanup(server.Close)
	spec := api.EndpointSpec{
		ID: "ep_slow", URL: server.URL, Secret: signingSecret, Timeout: api.Duration(limit),
		RetryCaps: []api.Duration{api.Duration(2 * time.Second), api.Duration(2 * time.Second), api.Duration(10 * time.Second), api.Duration(10 * time.Second)},
	}
	_, err := s.client.PutEndpoint(t.Context(), spec)
	require.NoError(t, err)
	sent, err := s.send("ep_slow", "k", `{}`)
	require.NoError(t, err)
	await(t, "a timeout", func() bool { return strings.Contains(get(t, s.metrics), `barnabas_attempts_total{class="timeout"} 1`) })
	require.Contains(t, get(t, s.metrics), `barnabas_attempts_total{class="connect"} 0`)

	spec.Timeout = api.Duration(2500 * time.Millisecond)
	_, err = s.client.PutEndpoint(t.Context(), spec)
	require.NoError(t, err)
	attempts := s.attempts()
	await(t, "the delivery", func() bool { return strings.Contains(get(t, s.metrics), `barnabas_attempts_total{class="ok"} 1`) })
	ids := receiver.seen()
	require.GreaterOrEqual(t, len(ids), 2, "it acted more than once")
	for _, id := range ids {
		require.Equal(t, sent.DeliveryID, id)
	}
	await(t, "the attempts' records", func() bool { return len(attempts()) == len(ids) })
	for i, a := range attempts() {
		require.Equal(t, i+1, a.Number)
		require.Equal(t, i+1 == len(ids), a.Class == "ok", a.Error)
		if a.Class != "ok" {
			require.Equal(t, "timeout", a.Class)
		}
	}

	l, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	require.NoError(t, err)
	require.NoError(t, l.Close()) // nobody listens there now
	before := line(get(t, s.metrics), `barnabas_attempts_total{class="timeout"}`)
	s.endpoint("ep_refused", "http://"+l.Addr().String()+"/")
	_, err = s.send("ep_refused", "k", `{}`)
	require.NoError(t, err)
	await(t, "a refusal", func() bool {
		return !strings.Contains(get(t, s.metrics), `barnabas_attempts_total{class="connect"} 0`)
	})
	require.Equal(t, before, line(get(t, s.metrics), `barnabas_attempts_total{class="timeout"}`), "refused is no timeout")
}

// line is the line of a text that begins so.
func line(text, beginning string) string {
	_, rest, _ := strings.Cut(text, beginning)
	first, _, _ := strings.Cut(rest, "\n")
	return beginning + first
}
