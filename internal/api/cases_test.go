package api_test

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/barnabas-webhooks/barnabas/internal/api"
	"github.com/barnabas-webhooks/barnabas/processor/endpoint"
)

// C-008, C-005: with Kafka away, each send is refused in its time, what is under way is bounded by bytes, and over that
// sends are refused at once. When it is back, everything goes on, under the same keys.
func TestSend_KafkaAwayIsBounded(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.put("acme", "e1")
	r.arbiter(nil)
	producer := r.client(kgo.MaxBufferedBytes(8<<10), kgo.ProducerLinger(0))
	n := r.serve(func(o *api.Options) {
		o.Log, o.ProduceTimeout = api.NewEventLog(producer, r.topics.Events()), 200*time.Millisecond
	})
	require.Equal(t, http.StatusAccepted, n.post(acmeProducer, "warm", event("e1", `0`)).status)
	hold, free := make(chan struct{}), false
	release := func() {
		if !free {
			free = true
			close(hold)
		}
	}
	defer release()
	r.cluster.ControlKey(int16(kmsg.Produce), func(kmsg.Request) (kmsg.Response, error, bool) {
		r.cluster.KeepControl()
		r.cluster.SleepControl(func() { <-hold }) // the broker has the request, and does not answer
		return nil, nil, false
	})
	big := event("e1", `"`+strings.Repeat("x", 3000)+`"`)
	codes := map[string]int{}
	for i := range 6 {
		got := n.post(acmeProducer, fmt.Sprint("K", i), big)
		require.Equal(t, http.StatusServiceUnavailable, got.status, got.text)
		require.NotEmpty(t, got.header.Get("Retry-After"))
		require.NotContains(t, got.text, "delivery_id")
		codes[got.problem]++
	}
	require.Equal(t, map[string]int{api.CodeUnavailable: 2, api.CodeBufferFull: 4}, codes, "8 KiB hold two")
	release()
	ids := map[any]bool{}
	for i := range 6 {
		var got answer
		require.Eventually(t, func() bool {
			got = n.post(acmeProducer, fmt.Sprint("K", i), big)
			return got.status < 300
		}, 30*time.Second, 20*time.Millisecond)
		ids[got.body["delivery_id"]] = true
		again := n.post(acmeProducer, fmt.Sprint("K", i), big)
		require.Equal(t, http.StatusOK, again.status)
		require.Equal(t, got.body["delivery_id"], again.body["delivery_id"])
	}
	require.Len(t, ids, 6)
}

// slow is a registry that takes its time, or fails.
type slow struct{ fakeEndpoints }

func (slow) EnsureForURL(ctx context.Context, _, _ string) (*endpoint.Endpoint, error) {
	<-ctx.Done()
	return nil, fmt.Errorf("%w: %w", endpoint.ErrUnavailable, context.Cause(ctx))
}

// C-013: a store of endpoints that fails is 503 with Retry-After, and never a 4xx.
func TestSend_FailingStoreIsTemporary(t *testing.T) {
	t.Parallel()
	raw := `{"url":"https://h.example/","event_type":"t","payload":1}`
	for _, err := range []error{endpoint.ErrUnavailable, endpoint.ErrLocked, fmt.Errorf("save: %w", endpoint.ErrUnavailable)} {
		o := fakes(&fakeLog{}, acme())
		o.Endpoints = fakeEndpoints{err: err}
		n := serve(t, o)
		for _, got := range []answer{
			n.post(acmeProducer, "K", raw),
			n.call(http.MethodPut, "/v1/endpoints/e1", acmeOperator, `{"url":"https://h.example/"}`),
			n.call(http.MethodPost, "/v1/endpoints/e1/enable", acmeOperator, ""),
			n.call(http.MethodPost, "/v1/endpoints/e1/rotate-secret", acmeOperator, ""),
			n.call(http.MethodDelete, "/v1/endpoints/e1", acmeOperator, ""),
		} {
			require.Equal(t, http.StatusServiceUnavailable, got.status, got.text)
			require.Equal(t, api.CodeUnavailable, got.problem)
			require.NotEmpty(t, got.header.Get("Retry-After"))
		}
		require.Equal(t, http.StatusUnauthorized, n.post("wrong-key-0123456789", "K", raw).status, "distinct from a true 401")
		require.Equal(t, http.StatusForbidden, n.call(http.MethodGet, "/v1/endpoints", acmeProducer, "").status, "and 403")
	}
	o := fakes(&fakeLog{}, acme())
	o.Endpoints = slow{}
	a, err := api.New(o)
	require.NoError(t, err)
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	w := doWithin(ctx, a, acmeProducer, "K", raw)
	require.Equal(t, http.StatusServiceUnavailable, w.Code, w.Body.String())
}

// C-010: an event of one id, sent with no key or with two, is a documented answer each time, and never a 5xx.
func TestSend_SameEventWithoutKeyOrWithTwo(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.put("acme", "e1")
	r.arbiter(nil)
	n := r.serve(nil)
	body := event("e1", `{"id":"E"}`)
	for range 2 {
		got := n.call(http.MethodPost, "/v1/deliveries", acmeProducer, body)
		require.Equal(t, http.StatusBadRequest, got.status)
		require.Equal(t, api.CodeMissingKey, got.problem)
	}
	first, second := n.post(acmeProducer, "1", body), n.post(acmeProducer, "2", body)
	require.Equal(t, http.StatusAccepted, first.status)
	require.Equal(t, http.StatusAccepted, second.status)
	require.NotEqual(t, first.body["delivery_id"], second.body["delivery_id"])
	require.Len(t, r.events(), 2)
}

// C-007: one key on two routes is two things; the key means nothing but on a send.
func TestSend_KeyIsOfTheSendAlone(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.arbiter(nil)
	n := r.serve(nil)
	body := `{"id":"e1","url":"https://h.example/"}`
	require.Equal(t, http.StatusCreated, n.call(http.MethodPut, "/v1/endpoints/e1", acmeOperator, body).status)
	require.Equal(t, http.StatusAccepted, n.post(acmeOperator, "K", event("e1", `1`)).status)
	require.Equal(t, http.StatusOK, n.call(http.MethodPut, "/v1/endpoints/e1", acmeOperator, body).status)
	require.Equal(t, http.StatusOK, n.post(acmeOperator, "K", event("e1", `1`)).status)
}

// C-022: JSON that is nested too deeply to be read is refused, and says so; in base64 it is taken.
func TestSend_TooDeepSaysSo(t *testing.T) {
	t.Parallel()
	log := &fakeLog{}
	n := serve(t, fakes(log, acme()))
	deep := strings.Repeat("[", 20_000) + strings.Repeat("]", 20_000)
	got := n.post(acmeProducer, "K", event("e1", deep))
	require.Equal(t, http.StatusBadRequest, got.status)
	require.Contains(t, got.body["detail"], "depth")
	require.Contains(t, got.body["detail"], "payload_base64")
	body := `{"endpoint_id":"e1","event_type":"t","content_type":"application/json","payload_base64":"` + b64(deep) + `"}`
	require.Equal(t, http.StatusAccepted, n.post(acmeProducer, "K", body).status)
	require.Equal(t, deep, string(log.all()[0].Payload))
}

// C-190, C-191, C-193, C-195: what cannot be a header or a URL is refused when it is saved, by name, and no answer of any
// operation and no line of the log shows a URL's secrets or a header's value.
func TestEndpoints_SecretsAreNotShown(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	var logged safeBuffer
	n := serve(t, func() api.Options { o := r.options(); o.Logger = textLogger(&logged); return o }())
	put := func(body string) answer { return n.call(http.MethodPut, "/v1/endpoints/e1", acmeOperator, body) }
	headers := map[string]string{
		"X-Crlf": "PLANTED\r\nX-Other: 1", "X-Nul": "PLANTED\x00", "X-Space": " PLANTED", "X-Tail": "PLANTED ", "X-Non-Ascii": "PLANTEDé",
		"X Space": "PLANTED", "X:Colon": "PLANTED", "": "PLANTED", strings.Repeat("x", 1000): "PLANTED", "X-Big": strings.Repeat("PLANTED", 1000),
	}
	for _, name := range []string{
		"webhook-id", "Webhook-Timestamp", "WEBHOOK-SIGNATURE", "content-type", "content-length", "host", "transfer-encoding", "connection", "te",
		"trailer", "expect", "user-agent", "idempotency-key",
	} {
		headers[name] = "PLANTED"
	}
	for name, value := range headers {
		got := put(fmt.Sprintf(`{"url":"https://h.example/","headers":{%s:%s}}`, quoted(name), quoted(value)))
		require.Equal(t, http.StatusBadRequest, got.status, "%q: %s", name, got.text)
		require.Equal(t, api.CodeInvalid, got.problem)
		require.NotContains(t, got.text, "PLANTED")
	}
	many := make([]string, 1000)
	for i := range many {
		many[i] = fmt.Sprintf(`"x-%d":"PLANTED"`, i)
	}
	got := put(`{"url":"https://h.example/","headers":{` + strings.Join(many, ",") + `}}`)
	require.Equal(t, http.StatusBadRequest, got.status)
	require.NotContains(t, got.text, "PLANTED")
	for _, url := range []string{
		"https://PLANTED:PLANTED@h.example/", "https://PLANTED@h.example/", "https://u:PLANTED%40@h.example/", "https://127.0.0.1/PLANTED?t=PLANTED",
		"http://h.example/PLANTED?t=PLANTED", "https://h.example:99999/PLANTED", "https://h.example/#PLANTED", "https://[::1/PLANTED", "://PLANTED",
	} {
		for _, got := range []answer{
			put(`{"url":` + quoted(url) + `}`),
			n.post(acmeProducer, "K", `{"event_type":"t","payload":1,"url":`+quoted(url)+`}`),
		} {
			require.Equal(t, http.StatusBadRequest, got.status, got.text)
			require.NotContains(t, got.text, "PLANTED")
		}
	}
	require.NotContains(t, logged.String(), "PLANTED")
}

// C-011: an event that nobody can be sent is refused by name, also where a tenant has no endpoint at all.
func TestSend_NobodyToSendTo(t *testing.T) {
	t.Parallel()
	log := &fakeLog{}
	n := serve(t, fakes(log, &fakeTable{}))
	for body, code := range map[string]string{
		event("e1", `1`):                                    api.CodeUnknownEndpoint,
		`{"event_type":"t","payload":1}`:                    api.CodeBadRequest,
		`{"endpoint_id":"","event_type":"t","payload":1}`:   api.CodeBadRequest,
		`{"endpoint_id":[],"event_type":"t","payload":1}`:   api.CodeBadRequest,
		`{"endpoint_id":null,"event_type":"t","payload":1}`: api.CodeBadRequest,
	} {
		got := n.post(acmeProducer, "K", body)
		require.Equal(t, code, got.problem, body)
	}
	require.Empty(t, log.all())
}
