package api_test

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/barnabas-webhooks/barnabas/internal/api"
	"github.com/barnabas-webhooks/barnabas/processor/endpoint"
	"github.com/barnabas-webhooks/barnabas/schemas"
)

// C-005, C-008: what is not durable is a 503 within the time for it, and binds nothing.
func TestSend_NotDurableIs503(t *testing.T) {
	t.Parallel()
	for name, code := range map[string]*kerr.Error{
		"too few in-sync replicas": kerr.NotEnoughReplicas,
		"not authorised":           kerr.TopicAuthorizationFailed,
		"no leader":                kerr.LeaderNotAvailable,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t)
			r.put("acme", "e1")
			r.arbiter(nil)
			n := r.serve(func(o *api.Options) { o.ProduceTimeout = 500 * time.Millisecond })
			r.cluster.ControlKey(int16(kmsg.Produce), func(req kmsg.Request) (kmsg.Response, error, bool) {
				r.cluster.KeepControl()
				return refuse(req.(*kmsg.ProduceRequest), code.Code), nil, true
			})
			got := n.post(acmeProducer, "K", event("e1", `1`))
			require.Equal(t, http.StatusServiceUnavailable, got.status, got.text)
			require.NotEmpty(t, got.header.Get("Retry-After"))
			require.NotContains(t, got.text, "delivery_id")
		})
	}
	t.Run("recovers", func(t *testing.T) {
		t.Parallel()
		r := newRig(t)
		r.put("acme", "e1")
		r.arbiter(nil)
		down := &switchable{down: true, log: api.NewEventLog(r.producer, r.topics.Events())}
		n := r.serve(func(o *api.Options) { o.Log = down })
		require.Equal(t, http.StatusServiceUnavailable, n.post(acmeProducer, "K", event("e1", `1`)).status)
		require.Equal(t, http.StatusBadRequest, n.post(acmeProducer, "K", `{}`).status)
		down.down = false
		got := n.post(acmeProducer, "K", event("e1", `2`))
		require.Equal(t, http.StatusAccepted, got.status, "neither failure bound the key")
		require.Len(t, r.events(), 1)
	})
	t.Run("all brokers gone", func(t *testing.T) {
		t.Parallel()
		r := newRig(t)
		r.put("acme", "e1")
		n := r.serve(func(o *api.Options) { o.ProduceTimeout = 300 * time.Millisecond })
		r.cluster.Close()
		got := n.post(acmeProducer, "K", event("e1", `1`))
		require.Equal(t, http.StatusServiceUnavailable, got.status)
		require.Equal(t, api.CodeUnavailable, got.problem)
		require.NotEmpty(t, got.header.Get("Retry-After"))
	})
}

// switchable is a log that can be down.
type switchable struct {
	down bool
	log  api.Log
}

func (s *switchable) Append(ctx context.Context, e *schemas.Event) (int32, int64, error) {
	if s.down {
		return 0, 0, api.ErrNotDurable
	}
	return s.log.Append(ctx, e)
}

// refuse answers a produce request with one error for all partitions.
func refuse(req *kmsg.ProduceRequest, code int16) kmsg.Response {
	resp := req.ResponseKind().(*kmsg.ProduceResponse)
	for _, rt := range req.Topics {
		st := kmsg.NewProduceResponseTopic()
		st.Topic, st.TopicID = rt.Topic, rt.TopicID
		for _, rp := range rt.Partitions {
			sp := kmsg.NewProduceResponseTopicPartition()
			sp.Partition, sp.ErrorCode = rp.Partition, code
			st.Partitions = append(st.Partitions, sp)
		}
		resp.Topics = append(resp.Topics, st)
	}
	return resp
}

func TestEventLog_SaysWhyNot(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	e := &schemas.Event{DeliveryID: "dlv_1", EndpointID: "e1", EventType: "t", ContentType: "text/plain", Payload: make([]byte, 2000)}

	small := r.client(kgo.ProducerBatchMaxBytes(1000))
	_, _, err := api.NewEventLog(small, r.topics.Events()).Append(t.Context(), e)
	require.ErrorIs(t, err, api.ErrEventTooLarge)

	full := r.client(kgo.MaxBufferedRecords(1), kgo.ManualFlushing())
	full.Produce(t.Context(), &kgo.Record{Topic: r.topics.Events()}, nil)
	_, _, err = api.NewEventLog(full, r.topics.Events()).Append(t.Context(), e)
	require.ErrorIs(t, err, api.ErrBufferFull)

	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(io.ErrClosedPipe)
	_, _, err = api.NewEventLog(r.producer, "barnabas.nowhere").Append(ctx, e)
	require.ErrorIs(t, err, api.ErrNotDurable)

	e.Payload = make([]byte, schemas.MaxPayloadBytes+1)
	_, _, err = api.NewEventLog(r.producer, r.topics.Events()).Append(t.Context(), e)
	require.ErrorIs(t, err, schemas.ErrTooLarge)
}

// What an append may fail with, and what the caller is told.
func TestSend_AppendErrors(t *testing.T) {
	t.Parallel()
	for err, want := range map[error]struct {
		status int
		code   string
	}{
		api.ErrNotDurable:         {503, api.CodeUnavailable},
		errors.New("something"):   {503, api.CodeUnavailable},
		api.ErrBufferFull:         {503, api.CodeBufferFull},
		api.ErrEventTooLarge:      {413, api.CodePayloadTooLarge},
		context.DeadlineExceeded:  {503, api.CodeUnavailable},
		schemas.ErrTooLarge:       {413, api.CodePayloadTooLarge},
		kerr.NotEnoughReplicas:    {503, api.CodeUnavailable},
		kerr.UnknownTopicID:       {503, api.CodeUnavailable},
		endpoint.ErrUnavailable:   {503, api.CodeUnavailable},
		kgo.ErrClientClosed:       {503, api.CodeUnavailable},
		kerr.TransactionAbortable: {503, api.CodeUnavailable},
	} {
		log := &fakeLog{append: func(context.Context, *schemas.Event) (int32, int64, error) { return 0, 0, err }}
		got := serve(t, fakes(log, acme())).post(acmeProducer, "K", event("e1", `1`))
		require.Equal(t, want.status, got.status, err)
		require.Equal(t, want.code, got.problem, err)
		require.Equal(t, want.status == 503, got.header.Get("Retry-After") != "", err)
	}
}

// C-013: own trouble is a 503 and never a 401, 403 or 404.
func TestSend_OwnTroubleIsTemporary(t *testing.T) {
	t.Parallel()
	table := acme()
	table.notReady = true
	n := serve(t, fakes(&fakeLog{}, table))
	for _, id := range []string{"e1", "nobody"} {
		got := n.post(acmeProducer, "K", event(id, `1`))
		require.Equal(t, http.StatusServiceUnavailable, got.status)
		require.NotEmpty(t, got.header.Get("Retry-After"))
	}
	for _, path := range []string{"/v1/endpoints", "/v1/endpoints/e1"} {
		require.Equal(t, http.StatusServiceUnavailable, n.call(http.MethodGet, path, acmeOperator, "").status)
	}

	locked := acme()
	locked.endpoints["e2"] = &endpoint.Endpoint{Endpoint: schemas.Endpoint{ID: "e2"}, Locked: endpoint.ErrUnseal}
	got := serve(t, fakes(&fakeLog{}, locked)).post(acmeProducer, "K", event("e2", `1`))
	require.Equal(t, http.StatusServiceUnavailable, got.status, got.text)
}

// C-014: the limit is named, and no more than it is read.
func TestSend_BodyLimit(t *testing.T) {
	t.Parallel()
	const limit = 4096
	log := &fakeLog{}
	o := fakes(log, acme())
	o.MaxBodyBytes = limit
	n := serve(t, o)
	sized := func(size int) string {
		frame := event("e1", `""`)
		return event("e1", `"`+strings.Repeat("x", size-len(frame))+`"`)
	}
	for _, size := range []int{limit - 1, limit} {
		require.Len(t, sized(size), size)
		require.Equal(t, http.StatusAccepted, n.post(acmeProducer, fmt.Sprint(size), sized(size)).status)
	}
	over := n.post(acmeProducer, "K", sized(limit+1))
	require.Equal(t, http.StatusRequestEntityTooLarge, over.status)
	require.EqualValues(t, limit, over.body["limit"])
	require.EqualValues(t, limit+1, over.body["size"])
	require.Contains(t, over.body["detail"], "4096")
	require.Contains(t, over.body["detail"], "4097")

	// Chunked: an endless body is cut soon after the limit.
	endless := &counting{r: io.MultiReader(strings.NewReader(event("e1", `"`)), forever{})}
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, n.url+"/v1/deliveries", endless)
	require.NoError(t, err)
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Authorization", "Bearer "+acmeProducer)
	req.Header.Set("Idempotency-Key", "K")
	resp, err := http.DefaultClient.Do(req)
	require.NoError(t, err)
	defer func() { _ = resp.Body.Close() }()
	chunked := read(t, resp)
	require.Equal(t, http.StatusRequestEntityTooLarge, chunked.status)
	require.EqualValues(t, limit, chunked.body["limit"])
	require.Less(t, endless.n.Load(), int64(32<<20), "what fits the sockets' buffers, and not for ever")

	// A chunked body within the limit is as good as any.
	require.Equal(t, http.StatusAccepted, n.send(http.MethodPost, "/v1/deliveries", acmeProducer,
		io.MultiReader(strings.NewReader(sized(limit))), "Idempotency-Key", "C").status)
	require.Len(t, log.all(), 3)
}

// C-014: the payload has a limit of its own, below what the topics take.
func TestSend_PayloadLimit(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.put("acme", "e1")
	r.arbiter(nil)
	n := r.serve(nil)
	random := make([]byte, schemas.MaxPayloadBytes+1)
	for i := range random {
		random[i] = byte(i * i >> 3)
	}
	body := func(payload []byte) string {
		return `{"endpoint_id":"e1","event_type":"t","content_type":"a/b","payload_base64":"` + b64(string(payload)) + `"}`
	}
	got := n.post(acmeProducer, "K", body(random))
	require.Equal(t, http.StatusRequestEntityTooLarge, got.status, got.text)
	require.Contains(t, got.body["detail"], strconv.Itoa(schemas.MaxPayloadBytes))
	require.Contains(t, got.body["detail"], strconv.Itoa(schemas.MaxPayloadBytes+1))

	require.Equal(t, http.StatusAccepted, n.post(acmeProducer, "K", body(random[1:])).status)
	require.True(t, bytes.Equal(random[1:], r.events()[0].Payload))
}

// C-014: a Content-Length that lies.
func TestSend_LyingContentLength(t *testing.T) {
	t.Parallel()
	log := &fakeLog{}
	o := fakes(log, acme())
	o.MaxBodyBytes = 4096
	n := serve(t, o)
	talk := func(length int, body string, cut bool) answer {
		conn, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", strings.TrimPrefix(n.url, "http://"))
		require.NoError(t, err)
		defer func() { _ = conn.Close() }()
		_, err = fmt.Fprintf(conn, "POST /v1/deliveries HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer %s\r\nIdempotency-Key: K\r\n"+
			"Content-Type: application/json\r\nContent-Length: %d\r\n\r\n%s", acmeProducer, length, body)
		require.NoError(t, err)
		if cut {
			require.NoError(t, conn.(*net.TCPConn).CloseWrite())
		}
		resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
		require.NoError(t, err)
		defer func() { _ = resp.Body.Close() }()
		return read(t, resp)
	}
	body := event("e1", `1`)
	require.Equal(t, http.StatusBadRequest, talk(len(body)+10, body, true).status, "longer than what comes")
	require.Equal(t, http.StatusBadRequest, talk(len(body)-1, body, true).status, "shorter: what is left is no JSON")
	huge := talk(1<<40, "", false)
	require.Equal(t, http.StatusRequestEntityTooLarge, huge.status, "refused before anything is read or set aside")
	require.EqualValues(t, 1<<40, huge.body["size"])
	require.Empty(t, log.all())
}

// The number of requests and of bytes at a time is bounded: more get 503, at once.
func TestSend_Overload(t *testing.T) {
	t.Parallel()
	entered, leave := make(chan struct{}), make(chan struct{})
	log := &fakeLog{append: func(context.Context, *schemas.Event) (int32, int64, error) {
		entered <- struct{}{}
		<-leave
		return 0, 0, nil
	}}
	reg := prometheus.NewRegistry()
	o := fakes(log, acme())
	o.MaxConcurrent, o.MaxBodyBytes, o.MaxBufferedBytes, o.Metrics = 2, 1024, 1024, reg
	o.Tenant.Concurrent = 2 // all there is: the bounds of one tenant are another test
	n := serve(t, o)
	done := make(chan answer, 2)
	big := event("e1", `"`+strings.Repeat("x", 600)+`"`)
	go func() { done <- n.post(acmeProducer, "1", big) }()
	<-entered

	got := n.post(admin, "2", big)
	require.Equal(t, http.StatusServiceUnavailable, got.status, "bytes")
	require.Equal(t, api.CodeOverloaded, got.problem)
	require.NotEmpty(t, got.header.Get("Retry-After"))

	go func() { done <- n.post(acmeProducer, "3", event("e1", `1`)) }()
	<-entered
	got = n.post(admin, "4", event("e1", `1`))
	require.Equal(t, http.StatusServiceUnavailable, got.status, "requests")
	require.InDelta(t, 2, gather(t, reg)["barnabas_api_requests_in_flight"], 0)

	close(leave)
	for range 2 {
		require.Equal(t, http.StatusAccepted, (<-done).status)
	}
	go func() { <-entered }()
	require.Equal(t, http.StatusAccepted, n.post(acmeProducer, "5", big).status, "room is given back")
	require.InDelta(t, 2, gather(t, reg)[`barnabas_api_problems_total{reason="overloaded"}`], 0)
}

// A panic is a 500 that tells nothing; the process goes on.
func TestAPI_PanicIsContained(t *testing.T) {
	t.Parallel()
	log := &fakeLog{append: func(context.Context, *schemas.Event) (int32, int64, error) { panic("PLANTED") }}
	var logged bytes.Buffer
	o := fakes(log, acme())
	o.Logger = textLogger(&logged)
	n := serve(t, o)
	got := n.post(acmeProducer, "K", event("e1", `1`))
	require.Equal(t, http.StatusInternalServerError, got.status)
	require.NotContains(t, got.text, "PLANTED")
	require.NotContains(t, got.text, "goroutine")
	require.Contains(t, logged.String(), "faults_test.go", "the log has the stack")
	require.NotContains(t, logged.String(), acmeProducer)
	require.Equal(t, http.StatusNotFound, n.post(acmeProducer, "K", event("nobody", `1`)).status)
}

// C-211: all series are there before anything happens, and count what happened.
func TestAPI_Metrics(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.put("acme", "e1")
	r.arbiter(nil)
	reg := prometheus.NewRegistry()
	n := r.serve(func(o *api.Options) { o.Metrics = reg })
	start := gather(t, reg)
	for _, name := range []string{
		"barnabas_api_accepted_total", "barnabas_api_pending_total", "barnabas_api_replayed_total", "barnabas_api_conflicts_total",
		`barnabas_api_problems_total{reason="unknown-endpoint"}`, `barnabas_api_problems_total{reason="payload-too-large"}`,
		`barnabas_api_problems_total{reason="unauthorized"}`, `barnabas_api_problems_total{reason="unavailable"}`,
	} {
		require.Contains(t, start, name)
		require.Zero(t, start[name])
	}
	n.post(acmeProducer, "1", event("e1", `1`))
	n.post(acmeProducer, "1", event("e1", `1`))
	n.post(acmeProducer, "1", event("e1", `2`))
	n.post(acmeProducer, "2", event("e1", `1`), "Prefer", "respond-async")
	n.post("wrong-key-0123456789", "3", event("e1", `1`))
	n.post(acmeProducer, "3", event("nobody", `1`))
	end := gather(t, reg)
	for name, want := range map[string]float64{
		"barnabas_api_accepted_total": 1, "barnabas_api_pending_total": 1, "barnabas_api_replayed_total": 1, "barnabas_api_conflicts_total": 1,
		`barnabas_api_problems_total{reason="unauthorized"}`: 1, `barnabas_api_problems_total{reason="unknown-endpoint"}`: 1,
	} {
		require.InDelta(t, want, end[name], 0, name)
	}
}

// gather reads all counters and gauges.
func gather(t *testing.T, reg *prometheus.Registry) map[string]float64 {
	t.Helper()
	families, err := reg.Gather()
	require.NoError(t, err)
	all := map[string]float64{}
	for _, f := range families {
		for _, m := range f.GetMetric() {
			name := f.GetName()
			for _, l := range m.GetLabel() {
				name += fmt.Sprintf("{%s=%q}", l.GetName(), l.GetValue())
			}
			all[name] = m.GetCounter().GetValue() + m.GetGauge().GetValue()
		}
	}
	return all
}

// forever is an endless body.
type forever struct{}

func (forever) Read(b []byte) (int, error) {
	for i := range b {
		b[i] = 'x'
	}
	return len(b), nil
}

// counting counts what is read through it.
type counting struct {
	r io.Reader
	n atomic.Int64
}

func (c *counting) Read(b []byte) (int, error) {
	n, err := c.r.Read(b)
	c.n.Add(int64(n))
	return n, err
}
