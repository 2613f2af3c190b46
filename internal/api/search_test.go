package api_test

import (
	"fmt"
	"math/big"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/barnabas-webhooks/barnabas/dlq"
	"github.com/barnabas-webhooks/barnabas/internal/api"
	"github.com/barnabas-webhooks/barnabas/schemas"
	"github.com/barnabas-webhooks/barnabas/topics"
)

// mintedAt is a delivery id as it would have been minted at a time.
func mintedAt(t *testing.T, at time.Time) string {
	t.Helper()
	id := uuid.Must(uuid.NewV7())
	for i := range 6 {
		id[i] = byte(at.UnixMilli() >> (8 * (5 - i)))
	}
	n := new(big.Int).Lsh(new(big.Int).SetBytes(id[:]), 2) // 128 bits, and 2 of padding
	digits := n.Text(32)
	digits = strings.Repeat("0", 26-len(digits)) + digits
	to := strings.NewReplacer("i", "j", "j", "k", "k", "m", "l", "n", "m", "p", "n", "q", "o", "r", "p", "s", "q", "t", "r", "v", "s", "w", "t", "x", "u", "y", "v", "z")
	out := "dlv_" + to.Replace(digits)
	back, ok := schemas.MintedAt(out)
	require.True(t, ok)
	require.Equal(t, at.UnixMilli(), back.UnixMilli())
	return out
}

// tell writes attempts where their endpoint's are, at the times that they say.
func (r *rig) tell(attempts ...schemas.Attempt) {
	r.t.Helper()
	var records []*kgo.Record
	for _, a := range attempts {
		if a.Kind == "" {
			a.Kind = schemas.AttemptPost
		}
		a.EndpointID, a.Tenant, a.EventType = "e1", "acme", "t"
		value, err := schemas.EncodeAttempt(&a)
		require.NoError(r.t, err)
		records = append(records, &kgo.Record{
			Topic: r.topics.Attempts(), Key: []byte("e1"), Value: value, Timestamp: a.At,
			Headers: []kgo.RecordHeader{{Key: topics.HeaderDeliveryID, Value: []byte(a.DeliveryID)}},
		})
	}
	require.NoError(r.t, r.producer.ProduceSync(r.t.Context(), records...).FirstErr())
}

// noise is attempts of other deliveries of the same partition: n of 1 KiB each, spread over a time.
func noise(n int, from, to time.Time) []schemas.Attempt {
	out := make([]schemas.Attempt, n)
	for i := range out {
		out[i] = schemas.Attempt{
			DeliveryID: schemas.MintDeliveryID(), Number: 1, Class: "ok", Status: 200, Decision: "delivered",
			At: from.Add(to.Sub(from) * time.Duration(i) / time.Duration(n)), Excerpt: make([]byte, 1024),
		}
	}
	return out
}

// forgetful serves a node that has seen nothing: as after a restart, or another one.
func (r *rig) forgetful(change func(*api.Options)) *node {
	o := r.options()
	if change != nil {
		change(&o)
	}
	return serve(r.t, o)
}

// ask looks a delivery of e1 up.
func (n *node) ask(id, token string) answer {
	n.t.Helper()
	return n.call(http.MethodGet, "/v1/deliveries/"+id+"?endpoint_id=e1", token, "")
}

// A "pending" is resolved by any node, also by one that was not there: through what the answer's Location says.
func TestSearch_PendingIsResolvedAnywhere(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.put("acme", "e1")
	hold := make(chan struct{})
	r.arbiter(hold)
	busy := r.forgetful(nil)
	locations := make([]string, 3)
	for i, payload := range []string{`1`, `1`, `2`} {
		got := busy.post(acmeProducer, "K", event("e1", payload), "Prefer", "respond-async")
		require.Equal(t, "pending", got.body["status"])
		locations[i] = got.header.Get("Location")
	}
	status := func(location string) answer {
		return r.forgetful(nil).call(http.MethodGet, location, acmeProducer, "")
	}
	for _, location := range locations {
		got := status(location)
		require.Equal(t, http.StatusOK, got.status, got.text)
		require.Equal(t, "pending", got.body["status"])
		require.NotContains(t, got.body, "partial")
	}
	close(hold)
	require.Eventually(t, func() bool { return status(locations[2]).body["status"] == "conflict" }, 30*time.Second, 20*time.Millisecond)
	first, second := status(locations[0]), status(locations[1])
	require.Equal(t, "accepted", first.body["status"])
	require.Equal(t, "duplicate", second.body["status"])
	require.Equal(t, first.body["delivery_id"], second.body["owner_delivery_id"])
	require.Equal(t, http.StatusNotFound, r.forgetful(nil).call(http.MethodGet, locations[0], globexOperator, "").status)
}

// From attempt to attempt, over any number of others' in between: what is read is bounded, what is found is not.
func TestSearch_JumpsFromAttemptToAttempt(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.put("acme", "e1")
	t0 := time.Now().Add(-3 * time.Hour).Truncate(time.Millisecond)
	id := mintedAt(t, t0)
	r.tell(noise(50, t0.Add(-time.Hour), t0.Add(-time.Minute))...)
	r.tell(schemas.Attempt{DeliveryID: id, Number: 1, At: t0.Add(time.Second), Class: "timeout", Decision: "retry", NextAt: t0.Add(time.Hour)})
	r.tell(noise(500, t0.Add(time.Minute), t0.Add(50*time.Minute))...)
	r.tell(schemas.Attempt{
		DeliveryID: id, Number: 2, At: t0.Add(time.Hour + time.Second), Class: "http_5xx", Status: 503, Decision: "retry", NextAt: t0.Add(2 * time.Hour),
	})
	r.tell(noise(500, t0.Add(61*time.Minute), t0.Add(119*time.Minute))...)
	r.tell(schemas.Attempt{DeliveryID: id, Number: 3, At: t0.Add(2*time.Hour + time.Second), Class: "ok", Status: 200, Decision: "delivered"})
	r.tell(noise(500, t0.Add(121*time.Minute), t0.Add(179*time.Minute))...)

	reg := prometheus.NewRegistry()
	n := r.forgetful(func(o *api.Options) { o.SearchBytes, o.Metrics = 16<<10, reg })
	got := n.ask(id, acmeProducer)
	require.Equal(t, http.StatusOK, got.status, got.text)
	require.Equal(t, "delivered", got.body["status"])
	require.EqualValues(t, 3, got.body["attempts"])
	require.NotContains(t, got.body, "partial")
	require.InDelta(t, 1, gather(t, reg)[`barnabas_api_searches_total{result="found"}`], 0)
	n.ask(id, acmeProducer)
	require.InDelta(t, 1, gather(t, reg)[`barnabas_api_searches_total{result="found"}`], 0, "it is remembered")

	// An attempt that came much later than it was due: held, say. The bounds end the search, and the answer says so.
	held := mintedAt(t, t0)
	r.tell(schemas.Attempt{DeliveryID: held, Number: 1, At: t0.Add(3*time.Hour - 50*time.Second), Class: "timeout", Decision: "retry", NextAt: t0.Add(3*time.Hour - 40*time.Second)})
	r.tell(noise(500, t0.Add(3*time.Hour-45*time.Second), t0.Add(3*time.Hour-5*time.Second))...)
	late := r.forgetful(func(o *api.Options) { o.SearchBytes = 8 << 20 }).ask(held, acmeProducer)
	require.Equal(t, "retrying", late.body["status"], late.text)
	require.NotContains(t, late.body, "partial", "all was read, and there is no more")
	late = r.forgetful(func(o *api.Options) { o.SearchBytes = 1 << 20 }).ask(held, acmeProducer)
	require.Equal(t, api.CodeSearchEnded, late.problem, "it says that it does not know: %s", late.text)
	e := schemas.Event{DeliveryID: held, EndpointID: "e1", IdempotencyKey: "K", EventType: "t", ContentType: "a/b", AcceptedAt: t0}
	value, err := schemas.EncodeEvent(&e)
	require.NoError(t, err)
	accepted := &kgo.Record{
		Topic: r.topics.Events(), Key: []byte("e1"), Value: value, Timestamp: t0.Add(time.Second),
		Headers: []kgo.RecordHeader{{Key: topics.HeaderDeliveryID, Value: []byte(held)}},
	}
	require.NoError(t, r.producer.ProduceSync(t.Context(), accepted).FirstErr())
	late = r.forgetful(func(o *api.Options) { o.SearchBytes = 1 << 20 }).ask(held, acmeProducer)
	require.Equal(t, "pending", late.body["status"], "it was accepted, and more is not known: %s", late.text)
	require.Equal(t, true, late.body["partial"])
	soon := mintedAt(t, t0.Add(3*time.Hour-51*time.Second))
	r.tell(schemas.Attempt{DeliveryID: soon, Number: 1, At: t0.Add(3*time.Hour - 50*time.Second), Class: "timeout", Decision: "retry", NextAt: t0.Add(3*time.Hour - 49*time.Second)})
	r.tell(noise(100, t0.Add(3*time.Hour-4*time.Second), t0.Add(3*time.Hour-3*time.Second))...)
	partial := r.forgetful(func(o *api.Options) { o.SearchBytes = 600 << 10 }).ask(soon, acmeProducer)
	require.Equal(t, "retrying", partial.body["status"], partial.text)
	require.Equal(t, true, partial.body["partial"])
}

// What ended, and how: also without an attempt to tell of it, and also when it was begun anew.
func TestSearch_Endings(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.put("acme", "e1")
	t0 := time.Now().Add(-3 * time.Hour).Truncate(time.Millisecond)
	p := topics.Partition("e1", partitions)
	letter := func(id, detail string, attempts int) {
		rec, err := dlq.Record(r.topics.DLQ(), p, &schemas.DeadLetter{
			Delivery: schemas.Delivery{ID: id, EndpointID: "e1", Tenant: "acme", EventType: "t", ContentType: "a/b", Attempts: attempts, AcceptedAt: t0},
			Reason:   schemas.ReasonExpired, Detail: detail, DeadAt: t0.Add(time.Hour), Source: schemas.Coordinates{Topic: "x"},
		})
		require.NoError(t, err)
		rec.Timestamp = t0.Add(time.Hour)
		cl := r.client(kgo.RecordPartitioner(kgo.ManualPartitioner()))
		require.NoError(t, cl.ProduceSync(t.Context(), rec).FirstErr())
	}
	never, tried, replayed, waits := mintedAt(t, t0), mintedAt(t, t0), mintedAt(t, t0), mintedAt(t, t0)
	next := time.Now().Add(time.Hour).Truncate(time.Millisecond)
	r.tell(
		schemas.Attempt{DeliveryID: tried, Number: 1, At: t0.Add(time.Second), Class: "dns", Decision: "retry", NextAt: t0.Add(time.Minute)},
		schemas.Attempt{DeliveryID: replayed, Number: 9, At: t0.Add(time.Second), Class: "dns", Decision: "dead"},
		schemas.Attempt{DeliveryID: waits, Number: 2, At: t0.Add(time.Second), Class: "dns", Decision: "retry", NextAt: next},
	)
	letter(never, "held until its lifetime ended", 0)
	letter(tried, "held until its lifetime ended", 1)
	for id, attempts := range map[string]int{never: 0, tried: 1} {
		got := r.forgetful(nil).ask(id, acmeProducer)
		require.Equal(t, "dead", got.body["status"], got.text)
		require.Equal(t, schemas.ReasonExpired, got.body["last_class"])
		require.EqualValues(t, attempts, got.body["attempts"])
		require.NotContains(t, got.body, "next_attempt_at")
	}
	require.Equal(t, "dead", r.forgetful(nil).ask(replayed, acmeProducer).body["status"])
	r.tell(schemas.Attempt{DeliveryID: replayed, Number: 1, Replay: 1, At: t0.Add(2 * time.Hour), Class: "ok", Status: 200, Decision: "delivered"})
	got := r.forgetful(nil).ask(replayed, acmeProducer)
	require.Equal(t, "delivered", got.body["status"])
	require.EqualValues(t, 1, got.body["replays"])
	got = r.forgetful(nil).ask(waits, acmeProducer)
	require.Equal(t, "retrying", got.body["status"])
	require.Equal(t, next.UTC().Format(time.RFC3339Nano), got.body["next_attempt_at"])

	// Of an endpoint that is gone the records still say whose it was.
	require.NoError(t, r.registry.Delete(t.Context(), "", "e1"))
	require.Equal(t, http.StatusOK, r.forgetful(nil).ask(tried, acmeProducer).status)
	require.Equal(t, http.StatusNotFound, r.forgetful(nil).ask(tried, globexOperator).status)
}

// What is not there is not found, and says what is not known.
func TestSearch_FindsNothing(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.put("acme", "e1")
	r.tell(noise(3, time.Now().Add(-time.Minute), time.Now())...)
	reg := prometheus.NewRegistry()
	n := r.forgetful(func(o *api.Options) { o.Metrics = reg })
	for name, id := range map[string]string{
		"never sent":   schemas.MintDeliveryID(),
		"long ago":     mintedAt(t, time.Now().Add(-7*24*time.Hour)),
		"too long ago": mintedAt(t, time.Now().Add(-9*24*time.Hour)),
		"not yet":      mintedAt(t, time.Now().Add(time.Hour)),
		"derived":      schemas.DeriveDeliveryID(schemas.Coordinates{Topic: "x"}, 1),
		"no id":        "x",
	} {
		got := n.ask(id, acmeProducer)
		require.Equal(t, http.StatusNotFound, got.status, name)
		require.Equal(t, api.CodeNotFound, got.problem, name)
		require.NotEmpty(t, got.body["detail"])
		require.Equal(t, http.StatusNotFound, n.ask(id, globexOperator).status, name)
	}
	require.InDelta(t, 2, gather(t, reg)[`barnabas_api_searches_total{result="none"}`], 0, "a stranger's is not searched for")
	require.Equal(t, http.StatusBadRequest, n.call(http.MethodGet, "/v1/deliveries/"+schemas.MintDeliveryID()+"?endpoint_id=%00", admin, "").status)

	r.cluster.Close()
	away := r.forgetful(func(o *api.Options) { o.SearchTimeout = 500 * time.Millisecond })
	got := away.ask(schemas.MintDeliveryID(), acmeProducer)
	require.Equal(t, http.StatusServiceUnavailable, got.status, fmt.Sprint(got.body))
	require.NotEmpty(t, got.header.Get("Retry-After"))
}

// A repeat says nothing of what became of the first: its owner may have been delivered long before this node started.
func TestDelivery_RepeatDoesNotMakeItsOwnerNew(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.put("acme", "e1")
	t0 := time.Now().Add(-3 * time.Hour).Truncate(time.Millisecond)
	id := mintedAt(t, t0)
	r.tell(schemas.Attempt{DeliveryID: id, Number: 1, At: t0.Add(time.Second), Class: "ok", Status: 200, Decision: "delivered"})
	n := r.serve(nil)
	claim := schemas.Claim{EndpointID: "e1", Key: "K", DeliveryID: id, ClaimedAt: t0, AnsweredOffset: 9, Verdict: schemas.VerdictDuplicate}
	value, err := schemas.EncodeClaim(&claim)
	require.NoError(t, err)
	other := claim
	other.DeliveryID, other.Verdict, other.AnsweredOffset = schemas.MintDeliveryID(), schemas.VerdictFirst, 10
	last, err := schemas.EncodeClaim(&other)
	require.NoError(t, err)
	require.Eventually(t, func() bool {
		r.produce(r.topics.Idempotency(), "e1", value)
		r.produce(r.topics.Idempotency(), "e1", last)
		return n.call(http.MethodGet, "/v1/deliveries/"+other.DeliveryID, acmeProducer, "").body["status"] == "accepted"
	}, 30*time.Second, 20*time.Millisecond)
	require.Equal(t, http.StatusNotFound, n.call(http.MethodGet, "/v1/deliveries/"+id, acmeProducer, "").status)
	require.Equal(t, "delivered", n.ask(id, acmeProducer).body["status"])
}
