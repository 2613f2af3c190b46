package deliver_test

import (
	"bufio"
	"crypto/tls"
	"io"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/barnabas-webhooks/barnabas/processor/deliver"
	"github.com/barnabas-webhooks/barnabas/retry"
)

// okAnswer is a whole answer that keeps the connection.
const okAnswer = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"

// C-040: the receiver closes a kept connection at the moment the next POST arrives. That POST may have been
// processed: it is not repeated in silence, costs one retry, and is told apart from an outage.
func TestAttempt_StaleKeepAlive(t *testing.T) {
	t.Parallel()
	var posts atomic.Int64
	addr := raw(t, func(_ int, c net.Conn) {
		br := bufio.NewReader(c)
		for i := range 2 {
			if _, _, err := readRequest(br); err != nil {
				return
			}
			posts.Add(1)
			if i == 0 {
				_, _ = io.WriteString(c, okAnswer)
			} // the second is read and the connection closed
		}
	})
	r := newRig(t, options{})
	req := request("http://" + addr)
	require.Equal(t, retry.OK, r.Attempt(t.Context(), req).Class)
	res := r.Attempt(t.Context(), req)
	require.Equal(t, retry.Reset, res.Class, res.Error)
	require.True(t, res.Stale)
	require.True(t, res.Sent)
	require.EqualValues(t, 2, posts.Load(), "no third POST behind our back")
	require.Equal(t, retry.OK, r.Attempt(t.Context(), req).Class, "the next try dials anew")
	stats := r.Stats()
	require.EqualValues(t, 1, stats.StaleConns)
	require.EqualValues(t, 1, stats.ConnsReused)
	require.EqualValues(t, 2, stats.ConnsOpened)
}

// A connection that the receiver closed before we wrote anything costs nothing: net/http dials again.
func TestAttempt_ClosedWhileIdle(t *testing.T) {
	t.Parallel()
	closed := make(chan struct{}, 16)
	addr := raw(t, func(_ int, c net.Conn) {
		if _, _, err := readRequest(bufio.NewReader(c)); err == nil {
			_, _ = io.WriteString(c, okAnswer)
		}
		_ = c.Close()
		closed <- struct{}{}
	})
	r := newRig(t, options{})
	for range 5 {
		res := r.Attempt(t.Context(), request("http://"+addr))
		if res.Class != retry.OK { // the close was still on its way: then it is the case above
			require.True(t, res.Stale, res.Error)
			continue
		}
		<-closed // one connection for each answer
	}
}

// C-044: peers that say nothing, or nonsense. Each attempt ends within its limits, with a reason.
func TestAttempt_PeersThatAreNoReceivers(t *testing.T) {
	t.Parallel()
	cert, ca := authority(t)
	junk := func(_ int, c net.Conn) {
		_, _ = c.Write([]byte{0x13, 0x37, 0x42, 0x99, 0x01, 0x02, 0x03, 0x04, 0x05, 0xff, 0xee, 0xdd, 0xcc, 0xbb})
		silent(0, c)
	}
	never := func(_ int, c net.Conn) { // the receive window fills
		if tc, ok := c.(*tls.Conn); ok {
			c = tc.NetConn()
		}
		_ = c.(*net.TCPConn).SetReadBuffer(4096)
		for { // until the rig closes it
			if _, err := c.Write(nil); err != nil {
				return
			}
			<-time.After(10 * time.Millisecond)
		}
	}
	// Junk that comes unasked may be read before or after our request is under way.
	broken := []retry.Class{retry.InvalidResponse, retry.Reset}
	cases := map[string]struct {
		scheme string
		script func(int, net.Conn)
		big    bool
		want   []retry.Class
	}{
		"TCP then silence":           {"http", silent, false, []retry.Class{retry.Timeout}},
		"TCP then silence, https":    {"https", silent, false, []retry.Class{retry.Timeout}},
		"never reads":                {"http", never, true, []retry.Class{retry.Timeout}},
		"SSH to http":                {"http", banner, false, broken},
		"SSH to https":               {"https", banner, false, []retry.Class{retry.TLS}},
		"HTTP to https":              {"https", answeringAtOnce(okAnswer), false, []retry.Class{retry.TLS}},
		"closes at once":             {"http", func(int, net.Conn) {}, false, []retry.Class{retry.Reset}},
		"closes at once, https":      {"https", func(int, net.Conn) {}, false, []retry.Class{retry.TLS, retry.Reset}},
		"resets":                     {"http", reset, false, []retry.Class{retry.Reset}},
		"resets, https":              {"https", reset, false, []retry.Class{retry.Reset}},
		"TLS then silence":           {"https", overTLS(cert, nil, silent), false, []retry.Class{retry.Timeout}},
		"TLS then SSH":               {"https", overTLS(cert, nil, banner), false, broken},
		"h2 then silence":            {"https", overTLS(cert, []string{"h2"}, silent), false, []retry.Class{retry.Timeout}},
		"h2 then junk":               {"https", overTLS(cert, []string{"h2"}, junk), false, broken},
		"h2 then SSH":                {"https", overTLS(cert, []string{"h2"}, banner), false, broken},
		"h2 then HTTP/1":             {"https", overTLS(cert, []string{"h2"}, answeringAtOnce(okAnswer)), false, broken},
		"h2 then closes":             {"https", overTLS(cert, []string{"h2"}, func(int, net.Conn) {}), false, broken},
		"h2 never reads, large body": {"https", overTLS(cert, []string{"h2"}, never), true, []retry.Class{retry.Timeout}},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			addr := raw(t, c.script)
			r := newRig(t, options{deliver: trusting(ca, short)})
			req := request(c.scheme + "://" + addr)
			if c.big {
				req.Delivery.Payload = make([]byte, 8<<20)
			}
			res := r.Attempt(t.Context(), req)
			require.Contains(t, c.want, res.Class, res.Error)
			require.NotEmpty(t, res.Error)
			require.Zero(t, res.Status)
			require.False(t, res.Stale)
		})
	}
}

func banner(_ int, c net.Conn) {
	_, _ = io.WriteString(c, "SSH-2.0-OpenSSH_9.6\r\n")
	silent(0, c)
}

// answeringAtOnce does not wait for a request.
func answeringAtOnce(text string) func(int, net.Conn) {
	return func(_ int, c net.Conn) {
		_, _ = io.WriteString(c, text)
		silent(0, c)
	}
}

// reset closes with RST.
func reset(_ int, c net.Conn) {
	var b [1]byte
	_, _ = c.Read(b[:])
	_ = c.(*net.TCPConn).SetLinger(0)
	_ = c.Close()
}

// C-050: connections are reused, and given back when they are idle.
func TestAttempt_ReusesConnections(t *testing.T) {
	t.Parallel()
	body := make([]byte, 2<<10)
	url := serve(t, func(w http.ResponseWriter, req *http.Request) {
		_, _ = io.Copy(io.Discard, req.Body)
		_, _ = w.Write(body)
	})
	r := newRig(t, options{})
	const workers, each = 20, 50
	var wg sync.WaitGroup
	for range workers {
		wg.Go(func() {
			for range each {
				if res := r.Attempt(t.Context(), request(url)); res.Class != retry.OK {
					t.Error(res.Error)
				}
			}
		})
	}
	wg.Wait()
	stats := r.Stats()
	require.LessOrEqual(t, stats.ConnsOpened, int64(2*workers))
	require.Zero(t, stats.InFlight)
	require.Zero(t, stats.BodiesCut)
	r.Close()
	require.Eventually(t, func() bool { return r.Stats().OpenConns == 0 }, 5*time.Second, time.Millisecond)
}

// Connections are not kept longer than their age: addresses behind a name move.
func TestAttempt_ConnectionsAge(t *testing.T) {
	t.Parallel()
	url := serve(t, func(http.ResponseWriter, *http.Request) {})
	r := newRig(t, options{deliver: func(c *deliver.Config) { c.MaxConnAge = time.Nanosecond }})
	for range 3 {
		require.Equal(t, retry.OK, r.Attempt(t.Context(), request(url)).Class)
	}
	stats := r.Stats()
	require.EqualValues(t, 3, stats.ConnsOpened)
	require.EqualValues(t, 2, stats.PoolsRetired)
	r.Close()
	require.Eventually(t, func() bool { return r.Stats().OpenConns == 0 }, 5*time.Second, time.Millisecond,
		"retired pools close what they had")
}

// C-055: after a receiver died in mid-connection, the next attempt after its return succeeds by itself.
func TestAttempt_RecoversAfterACut(t *testing.T) {
	t.Parallel()
	var dead atomic.Bool
	addr := raw(t, func(_ int, c net.Conn) {
		br := bufio.NewReader(c)
		for {
			if _, _, err := readRequest(br); err != nil {
				return
			}
			if dead.Load() {
				_ = c.(*net.TCPConn).SetLinger(0)
				return
			}
			_, _ = io.WriteString(c, okAnswer)
		}
	})
	r := newRig(t, options{})
	req := request("http://" + addr)
	require.Equal(t, retry.OK, r.Attempt(t.Context(), req).Class)
	dead.Store(true)
	for _, stale := range []bool{true, false} { // on the kept connection, then on a new one
		res := r.Attempt(t.Context(), req)
		require.Equal(t, retry.Reset, res.Class, res.Error)
		require.Equal(t, stale, res.Stale)
	}
	dead.Store(false)
	require.Equal(t, retry.OK, r.Attempt(t.Context(), req).Class)
}
