package api_test

import (
	"bytes"
	"context"
	"fmt"
	"math"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"

	"github.com/barnabas-webhooks/barnabas/internal/api"
	"github.com/barnabas-webhooks/barnabas/processor/endpoint"
	"github.com/barnabas-webhooks/barnabas/schemas"
)

// two is a table with an endpoint of each tenant.
func two() *fakeTable {
	f := acme()
	f.endpoints["g1"] = &endpoint.Endpoint{Endpoint: schemas.Endpoint{
		ID: "g1", Tenant: "globex", URL: "https://h.example/", State: schemas.EndpointEnabled, Order: schemas.OrderOrdered,
	}}
	return f
}

// direct calls a handler without a network, so that a bubble's clock goes on.
func direct(t *testing.T, a *api.API, token, key, body string) answer {
	t.Helper()
	w := do(t, a, token, key, body)
	resp := w.Result()
	defer func() { _ = resp.Body.Close() }()
	return read(t, resp)
}

// A tenant has its rate and its burst; what is over is told when to come again, and coming then is right.
func TestTenant_Rate(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		log := &fakeLog{}
		o := fakes(log, two())
		reg := prometheus.NewRegistry()
		var logged bytes.Buffer
		o.Tenant, o.Metrics, o.Logger = api.TenantLimits{Rate: 0.25, Burst: 3}, reg, textLogger(&logged)
		o.Tenants = map[string]api.TenantLimits{"globex": {Rate: 100}}
		a, err := api.New(o)
		require.NoError(t, err)
		send := func(token, endpoint string) answer { return direct(t, a, token, "K", event(endpoint, `1`)) }

		for range 3 {
			require.Equal(t, http.StatusAccepted, send(acmeProducer, "e1").status)
		}
		refused := send(acmeOperator, "e1")
		require.Equal(t, http.StatusTooManyRequests, refused.status, "all keys of a tenant share its rate")
		require.Equal(t, api.CodeRateLimited, refused.problem)
		require.Equal(t, "4", refused.header.Get("Retry-After"), "a token comes each 4 s")
		for range 100 { // what is refused costs the tenant nothing
			require.Equal(t, http.StatusTooManyRequests, send(acmeProducer, "e1").status)
		}
		for range 50 {
			require.Equal(t, http.StatusAccepted, send(globexOperator, "g1").status, "another tenant's flood is nobody else's")
		}
		// What cannot be sent is not counted.
		time.Sleep(4 * time.Second)
		require.Equal(t, http.StatusNotFound, send(acmeProducer, "g1").status)
		require.Equal(t, http.StatusBadRequest, direct(t, a, acmeProducer, "K", "{").status)
		require.Equal(t, http.StatusAccepted, send(acmeProducer, "e1").status, "after Retry-After there is one")
		refused = send(acmeProducer, "e1")
		require.Equal(t, http.StatusTooManyRequests, refused.status)

		time.Sleep(time.Hour)
		for range 3 {
			require.Equal(t, http.StatusAccepted, send(acmeProducer, "e1").status, "and never more than the burst")
		}
		refused = send(acmeProducer, "e1")
		require.Equal(t, http.StatusTooManyRequests, refused.status)
		seconds, err := strconv.Atoi(refused.header.Get("Retry-After"))
		require.NoError(t, err)
		require.GreaterOrEqual(t, seconds, 1)
		require.Len(t, log.all(), 3+50+1+3)
		require.InDelta(t, 103, gather(t, reg)[`barnabas_api_problems_total{reason="rate-limited"}`], 0)
		require.Equal(t, 2, strings.Count(logged.String(), "api_tenant_limited"), "once a minute")
		require.Contains(t, logged.String(), "tenant=acme")
	})
}

// The shortest Retry-After is a second, however fast the tokens come.
func TestTenant_RetryAfterIsAtLeastASecond(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		o := fakes(&fakeLog{}, acme())
		o.Tenant = api.TenantLimits{Rate: 1000, Burst: 1}
		a, err := api.New(o)
		require.NoError(t, err)
		require.Equal(t, http.StatusAccepted, direct(t, a, acmeProducer, "K", event("e1", `1`)).status)
		require.Equal(t, "1", direct(t, a, acmeProducer, "K", event("e1", `1`)).header.Get("Retry-After"))
	})
}

// One tenant that fills all it may leaves room for the others: for their requests, and for the bytes of these.
func TestTenant_FloodLeavesRoomForOthers(t *testing.T) {
	t.Parallel()
	entered, leave := make(chan struct{}), make(chan struct{})
	var once sync.Map
	log := &fakeLog{append: func(_ context.Context, e *schemas.Event) (int32, int64, error) {
		if e.EndpointID == "e1" {
			once.Store(e.DeliveryID, true)
			entered <- struct{}{}
			<-leave
		}
		return 0, 0, nil
	}}
	reg := prometheus.NewRegistry()
	o := fakes(log, two())
	o.MaxConcurrent, o.MaxBodyBytes, o.MaxBufferedBytes, o.Metrics = 8, 2048, 16384, reg
	n := serve(t, o)
	// Half of 8: what nobody configured.
	done := make(chan answer, 4)
	for i := range 4 {
		go func() { done <- n.post(acmeProducer, fmt.Sprint(i), event("e1", `1`)) }()
		<-entered
	}
	for range 20 {
		got := n.post(acmeOperator, "K", event("e1", `1`))
		require.Equal(t, http.StatusTooManyRequests, got.status)
		require.Equal(t, api.CodeConcurrencyLimited, got.problem)
		require.Equal(t, "1", got.header.Get("Retry-After"))
		require.Equal(t, http.StatusTooManyRequests, n.call(http.MethodGet, "/v1/deliveries/x", acmeProducer, "").status)
		require.Equal(t, http.StatusAccepted, n.post(globexOperator, "K", event("g1", `1`)).status)
	}
	close(leave)
	for range 4 {
		require.Equal(t, http.StatusAccepted, (<-done).status)
	}
	go func() { <-entered }()
	require.Equal(t, http.StatusAccepted, n.post(acmeProducer, "K", event("e1", `1`)).status, "room is given back")
	require.InDelta(t, 40, gather(t, reg)[`barnabas_api_problems_total{reason="concurrency-limited"}`], 0)

	// Bytes: half of the buffer, and a body of the other tenant still fits.
	entered, leave = make(chan struct{}), make(chan struct{})
	o = fakes(log, two())
	o.MaxConcurrent, o.MaxBodyBytes, o.MaxBufferedBytes = 8, 2048, 4096
	n = serve(t, o)
	big := event("e1", `"`+strings.Repeat("x", 1500)+`"`)
	go func() { done <- n.post(acmeProducer, "1", big) }()
	<-entered
	got := n.post(acmeProducer, "2", big)
	require.Equal(t, http.StatusTooManyRequests, got.status, got.text)
	require.Equal(t, api.CodeConcurrencyLimited, got.problem)
	require.Equal(t, http.StatusAccepted, n.post(globexOperator, "1", strings.Replace(big, "e1", "g1", 1)).status)
	close(leave)
	require.Equal(t, http.StatusAccepted, (<-done).status)
}

func TestTenant_LimitsAreChecked(t *testing.T) {
	t.Parallel()
	for want, change := range map[string]func(*api.Config){
		"rate of a tenant":       func(c *api.Config) { c.Tenant.Rate = -1 },
		"rate of a tenant is Na": func(c *api.Config) { c.Tenant.Rate = math.NaN() },
		"but there is no rate":   func(c *api.Config) { c.Tenant.Burst = 1 },
		"burst of a tenant":      func(c *api.Config) { c.Tenant.Burst = -1 },
		"concurrency of tenant":  func(c *api.Config) { c.Tenants = map[string]api.TenantLimits{"acme": {Concurrent: 257}} },
		"no key belongs to it":   func(c *api.Config) { c.Tenants = map[string]api.TenantLimits{"acmee": {}} },
		"max lag is -1":          func(c *api.Config) { c.MaxLag = -1 },
		"search timeout is 0s":   func(c *api.Config) { c.SearchTimeout = 0 },
		"search bytes is 0":      func(c *api.Config) { c.SearchBytes = 0 },
	} {
		c := api.DefaultConfig()
		c.Keys = keys()
		change(&c)
		require.ErrorContains(t, c.Validate(), want)
	}
}
