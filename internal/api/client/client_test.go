package client_test

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/barnabas-webhooks/barnabas/internal/api"
	"github.com/barnabas-webhooks/barnabas/internal/api/client"
	"github.com/barnabas-webhooks/barnabas/internal/secret"
	"github.com/barnabas-webhooks/barnabas/processor/endpoint"
	"github.com/barnabas-webhooks/barnabas/schemas"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// memory is a registry, a table and a log in one, without Kafka.
type memory struct {
	endpoints map[string]*endpoint.Endpoint
	events    []schemas.Event
	verdicts  *api.Verdicts
	owners    map[string]schemas.Event
}

func (m *memory) Get(scope, id string) (*endpoint.Endpoint, error) {
	if ep, ok := m.endpoints[id]; ok {
		return ep, nil
	}
	return nil, endpoint.ErrNotFound
}

func (m *memory) Put(_ context.Context, _ string, s endpoint.Settings) (endpoint.Saved, error) {
	if s.URL == "" {
		return endpoint.Saved{}, &endpoint.InvalidError{Problems: []endpoint.Problem{{Field: "url", Reason: "is missing"}, {Field: "order", Reason: "is odd"}}}
	}
	if s.ID == "" {
		s.ID = "ep_minted"
	}
	_, had := m.endpoints[s.ID]
	ep := &endpoint.Endpoint{Endpoint: schemas.Endpoint{
		ID: s.ID, Tenant: "default", URL: s.URL, State: schemas.EndpointEnabled, Headers: s.Headers, Timeout: s.Timeout, RetryCaps: s.RetryCaps,
	}}
	m.endpoints[s.ID] = ep
	return endpoint.Saved{Endpoint: ep, Created: !had, Secret: "whsec_new"}, nil
}

func (m *memory) List(string, string, int) (all []*endpoint.Endpoint) {
	for _, ep := range m.endpoints {
		all = append(all, ep)
	}
	return all
}

func (m *memory) Delete(_ context.Context, _, id string) error {
	delete(m.endpoints, id)
	return nil
}

func (m *memory) SetState(_ context.Context, _, id string, s schemas.EndpointState, reason string) (*endpoint.Endpoint, error) {
	ep := *m.endpoints[id]
	ep.State, ep.DisabledReason = s, reason
	m.endpoints[id] = &ep
	return &ep, nil
}

func (m *memory) ResetBreaker(_ context.Context, _, id string) (*endpoint.Endpoint, error) {
	ep := *m.endpoints[id]
	ep.BreakerResetAt = time.Now()
	m.endpoints[id] = &ep
	return &ep, nil
}

func (m *memory) RotateSecret(_ context.Context, _, id string, r endpoint.Rotation) (endpoint.Saved, error) {
	if r.Overlap != time.Hour {
		return endpoint.Saved{}, endpoint.ErrTooManySecrets
	}
	return endpoint.Saved{Endpoint: m.endpoints[id], Secret: "whsec_rotated"}, nil
}

func (m *memory) EnsureForURL(context.Context, string, string) (*endpoint.Endpoint, error) {
	return nil, endpoint.ErrUnavailable
}

func (m *memory) Append(_ context.Context, e *schemas.Event) (int32, int64, error) {
	m.events = append(m.events, *e)
	at := int64(len(m.events) - 1)
	owner, taken := m.owners[e.IdempotencyKey]
	switch {
	case !taken:
		m.owners[e.IdempotencyKey] = *e
		m.verdicts.Put(0, at, api.Answer{Verdict: schemas.VerdictFirst, OwnerID: e.DeliveryID})
	case string(owner.Payload) == string(e.Payload):
		m.verdicts.Put(0, at, api.Answer{Verdict: schemas.VerdictDuplicate, OwnerID: owner.DeliveryID})
	default:
		m.verdicts.Put(0, at, api.Answer{Verdict: schemas.VerdictConflict, OwnerID: owner.DeliveryID})
	}
	return 0, at, nil
}

type table struct{ m *memory }

func (t table) Get(id string) (*endpoint.Endpoint, bool) {
	ep, ok := t.m.endpoints[id]
	return ep, ok
}
func (table) Ready() bool { return true }

// serve is a real API over memory, and a client of it.
func serve(t *testing.T) (*client.Client, *memory) {
	t.Helper()
	m := &memory{endpoints: map[string]*endpoint.Endpoint{}, verdicts: api.NewVerdicts(), owners: map[string]schemas.Event{}}
	a, err := api.New(api.Options{Config: api.DefaultConfig(), Log: m, Endpoints: m, Table: table{m}, Verdicts: m.verdicts})
	require.NoError(t, err)
	srv := httptest.NewServer(a.Handler())
	t.Cleanup(srv.Close)
	return dial(t, srv.URL, ""), m
}

func dial(t *testing.T, url string, token secret.String) *client.Client {
	t.Helper()
	c, err := client.New(client.Options{BaseURL: url, Token: token})
	require.NoError(t, err)
	t.Cleanup(http.DefaultClient.CloseIdleConnections)
	return c
}

func TestClient_Endpoints(t *testing.T) {
	t.Parallel()
	c, m := serve(t)
	ctx := t.Context()
	made, err := c.PutEndpoint(ctx, api.EndpointSpec{
		ID: "e1", URL: "https://h.example/", Headers: map[string]string{"X-A": "a"}, Timeout: api.Duration(20 * time.Second),
		RetryCaps: []api.Duration{api.Duration(time.Second)},
	})
	require.NoError(t, err)
	require.Equal(t, "whsec_new", made.Secret)
	require.Equal(t, 20*time.Second, m.endpoints["e1"].Timeout)
	require.Equal(t, []time.Duration{time.Second}, m.endpoints["e1"].RetryCaps)
	minted, err := c.PutEndpoint(ctx, api.EndpointSpec{URL: "https://h.example/"})
	require.NoError(t, err)
	require.Equal(t, "ep_minted", minted.ID)

	got, err := c.Endpoint(ctx, "e1")
	require.NoError(t, err)
	require.Equal(t, "https://h.example/", got.URL)
	require.Equal(t, api.Duration(20*time.Second), got.Timeout)
	page, err := c.Endpoints(ctx, "", "", 10)
	require.NoError(t, err)
	require.Len(t, page.Endpoints, 2)

	off, err := c.DisableEndpoint(ctx, "e1", "maintenance")
	require.NoError(t, err)
	require.Equal(t, "maintenance", off.DisabledReason)
	on, err := c.EnableEndpoint(ctx, "e1")
	require.NoError(t, err)
	require.Equal(t, "enabled", on.State)
	_, err = c.ResetBreaker(ctx, "e1")
	require.NoError(t, err)
	overlap := api.Duration(time.Hour)
	rotated, err := c.RotateSecret(ctx, "e1", api.RotateSpec{Overlap: &overlap})
	require.NoError(t, err)
	require.Equal(t, "whsec_rotated", rotated.Secret)
	_, err = c.RotateSecret(ctx, "e1", api.RotateSpec{})
	require.ErrorContains(t, err, "overlap of 0")

	require.NoError(t, c.DeleteEndpoint(ctx, "e1"))
	_, err = c.Endpoint(ctx, "e1")
	require.True(t, client.IsNotFound(err))
	_, err = c.Endpoint(ctx, "../deliveries/x")
	require.True(t, client.IsNotFound(err), "an id leads nowhere else")

	_, err = c.PutEndpoint(ctx, api.EndpointSpec{ID: "e1"})
	bad, ok := errors.AsType[*client.Error](err)
	require.True(t, ok)
	require.Equal(t, http.StatusBadRequest, bad.Status)
	require.Contains(t, err.Error(), "url: is missing")
	require.Contains(t, err.Error(), "order: is odd")
}

func TestClient_Send(t *testing.T) {
	t.Parallel()
	c, m := serve(t)
	ctx := t.Context()
	_, err := c.PutEndpoint(ctx, api.EndpointSpec{ID: "e1", URL: "https://h.example/"})
	require.NoError(t, err)

	const text = "{ \"n\" : 9007199254740993 ,\n\"s\":\"<>&\u2028\" }"
	first, err := c.Send(ctx, client.Send{EndpointID: "e1", EventType: "t", Payload: []byte(text), JSON: true, IdempotencyKey: "K"})
	require.NoError(t, err)
	require.Equal(t, api.StatusAccepted, first.Status)
	require.False(t, first.Replayed)
	require.JSONEq(t, text, string(m.events[0].Payload), "byte for byte")

	again, err := c.Send(ctx, client.Send{EndpointID: "e1", EventType: "t", Payload: []byte(text), JSON: true, IdempotencyKey: "K"})
	require.NoError(t, err)
	require.True(t, again.Replayed)
	require.Equal(t, first.DeliveryID, again.DeliveryID)

	_, err = c.Send(ctx, client.Send{EndpointID: "e1", EventType: "t", Payload: []byte(`1`), JSON: true, IdempotencyKey: "K"})
	conflict, ok := errors.AsType[*client.Error](err)
	require.True(t, ok)
	require.Equal(t, http.StatusUnprocessableEntity, conflict.Status)
	require.False(t, conflict.Temporary())

	_, err = c.Send(ctx, client.Send{EndpointID: "e1", EventType: "t", Payload: []byte("\x00\xff"), ContentType: "a/b", IdempotencyKey: "L", Async: true})
	require.NoError(t, err)
	require.Equal(t, "\x00\xff", string(m.events[3].Payload))

	_, err = c.Send(ctx, client.Send{EndpointID: "e1", EventType: "t", Payload: []byte("{"), JSON: true, IdempotencyKey: "M"})
	require.ErrorContains(t, err, "not valid JSON")
	_, err = c.Send(ctx, client.Send{URL: "https://h.example/", EventType: "t", Payload: []byte("1"), JSON: true, IdempotencyKey: "M"})
	busy, ok := errors.AsType[*client.Error](err)
	require.True(t, ok)
	require.True(t, busy.Temporary())
	require.Positive(t, busy.RetryAfter)
	require.Contains(t, err.Error(), "try again in")

	status, err := c.Delivery(ctx, first.DeliveryID, "")
	require.NoError(t, err)
	require.Equal(t, api.StatusAccepted, status.Status)
	_, err = c.Delivery(ctx, "dlv_none", "")
	require.True(t, client.IsNotFound(err))
}

// The token goes to the API alone, and into no error.
func TestClient_KeepsItsToken(t *testing.T) {
	t.Parallel()
	const token = "PLANTED-0123456789"
	other := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { t.Error("the redirect was followed") }))
	t.Cleanup(other.Close)
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") != "Bearer "+token {
			t.Error("no token")
		}
		http.Redirect(w, r, other.URL, http.StatusTemporaryRedirect)
	}))
	t.Cleanup(srv.Close)
	_, err := dial(t, srv.URL, token).Endpoint(t.Context(), "e1")
	require.ErrorContains(t, err, "307")
	require.NotContains(t, err.Error(), token)

	for _, bad := range []string{"", "x", "ftp://h.example", "http://", "http://u:PLANTED@h.example", "://PLANTED"} {
		_, err := client.New(client.Options{BaseURL: bad})
		require.Error(t, err, bad)
		require.NotContains(t, err.Error(), "PLANTED")
	}
}

// Answers that are not the API's.
func TestClient_OddAnswers(t *testing.T) {
	t.Parallel()
	answer := func(status int, kind, text string) error {
		srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", kind)
			w.WriteHeader(status)
			_, _ = io.WriteString(w, text)
		}))
		defer srv.Close()
		_, err := dial(t, srv.URL+"/base/", "").Endpoint(t.Context(), "e1")
		return err
	}
	require.ErrorContains(t, answer(200, "text/html", "<html>"), "address of the API")
	require.ErrorContains(t, answer(502, "text/html", strings.Repeat("x", 100)), "502 Bad Gateway")
	require.ErrorContains(t, answer(400, "application/problem+json", "{"), "400 Bad Request")
	text, err := json.Marshal(api.Problem{Title: "Odd", Detail: "so it is", Status: 400})
	require.NoError(t, err)
	require.ErrorContains(t, answer(400, "application/problem+json; charset=utf-8", string(text)), "400 Odd: so it is")
}
