package api_test

import (
	"bytes"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/barnabas-webhooks/barnabas/internal/api"
)

func textLogger(w io.Writer) *slog.Logger {
	return slog.New(slog.NewTextHandler(w, &slog.HandlerOptions{Level: slog.LevelDebug}))
}

const full = `{"url":"https://h.example/hook?token=t","description":"orders","headers":{"Authorization":"Bearer PLANTED","X-Team":"a"},
	"order":"parallel","max_in_flight":5,"rate_per_second":2.5,"timeout":"20s","permanent_statuses":[404],"retry_caps":["1s","1m0s"]}`

func TestEndpoints_LifeCycle(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	var logged bytes.Buffer
	n := serve(t, func() api.Options { o := r.options(); o.Logger = textLogger(&logged); return o }())

	made := n.call(http.MethodPut, "/v1/endpoints/e1", acmeOperator, full)
	require.Equal(t, http.StatusCreated, made.status, made.text)
	require.Equal(t, "/v1/endpoints/e1", made.header.Get("Location"))
	require.Equal(t, "no-store", made.header.Get("Cache-Control"))
	secret, _ := made.body["secret"].(string)
	require.Regexp(t, `^whsec_`, secret)
	require.Equal(t, "acme", made.body["tenant"])

	got := n.call(http.MethodGet, "/v1/endpoints/e1", acmeOperator, "")
	require.Equal(t, http.StatusOK, got.status)
	for field, want := range map[string]any{
		"url": "https://h.example/hook?token=t", "description": "orders", "order": "parallel", "max_in_flight": 5.0, "rate_per_second": 2.5,
		"timeout": "20s", "permanent_statuses": []any{404.0}, "retry_caps": []any{"1s", "1m0s"}, "state": "enabled",
		"headers": map[string]any{"Authorization": "***", "X-Team": "***"},
	} {
		require.Equal(t, want, got.body[field], field)
	}
	list := n.call(http.MethodGet, "/v1/endpoints", acmeOperator, "")
	for _, a := range []answer{got, list} {
		require.NotContains(t, a.text, secret, "a secret is shown once")
		require.NotContains(t, a.text, `"secret":`)
		require.NotContains(t, a.text, "PLANTED")
	}

	// What was read can be put again: headers that were hidden stay as they are.
	put := n.call(http.MethodPut, "/v1/endpoints/e1", acmeOperator,
		`{"url":"https://i.example/","headers":{"authorization":"***","X-New":"n"}}`)
	require.Equal(t, http.StatusOK, put.status, put.text)
	require.NotContains(t, put.text, `"secret":`)
	ep, _ := r.table.Get("e1")
	require.Equal(t, "Bearer PLANTED", string(ep.Headers[1].Value))
	require.Equal(t, "authorization", ep.Headers[1].Key)
	require.Zero(t, ep.MaxInFlight, "what is left out is the default again")
	none := n.call(http.MethodPut, "/v1/endpoints/e1", acmeOperator, `{"url":"https://i.example/","headers":{"X-Other":"***"}}`)
	require.Equal(t, http.StatusBadRequest, none.status)

	off := n.call(http.MethodPost, "/v1/endpoints/e1/disable", acmeOperator, `{"reason":"maintenance"}`)
	require.Equal(t, "disabled", off.body["state"])
	require.Equal(t, "maintenance", off.body["disabled_reason"])
	on := n.call(http.MethodPost, "/v1/endpoints/e1/enable", acmeOperator, "")
	require.Equal(t, "enabled", on.body["state"])
	require.NotContains(t, on.body, "disabled_reason")

	rotated := n.call(http.MethodPost, "/v1/endpoints/e1/rotate-secret", acmeOperator, `{"overlap":"1h"}`)
	require.Equal(t, http.StatusOK, rotated.status, rotated.text)
	second, _ := rotated.body["secret"].(string)
	require.Regexp(t, `^whsec_`, second)
	require.NotEqual(t, secret, second)
	require.Len(t, rotated.body["secrets"], 2)
	require.NotContains(t, rotated.text, secret)
	require.Equal(t, http.StatusOK, n.call(http.MethodPost, "/v1/endpoints/e1/rotate-secret", acmeOperator, "").status, "24 h by default")
	require.Equal(t, http.StatusBadRequest, n.call(http.MethodPost, "/v1/endpoints/e1/rotate-secret", acmeOperator, `{"overlap":"8000h"}`).status)

	gone := n.call(http.MethodDelete, "/v1/endpoints/e1", acmeOperator, "")
	require.Equal(t, http.StatusNoContent, gone.status)
	require.Equal(t, http.StatusNotFound, n.call(http.MethodGet, "/v1/endpoints/e1", acmeOperator, "").status)
	require.Equal(t, http.StatusNotFound, n.call(http.MethodDelete, "/v1/endpoints/e1", acmeOperator, "").status)

	post := n.call(http.MethodPost, "/v1/endpoints", acmeOperator, `{"url":"https://h.example/"}`)
	require.Equal(t, http.StatusCreated, post.status)
	id, _ := post.body["id"].(string)
	require.Regexp(t, `^ep_`, id)
	again := n.call(http.MethodPost, "/v1/endpoints", acmeOperator, `{"id":"`+id+`","url":"https://h.example/"}`)
	require.Equal(t, http.StatusConflict, again.status)
	require.NotContains(t, logged.String(), "PLANTED")
	require.NotContains(t, logged.String(), secret)
}

// C-007 and roles: who may what.
func TestEndpoints_OfOthersAreNotThere(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	n := serve(t, r.options())
	r.put("acme", "a1")
	calls := []struct{ method, path, body string }{
		{http.MethodGet, "/v1/endpoints/a1", ""},
		{http.MethodDelete, "/v1/endpoints/a1", ""},
		{http.MethodPost, "/v1/endpoints/a1/enable", ""},
		{http.MethodPost, "/v1/endpoints/a1/disable", ""},
		{http.MethodPost, "/v1/endpoints/a1/rotate-secret", ""},
	}
	for _, c := range calls {
		stranger := n.call(c.method, c.path, globexOperator, c.body)
		require.Equal(t, http.StatusNotFound, stranger.status, c.path)
		require.Equal(t, n.call(c.method, strings.Replace(c.path, "a1", "nobody", 1), globexOperator, c.body).text, stranger.text)
		require.Equal(t, http.StatusForbidden, n.call(c.method, c.path, acmeProducer, c.body).status, "a producer manages nothing")
		require.Equal(t, http.StatusUnauthorized, n.call(c.method, c.path, "", c.body).status)
	}
	taken := n.call(http.MethodPut, "/v1/endpoints/a1", globexOperator, `{"url":"https://evil.example/","headers":{"X":"***"}}`)
	require.Equal(t, http.StatusBadRequest, taken.status, "headers of a stranger's endpoint cannot be taken over")
	taken = n.call(http.MethodPut, "/v1/endpoints/a1", globexOperator, `{"url":"https://evil.example/"}`)
	require.Equal(t, http.StatusConflict, taken.status)
	require.NotContains(t, taken.text, "acme")
	require.Equal(t, http.StatusBadRequest, n.call(http.MethodPut, "/v1/endpoints/g1", globexOperator, `{"tenant":"acme","url":"https://h.example/"}`).status)
	ep, _ := r.table.Get("a1")
	require.Equal(t, "https://h.example/a1", ep.URL)

	for path, want := range map[string]int{"/v1/endpoints": 0, "/v1/endpoints?tenant=acme": 0} {
		require.Len(t, n.call(http.MethodGet, path, globexOperator, "").body["endpoints"], want, path)
	}
	for path, want := range map[string]int{"/v1/endpoints": 1, "/v1/endpoints?tenant=acme": 1, "/v1/endpoints?tenant=globex": 0} {
		require.Len(t, n.call(http.MethodGet, path, admin, "").body["endpoints"], want, path)
	}
	forGlobex := n.call(http.MethodPut, "/v1/endpoints/g2", admin, `{"tenant":"globex","url":"https://h.example/"}`)
	require.Equal(t, "globex", forGlobex.body["tenant"])
	require.Equal(t, http.StatusOK, n.call(http.MethodGet, "/v1/endpoints/g2", globexOperator, "").status)
}

// C-175, C-190, C-191, C-195: the API lets nothing through that the registry refuses, and says which field.
func TestEndpoints_RefusesWhatCannotWork(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	n := serve(t, r.options())
	for body, field := range map[string]string{
		`{"url":"https://127.0.0.1/"}`:                                           "url",
		`{"url":"https://u:PLANTED@h.example/"}`:                                 "url",
		`{"url":"https://h.example/","headers":{"X-A":"PLANTED\r\nX-B: c"}}`:     "headers",
		`{"url":"https://h.example/","headers":{"Webhook-Signature":"PLANTED"}}`: "headers",
		`{"url":"https://h.example/","secret":"whsec_PLANTED"}`:                  "secret",
		`{"url":"https://h.example/","timeout":"31s"}`:                           "timeout",
		`{"url":"https://h.example/","permanent_statuses":[204]}`:                "permanent_statuses",
	} {
		for _, got := range []answer{
			n.call(http.MethodPut, "/v1/endpoints/e1", acmeOperator, body),
			n.call(http.MethodPost, "/v1/endpoints", acmeOperator, body),
		} {
			require.Equal(t, http.StatusBadRequest, got.status, got.text)
			problems, _ := got.body["errors"].([]any)
			require.Len(t, problems, 1, got.text)
			require.Equal(t, field, problems[0].(map[string]any)["field"])
			require.NotContains(t, got.text, "PLANTED")
		}
	}
	for _, body := range []string{
		"", "{", "[]", `{"url":1}`, `{"url":"https://h.example/","nonsense":1}`, `{"url":"https://h.example/"}{}`,
		`{"url":"https://h.example/","timeout":30}`, `{"url":"https://h.example/","timeout":"30"}`, // C-203: no unit
		`{"id":"other","url":"https://h.example/"}`, `{"url":"https://h.example/","max_in_flight":1.5}`,
	} {
		got := n.call(http.MethodPut, "/v1/endpoints/e1", acmeOperator, body)
		require.Equal(t, http.StatusBadRequest, got.status, "%s: %s", body, got.text)
		require.NotEmpty(t, got.body["detail"], body)
	}
	for _, id := range []string{"a%2Fb", "%20", strings.Repeat("a", 129), "a%00"} {
		require.Equal(t, http.StatusBadRequest, n.call(http.MethodPut, "/v1/endpoints/"+id, acmeOperator, `{"url":"https://h.example/"}`).status, id)
		require.Equal(t, http.StatusNotFound, n.call(http.MethodGet, "/v1/endpoints/"+id, acmeOperator, "").status, id)
	}
	big := n.call(http.MethodPut, "/v1/endpoints/e1", acmeOperator, `{"url":"`+strings.Repeat("x", 64<<10)+`"}`)
	require.Equal(t, http.StatusRequestEntityTooLarge, big.status)
	require.Empty(t, r.table.List("", "", 10), "nothing was saved")
}

func TestEndpoints_Pages(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	n := serve(t, r.options())
	for i := range 5 {
		r.put("acme", fmt.Sprint("e", i))
	}
	var seen []string
	after, pages := "", 0
	for {
		page := n.call(http.MethodGet, "/v1/endpoints?limit=2&after="+after, acmeOperator, "")
		require.Equal(t, http.StatusOK, page.status)
		pages++
		for _, ep := range page.body["endpoints"].([]any) {
			seen = append(seen, ep.(map[string]any)["id"].(string))
		}
		next, more := page.body["next"].(string)
		if !more {
			break
		}
		after = next
	}
	require.Equal(t, []string{"e0", "e1", "e2", "e3", "e4"}, seen)
	require.Equal(t, 3, pages)
	for _, limit := range []string{"0", "-1", "1001", "x"} {
		require.Equal(t, http.StatusBadRequest, n.call(http.MethodGet, "/v1/endpoints?limit="+limit, acmeOperator, "").status)
	}
}

func TestAPI_UnknownPathsAndMethods(t *testing.T) {
	t.Parallel()
	n := serve(t, fakes(&fakeLog{}, acme()))
	for _, path := range []string{"/", "/v1", "/v1/", "/v1/endpoints/", "/v1/endpoints/a/b", "/v1/deliveries/a/b", "/v2/deliveries"} {
		require.Equal(t, http.StatusNotFound, n.call(http.MethodGet, path, admin, "").status, path)
	}
	for path, allow := range map[string]string{
		"/v1/deliveries": "POST", "/v1/endpoints": "GET, POST", "/v1/endpoints/e1": "DELETE, GET, PUT", "/v1/endpoints/e1/enable": "POST",
	} {
		got := n.call(http.MethodPatch, path, admin, "{}")
		require.Equal(t, http.StatusMethodNotAllowed, got.status, path)
		require.Equal(t, allow, got.header.Get("Allow"), path)
	}
	require.Equal(t, http.StatusUnauthorized, n.call(http.MethodGet, "/nothing", "", "").status, "nothing is told to strangers")
}
