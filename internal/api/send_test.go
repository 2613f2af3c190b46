package api_test

import (
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/barnabas-webhooks/barnabas/internal/api"
	"github.com/barnabas-webhooks/barnabas/schemas"
)

// C-001: a key is bound to what was sent with it.
func TestSend_KeyIsBoundToItsContent(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.put("acme", "e1")
	r.put("acme", "e2")
	r.arbiter(nil)
	n := r.serve(nil)

	first := n.post(acmeProducer, "K", event("e1", `{"a":1}`))
	require.Equal(t, http.StatusAccepted, first.status, first.text)
	id, _ := first.body["delivery_id"].(string)
	require.NotEmpty(t, id)
	require.Equal(t, "accepted", first.body["status"])
	require.Equal(t, "/v1/deliveries/"+id+"?endpoint_id=e1", first.header.Get("Location"))
	require.Empty(t, first.header.Get("Idempotent-Replayed"))

	again := n.post(acmeProducer, "K", event("e1", `{"a":1}`))
	require.Equal(t, http.StatusOK, again.status, again.text)
	require.Equal(t, id, again.body["delivery_id"])
	require.Equal(t, "true", again.header.Get("Idempotent-Replayed"))

	for name, body := range map[string]string{
		"other payload":      event("e1", `{"a":2}`),
		"other white space":  event("e1", `{"a": 1}`),
		"other event type":   strings.Replace(event("e1", `{"a":1}`), "order.paid", "order.void", 1),
		"other content type": `{"endpoint_id":"e1","event_type":"order.paid","content_type":"application/x+json","payload":{"a":1}}`,
	} {
		got := n.post(acmeProducer, "K", body)
		require.Equal(t, http.StatusUnprocessableEntity, got.status, name)
		require.Equal(t, api.CodeKeyReused, got.problem)
		require.NotContains(t, got.text, id)
	}
	other := n.post(acmeProducer, "K", event("e2", `{"a":1}`))
	require.Equal(t, http.StatusAccepted, other.status, "the same key for another endpoint is another delivery")
	require.NotEqual(t, id, other.body["delivery_id"])

	final := n.post(acmeProducer, "K", event("e1", `{"a":1}`))
	require.Equal(t, id, final.body["delivery_id"], "a conflict changes nothing")

	// C-010: two keys are two deliveries, and the same content is no fault.
	require.Equal(t, http.StatusAccepted, n.post(acmeProducer, "L", event("e1", `{"a":1}`)).status)
}

// C-003: of many at once, over two nodes, one owns the key and all learn who.
func TestSend_ManyAtOnceHaveOneOwner(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.put("acme", "e1")
	r.arbiter(nil)
	nodes := []*node{r.serve(nil), r.serve(nil)}
	for round := range 5 {
		var wg sync.WaitGroup
		answers := make([]answer, 30)
		for i := range answers {
			wg.Go(func() { answers[i] = nodes[i%2].post(acmeProducer, fmt.Sprint("K", round), event("e1", `{"a":1}`)) })
		}
		wg.Wait()
		ids, accepted := map[any]int{}, 0
		for _, a := range answers {
			require.Contains(t, []int{http.StatusOK, http.StatusAccepted}, a.status, a.text)
			ids[a.body["delivery_id"]]++
			if a.status == http.StatusAccepted {
				accepted++
			}
		}
		require.Equal(t, 1, accepted)
		require.Len(t, ids, 1)
	}
}

// C-007: two tenants, one key: nothing of the other's is seen.
func TestSend_TenantsDoNotMeet(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.put("acme", "a1")
	r.put("globex", "g1")
	r.arbiter(nil)
	n := r.serve(nil)
	acme := n.post(acmeOperator, "1", event("a1", `{"who":"acme"}`))
	globex := n.post(globexOperator, "1", event("g1", `{"who":"globex"}`))
	require.Equal(t, http.StatusAccepted, acme.status)
	require.Equal(t, http.StatusAccepted, globex.status)
	require.NotEqual(t, acme.body["delivery_id"], globex.body["delivery_id"])

	stranger := n.post(globexOperator, "2", event("a1", `{}`))
	unknown := n.post(globexOperator, "2", event("nobody", `{}`))
	require.Equal(t, http.StatusNotFound, stranger.status)
	require.Equal(t, unknown.text, strings.ReplaceAll(stranger.text, "a1", "nobody"), "a stranger's endpoint looks like none")

	path := "/v1/deliveries/" + acme.body["delivery_id"].(string)
	require.Equal(t, http.StatusOK, n.call(http.MethodGet, path, acmeProducer, "").status)
	require.Equal(t, http.StatusOK, n.call(http.MethodGet, path, admin, "").status)
	require.Equal(t, http.StatusNotFound, n.call(http.MethodGet, path, globexOperator, "").status)

	// One URL of two tenants is two endpoints.
	const raw = `{"url":"https://h.example/hook","event_type":"t","payload":1}`
	a, g := n.post(acmeProducer, "3", raw), n.post(globexOperator, "3", raw)
	require.Equal(t, http.StatusAccepted, a.status, a.text)
	require.Equal(t, http.StatusAccepted, g.status, g.text)
	require.NotEqual(t, a.body["endpoint_id"], g.body["endpoint_id"])
	require.Equal(t, http.StatusNotFound, n.post(globexOperator, "4", event(a.body["endpoint_id"].(string), `1`)).status)
}

// C-011: a target that does not exist, or takes nothing, is said at once; nothing is produced.
func TestSend_TargetMustExistAndBeEnabled(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.put("acme", "off")
	r.put("acme", "gone")
	_, err := r.registry.SetState(t.Context(), "", "off", schemas.EndpointDisabled, "")
	require.NoError(t, err)
	require.NoError(t, r.registry.Delete(t.Context(), "", "gone"))
	n := r.serve(nil)

	for id, want := range map[string]string{
		"nobody": api.CodeUnknownEndpoint, "gone": api.CodeUnknownEndpoint, "off": api.CodeEndpointDisabled,
	} {
		got := n.post(acmeProducer, "K", event(id, `1`))
		require.Equal(t, want, got.problem, id)
		require.GreaterOrEqual(t, got.status, 400)
		require.Less(t, got.status, 500)
	}
	// C-175: a raw URL is judged as one that is saved.
	for _, u := range []string{"https://127.0.0.1/", "http://h.example/", "https://u:PLANTED@h.example/", "x"} {
		got := n.post(acmeProducer, "K", `{"url":"`+u+`","event_type":"t","payload":1}`)
		require.Equal(t, http.StatusBadRequest, got.status, got.text)
		require.Equal(t, api.CodeInvalid, got.problem)
		require.NotContains(t, got.text, "PLANTED")
	}
	require.Empty(t, r.events())

	// None of it bound the key (C-005).
	_, err = r.registry.SetState(t.Context(), "", "off", schemas.EndpointEnabled, "")
	require.NoError(t, err)
	r.arbiter(nil)
	require.Equal(t, http.StatusAccepted, n.post(acmeProducer, "K", event("off", `1`)).status)
}

// C-020 to C-025: what is accepted is what is in the log, byte for byte.
func TestSend_PayloadIsOpaque(t *testing.T) {
	t.Parallel()
	log := &fakeLog{}
	n := serve(t, fakes(log, acme()))
	for i, payload := range []string{
		`{"b":1,"a":2,"b":3}`, "{ \"a\" :\t1 ,\r\n\"b\":[ ] , \"c\":{ } }", `[]`, `"x"`, `null`, `0`,
		`9007199254740993`, `-0`, `1.0`, `1E400`, strings.Repeat("9", 400), // C-022
		"\"\u2028\u2029 \U0001F600 e\u0301 <>& \\/ \\u0041 \\ud83d\\ude00\"", // C-023
		`{"deep":` + strings.Repeat("[", 200) + strings.Repeat("]", 200) + `}`,
	} {
		got := n.post(acmeProducer, fmt.Sprint("k", i), "{\"endpoint_id\":\"e1\", \"payload\" : \n"+payload+"\t, \"event_type\":\"t\"}\n")
		require.Equal(t, http.StatusAccepted, got.status, got.text)
		events := log.all()
		require.Equal(t, payload, string(events[len(events)-1].Payload))
		require.Equal(t, "application/json", events[len(events)-1].ContentType)
	}
	// C-025, and bytes that are no text at all.
	for i, payload := range []string{"", "\n", "{}\n", "{}   ", "a\r\nb", "\x00\xff\xfe"} {
		body := fmt.Sprintf(`{"endpoint_id":"e1","event_type":"t","content_type":"text/plain; charset=x","payload_base64":%q}`, b64(payload))
		got := n.post(acmeProducer, fmt.Sprint("b", i), body)
		require.Equal(t, http.StatusAccepted, got.status, got.text)
		events := log.all()
		require.Equal(t, payload, string(events[len(events)-1].Payload))
		require.Equal(t, "text/plain; charset=x", events[len(events)-1].ContentType)
	}
}

func TestSend_PassesTraceContextOn(t *testing.T) {
	t.Parallel()
	log := &fakeLog{}
	n := serve(t, fakes(log, acme()))
	const parent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
	require.Equal(t, http.StatusAccepted, n.post(acmeProducer, "1", event("e1", `1`), "Traceparent", parent, "Tracestate", "a=1", "Tracestate", "b=2").status)
	require.Equal(t, http.StatusAccepted, n.post(acmeProducer, "2", event("e1", `1`), "Traceparent", "nonsense", "Tracestate", "a=1").status)
	events := log.all()
	require.Equal(t, parent, events[0].TraceParent)
	require.Equal(t, "a=1,b=2", events[0].TraceState)
	require.Empty(t, events[1].TraceParent, "a broken one is left out, and costs nothing")
	require.Empty(t, events[1].TraceState)
	require.Equal(t, "1", events[0].IdempotencyKey)
	require.Regexp(t, `^dlv_`, events[0].DeliveryID)
	require.False(t, events[0].AcceptedAt.IsZero())
}

// The key is required, and has one form.
func TestSend_KeyIsRequired(t *testing.T) {
	t.Parallel()
	log := &fakeLog{}
	n := serve(t, fakes(log, acme()))
	none := n.call(http.MethodPost, "/v1/deliveries", acmeProducer, event("e1", `1`)) // C-010
	require.Equal(t, http.StatusBadRequest, none.status)
	require.Equal(t, api.CodeMissingKey, none.problem)
	for _, key := range []string{"", "a b", "ä", strings.Repeat("k", 256)} {
		require.Equal(t, http.StatusBadRequest, n.post(acmeProducer, key, event("e1", `1`)).status, key)
	}
	require.Equal(t, http.StatusBadRequest, n.post(acmeProducer, "a", event("e1", `1`), "Idempotency-Key", "b").status)
	require.Empty(t, log.all())
	for _, key := range []string{"!", "~", strings.Repeat("k", 255), `"quoted"`, `"with spaces"`} {
		require.Equal(t, http.StatusAccepted, n.post(acmeProducer, key, event("e1", `1`)).status, key)
	}
}

func TestSend_RefusesWhatIsNoBody(t *testing.T) {
	t.Parallel()
	log := &fakeLog{}
	n := serve(t, fakes(log, acme()))
	for _, body := range []string{
		"", "{", "[]", "null", `"x"`, "{}", `{"endpoint_id":"e1"}`, `{"endpoint_id":"e1","event_type":"t"}`,
		`{"endpoint_id":"e1","url":"https://h.example/","event_type":"t","payload":1}`, `{"event_type":"t","payload":1}`,
		`{"endpoint_id":"e1","event_type":"t","payload":1,"payload_base64":"","content_type":"a/b"}`,
		`{"endpoint_id":"e1","event_type":"t","payload":1,"nonsense":1}`, event("e1", `1`) + event("e1", `1`), event("e1", `tru`),
		`{"endpoint_id":"e1","event_type":"t","payload_base64":"!!","content_type":"a/b"}`, "\xff",
	} {
		got := n.post(acmeProducer, "K", body)
		require.Equal(t, http.StatusBadRequest, got.status, body)
		require.NotEmpty(t, got.body["detail"])
	}
	form := n.send(http.MethodPost, "/v1/deliveries", acmeProducer, strings.NewReader("a=b"), "Idempotency-Key", "K", "Content-Type", "x")
	require.Equal(t, http.StatusBadRequest, form.status, "the first Content-Type is JSON, the body is not")
	zipped := n.post(acmeProducer, "K", event("e1", `1`), "Content-Encoding", "gzip")
	require.Equal(t, http.StatusUnsupportedMediaType, zipped.status)
	require.Empty(t, log.all())
}

// C-233: a late verdict, because claims cannot be written just now, costs the caller a "pending" and no more; the look-up tells later.
func TestSend_LateVerdictIsPending(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.put("acme", "e1")
	hold := make(chan struct{})
	r.arbiter(hold)
	quick := r.serve(func(o *api.Options) { o.VerdictTimeout = 20 * time.Millisecond })
	first := quick.post(acmeProducer, "K", event("e1", `1`))
	second := quick.post(acmeProducer, "K", event("e1", `1`))
	for _, got := range []answer{first, second} {
		require.Equal(t, http.StatusAccepted, got.status)
		require.Equal(t, "pending", got.body["status"])
	}
	require.NotEqual(t, first.body["delivery_id"], second.body["delivery_id"])
	path := "/v1/deliveries/" + first.body["delivery_id"].(string)
	require.Equal(t, "pending", quick.call(http.MethodGet, path, acmeProducer, "").body["status"])

	close(hold)
	require.Eventually(t, func() bool {
		return quick.call(http.MethodGet, path, acmeProducer, "").body["status"] == "accepted"
	}, 30*time.Second, 10*time.Millisecond)
}

func TestSend_RespondAsyncDoesNotWait(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.put("acme", "e1")
	n := r.serve(nil) // nobody gives verdicts, and the verdict's time is longer than the test's
	got := n.post(acmeProducer, "K", event("e1", `1`), "Prefer", "wait=10, respond-async")
	require.Equal(t, http.StatusAccepted, got.status)
	require.Equal(t, "pending", got.body["status"])
	require.Equal(t, "respond-async", got.header.Get("Preference-Applied"))
	events := r.events()
	require.Len(t, events, 1, "it is durable all the same")
	require.Equal(t, got.body["delivery_id"], events[0].DeliveryID)
}

// The attempts topic shows on any node what became of a delivery.
func TestDelivery_IsSeenOnAnyNode(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.put("acme", "e1")
	n := r.serve(nil)
	at := time.Now().UTC().Truncate(time.Millisecond)
	tell := func(a schemas.Attempt) {
		a.EndpointID, a.Tenant, a.EventType = "e1", "acme", "t"
		value, err := schemas.EncodeAttempt(&a)
		require.NoError(t, err)
		r.produce(r.topics.Attempts(), "e1", value)
	}
	status := func(id string) answer { return n.call(http.MethodGet, "/v1/deliveries/"+id, acmeProducer, "") }

	missing := status("dlv_x")
	require.Equal(t, http.StatusNotFound, missing.status)
	require.Contains(t, missing.text, "since it started", "it says what it does not know")
	require.Contains(t, missing.text, "endpoint_id", "and what would help")

	// The tail begins at the end of the topic: tell until it has begun.
	require.Eventually(t, func() bool {
		tell(schemas.Attempt{
			Kind: schemas.AttemptPost, DeliveryID: "dlv_x", Number: 1, At: at, Class: "http_5xx", Status: 503, Decision: "retry",
			NextAt: at.Add(time.Minute),
		})
		return status("dlv_x").status == http.StatusOK
	}, 30*time.Second, 20*time.Millisecond)
	got := status("dlv_x")
	require.Equal(t, "retrying", got.body["status"])
	require.EqualValues(t, 503, got.body["last_status"])
	require.NotEmpty(t, got.body["next_attempt_at"])

	tell(schemas.Attempt{Kind: schemas.AttemptPost, DeliveryID: "dlv_x", Number: 2, At: at, Class: "ok", Status: 200, Decision: "delivered"})
	tell(schemas.Attempt{Kind: schemas.AttemptDuplicate, DeliveryID: "dlv_y", OwnerDeliveryID: "dlv_x", At: at})
	r.produce(r.topics.Attempts(), "e1", []byte("garbage")) // is passed over
	tell(schemas.Attempt{Kind: schemas.AttemptPost, DeliveryID: "dlv_z", Number: 9, At: at, Class: "timeout", Decision: "dead"})
	require.Eventually(t, func() bool { return status("dlv_z").status == http.StatusOK }, 30*time.Second, 10*time.Millisecond)
	got = status("dlv_x")
	require.Equal(t, "delivered", got.body["status"])
	require.EqualValues(t, 2, got.body["attempts"])
	require.NotContains(t, got.body, "next_attempt_at")
	require.Equal(t, "duplicate", status("dlv_y").body["status"])
	require.Equal(t, "dlv_x", status("dlv_y").body["owner_delivery_id"])
	require.Equal(t, "dead", status("dlv_z").body["status"])
	require.Equal(t, http.StatusNotFound, n.call(http.MethodGet, "/v1/deliveries/dlv_z", globexOperator, "").status)
}
