package deliver_test

import (
	"crypto/tls"
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/barnabas-webhooks/barnabas/processor/deliver"
	"github.com/barnabas-webhooks/barnabas/retry"
	"github.com/barnabas-webhooks/barnabas/schemas"
)

// Frame types and codes of RFC 9113 that the scripts use.
const (
	frameData, frameHeaders, frameReset, frameSettings, framePing, frameGoAway = 0, 1, 3, 4, 6, 7
	flagEnd, flagAck, flagEndHeaders                                           = 1, 1, 4
	codeNo, codeProtocol, codeRefused                                          = 0, 1, 7
)

// h2peer is a scripted HTTP/2 receiver on one connection: just enough to answer, refuse and go away.
type h2peer struct {
	net.Conn
	body []byte // of the request that is being read
}

func (p *h2peer) frame(kind, flags byte, stream uint32, payload []byte) {
	head := make([]byte, 9, 9+len(payload))
	head[0], head[1], head[2] = byte(len(payload)>>16), byte(len(payload)>>8), byte(len(payload))
	head[3], head[4] = kind, flags
	binary.BigEndian.PutUint32(head[5:], stream)
	_, _ = p.Write(append(head, payload...))
}

// start does the preface and settings.
func (p *h2peer) start() bool {
	var preface [24]byte
	if _, err := io.ReadFull(p, preface[:]); err != nil {
		return false
	}
	p.frame(frameSettings, 0, 0, nil)
	return true
}

// next reads until a request is whole, or until its headers are there if early. It gives the stream, 0 at the end.
func (p *h2peer) next(early bool) uint32 {
	p.body = nil
	for {
		var head [9]byte
		if _, err := io.ReadFull(p, head[:]); err != nil {
			return 0
		}
		payload := make([]byte, int(head[0])<<16|int(head[1])<<8|int(head[2]))
		if _, err := io.ReadFull(p, payload); err != nil {
			return 0
		}
		stream := binary.BigEndian.Uint32(head[5:])
		switch head[3] {
		case frameSettings:
			if head[4]&flagAck == 0 {
				p.frame(frameSettings, flagAck, 0, nil)
			}
		case framePing:
			if head[4]&flagAck == 0 {
				p.frame(framePing, flagAck, 0, payload)
			}
		case frameData:
			p.body = append(p.body, payload...)
			if head[4]&flagEnd != 0 {
				return stream
			}
		case frameHeaders:
			if early {
				return stream
			}
		}
	}
}

// ok answers 200 without a body.
func (p *h2peer) ok(stream uint32) {
	p.frame(frameHeaders, flagEnd|flagEndHeaders, stream, []byte{0x88}) // HPACK: :status 200
}

func (p *h2peer) rst(stream, code uint32) {
	p.frame(frameReset, 0, stream, binary.BigEndian.AppendUint32(nil, code))
}

func (p *h2peer) goAway(last uint32) {
	p.frame(frameGoAway, 0, 0, binary.BigEndian.AppendUint32(binary.BigEndian.AppendUint32(nil, last), codeNo))
}

// C-043: what an HTTP/2 receiver may do to a request in the middle. The body arrives whole or not at all, and a
// request that may have been processed is not sent again within the attempt.
func TestAttempt_HTTP2Refusals(t *testing.T) {
	t.Parallel()
	cert, ca := authority(t)
	cases := map[string]struct {
		script func(n int, p *h2peer, whole func())
		want   retry.Class
		posts  int // bodies read to the end
	}{
		"goes away before the body": {func(n int, p *h2peer, whole func()) {
			if stream := p.next(n == 0); n == 0 {
				p.goAway(0)
			} else {
				whole()
				p.ok(stream)
			}
		}, retry.OK, 1},
		"goes away after the body, unprocessed": {func(n int, p *h2peer, whole func()) {
			stream := p.next(false)
			whole()
			if n == 0 {
				p.goAway(0)
			} else {
				p.ok(stream)
			}
		}, retry.OK, 2},
		"goes away after the body, perhaps processed": {func(_ int, p *h2peer, whole func()) {
			stream := p.next(false)
			whole()
			p.goAway(stream)
			_ = p.Close()
		}, retry.Reset, 1},
		"closes after the body": {func(_ int, p *h2peer, whole func()) {
			p.next(false)
			whole()
			_ = p.Close()
		}, retry.Reset, 1},
		"refuses the stream once": {func(_ int, p *h2peer, whole func()) {
			refused := p.next(true)
			p.rst(refused, codeRefused)
			stream := p.next(false)
			if stream == refused { // its body was under way already
				stream = p.next(false)
			}
			whole()
			p.ok(stream)
		}, retry.OK, 1},
		"goes away unprocessed for ever": {func(_ int, p *h2peer, whole func()) {
			p.next(false)
			whole()
			p.goAway(0)
		}, retry.Reset, 7},
		"protocol error for ever": {func(_ int, p *h2peer, whole func()) {
			for {
				stream := p.next(false)
				if stream == 0 {
					return
				}
				whole()
				p.rst(stream, codeProtocol)
			}
		}, retry.Reset, 7},
		"cancels the stream": {func(_ int, p *h2peer, whole func()) {
			stream := p.next(false)
			whole()
			p.rst(stream, 8)
		}, retry.Reset, 1},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			req := request("")
			req.Delivery.Payload = []byte("the whole body")
			var mu sync.Mutex
			posts := 0
			addr := raw(t, overTLS(cert, []string{"h2"}, func(n int, conn net.Conn) {
				p := &h2peer{Conn: conn}
				if !p.start() {
					return
				}
				c.script(n, p, func() {
					mu.Lock()
					defer mu.Unlock()
					if len(p.body) > 0 { // empty: the connection ended
						posts++
						if string(p.body) != "the whole body" {
							t.Errorf("a body arrived as %q", p.body)
						}
					}
				})
				silent(0, conn)
			}))
			r := newRig(t, options{deliver: trusting(ca)})
			req.Endpoint.URL = "https://" + addr
			res := r.Attempt(t.Context(), req)
			require.Equal(t, c.want, res.Class, res.Error)
			mu.Lock()
			defer mu.Unlock()
			require.Equal(t, c.posts, posts)
		})
	}
}

// h2server is a real HTTP/2 receiver.
func h2server(t *testing.T, streams int, h http.HandlerFunc) (url string, ca string) {
	t.Helper()
	cert, ca := authority(t)
	srv := httptest.NewUnstartedServer(h)
	srv.EnableHTTP2 = true
	srv.Config.HTTP2 = &http.HTTP2Config{MaxConcurrentStreams: streams}
	srv.TLS = &tls.Config{Certificates: []tls.Certificate{cert}, MinVersion: tls.VersionTLS12}
	srv.StartTLS()
	t.Cleanup(srv.Close)
	return srv.URL, ca
}

// C-043: a receiver that takes one stream at a time, and twenty sends at once.
func TestAttempt_HTTP2OneStreamAtATime(t *testing.T) {
	t.Parallel()
	got := &recorder{}
	url, ca := h2server(t, 1, got.ServeHTTP)
	r := newRig(t, options{deliver: trusting(ca)})
	var wg sync.WaitGroup
	results := make([]deliver.Result, 20)
	for i := range results {
		wg.Go(func() { results[i] = r.Attempt(t.Context(), request(url)) })
	}
	wg.Wait()
	for _, res := range results {
		require.Equal(t, retry.OK, res.Class, res.Error)
	}
	require.Len(t, got.bodies, 20, "none twice")
	for _, b := range got.bodies {
		require.JSONEq(t, `{"n":1}`, string(b))
	}
}

func TestAttempt_HTTP2IsUsedAndReused(t *testing.T) {
	t.Parallel()
	got := &recorder{}
	url, ca := h2server(t, 100, got.ServeHTTP)
	r := newRig(t, options{deliver: trusting(ca)})
	req := request(url + "/x")
	req.Endpoint.Headers = []schemas.Header{{Key: "X-Custom", Value: []byte("v")}}
	for range 3 {
		require.Equal(t, retry.OK, r.Attempt(t.Context(), req).Class)
	}
	head, _ := got.last(t)
	require.Equal(t, 2, head.ProtoMajor)
	require.Equal(t, "v", head.Header.Get("X-Custom"))
	require.EqualValues(t, 1, r.Stats().ConnsOpened)
	require.EqualValues(t, 2, r.Stats().ConnsReused)
}

// C-046, C-049 over HTTP/2: bodies and header lists without end.
func TestAttempt_HTTP2Limits(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("x", 4000)
	url, ca := h2server(t, 100, func(w http.ResponseWriter, req *http.Request) {
		switch req.URL.Path {
		case "/body":
			chunk := make([]byte, 32<<10)
			for {
				if _, err := w.Write(chunk); err != nil {
					return
				}
			}
		case "/headers":
			for i := range 100 {
				w.Header().Add("X-Long", fmt.Sprint(i, long))
			}
		case "/interim":
			w.Header().Set("Link", long)
			for range 10_000 {
				w.WriteHeader(http.StatusEarlyHints)
			}
		}
	})
	r := newRig(t, options{deliver: trusting(ca)})
	res := r.Attempt(t.Context(), request(url+"/body"))
	require.Equal(t, retry.OK, res.Class, res.Error)
	require.Len(t, res.Excerpt, 4096)
	for _, path := range []string{"/headers", "/interim"} {
		res = r.Attempt(t.Context(), request(url+path))
		require.Contains(t, []retry.Class{retry.InvalidResponse, retry.Reset}, res.Class, path+": "+res.Error)
		require.Zero(t, res.Status)
	}
}
