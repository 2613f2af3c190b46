package listen_test

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/barnabas-webhooks/barnabas/internal/listen"
	"github.com/barnabas-webhooks/barnabas/processor/deliver"
	"github.com/barnabas-webhooks/barnabas/processor/sign"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const secret = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"

// post hands one signed delivery to the receiver and gives the status of the answer.
func post(t *testing.T, r *listen.Receiver, id, body string, change ...func(*http.Request)) int {
	t.Helper()
	key, err := sign.ParseSecret(secret)
	require.NoError(t, err)
	now := time.Now()
	req := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/hook", strings.NewReader(body))
	req.Header.Set(sign.HeaderID, id)
	req.Header.Set(sign.HeaderTimestamp, sign.Timestamp(now))
	req.Header.Set(sign.HeaderSignature, sign.Sign(id, now, []byte(body), [][]byte{key}))
	req.Header.Set(deliver.HeaderAttempt, "2")
	req.Header.Set(deliver.HeaderEventType, "invoice.paid")
	for _, c := range change {
		c(req)
	}
	w := httptest.NewRecorder()
	r.ServeHTTP(w, req)
	return w.Code
}

func receiver(t *testing.T, o listen.Options) *listen.Receiver {
	t.Helper()
	r, err := listen.New(o)
	require.NoError(t, err)
	return r
}

func TestReceiver_VerifiesAndCounts(t *testing.T) {
	t.Parallel()
	r := receiver(t, listen.Options{Secrets: []string{sign.NewSecret(bytes.NewReader(make([]byte, 32))), secret}})
	require.Equal(t, 200, post(t, r, "a", "{}"))
	require.Equal(t, 200, post(t, r, "a", "{}"))
	require.Equal(t, 200, post(t, r, "b", "{}"))
	require.Equal(t, 401, post(t, r, "c", "{}", func(q *http.Request) { q.Header.Set(sign.HeaderID, "d") }))
	require.Equal(t, 401, post(t, r, "c", "{}", func(q *http.Request) { q.Header.Del(sign.HeaderSignature) }))
	require.Equal(t, 401, post(t, r, "c", "{}", func(q *http.Request) { q.Body = io.NopCloser(strings.NewReader("{} ")) }))
	require.Equal(t, 405, post(t, r, "c", "", func(q *http.Request) { q.Method = http.MethodGet }))
	require.Equal(t, listen.Stats{Requests: 7, Distinct: 2, Delivered: 2, Repeats: 1, Failed: 4, Unverified: 3}, r.Stats())
	require.Equal(t, map[string]int{"a": 2, "b": 1}, r.Delivered())
}

func TestReceiver_FailsAsTold(t *testing.T) {
	t.Parallel()
	r := receiver(t, listen.Options{FailFirst: 2, Status: 202})
	for _, want := range []int{500, 500, 202, 202} {
		require.Equal(t, want, post(t, r, "a", "x"))
	}
	require.Equal(t, 500, post(t, r, "b", "x"), "each id fails anew")
	require.Equal(t, listen.Stats{Requests: 5, Distinct: 2, Delivered: 1, Repeats: 1, Failed: 3}, r.Stats())

	r = receiver(t, listen.Options{Status: 503})
	require.Equal(t, 503, post(t, r, "a", "x"))
	r.Answer(200)
	require.Equal(t, 200, post(t, r, "a", "x"))
	require.Panics(t, func() { r.Answer(100) })
}

func TestReceiver_FailFirstIsExactInParallel(t *testing.T) {
	t.Parallel()
	r := receiver(t, listen.Options{FailFirst: 10})
	var wg sync.WaitGroup
	for range 30 {
		wg.Go(func() { post(t, r, "a", "x") })
	}
	wg.Wait()
	require.Equal(t, listen.Stats{Requests: 30, Distinct: 1, Delivered: 1, Repeats: 19, Failed: 10}, r.Stats())
}

func TestReceiver_PrintsOneLine(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	r := receiver(t, listen.Options{Out: &out, Secrets: []string{secret}, Body: true})
	post(t, r, "dlv_1", "{\"a\":1}\n\x1b[31mred")
	require.Regexp(t, `^\d\d:\d\d:\d\d\.\d{3}  200  dlv_1  invoice\.paid  attempt 2  verified  16 bytes\n    \{"a":1\}\n    "\\x1b\[31mred"\n$`,
		out.String())
	out.Reset()
	post(t, r, "dlv_1\x1b[2J", "", func(q *http.Request) {
		q.Header.Del(deliver.HeaderEventType)
		q.Header.Del(deliver.HeaderAttempt)
		q.Header.Del(sign.HeaderTimestamp)
	})
	require.Contains(t, out.String(), `401  "dlv_1\x1b[2J"  -  attempt ?  NOT VERIFIED (webhook headers are missing or malformed)  0 bytes`)
	require.NotContains(t, out.String(), "\x1b")
	out.Reset()
	post(t, r, "dlv_1", "\xff\xfe")
	require.Contains(t, out.String(), "repeat\n    (2 bytes that are not text)\n")

	out.Reset()
	plain := receiver(t, listen.Options{Out: &out})
	post(t, plain, strings.Repeat("x", 500), "secret body")
	require.Contains(t, out.String(), "not checked")
	require.NotContains(t, out.String(), "secret body")
	require.Less(t, out.Len(), 300)
}

func TestReceiver_PrintsJSON(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	r := receiver(t, listen.Options{Out: &out, JSON: true, Body: true, Secrets: []string{secret}})
	post(t, r, "dlv_1", `{"a":1}`)
	post(t, r, "dlv_2", "\xff")
	lines := strings.Split(strings.TrimSpace(out.String()), "\n")
	require.Len(t, lines, 2)
	var got map[string]any
	require.NoError(t, json.Unmarshal([]byte(lines[0]), &got))
	delete(got, "at")
	require.Equal(t, map[string]any{
		"delivery_id": "dlv_1", "event_type": "invoice.paid", "attempt": 2.0, "verified": true, "size": 7.0, "status": 200.0,
		"repeat": false, "body": `{"a":1}`,
	}, got)
	require.NoError(t, json.Unmarshal([]byte(lines[1]), &got))
	require.Equal(t, "/w==", got["body_base64"])
}

func TestReceiver_RequestsWithoutIDAreShown(t *testing.T) {
	t.Parallel()
	var seen []listen.Request
	r := receiver(t, listen.Options{OnRequest: func(q listen.Request) { seen = append(seen, q) }})
	require.Equal(t, 200, post(t, r, "x", "b", func(q *http.Request) { q.Header = http.Header{} }))
	require.Equal(t, listen.Stats{Requests: 1}, r.Stats())
	require.Len(t, seen, 1)
	require.Equal(t, "b", string(seen[0].Body))
}

func TestReceiver_BodyLimit(t *testing.T) {
	t.Parallel()
	r := receiver(t, listen.Options{})
	require.Equal(t, 413, post(t, r, "a", "", func(q *http.Request) { q.Body = io.NopCloser(zeros{}) }))
	require.Equal(t, listen.Stats{Requests: 1, Failed: 1}, r.Stats())
}

// zeros is a body without end.
type zeros struct{}

func (zeros) Read(p []byte) (int, error) { return len(p), nil }

func TestReceiver_Delay(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := receiver(t, listen.Options{Delay: 30 * time.Second})
		begin := time.Now()
		require.Equal(t, 200, post(t, r, "a", "x"))
		require.Equal(t, 30*time.Second, time.Since(begin))

		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		begin = time.Now()
		post(t, r, "b", "x", func(q *http.Request) { *q = *q.WithContext(ctx) })
		require.Zero(t, time.Since(begin), "a sender that is gone is not waited for")
	})
}

func TestNew_RefusesBadOptions(t *testing.T) {
	t.Parallel()
	_, err := listen.New(listen.Options{
		Secrets: []string{"whsec_short", secret}, Status: 600, Delay: time.Hour, FailFirst: -1, Tolerance: -1,
	})
	for _, part := range []string{"secret 1", "status 600", "delay 1h", "fail-first -1", "tolerance"} {
		require.ErrorContains(t, err, part)
	}
	require.NotContains(t, err.Error(), "secret 2")
	_, err = listen.New(listen.Options{Status: 101})
	require.Error(t, err)
}

func TestRun_ServesUntilToldToEnd(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	addr := make(chan string, 1)
	done := make(chan error, 1)
	entered := make(chan struct{}, 1)
	go func() {
		done <- listen.Run(ctx, listen.Options{
			Addr: "127.0.0.1:0", Ready: func(a string) { addr <- a }, Delay: 50 * time.Millisecond,
			OnRequest: func(listen.Request) { entered <- struct{}{} },
		})
	}()
	url := "http://" + <-addr
	status := make(chan int, 1)
	go func() {
		req, err := http.NewRequestWithContext(context.WithoutCancel(ctx), http.MethodPost, url, strings.NewReader("x"))
		if err != nil {
			status <- 0
			return
		}
		resp, err := (&http.Transport{DisableKeepAlives: true}).RoundTrip(req)
		if err != nil {
			status <- 0
			return
		}
		_ = resp.Body.Close()
		status <- resp.StatusCode
	}()
	<-entered
	cancel() // an answer under way is finished
	require.Equal(t, 200, <-status)
	require.NoError(t, <-done)

	require.Error(t, listen.Run(t.Context(), listen.Options{Addr: "not an address"}))
	require.Error(t, listen.Run(t.Context(), listen.Options{Status: 1}))
}
