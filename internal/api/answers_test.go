package api_test

import (
	"context"
	"io"
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/barnabas-webhooks/barnabas/internal/api"
	"github.com/barnabas-webhooks/barnabas/processor/endpoint"
	"github.com/barnabas-webhooks/barnabas/schemas"
	"github.com/barnabas-webhooks/barnabas/topics"
)

// fakeEndpoints is a registry that says what a test wants: it has e1, unless absent, and changes come to err.
type fakeEndpoints struct {
	absent, created bool
	err             error
}

var _ api.Endpoints = fakeEndpoints{}

func (f fakeEndpoints) saved() (endpoint.Saved, error) {
	return endpoint.Saved{Endpoint: acme().endpoints["e1"], Created: f.created}, f.err
}

func (f fakeEndpoints) changed() (*endpoint.Endpoint, error) { return acme().endpoints["e1"], f.err }

func (f fakeEndpoints) Get(string, string) (*endpoint.Endpoint, error) {
	if f.absent {
		return nil, endpoint.ErrNotFound
	}
	return acme().endpoints["e1"], nil
}

func (f fakeEndpoints) List(string, string, int) []*endpoint.Endpoint {
	return []*endpoint.Endpoint{acme().endpoints["e1"]}
}

func (f fakeEndpoints) Put(_ context.Context, _ string, s endpoint.Settings) (endpoint.Saved, error) {
	f.created = f.created || s.MustBeNew
	return f.saved()
}

func (f fakeEndpoints) RotateSecret(context.Context, string, string, endpoint.Rotation) (endpoint.Saved, error) {
	return f.saved()
}
func (f fakeEndpoints) Delete(context.Context, string, string) error { return f.err }
func (f fakeEndpoints) EnsureForURL(context.Context, string, string) (*endpoint.Endpoint, error) {
	return f.changed()
}

func (f fakeEndpoints) ResetBreaker(context.Context, string, string) (*endpoint.Endpoint, error) {
	return f.changed()
}

func (f fakeEndpoints) SetState(
	context.Context, string, string, schemas.EndpointState, string,
) (*endpoint.Endpoint, error) {
	return f.changed()
}

// panicking is a table with a fault.
type panicking struct{}

func (panicking) Get(string) (*endpoint.Endpoint, bool) { panic("a fault") }
func (panicking) Ready() bool                           { panic("a fault") }

// exchange is one request to an operation.
type exchange struct {
	path, body string // the body as it must be
	query      string
}

// operations is a good request to each operation.
func operations() map[string]exchange {
	settings := `{"url":"https://h.example/"}`
	return map[string]exchange{
		"POST /v1/deliveries":                   {path: "/v1/deliveries", body: event("e1", `1`)},
		"GET /v1/deliveries/{id}":               {path: "/v1/deliveries/" + schemas.MintDeliveryID(), query: "?endpoint_id=e1"},
		"GET /v1/endpoints":                     {path: "/v1/endpoints"},
		"POST /v1/endpoints":                    {path: "/v1/endpoints", body: settings},
		"GET /v1/endpoints/{id}":                {path: "/v1/endpoints/e1"},
		"PUT /v1/endpoints/{id}":                {path: "/v1/endpoints/e1", body: settings},
		"DELETE /v1/endpoints/{id}":             {path: "/v1/endpoints/e1"},
		"POST /v1/endpoints/{id}/enable":        {path: "/v1/endpoints/e1/enable"},
		"POST /v1/endpoints/{id}/disable":       {path: "/v1/endpoints/e1/disable", body: `{}`},
		"POST /v1/endpoints/{id}/reset-breaker": {path: "/v1/endpoints/e1/reset-breaker"},
		"POST /v1/endpoints/{id}/rotate-secret": {path: "/v1/endpoints/e1/rotate-secret", body: `{}`},
	}
}

// all asks every operation once, with what is good, but for the changes.
func (n *node) all(token string, change func(*exchange), headers ...string) {
	n.t.Helper()
	for op, x := range operations() {
		method, _, _ := strings.Cut(op, " ")
		if change != nil {
			change(&x)
		}
		more := headers
		if op == "POST /v1/deliveries" {
			more = append([]string{"Idempotency-Key", "K"}, headers...)
		}
		n.call(method, x.path+x.query, token, x.body, more...)
	}
}

// Whatever the document says may be answered is answered by some request, and nothing else: neither is there a status
// or a type that no handler gives, nor (see node.held, for every test) one that is given and not documented.
func TestOpenAPI_EveryAnswerIsGiven(t *testing.T) {
	t.Parallel()
	seen := map[given]bool{}
	gather := func(n *node) {
		n.mu.Lock()
		defer n.mu.Unlock()
		maps.Copy(seen, n.given)
	}
	run := func(change func(*api.Options), ask func(n *node)) {
		o := fakes(&fakeLog{}, acme())
		o.Endpoints = fakeEndpoints{}
		if change != nil {
			change(&o)
		}
		n := serve(t, o)
		ask(n)
		gather(n)
	}
	// What is well.
	run(nil, func(n *node) { n.all(acmeOperator, nil) })
	run(func(o *api.Options) { o.Endpoints = fakeEndpoints{created: true} }, func(n *node) { n.all(acmeOperator, nil) })
	// Who asks.
	run(nil, func(n *node) { n.all("", nil); n.all(acmeProducer, nil) })
	run(func(o *api.Options) { o.Keys = nil }, func(n *node) { n.host = "evil.example"; n.all("", nil) })
	// What is asked.
	run(nil, func(n *node) {
		n.all(acmeOperator, func(x *exchange) {
			x.body, x.query = `{`, strings.Replace(x.query, "e1", "%00", 1)
			if strings.HasSuffix(x.path, "/endpoints") {
				x.query = "?limit=x"
			}
		})
		n.all(acmeOperator, nil, "Content-Encoding", "gzip")
		n.all(acmeOperator, func(x *exchange) { x.body = strings.Repeat(" ", schemas.MaxSendBodyBytes+1) })
		n.call(http.MethodPost, "/v1/deliveries", acmeProducer, event("e1", `1`))
		n.post(acmeProducer, "K", event("nobody", `1`))
		n.call(http.MethodGet, "/v1/deliveries/dlv_x", acmeProducer, "")
	})
	disabled := acme()
	disabled.endpoints["e1"].State = schemas.EndpointDisabled
	run(func(o *api.Options) { o.Table = disabled }, func(n *node) { n.all(acmeOperator, nil) })
	// What the registry says.
	raw := `{"url":"https://h.example/","event_type":"t","payload":1}`
	invalid := &endpoint.InvalidError{Problems: []endpoint.Problem{{Field: "url", Reason: "is bad"}}}
	run(func(o *api.Options) { o.Endpoints = fakeEndpoints{absent: true} }, func(n *node) { n.all(acmeOperator, nil) })
	for _, err := range []error{endpoint.ErrIDTaken, endpoint.ErrTooManyEndpoints, endpoint.ErrUnavailable, invalid} {
		run(func(o *api.Options) { o.Endpoints = fakeEndpoints{err: err} }, func(n *node) {
			n.call(http.MethodPut, "/v1/endpoints/e1", acmeOperator, `{"url":"https://h.example/"}`)
			n.call(http.MethodPost, "/v1/endpoints", acmeOperator, `{"url":"https://h.example/"}`)
			n.post(acmeOperator, "K", raw)
		})
	}
	run(func(o *api.Options) { o.Endpoints = fakeEndpoints{err: endpoint.ErrUnavailable} }, func(n *node) { n.all(acmeOperator, nil) })
	for _, err := range []error{endpoint.ErrTooManySecrets, invalid} {
		run(func(o *api.Options) { o.Endpoints = fakeEndpoints{err: err} }, func(n *node) {
			n.call(http.MethodPost, "/v1/endpoints/e1/rotate-secret", acmeOperator, "")
		})
	}
	run(func(o *api.Options) { o.Endpoints = fakeEndpoints{err: invalid} }, func(n *node) {
		n.call(http.MethodPost, "/v1/endpoints/e1/disable", acmeOperator, "")
	})
	// Faults of ours.
	run(func(o *api.Options) { o.Table = panicking{} }, func(n *node) { n.all(acmeOperator, nil) })
	away := acme()
	away.notReady = true
	run(func(o *api.Options) { o.Table = away }, func(n *node) { n.all(acmeOperator, nil) })
	for _, err := range []error{api.ErrNotDurable, api.ErrBufferFull} {
		log := &fakeLog{append: func(context.Context, *schemas.Event) (int32, int64, error) { return 0, 0, err }}
		run(func(o *api.Options) { o.Log = log }, func(n *node) { n.all(acmeOperator, nil) })
	}
	// Too much.
	for _, limits := range []struct {
		all, tenant int
		asks        string
	}{{1, 1, globexOperator}, {2, 1, acmeOperator}} {
		entered, leave := make(chan struct{}), make(chan struct{})
		log := &fakeLog{append: func(context.Context, *schemas.Event) (int32, int64, error) {
			entered <- struct{}{}
			<-leave
			return 0, 0, nil
		}}
		run(func(o *api.Options) { o.Log, o.MaxConcurrent, o.Tenant.Concurrent = log, limits.all, limits.tenant }, func(n *node) {
			done := make(chan struct{})
			go func() { defer close(done); n.post(acmeOperator, "K", event("e1", `1`)) }()
			<-entered
			n.all(limits.asks, nil)
			close(leave)
			<-done
		})
	}
	run(func(o *api.Options) { o.Tenant = api.TenantLimits{Rate: 0.001} }, func(n *node) {
		n.all(acmeOperator, nil)
		n.all(acmeOperator, nil)
	})

	// Verdicts, the lag and searches need a Kafka.
	r := newRig(t)
	r.put("acme", "e1")
	r.arbiter(nil)
	n := r.serve(nil)
	n.post(acmeOperator, "K", event("e1", `1`))
	sent := n.post(acmeOperator, "K", event("e1", `1`))
	n.post(acmeOperator, "K", event("e1", `2`))
	n.call(http.MethodGet, sent.header.Get("Location"), acmeOperator, "")
	gather(n)
	behind := r.serve(func(o *api.Options) {
		o.MaxLag = 10
		o.Lag = func(context.Context) (map[int32]int64, error) {
			return map[int32]int64{topics.Partition("e1", partitions): 11}, nil
		}
	})
	require.Eventually(t, func() bool {
		return behind.post(acmeOperator, "K", event("e1", `1`)).status == http.StatusServiceUnavailable
	},
		30*time.Second, 10*time.Millisecond)
	gather(behind)
	bounded := r.serve(func(o *api.Options) { o.SearchBytes = 1 }) // there are several events by now
	bounded.call(http.MethodGet, operations()["GET /v1/deliveries/{id}"].path+"?endpoint_id=e1", acmeOperator, "")
	gather(bounded)
	stuck := serve(t, func() api.Options {
		o := fakes(&fakeLog{}, acme())
		o.Client = func(...kgo.Opt) (*kgo.Client, error) { return nil, io.ErrClosedPipe }
		return o
	}())
	stuck.all(acmeOperator, nil)
	gather(stuck)

	want := readDocument(t).answers(t)
	for g := range want {
		require.True(t, seen[g], "nobody is answered %v", g)
	}
	for _, g := range slices.Collect(maps.Keys(seen)) {
		require.True(t, want[g], "the document does not know %v", g)
	}
}
