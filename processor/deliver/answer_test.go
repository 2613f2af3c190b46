package deliver_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/barnabas-webhooks/barnabas/processor/egress"
	"github.com/barnabas-webhooks/barnabas/retry"
	"github.com/barnabas-webhooks/barnabas/schemas"
)

// C-060, C-061, C-064, C-065: the status decides, and nothing else.
func TestAttempt_Statuses(t *testing.T) {
	t.Parallel()
	status := 0
	url := serve(t, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Retry-After", "120")
		w.WriteHeader(status)
		if status != 204 && status != 304 {
			_, _ = io.WriteString(w, "<h1>error</h1>")
		}
	})
	r := newRig(t, options{})
	for s, want := range map[int]retry.Class{
		200: retry.OK, 201: retry.OK, 202: retry.OK, 204: retry.OK, 206: retry.OK, 299: retry.OK,
		300: retry.HTTP3xx, 304: retry.HTTP3xx, 400: retry.HTTP4xx, 401: retry.HTTP4xx, 404: retry.HTTP4xx, 408: retry.HTTP4xx,
		410: retry.Gone, 418: retry.HTTP4xx, 425: retry.HTTP4xx, 429: retry.HTTP429, 500: retry.HTTP5xx, 501: retry.HTTP5xx,
		503: retry.HTTP5xx, 599: retry.HTTP5xx,
	} {
		status = s
		res := r.Attempt(t.Context(), request(url))
		require.Equal(t, want, res.Class, s)
		require.Equal(t, s, res.Status)
		require.True(t, res.Sent)
		require.Positive(t, res.Duration)
		if want == retry.OK {
			require.Empty(t, res.Error)
			require.Zero(t, res.RetryAfter)
			continue
		}
		require.NotEmpty(t, res.Error)
		require.Equal(t, 2*time.Minute, res.RetryAfter)
		if s != 304 {
			require.Equal(t, "<h1>error</h1>", string(res.Excerpt))
		}
	}
}

// C-067: odd status lines are never a success.
func TestAttempt_OddAnswers(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		answer string
		want   retry.Class
		status int
	}{
		"099":                      {"HTTP/1.1 099 Odd\r\nContent-Length: 0\r\n\r\n", retry.InvalidResponse, 99},
		"000":                      {"HTTP/1.1 000 Odd\r\nContent-Length: 0\r\n\r\n", retry.InvalidResponse, 0},
		"600":                      {"HTTP/1.1 600 Odd\r\nContent-Length: 0\r\n\r\n", retry.InvalidResponse, 600},
		"999":                      {"HTTP/1.1 999 Odd\r\nContent-Length: 0\r\n\r\n", retry.InvalidResponse, 999},
		"101":                      {"HTTP/1.1 101 Switching Protocols\r\nConnection: upgrade\r\nUpgrade: x\r\n\r\n", retry.InvalidResponse, 101},
		"2000":                     {"HTTP/1.1 2000 OK\r\n\r\n", retry.InvalidResponse, 0},
		"20":                       {"HTTP/1.1 20 OK\r\n\r\n", retry.InvalidResponse, 0},
		"HTTP/0.9":                 {"<html>ok</html>", retry.InvalidResponse, 0},
		"SSH banner":               {"SSH-2.0-OpenSSH_9.6\r\n", retry.InvalidResponse, 0},
		"two lengths":              {"HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nab", retry.InvalidResponse, 0},
		"unknown transfer coding":  {"HTTP/1.1 200 OK\r\nTransfer-Encoding: odd\r\n\r\n", retry.InvalidResponse, 0},
		"header without colon":     {"HTTP/1.1 200 OK\r\nnonsense\r\n\r\n", retry.InvalidResponse, 0},
		"199 only, then closed":    {"HTTP/1.1 199 Odd\r\n\r\n", retry.Reset, 0},
		"cut in the headers":       {"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n", retry.Reset, 0},
		"nothing":                  {"", retry.Reset, 0},
		"100 unasked, then 200":    {"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n", retry.OK, 200}, // C-049
		"HTTP/1.0":                 {"HTTP/1.0 200 OK\r\n\r\nok", retry.OK, 200},
		"no reason":                {"HTTP/1.1 200\r\nContent-Length: 0\r\n\r\n", retry.OK, 200},
		"body shorter than length": {"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nshort", retry.OK, 200}, // P1
		"broken chunks":            {"HTTP/1.1 500 No\r\nTransfer-Encoding: chunked\r\n\r\nzzz\r\n", retry.HTTP5xx, 500},
		"headers over 64 KiB":      {"HTTP/1.1 200 OK\r\nX-Long: " + strings.Repeat("x", 70<<10) + "\r\n\r\n", retry.InvalidResponse, 0},
	} {
		addr := raw(t, answering(c.answer))
		r := newRig(t, options{})
		res := r.Attempt(t.Context(), request("http://"+addr))
		require.Equal(t, c.want, res.Class, "%s: %s", name, res.Error)
		require.Equal(t, c.status, res.Status, name)
		require.True(t, res.Sent, name)
		require.Equal(t, c.want == retry.OK, res.Error == "", name)
		require.False(t, res.Stale, name)
	}
}

// C-045, C-046: an endless or dripping body holds the slot for the time limit at most, costs the cap at most, and
// does not change the verdict.
func TestAttempt_BodiesWithoutEnd(t *testing.T) {
	t.Parallel()
	fast := func(c net.Conn) {
		chunk := "1000\r\n" + strings.Repeat("x", 0x1000) + "\r\n"
		for {
			if _, err := io.WriteString(c, chunk); err != nil {
				return
			}
		}
	}
	drip := func(c net.Conn) { _, _ = io.WriteString(c, "1\r\nx\r\n"); silent(0, c) }
	for name, c := range map[string]struct {
		status int
		want   retry.Class
		body   func(net.Conn)
		kept   int
	}{
		"fast 200":     {200, retry.OK, fast, 4096},
		"fast 500":     {500, retry.HTTP5xx, fast, 4096},
		"dripping 200": {200, retry.OK, drip, 1},
		"dripping 500": {500, retry.HTTP5xx, drip, 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var sent atomic.Int64
			addr := raw(t, func(_ int, conn net.Conn) {
				if _, _, err := readRequest(bufio.NewReader(conn)); err != nil {
					return
				}
				conn = &metered{Conn: conn, written: &sent}
				_, _ = fmt.Fprintf(conn, "HTTP/1.1 %d X\r\nTransfer-Encoding: chunked\r\n\r\n", c.status)
				c.body(conn)
			})
			r := newRig(t, options{deliver: short})
			res := r.Attempt(t.Context(), request("http://"+addr))
			require.Equal(t, c.want, res.Class, res.Error)
			require.Equal(t, c.status, res.Status)
			require.Len(t, res.Excerpt, c.kept)
			require.EqualValues(t, 1, r.Stats().BodiesCut)
			require.Less(t, sent.Load(), int64(16<<20), "socket buffers at most")
		})
	}
}

// metered counts what is written.
type metered struct {
	net.Conn
	written *atomic.Int64
}

func (m *metered) Write(b []byte) (int, error) {
	n, err := m.Conn.Write(b)
	m.written.Add(int64(n))
	return n, err
}

// A body that is cut off after its status changes nothing, and what a receiver echoes of our secrets is masked.
func TestAttempt_ExcerptMasksEchoes(t *testing.T) {
	t.Parallel()
	url := serve(t, func(w http.ResponseWriter, req *http.Request) {
		w.WriteHeader(http.StatusBadRequest)
		_, _ = fmt.Fprintf(w, "bad request: POST %s auth=%s", req.RequestURI, req.Header.Get("Authorization"))
	})
	r := newRig(t, options{})
	req := request(url + "/services/TOKENPATH?token=TOKENQ")
	req.Endpoint.Headers = []schemas.Header{{Key: "Authorization", Value: []byte("Bearer HEADERSECRET")}}
	res := r.Attempt(t.Context(), req)
	require.Equal(t, "bad request: POST *** auth=***", string(res.Excerpt))
}

// C-049: interim answers without end come to an end.
func TestAttempt_InterimAnswers(t *testing.T) {
	t.Parallel()
	t.Run("flood", func(t *testing.T) {
		t.Parallel()
		var sent atomic.Int64
		addr := raw(t, func(_ int, conn net.Conn) {
			if _, _, err := readRequest(bufio.NewReader(conn)); err != nil {
				return
			}
			conn = &metered{Conn: conn, written: &sent}
			for {
				if _, err := io.WriteString(conn, "HTTP/1.1 103 Early Hints\r\nLink: </x>\r\n\r\n"); err != nil {
					return
				}
			}
		})
		r := newRig(t, options{})
		res := r.Attempt(t.Context(), request("http://"+addr))
		require.Equal(t, retry.InvalidResponse, res.Class, res.Error)
		require.Less(t, sent.Load(), int64(16<<20))
	})
	t.Run("for ever", func(t *testing.T) {
		t.Parallel()
		addr := raw(t, func(_ int, conn net.Conn) {
			if _, _, err := readRequest(bufio.NewReader(conn)); err == nil {
				_, _ = io.WriteString(conn, "HTTP/1.1 102 Processing\r\n\r\n")
				silent(0, conn)
			}
		})
		r := newRig(t, options{deliver: short})
		res := r.Attempt(t.Context(), request("http://"+addr))
		require.Equal(t, retry.Timeout, res.Class, res.Error)
	})
}

// C-051, C-167: one POST to the first receiver, and none to where it points.
func TestAttempt_RedirectsAreNotFollowed(t *testing.T) {
	t.Parallel()
	second := &recorder{}
	other := serve(t, second.ServeHTTP)
	var posts atomic.Int64
	location, status := "", 0
	first := serve(t, func(w http.ResponseWriter, _ *http.Request) {
		posts.Add(1)
		if location != "" {
			w.Header().Set("Location", location)
		}
		w.WriteHeader(status)
	})
	r := newRig(t, options{})
	for _, status = range []int{301, 302, 303, 307, 308} {
		for _, location = range []string{other, first, "http://169.254.169.254/", "http://localhost:1/", "", "http://%zz/", "/x"} {
			before := posts.Load()
			res := r.Attempt(t.Context(), request(first))
			require.Equal(t, retry.HTTP3xx, res.Class)
			require.Equal(t, status, res.Status)
			require.EqualValues(t, 1, posts.Load()-before)
		}
	}
	require.Empty(t, second.heads)
}

// Nothing is decompressed: an answer of a few bytes cannot become a large one.
func TestAttempt_NoTransparentDecompression(t *testing.T) {
	t.Parallel()
	url := serve(t, func(w http.ResponseWriter, req *http.Request) {
		w.Header().Set("Content-Encoding", "gzip")
		_, _ = io.WriteString(w, "not gzip at all"+req.Header.Get("Accept-Encoding"))
	})
	res := newRig(t, options{}).Attempt(t.Context(), request(url))
	require.Equal(t, retry.OK, res.Class)
	require.Equal(t, "not gzip at all", string(res.Excerpt))
}

// C-217: neither preparing nor connecting is the receiver's time.
func TestAttempt_DurationIsTheReceivers(t *testing.T) {
	t.Parallel()
	const slow = 100 * time.Millisecond
	least := make(chan time.Duration, 1)
	url := serve(t, func(http.ResponseWriter, *http.Request) {
		begin := time.Now()
		<-time.After(slow)
		least <- time.Since(begin)
	})
	var connecting time.Duration
	r := newRig(t, options{network: egress.Network{Dial: func(ctx context.Context, n, a string) (net.Conn, error) {
		begin := time.Now()
		<-time.After(slow)
		connecting = time.Since(begin)
		return (&net.Dialer{}).DialContext(ctx, n, a)
	}}})
	begin := time.Now()
	res := r.Attempt(t.Context(), request(url))
	all := time.Since(begin)
	require.Equal(t, retry.OK, res.Class)
	require.GreaterOrEqual(t, res.Duration, <-least)
	require.LessOrEqual(t, res.Duration, all-connecting)
	require.False(t, res.StartedAt.Before(begin))
}
