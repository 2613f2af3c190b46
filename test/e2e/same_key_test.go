package e2e_test

import (
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	"github.com/barnabas-webhooks/barnabas/internal/api"
	"github.com/barnabas-webhooks/barnabas/internal/api/client"
	"github.com/barnabas-webhooks/barnabas/internal/listen"
	"github.com/barnabas-webhooks/barnabas/internal/secret"
	"github.com/barnabas-webhooks/barnabas/schemas"
)

// Fifty identical sends at the same time over two API nodes, round after round, while workers are killed: of each
// round's answers that carry a verdict all name one delivery, no answer is a 5xx other than 503 with Retry-After, and
// one delivery is made of it (invariant 3; C-003, C-005).
func TestSameKey_ManyAtOnceOverTwoNodesWhileWorkersDie(t *testing.T) {
	t.Parallel()
	for name, onDisk := range map[string]bool{"claims in memory": false, "claims on disk": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			sameKey(t, onDisk)
		})
	}
}

func sameKey(t *testing.T, onDisk bool) {
	t.Helper()
	const atOnce, raced = 50, 8
	rounds, kills := 20, 2
	if onKafka {
		rounds, kills = 200, 8
	}
	s := newSite(t, openBroker(t), "")
	nodes := []string{s.apiNode(), s.apiNode()}
	claims := []string{filepath.Join(s.dir, "claims-0"), filepath.Join(s.dir, "claims-1")}
	if !onDisk {
		claims = []string{"", ""}
	}
	workers := []*process{s.worker(claims[0]), s.worker(claims[1])}
	r, url := s.receiver(listen.Options{})
	s.useNode(nodes[0])
	for i := range raced {
		s.endpoint(fmt.Sprintf("ep_%d", i), url)
	}
	s.useNode(nodes[1])
	await(t, "the other node to know the endpoints", func() bool {
		_, code := s.run("", "endpoints", "get", fmt.Sprintf("ep_%d", raced-1))
		return code == 0
	})
	s.useNode(nodes[0])

	sender := &http.Client{Timeout: 30 * time.Second, Transport: &http.Transport{MaxIdleConnsPerHost: atOnce}}
	owners := map[string]bool{}
	withVerdict, pending, unavailable := 0, 0, 0
	for round := range rounds {
		var killing errgroup.Group
		if round%(rounds/kills) == rounds/kills/2 {
			killing.Go(func() error { workers[0].kill(); return nil }) // while the round goes on
		}
		answers := s.sendTogether(sender, nodes, atOnce, fmt.Sprintf("ep_%d", round%raced), fmt.Sprintf("round-%d", round), fmt.Sprintf(`{"round":%d}`, round))
		require.NoError(t, killing.Wait())
		if !workers[0].running() {
			// In the folder of the one that was killed, which it left as it was at that moment.
			workers, claims = []*process{workers[1], s.worker(claims[0])}, []string{claims[1], claims[0]}
		}
		named := map[string]int{} // by verdict: who owns the key
		firsts := 0
		for _, a := range answers {
			switch {
			case a.code == http.StatusServiceUnavailable:
				require.NotEmpty(t, a.retryAfter, "round %d", round)
				unavailable++
			case a.code/100 != 2:
				require.Failf(t, "not an answer to a repeat", "round %d: %d %s", round, a.code, a.text)
			case a.Status == api.StatusPending:
				require.Equal(t, http.StatusAccepted, a.code)
				pending++
			default:
				named[a.DeliveryID]++
				withVerdict++
				if a.code == http.StatusAccepted {
					firsts++
				}
			}
		}
		require.LessOrEqual(t, len(named), 1, "round %d: one key has several owners: %v", round, named)
		require.LessOrEqual(t, firsts, 1, "round %d: several were the first", round)
		for owner := range named {
			owners[owner] = true
		}
	}
	t.Logf("%d answers with a verdict, %d pending, %d unavailable; %d owners named", withVerdict, pending, unavailable, len(owners))
	require.NotZero(t, withVerdict)

	attempts := s.attempts()
	await(t, "every send to be delivered or refused", func() bool { return len(attempts()) >= rounds*atOnce-unavailable })
	delivered := map[string]int{}
	for _, a := range attempts() {
		require.NotEqual(t, schemas.AttemptConflict, a.Kind)
		if a.Kind == schemas.AttemptPost && a.Decision == "delivered" {
			delivered[a.DeliveryID]++
		}
	}
	require.Len(t, delivered, rounds, "one delivery of each key")
	for id, n := range delivered {
		require.Equal(t, 1, n, "%s was delivered %d times", id, n)
	}
	for owner := range owners {
		require.Contains(t, delivered, owner, "the API named it as the owner")
	}
	require.ElementsMatch(t, slices.Collect(maps.Keys(delivered)), slices.Collect(maps.Keys(r.Delivered())), "what receivers saw")
	require.LessOrEqual(t, r.Stats().Repeats, kills*raced, "repeated POSTs at most for what killed workers had in flight: one of each endpoint")
}

// answer is one of POST /v1/deliveries.
type answer struct {
	api.Accepted
	code       int
	retryAfter string
	text       string
}

// sendTogether makes n identical sends at the same time, in turn to each node.
func (s *site) sendTogether(sender *http.Client, nodes []string, n int, endpoint, key, payload string) []answer {
	s.t.Helper()
	answers, start := make([]answer, n), make(chan struct{})
	var wg sync.WaitGroup
	for i := range n {
		wg.Go(func() {
			<-start
			answers[i] = s.sendRaw(sender, nodes[i%len(nodes)], endpoint, key, payload)
		})
	}
	close(start)
	wg.Wait()
	return answers
}

// sendRaw makes one send and takes whatever is answered; code 0 is no answer.
func (s *site) sendRaw(sender *http.Client, node, endpoint, key, payload string) (a answer) {
	body := fmt.Sprintf(`{"endpoint_id":%q,"event_type":"order.paid","payload":%s}`, endpoint, payload)
	req, err := http.NewRequestWithContext(s.t.Context(), http.MethodPost, node+"/v1/deliveries", strings.NewReader(body))
	if err != nil {
		return answer{text: err.Error()}
	}
	req.Header.Set("Authorization", "Bearer "+token)
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Idempotency-Key", key)
	resp, err := sender.Do(req)
	if err != nil {
		return answer{text: err.Error()}
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err == nil {
		err = json.Unmarshal(text, &a)
	}
	a.code, a.retryAfter, a.text = resp.StatusCode, resp.Header.Get("Retry-After"), fmt.Sprintf("%s (%v)", text, err)
	return a
}

// apiNode starts a process that serves the API and nothing else, and returns its base URL.
func (s *site) apiNode() string {
	s.t.Helper()
	address, metrics := fmt.Sprintf("127.0.0.1:%d", freePort(s.t)), fmt.Sprintf("127.0.0.1:%d", freePort(s.t))
	s.role("api", metrics, "--set", "api.listen="+address)
	return "http://" + address
}

// worker starts a process that delivers and serves no API, and remembers keys in a folder or, without one, in memory.
func (s *site) worker(claims string) *process {
	s.t.Helper()
	return s.role("processor", fmt.Sprintf("127.0.0.1:%d", freePort(s.t)), "--set", "claims.directory="+claims)
}

// role starts a process with one role and waits until it is ready.
func (s *site) role(role, metrics string, flags ...string) *process {
	s.t.Helper()
	p := s.start(append([]string{"serve", "--config", s.config, "--roles", role, "--set", "metrics.listen=" + metrics}, flags...)...)
	await(s.t, role+" to be ready", func() bool {
		require.True(s.t, p.running(), "barnabas ended")
		return status(s.t, "http://"+metrics+"/readyz") == http.StatusOK
	})
	return p
}

// useNode makes the site's client speak to one of several nodes.
func (s *site) useNode(base string) {
	s.t.Helper()
	s.api = base
	var err error
	s.client, err = client.New(client.Options{BaseURL: base, Token: secret.String(token), Timeout: 10 * time.Second})
	require.NoError(s.t, err)
}
