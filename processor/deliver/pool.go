package deliver

import (
	"context"
	"crypto/tls"
	"net"
	"net/http"
	"net/url"
	"sync"
	"time"

	"github.com/barnabas-webhooks/barnabas/processor/egress"
)

// pools holds the connection pools: the current one, which takes new requests, and retired ones, which finish
// theirs. A pool retires at MaxConnAge, because net/http has no age limit for connections and would keep a busy one
// to an address that its name left long ago. Retiring whole pools costs a new handshake for each host in use, once
// per age.
type pools struct {
	cfg    Config
	dialer *egress.Dialer
	tls    *tls.Config
	stats  *counters

	mu      sync.Mutex // guards all below, and the fields of every pool
	current *pool
}

// pool is one generation. Requests through the egress proxy have a transport of their own, whose dialer can reach
// nothing but the proxy: no string compared per request decides whether the guard applies.
type pool struct {
	born    time.Time
	direct  *http.Transport
	proxied *http.Transport // nil without proxy
	users   int
	retired bool
}

// acquire hands out the current pool; release must follow.
func (p *pools) acquire(now time.Time) *pool {
	p.mu.Lock()
	var idle *pool
	if c := p.current; c == nil || now.Sub(c.born) >= p.cfg.MaxConnAge {
		if c != nil {
			c.retired = true
			p.stats.retired.Add(1)
			if c.users == 0 {
				idle = c
			}
		}
		p.current = p.open(now)
	}
	c := p.current
	c.users++
	p.mu.Unlock()
	if idle != nil {
		idle.closeIdle()
	}
	return c
}

// release gives a pool back; the last user of a retired one closes its connections. Connections that are still
// being dialled for it close by themselves: a transport told to close idle ones takes no more in.
func (p *pools) release(c *pool) {
	p.mu.Lock()
	c.users--
	last := c.retired && c.users == 0
	p.mu.Unlock()
	if last {
		c.closeIdle()
	}
}

func (p *pools) closeIdle() {
	p.mu.Lock()
	c := p.current
	p.mu.Unlock()
	if c != nil {
		c.closeIdle()
	}
}

func (c *pool) closeIdle() {
	c.direct.CloseIdleConnections()
	if c.proxied != nil {
		c.proxied.CloseIdleConnections()
	}
}

// transport picks the way to a URL.
func (p *pools) transport(c *pool, u *url.URL) *http.Transport {
	if c.proxied != nil && p.dialer.ProxyFor(u) != nil {
		return c.proxied
	}
	return c.direct
}

func (p *pools) open(now time.Time) *pool {
	c := &pool{born: now, direct: p.newTransport(p.dialer.DialContext)}
	if proxy := p.dialer.Proxy(); proxy != nil {
		c.proxied = p.newTransport(p.dialer.DialProxy)
		c.proxied.Proxy = http.ProxyURL(proxy)
		c.proxied.OnProxyConnectResponse = func(_ context.Context, _ *url.URL, _ *http.Request, res *http.Response) error {
			if res.StatusCode != http.StatusOK {
				return &ProxyError{Status: res.StatusCode}
			}
			return nil
		}
	}
	return c
}

func (p *pools) newTransport(dial egress.DialFunc) *http.Transport {
	protocols := new(http.Protocols)
	protocols.SetHTTP1(true)
	protocols.SetHTTP2(true)
	return &http.Transport{
		Proxy:                  nil, // never the environment's
		DialContext:            p.counted(dial),
		TLSClientConfig:        p.tls.Clone(),
		TLSHandshakeTimeout:    p.cfg.TLSTimeout,
		ResponseHeaderTimeout:  p.cfg.HeaderTimeout,
		MaxResponseHeaderBytes: p.cfg.MaxHeaderBytes,
		MaxIdleConns:           p.cfg.MaxIdleConns,
		MaxIdleConnsPerHost:    p.cfg.MaxIdleConnsPerHost,
		IdleConnTimeout:        p.cfg.IdleConnTimeout,
		DisableCompression:     true, // a body is judged by the bytes that came, and a small one can't grow
		Protocols:              protocols,
		HTTP2: &http.HTTP2Config{
			SendPingTimeout:  p.cfg.PingAfter,
			PingTimeout:      p.cfg.PingTimeout,
			WriteByteTimeout: p.cfg.HeaderTimeout,
			// What a peer may send ahead of our reading: the default of 4 MiB would be held for each stream.
			MaxReceiveBufferPerStream:     int(max(p.cfg.MaxBodyBytes, 64<<10)),
			MaxReceiveBufferPerConnection: 1 << 20,
		},
	}
}

// counted keeps count of connections opened and open.
func (p *pools) counted(dial egress.DialFunc) egress.DialFunc {
	return func(ctx context.Context, network, address string) (net.Conn, error) {
		conn, err := dial(ctx, network, address)
		if err != nil {
			return nil, err // typed by package egress; a further wrapping would say nothing new
		}
		p.stats.opened.Add(1)
		p.stats.open.Add(1)
		return &countedConn{Conn: conn, closed: sync.OnceFunc(func() { p.stats.open.Add(-1) })}, nil
	}
}

// countedConn tells once that it was closed.
type countedConn struct {
	net.Conn
	closed func()
}

func (c *countedConn) Close() error {
	c.closed()
	return c.Conn.Close()
}
