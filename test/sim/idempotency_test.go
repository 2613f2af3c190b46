package sim_test

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kmsg"
	"golang.org/x/sync/errgroup"

	"github.com/barnabas-webhooks/barnabas/internal/api"
	"github.com/barnabas-webhooks/barnabas/internal/config"
	"github.com/barnabas-webhooks/barnabas/schemas"
)

// sendAt sends an event through one process's API; no answer in time is status 0.
func (w *World) sendAt(p *Process, patience time.Duration, key, body string, header http.Header) (int, api.Accepted) {
	w.t.Helper()
	h := header.Clone()
	if h == nil {
		h = http.Header{}
	}
	h.Set("Idempotency-Key", key)
	status, text := w.callWithin(patience, p, http.MethodPost, "/v1/deliveries", body, h)
	var a api.Accepted
	if status/100 == 2 {
		require.NoError(w.t, json.Unmarshal([]byte(text), &a))
	}
	return status, a
}

// sendUntilTaken sends as a producer does that is told to come back.
func (w *World) sendUntilTaken(p *Process, key, body string, header http.Header) (int, api.Accepted) {
	w.t.Helper()
	for range 120 {
		if status, a := w.sendAt(p, callTimeout, key, body, header); status != 0 && status != http.StatusServiceUnavailable {
			return status, a
		}
		time.Sleep(time.Second)
	}
	require.Fail(w.t, "nobody takes the event", key)
	return 0, api.Accepted{}
}

// Producers give up on their sends and repeat them for an hour, by HTTP and by Kafka, while the receiver is down for that
// hour and processes are restarted and killed: each key is delivered once, under one id (C-003, C-005, C-008).
func TestIdempotency_AnHourOfTimeoutsDeliversOnce(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const keys, outage = 12, time.Hour
		w := NewWorldOf(t, Setting{Brokers: 1, FetchWait: 30 * time.Second, Configure: func(c *config.Config) {
			c.Processor.SessionTimeout, c.Processor.HeartbeatInterval = 45*time.Second, 15*time.Second
		}})
		r := w.Receiver(Answers(http.StatusNoContent))
		processes := []*Process{w.Start(), w.Start()}
		w.Endpoint("ep_shop", r.URL)
		r.host.Down()

		var all errgroup.Group
		over := time.Now().Add(outage)
		for i := range keys {
			all.Go(func() error {
				rnd := rand.New(rand.NewPCG(uint64(i), 0))
				key, payload := fmt.Sprintf("order-%d", i), fmt.Sprintf(`{"n":%d}`, i)
				for time.Now().Before(over) {
					if rnd.IntN(3) == 0 {
						w.Produce("ep_shop", key, payload)
					} else if alive := w.alive(); len(alive) > 0 {
						// Too short for some answers: whatever came, the producer behaves as if it had not.
						patience := time.Duration(rnd.Int64N(int64(time.Second)))
						_, _ = w.sendAt(alive[rnd.IntN(len(alive))], patience, key,
							fmt.Sprintf(`{"endpoint_id":"ep_shop","event_type":"test.event","payload":%s}`, payload), nil)
					}
					time.Sleep(time.Duration(rnd.Int64N(int64(time.Minute))))
				}
				return nil
			})
		}
		for n := 0; time.Now().Before(over); n++ {
			time.Sleep(7 * time.Minute)
			if i := n % 2; n%4 < 2 {
				processes[i].Crash()
				processes[i] = w.Start()
			} else {
				require.NoError(t, processes[i].Stop())
				processes[i] = w.Start()
			}
		}
		require.NoError(t, all.Wait())
		require.Empty(t, r.Posts())
		r.host.Up()
		time.Sleep(14 * time.Hour) // two of the longest waits and more

		posts := map[string]int{}
		for _, p := range r.Posts() {
			posts[p.Body]++
		}
		require.Len(t, posts, keys)
		for body, n := range posts {
			require.Equal(t, 1, n, "%s was posted %d times", body, n)
		}
		require.Empty(t, w.DeadLetters())
		duplicates := 0
		for _, a := range w.Attempts() {
			require.NotEqual(t, schemas.AttemptConflict, a.Kind)
			if a.Kind == schemas.AttemptDuplicate {
				duplicates++
			}
		}
		require.Greater(t, duplicates, 50*keys, "the producers did repeat themselves")
	})
}

// A key is its endpoint's for 24 h from the record that claimed it (C-007, C-009): a repeat at 23 h 59 m is one, at
// 24 h 1 m it is a new event; another endpoint's and another tenant's key is another; another payload is a conflict.
func TestIdempotency_EdgesOfTheWindowAndOfTheScope(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		keyOf := func(tenant string) string { return "token-of-" + tenant + "-0123456789abcdef" }
		entry := func(tenant string) string {
			return fmt.Sprintf("%s:operator:%s:%x", tenant, tenant, sha256.Sum256([]byte(keyOf(tenant))))
		}
		w := NewWorldOf(t, Setting{Brokers: 1, FetchWait: 30 * time.Second, Configure: func(c *config.Config) {
			c.API.Keys = []string{entry("acme"), entry("globex")}
		}})
		as := func(tenant string) http.Header { return http.Header{"Authorization": {"Bearer " + keyOf(tenant)}} }
		r, other := w.Receiver(Answers(http.StatusNoContent)), w.Receiver(Answers(http.StatusNoContent))
		p := w.Start()
		body := func(url, payload string) string {
			return fmt.Sprintf(`{"url":%q,"event_type":"test.event","payload":%s}`, url, payload)
		}

		status, first := w.sendUntilTaken(p, "order-1", body(r.URL, `{"n":1}`), as("acme"))
		require.Equal(t, http.StatusAccepted, status)
		began := time.Now()
		status, elsewhere := w.sendUntilTaken(p, "order-1", body(other.URL, `{"n":1}`), as("acme"))
		require.Equal(t, http.StatusAccepted, status, "the same key on another endpoint is another delivery")
		status, theirs := w.sendUntilTaken(p, "order-1", body(r.URL, `{"n":1}`), as("globex"))
		require.Equal(t, http.StatusAccepted, status, "the same key of another tenant is another delivery")
		require.Len(t, map[string]bool{first.DeliveryID: true, elsewhere.DeliveryID: true, theirs.DeliveryID: true}, 3)
		status, _ = w.sendUntilTaken(p, "order-1", body(r.URL, `{"n":2}`), as("acme"))
		require.Equal(t, http.StatusUnprocessableEntity, status)

		time.Sleep(23*time.Hour + 59*time.Minute - time.Since(began))
		status, again := w.sendUntilTaken(p, "order-1", body(r.URL, `{"n":1}`), as("acme"))
		require.Equal(t, http.StatusOK, status)
		require.Equal(t, first.DeliveryID, again.DeliveryID)
		time.Sleep(24*time.Hour + time.Minute - time.Since(began))
		status, anew := w.sendUntilTaken(p, "order-1", body(r.URL, `{"n":1}`), as("acme"))
		require.Equal(t, http.StatusAccepted, status)
		require.NotEqual(t, first.DeliveryID, anew.DeliveryID)

		time.Sleep(time.Minute)
		var ids []string
		for _, post := range r.Posts() {
			ids = append(ids, post.ID)
		}
		require.ElementsMatch(t, []string{first.DeliveryID, theirs.DeliveryID, anew.DeliveryID}, ids)
		require.Len(t, other.Posts(), 1)
	})
}

// A node that dies between the log's append and its answer leaves a producer that knows nothing: it sends again, at
// another node, is told who owns the key, and one delivery is made (C-005).
func TestIdempotency_DeathBetweenTheAppendAndTheAnswer(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := NewWorldOf(t, Setting{Brokers: 1, FetchWait: time.Second})
		r := w.Receiver(Answers(http.StatusNoContent))
		dies, lives := w.Start("api"), w.Start("api", "processor")
		w.Endpoint("ep_shop", r.URL)
		time.Sleep(time.Minute)
		const body = `{"endpoint_id":"ep_shop","event_type":"test.event","payload":{"n":1}}`

		dies.wire.add(&wireFault{keys: []kmsg.Key{kmsg.Produce}, fate: Fate{Mute: true, Silent: true}, count: 100}) // also those that try again
		time.AfterFunc(2*time.Second, dies.Crash)
		status, _ := w.sendAt(dies, callTimeout, "order-1", body, nil)
		require.Zero(t, status, "it died before it could answer")
		require.Len(t, w.Topic(w.Catalogue().Events()), 1, "and after the event was durable")

		status, answer := w.sendUntilTaken(lives, "order-1", body, nil)
		require.Equal(t, http.StatusOK, status, "the lost one was first")
		require.Equal(t, api.StatusDuplicate, answer.Status)
		time.Sleep(time.Minute)
		posts := r.Posts()
		require.Len(t, posts, 1)
		require.Equal(t, answer.DeliveryID, posts[0].ID)
	})
}
