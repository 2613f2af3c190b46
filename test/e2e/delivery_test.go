package e2e_test

import (
	"bytes"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/barnabas-webhooks/barnabas/internal/listen"
	"github.com/barnabas-webhooks/barnabas/schemas"
)

// inbound collects what a receiver got.
type inbound struct {
	mu       sync.Mutex // guards requests
	requests []listen.Request
}

func (in *inbound) take(r listen.Request) {
	in.mu.Lock()
	defer in.mu.Unlock()
	r.Body = bytes.Clone(r.Body)
	in.requests = append(in.requests, r)
}

func (in *inbound) all() []listen.Request {
	in.mu.Lock()
	defer in.mu.Unlock()
	return append([]listen.Request(nil), in.requests...)
}

// Every way in: HTTP, plain records, CloudEvents, Avro made by barnabas encode.
// What was accepted is what arrives, byte for byte, with a signature that verifies.
func TestDelivery_EveryWayIn(t *testing.T) {
	t.Parallel()
	s := newSite(t, openBroker(t), "")
	s.serve()
	in := &inbound{}
	_, url := s.receiver(listen.Options{OnRequest: in.take})
	s.endpoint("ep_in", url)

	// JSON with what a re-serialisation would change: C-020, C-022, C-023.
	payload := `{ "z":1E400, "a":9007199254740993, "a":-0, "s":"\u0041\/é\u2028", "e":{} }`
	sent, err := s.send("ep_in", "k-http", payload)
	require.NoError(t, err)
	require.NotEmpty(t, sent.DeliveryID)

	producer := s.kafka(kgo.DefaultProduceTopic(s.catalogue().Events()))
	plain := &kgo.Record{Key: []byte("ep_in"), Value: []byte("\x00not json\r\n"), Headers: []kgo.RecordHeader{
		{Key: "event-type", Value: []byte("raw.made")}, {Key: "content-type", Value: []byte("application/octet-stream")},
	}}
	cloud := &kgo.Record{Key: []byte("ep_in"), Value: []byte(`{"cloud":true}`), Headers: []kgo.RecordHeader{
		{Key: "ce_specversion", Value: []byte("1.0")},
		{Key: "ce_type", Value: []byte("cloud.made")},
		{Key: "ce_source", Value: []byte("/shop")},
		{Key: "ce_id", Value: []byte("1")},
		{Key: "content-type", Value: []byte("application/json")},
	}}
	encoded, code := s.run(`{"endpoint_id":"ep_in","event_type":"avro.made","payload":{"avro": 1.0}}`, "encode")
	require.Zero(t, code, encoded)
	avro := &kgo.Record{Key: []byte("ep_in"), Value: []byte(encoded)}
	require.NoError(t, producer.ProduceSync(t.Context(), plain, cloud, avro).FirstErr())

	await(t, "four deliveries", func() bool { return len(in.all()) == 4 })
	bodies := map[string]string{}
	for _, r := range in.all() {
		require.True(t, r.Verified, r.Problem)
		require.Equal(t, 1, r.Attempt)
		bodies[r.EventType] = string(r.Body)
	}
	require.Equal(t, map[string]string{
		"order.paid": payload, "raw.made": "\x00not json\r\n", "cloud.made": `{"cloud":true}`, "avro.made": `{"avro": 1.0}`,
	}, bodies)
}

// A repeat of a key is answered with its owner and delivered once; with another
// payload it is a conflict; on another endpoint it is another delivery.
func TestDelivery_IdempotencyKeys(t *testing.T) {
	t.Parallel()
	s := newSite(t, openBroker(t), "")
	s.serve("--set", "api.verdict_wait=5s") // a cold broker on a busy machine takes its time; without the verdict the answer is "pending"
	in := &inbound{}
	_, url := s.receiver(listen.Options{OnRequest: in.take})
	s.endpoint("ep_a", url)
	s.endpoint("ep_b", url)

	first, err := s.send("ep_a", "order-1", `{"n":1}`)
	require.NoError(t, err)
	require.False(t, first.Replayed)
	again, err := s.send("ep_a", "order-1", `{"n":1}`)
	require.NoError(t, err)
	require.True(t, again.Replayed)
	require.Equal(t, first.DeliveryID, again.DeliveryID)
	_, err = s.send("ep_a", "order-1", `{"n": 1}`) // white space only: C-001
	require.ErrorContains(t, err, "422")
	other, err := s.send("ep_b", "order-1", `{"n":2}`)
	require.NoError(t, err)
	require.NotEqual(t, first.DeliveryID, other.DeliveryID)

	attempts := s.attempts()
	await(t, "two posts, a duplicate and a conflict", func() bool { return len(attempts()) == 4 })
	kinds := map[schemas.AttemptKind]int{}
	for _, a := range attempts() {
		kinds[a.Kind]++
	}
	require.Equal(t, map[schemas.AttemptKind]int{
		schemas.AttemptPost: 2, schemas.AttemptDuplicate: 1, schemas.AttemptConflict: 1,
	}, kinds)
	require.Len(t, in.all(), 2)
}

// A failing receiver sends its delivery down the ladder into the DLQ, an operator
// replays it with the CLI, and it is delivered under its first id.
func TestDelivery_LadderDeadLetterReplay(t *testing.T) {
	t.Parallel()
	s := newSite(t, openBroker(t), "")
	s.serve()
	in := &inbound{}
	r, url := s.receiver(listen.Options{OnRequest: in.take, Status: http.StatusServiceUnavailable})
	s.endpoint("ep_down", url)
	sent, err := s.send("ep_down", "k", `{"n":1}`)
	require.NoError(t, err)

	letters := s.deadLetters()
	await(t, "a dead letter", func() bool { return len(letters()) == 1 })
	require.Equal(t, "http_5xx", letters()[0].Reason)
	require.Equal(t, sent.DeliveryID, letters()[0].Delivery.ID)
	require.Equal(t, 4, letters()[0].Delivery.History.TotalAttempts)

	out, code := s.run("", "dlq", "list", "--endpoint", "ep_down")
	require.Zero(t, code, out)
	require.Contains(t, out, sent.DeliveryID)
	out, code = s.run("", "dlq", "replay")
	require.Equal(t, 2, code, "a scope is required: C-145\n%s", out)
	r.Answer(http.StatusOK)
	out, code = s.run("", "dlq", "replay", "--endpoint", "ep_down", "--rate", "10")
	require.Zero(t, code, out)
	await(t, "the replayed delivery", func() bool { return r.Stats().Delivered == 1 })
	out, code = s.run("", "dlq", "replay", "--endpoint", "ep_down")
	require.Contains(t, out, "already", "a second run replays nothing")
	require.NotEqual(t, 1, code, out)

	posts := in.all()
	require.Len(t, posts, 5)
	for _, p := range posts {
		require.True(t, p.Verified, p.Problem)
		require.Equal(t, sent.DeliveryID, p.DeliveryID)
	}
}

// Metrics and lag are there from the start.
func TestDelivery_SeenFromOutside(t *testing.T) {
	t.Parallel()
	s := newSite(t, openBroker(t), "")
	s.serve()
	require.Equal(t, http.StatusOK, status(t, strings.Replace(s.ready, "/readyz", "/healthz", 1)))
	text := get(t, s.metrics)
	for _, series := range []string{
		`barnabas_attempts_total{class="timeout"} 0`, `barnabas_dead_letters_total{reason="gone"} 0`,
		`barnabas_holds_total{reason="breaker_open"} 0`, `barnabas_events_total{verdict="first"} 0`, "barnabas_breakers_open 0",
		fmt.Sprintf(`barnabas_group_lag{topic="%sretry.1s"} 0`, s.prefix),
	} {
		require.Contains(t, text, series)
	}
	out, code := s.run("", "lag")
	require.Zero(t, code, out)
	require.Contains(t, out, s.prefix+"events")
}
