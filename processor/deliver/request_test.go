package deliver_test

import (
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	reference "github.com/standard-webhooks/standard-webhooks/libraries/go"
	"github.com/stretchr/testify/require"

	"github.com/barnabas-webhooks/barnabas/processor/deliver"
	"github.com/barnabas-webhooks/barnabas/processor/endpoint"
	"github.com/barnabas-webhooks/barnabas/processor/sign"
	"github.com/barnabas-webhooks/barnabas/retry"
	"github.com/barnabas-webhooks/barnabas/schemas"
)

// recorder keeps every request that a receiver got.
type recorder struct {
	mu     sync.Mutex
	heads  []*http.Request
	bodies [][]byte
}

func (r *recorder) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	body, _ := io.ReadAll(req.Body)
	r.mu.Lock()
	defer r.mu.Unlock()
	r.heads = append(r.heads, req)
	r.bodies = append(r.bodies, body)
	w.WriteHeader(http.StatusOK)
}

func (r *recorder) last(t *testing.T) (*http.Request, []byte) {
	t.Helper()
	r.mu.Lock()
	defer r.mu.Unlock()
	require.NotEmpty(t, r.heads)
	return r.heads[len(r.heads)-1], r.bodies[len(r.bodies)-1]
}

// C-020, C-022, C-025: the bytes that arrive are those of the delivery, and the signature is over them.
func TestAttempt_BodyArrivesByteForByte(t *testing.T) {
	t.Parallel()
	got := &recorder{}
	url := serve(t, got.ServeHTTP)
	r := newRig(t, options{})
	wh, err := reference.NewWebhookRaw(key())
	require.NoError(t, err)
	for _, body := range []string{
		"", "\n", "{}\n", "{}   ", "{\r\n}\r\n", `{"b":1,"a":{},"b":2}`, `{"n":9007199254740993,"x":1E400}`,
		"\x00\xff\xfe", "{\"a\":\"\u2028 \U0001F4A9 <>& \\/ \\u0041\"}", strings.Repeat("x", 900_000),
	} {
		req := request(url + "/hook")
		req.Delivery.Payload = []byte(body)
		res := r.Attempt(t.Context(), req)
		require.Equal(t, retry.OK, res.Class, res.Error)
		head, arrived := got.last(t)
		require.Equal(t, body, string(arrived))
		require.EqualValues(t, len(body), head.ContentLength)
		require.NoError(t, wh.Verify(arrived, head.Header))
		require.Empty(t, head.TransferEncoding)
	}
}

// C-027: the same header names each time; only timestamp, signature and counter differ. C-035: whole seconds.
func TestAttempt_HeadersOfEachAttempt(t *testing.T) {
	t.Parallel()
	got := &recorder{}
	url := serve(t, got.ServeHTTP)
	r := newRig(t, options{})
	req := request(url)
	req.Endpoint.Headers = []schemas.Header{{Key: "X-Custom", Value: []byte("a b")}, {Key: "authorization", Value: []byte("Bearer t")}}
	req.Delivery.TraceParent = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
	req.Delivery.TraceState = "vendor=value"

	var heads []http.Header
	for n := 1; n <= 3; n++ {
		req.Number = n
		require.Equal(t, retry.OK, r.Attempt(t.Context(), req).Class)
		head, _ := got.last(t)
		heads = append(heads, head.Header)
	}
	want := map[string]string{
		"Webhook-Id": "dlv_1", "Content-Type": "application/json", "User-Agent": "Barnabas/test",
		"Barnabas-Event-Type": "invoice.paid", "Barnabas-Attempt": "3", "X-Custom": "a b", "Authorization": "Bearer t",
		"Traceparent": req.Delivery.TraceParent, "Tracestate": "vendor=value", "Content-Length": "7",
		"Webhook-Timestamp": "", "Webhook-Signature": "",
	}
	for name, value := range want {
		require.Len(t, heads[2][name], 1, name)
		if value != "" {
			require.Equal(t, value, heads[2].Get(name))
		}
	}
	require.Len(t, heads[2], len(want), "nothing else is sent: %v", heads[2])
	require.Regexp(t, `^[0-9]{10}$`, heads[2].Get("webhook-timestamp"))
	for _, h := range heads[:2] {
		for name := range h {
			if name != "Webhook-Timestamp" && name != "Webhook-Signature" && name != "Barnabas-Attempt" {
				require.Equal(t, heads[2][name], h[name], name)
			}
		}
		require.Len(t, h, len(want))
	}
}

// C-029: in the overlap both keys sign, newest first; an expired one does not.
func TestAttempt_SignsWithActiveKeys(t *testing.T) {
	t.Parallel()
	got := &recorder{}
	url := serve(t, got.ServeHTTP)
	r := newRig(t, options{})
	req := request(url)
	other, old := []byte(strings.Repeat("o", 32)), []byte(strings.Repeat("e", 32))
	req.Endpoint.Keys = []endpoint.Key{
		{Secret: key()}, {Secret: other, ExpiresAt: time.Now().Add(time.Hour)}, {Secret: old, ExpiresAt: time.Now().Add(-time.Second)},
	}
	require.Equal(t, retry.OK, r.Attempt(t.Context(), req).Class)
	head, body := got.last(t)
	require.Len(t, strings.Fields(head.Header.Get(sign.HeaderSignature)), 2)
	for _, k := range [][]byte{key(), other} {
		require.NoError(t, sign.Verify(head.Header, body, [][]byte{k}, time.Now(), 0))
	}
	require.ErrorIs(t, sign.Verify(head.Header, body, [][]byte{old}, time.Now(), 0), sign.ErrSignature)
}

func TestAttempt_OddEventsAreEncodedOrLeftOut(t *testing.T) {
	t.Parallel()
	got := &recorder{}
	url := serve(t, got.ServeHTTP)
	r := newRig(t, options{})
	req := request(url)
	req.Delivery.EventType = "a b\r\nX-Injected: 1 \u00e4%"
	req.Delivery.ContentType = ""
	req.Delivery.TraceParent = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01\r\nx: y"
	req.Delivery.TraceState = "v=1"
	require.Equal(t, retry.OK, r.Attempt(t.Context(), req).Class)
	head, _ := got.last(t)
	require.Equal(t, "a%20b%0D%0AX-Injected:%201%20%C3%A4%25", head.Header.Get(deliver.HeaderEventType))
	require.Equal(t, "application/json", head.Header.Get("Content-Type"))
	for _, absent := range []string{"X-Injected", "Traceparent", "Tracestate", "X"} {
		require.Empty(t, head.Header.Values(absent), absent)
	}
}

// C-202: path and query go out as they were given.
func TestAttempt_RequestsTheURLUnchanged(t *testing.T) {
	t.Parallel()
	got := &recorder{}
	url := serve(t, got.ServeHTTP)
	r := newRig(t, options{})
	for _, target := range []string{"/a%2Fb", "/a%2fb", "/a/../b", "//x", "/?a=%zz&a=2", "/x?", "/;p=$'()*,"} {
		require.Equal(t, retry.OK, r.Attempt(t.Context(), request(url+target)).Class, target)
		head, _ := got.last(t)
		require.Equal(t, target, head.RequestURI)
	}
}

// C-096, C-190: what cannot be built is a failed attempt with a clear reason, and nothing is sent.
func TestAttempt_BuildFailures(t *testing.T) {
	t.Parallel()
	got := &recorder{}
	url := serve(t, got.ServeHTTP)
	r := newRig(t, options{})
	cases := map[string]struct {
		change func(*deliver.Request)
		reason string
	}{
		"no endpoint":       {func(r *deliver.Request) { r.Endpoint = nil }, "no configuration"},
		"no keys":           {func(r *deliver.Request) { r.Endpoint.Keys = nil }, "signing secret"},
		"expired keys":      {func(r *deliver.Request) { r.Endpoint.Keys[0].ExpiresAt = time.Now().Add(-time.Hour) }, "signing secret"},
		"no URL":            {func(r *deliver.Request) { r.Endpoint.URL = "" }, "bad endpoint URL"},
		"broken URL":        {func(r *deliver.Request) { r.Endpoint.URL = "http://host/TOKENPATH%zz" }, "bad endpoint URL"},
		"user info":         {func(r *deliver.Request) { r.Endpoint.URL = "http://u:PASSWORD@localhost/" }, "user name"},
		"content type":      {func(r *deliver.Request) { r.Delivery.ContentType = "a\r\nb: c" }, "content type"},
		"no id":             {func(r *deliver.Request) { r.Delivery.ID = "" }, "delivery id"},
		"bad id":            {func(r *deliver.Request) { r.Delivery.ID = "a\nb" }, "delivery id"},
		"endless type":      {func(r *deliver.Request) { r.Delivery.EventType = strings.Repeat("x", 5000) }, "event type"},
		"injecting header":  {custom("X-A", "HEADERSECRET\r\nX-B: 1"), `"X-A" has a value`},
		"reserved header":   {custom("Webhook-Id", "HEADERSECRET"), "is reserved"},
		"header with colon": {custom("X:A", "HEADERSECRET"), "character in its name"},
	}
	for name, c := range cases {
		req := request(url + "/TOKENPATH?TOKENQ")
		c.change(&req)
		res := r.Attempt(t.Context(), req)
		require.Equal(t, retry.Build, res.Class, name)
		require.Contains(t, res.Error, c.reason, name)
		require.False(t, res.Sent, name)
		require.Zero(t, res.Duration, name)
		planted(t, res.Error)
	}
	require.Empty(t, got.heads)
}

func custom(name, value string) func(*deliver.Request) {
	return func(r *deliver.Request) { r.Endpoint.Headers = []schemas.Header{{Key: name, Value: []byte(value)}} }
}

// C-190, C-191.
func TestValidateHeaders(t *testing.T) {
	t.Parallel()
	good := []schemas.Header{
		{Key: "Authorization", Value: []byte("Bearer x.y-z_1/+=")},
		{Key: "X-Api-Key", Value: []byte("k")},
		{Key: "x-empty", Value: nil},
		{Key: "X-Inner", Value: []byte("a b\tc")},
		{Key: "Accept", Value: []byte("*/*")},
	}
	require.NoError(t, deliver.ValidateHeaders(good))
	require.NoError(t, deliver.ValidateHeaders(nil))

	one := func(k, v string) []schemas.Header { return []schemas.Header{{Key: k, Value: []byte(v)}} }
	for name, headers := range map[string][]schemas.Header{
		"CRLF": one("X", "HEADERSECRET\r\n"), "LF inside": one("X", "a\nHEADERSECRET"), "NUL": one("X", "HEADERSECRET\x00"),
		"leading space": one("X", " HEADERSECRET"), "trailing space": one("X", "HEADERSECRET "), "trailing tab": one("X", "v\t"),
		"100 KB": one("X", strings.Repeat("HEADERSECRET", 9000)), "non-ASCII": one("X", "HEADERSECRETä"), "DEL": one("X", "a\x7f"),
		"name with space": one("X Y", "v"), "name with colon": one("X:", "v"), "empty name": one("", "v"),
		"1000 characters": one(strings.Repeat("x", 1000), "v"), "non-ASCII name": one("Xä", "v"), "name with CRLF": one("X\r\nY", "v"),
		"1000 headers": make([]schemas.Header, 1000),
		"twice":        {{Key: "X-A", Value: []byte("1")}, {Key: "x-a", Value: []byte("2")}},
		"too much together": {
			{Key: "A", Value: []byte(strings.Repeat("v", 4096))},
			{Key: "B", Value: []byte(strings.Repeat("v", 4096))},
			{Key: "C", Value: []byte(strings.Repeat("v", 4096))},
			{Key: "D", Value: []byte(strings.Repeat("v", 4096))},
		},
	} {
		err := deliver.ValidateHeaders(headers)
		require.ErrorIs(t, err, deliver.ErrHeaders, name)
		planted(t, err.Error())
		require.Less(t, len(err.Error()), 1000, name)
	}
	err := deliver.ValidateHeaders([]schemas.Header{{Key: "X-A", Value: []byte("\n")}, {Key: "Host", Value: []byte("h")}})
	require.ErrorContains(t, err, "X-A")
	require.ErrorContains(t, err, "Host", "all problems at once")
	var joined interface{ Unwrap() []error }
	require.ErrorAs(t, err, &joined)
}

// C-191: in any letter case.
func TestIsReservedHeader(t *testing.T) {
	t.Parallel()
	for _, name := range []string{
		"webhook-id", "webhook-timestamp", "webhook-signature", "content-type", "content-length", "host",
		"transfer-encoding", "connection", "te", "trailer", "expect", "user-agent", "upgrade", "keep-alive", "proxy-authorization",
		"barnabas-attempt", "barnabas-event-type", "webhook-anything", "traceparent", "tracestate",
		"idempotency-key", "x-idempotency-key", // net/http would repeat POSTs by them
	} {
		require.True(t, deliver.IsReservedHeader(name), name)
		require.True(t, deliver.IsReservedHeader(strings.ToUpper(name)), name)
		require.True(t, deliver.IsReservedHeader(http.CanonicalHeaderKey(name)), name)
	}
	for _, name := range []string{"authorization", "x-api-key", "accept", "cookie", "x-webhook-id"} {
		require.False(t, deliver.IsReservedHeader(name), name)
	}
}
