package api_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/barnabas-webhooks/barnabas/internal/api"
)

func TestAuth_Keys(t *testing.T) {
	t.Parallel()
	n := serve(t, fakes(&fakeLog{}, acme()))
	for name, value := range map[string]string{
		"none": "", "other scheme": "Basic " + acmeProducer, "no scheme": acmeProducer, "unknown": "Bearer " + strings.Repeat("x", 30),
		"its hash": "Bearer " + hashOf(acmeProducer), "a prefix": "Bearer " + acmeProducer[:20], "longer": "Bearer " + acmeProducer + "x",
		"empty": "Bearer ", "endless": "Bearer " + strings.Repeat("x", 4096),
	} {
		got := n.post("", "K", event("e1", `1`), "Authorization", value)
		require.Equal(t, http.StatusUnauthorized, got.status, name)
		require.Contains(t, got.header.Get("WWW-Authenticate"), "Bearer")
	}
	require.Equal(t, http.StatusAccepted, n.post("", "K", event("e1", `1`), "Authorization", "bearer  "+acmeProducer).status)
	for _, token := range []string{acmeProducer, acmeOperator, admin} {
		require.Equal(t, http.StatusAccepted, n.post(token, "K", event("e1", `1`)).status, "each role may what the lower may")
	}
}

func TestAuth_KeysAreChecked(t *testing.T) {
	t.Parallel()
	good := api.Key{Name: "a", SHA256: hashOf("x"), Tenant: "acme", Role: api.RoleProducer}
	with := func(change func(*api.Key)) []api.Key {
		k := good
		change(&k)
		return []api.Key{k}
	}
	for want, ks := range map[string][]api.Key{
		"no name":             with(func(k *api.Key) { k.Name = "" }),
		"64 hex digits":       with(func(k *api.Key) { k.SHA256 = "x" }),
		"SHA-256 of the key":  with(func(k *api.Key) { k.SHA256 = "abcd" }),
		"role must be":        with(func(k *api.Key) { k.Role = "root" }),
		"tenant must be":      with(func(k *api.Key) { k.Tenant = "" }),
		"belongs to no tenan": with(func(k *api.Key) { k.Role = api.RoleAdmin }),
		"name is there twice": {good, {Name: "a", SHA256: hashOf("y"), Tenant: "acme", Role: api.RoleProducer}},
		"same hash":           {good, {Name: "b", SHA256: hashOf("x"), Tenant: "acme", Role: api.RoleProducer}},
	} {
		c := api.DefaultConfig()
		c.Keys = ks
		require.ErrorContains(t, c.Validate(), want)
		_, err := api.New(api.Options{Config: c})
		require.ErrorContains(t, err, want)
	}
	c := api.DefaultConfig()
	c.Keys = []api.Key{{}, {Name: "b", Role: "x"}}
	require.GreaterOrEqual(t, strings.Count(c.Validate().Error(), "\n"), 4, "all problems at once")

	c = api.DefaultConfig()
	c.MaxBodyBytes, c.MaxConcurrent, c.MaxBufferedBytes, c.ProduceTimeout, c.VerdictTimeout, c.RecentDeliveries = 1, 0, 0, 0, -1, 0
	require.Equal(t, 5, strings.Count(c.Validate().Error(), "\n"))
	require.NoError(t, api.DefaultConfig().Validate())
}

// Without keys: loopback only, and no web page may come in by a name of its own.
func TestAuth_WithoutKeys(t *testing.T) {
	t.Parallel()
	for _, addr := range []string{":8080", "0.0.0.0:8080", "[::]:8080", "10.0.0.1:8080", "example.com:8080", "", "localhost.example:1"} {
		c := api.DefaultConfig()
		c.Addr = addr
		require.ErrorIs(t, c.Validate(), api.ErrNoKeys, addr)
	}
	for _, addr := range []string{"127.0.0.1:8080", "localhost:8080", "[::1]:8080", "127.9.9.9:1"} {
		c := api.DefaultConfig()
		c.Addr = addr
		require.NoError(t, c.Validate(), addr)
	}
	o := fakes(&fakeLog{}, acme())
	o.Keys = nil
	n := serve(t, o)
	require.Equal(t, http.StatusAccepted, n.post("", "K", event("e1", `1`)).status)

	for host, want := range map[string]int{
		"localhost:8080": http.StatusAccepted, "127.0.0.1": http.StatusAccepted, "[::1]:80": http.StatusAccepted,
		"evil.example": http.StatusForbidden, "evil.example:8080": http.StatusForbidden, "127.0.0.1.evil.example": http.StatusForbidden,
	} {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, n.url+"/v1/deliveries", strings.NewReader(event("e1", `1`)))
		require.NoError(t, err)
		req.Host = host
		req.Header.Set("Content-Type", "application/json")
		req.Header.Set("Idempotency-Key", "K")
		resp, err := http.DefaultClient.Do(req)
		require.NoError(t, err)
		require.Equal(t, want, read(t, resp).status, host)
		require.NoError(t, resp.Body.Close())
	}
	// A form of another site can send no JSON without asking first.
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, n.url+"/v1/deliveries", strings.NewReader(event("e1", `1`)))
	require.NoError(t, err)
	req.Header.Set("Content-Type", "text/plain")
	req.Header.Set("Idempotency-Key", "K")
	resp, err := http.DefaultClient.Do(req)
	require.NoError(t, err)
	require.Equal(t, http.StatusUnsupportedMediaType, read(t, resp).status)
	require.NoError(t, resp.Body.Close())
}
