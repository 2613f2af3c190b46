package egress

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http/httptrace"
	"net/netip"
	"net/url"
	"strconv"
	"time"
)

// Resolver looks names up. *net.Resolver is one.
type Resolver interface {
	LookupNetIP(ctx context.Context, network, host string) ([]netip.Addr, error)
}

// DialFunc connects to a literal address. (*net.Dialer).DialContext is one.
type DialFunc func(ctx context.Context, network, address string) (net.Conn, error)

// Network is what a Dialer reaches the world through; the zero value is the real one. Tests put theirs here.
type Network struct {
	Resolver Resolver
	Dial     DialFunc
}

// ResolveError is a name that did not resolve.
type ResolveError struct {
	Host string
	Err  error // often a *net.DNSError
}

func (e *ResolveError) Error() string {
	var dns *net.DNSError
	switch {
	case isNotFound(e.Err):
		return fmt.Sprintf("resolve %s: no such host", e.Host)
	case errors.As(e.Err, &dns) && dns.IsTimeout, errors.Is(e.Err, context.DeadlineExceeded):
		return fmt.Sprintf("resolve %s: the resolver did not answer in time", e.Host)
	case errors.As(e.Err, &dns) && dns.IsTemporary:
		return fmt.Sprintf("resolve %s: the resolver failed for now", e.Host)
	}
	return fmt.Sprintf("resolve %s: the resolver failed", e.Host)
}

func (e *ResolveError) Unwrap() error { return e.Err }

// ConnectError is a host none of whose permitted addresses took the connection.
type ConnectError struct {
	Host string
	Errs []error // one for each address tried
}

func (e *ConnectError) Error() string {
	if len(e.Errs) == 1 {
		return fmt.Sprintf("connect to %s: %v", e.Host, e.Errs[0])
	}
	return fmt.Sprintf("connect to %s: %d addresses failed, the last with: %v", e.Host, len(e.Errs), e.Errs[len(e.Errs)-1])
}

// Unwrap gives the errors of all addresses, for errors.Is and errors.As.
func (e *ConnectError) Unwrap() []error { return e.Errs }

// Dialer opens guarded connections. Safe for concurrent use.
type Dialer struct {
	cfg    Config
	guard  *Guard
	net    Network
	proxy  *url.URL
	bypass bypass
	health *Health

	checked checked
}

// maxAddresses bounds the addresses of one name that are tried.
const maxAddresses = 8

// NewDialer builds a dialer; its error is that of cfg.Validate.
func NewDialer(cfg Config, network Network) (*Dialer, error) {
	if err := cfg.Validate(); err != nil {
		return nil, fmt.Errorf("egress: %w", err)
	}
	guard, err := NewGuard(cfg)
	if err != nil {
		return nil, fmt.Errorf("egress: %w", err)
	}
	proxy, err := parseProxy(cfg.Proxy)
	if err != nil {
		return nil, fmt.Errorf("egress: proxy: %w", err)
	}
	byp, err := parseBypass(cfg.NoProxy)
	if err != nil {
		return nil, fmt.Errorf("egress: no_proxy: %w", err)
	}
	if network.Resolver == nil {
		// Go's own resolver obeys its context; the C library's would hold a thread for as long as it likes.
		network.Resolver = &net.Resolver{PreferGo: true}
	}
	if network.Dial == nil {
		network.Dial = (&net.Dialer{KeepAlive: 30 * time.Second}).DialContext
	}
	return &Dialer{
		cfg: cfg, guard: guard, net: network, proxy: proxy, bypass: byp,
		health: newHealth(func(ctx context.Context, host string) error {
			_, err := network.Resolver.LookupNetIP(ctx, "ip", host)
			return err
		}),
	}, nil
}

// Health is what the dialer knows of this side of the network.
func (d *Dialer) Health() *Health { return d.health }

// Guard is the judge that the dialer obeys.
func (d *Dialer) Guard() *Guard { return d.guard }

// CheckURL is the package's CheckURL by this dialer's configuration. The URL is shared: it must not be changed.
func (d *Dialer) CheckURL(raw string) (*url.URL, error) {
	if u := d.checked.get(raw); u != nil {
		return u, nil
	}
	u, err := CheckURL(raw, URLOptions{AllowHTTP: d.cfg.AllowHTTP, Guard: d.guard})
	if err == nil {
		d.checked.put(raw, u)
	}
	return u, err
}

// ProxyFor is the proxy to reach u through, nil for none.
func (d *Dialer) ProxyFor(u *url.URL) *url.URL {
	if d.proxy == nil || d.bypass.match(u.Hostname()) {
		return nil
	}
	return d.proxy
}

// Proxy is the configured proxy, nil for none.
func (d *Dialer) Proxy() *url.URL { return d.proxy }

// DialContext resolves the host, judges every address, and connects to one that passed. The error is a
// *ResolveError, a *BlockedError (no address passed), a *ConnectError, or an *UnhealthyError, which may wrap one of them.
func (d *Dialer) DialContext(ctx context.Context, network, address string) (net.Conn, error) {
	host, port, err := splitAddress(address)
	if err != nil {
		return nil, err
	}
	if err = d.guard.CheckName(host); err != nil {
		return nil, err
	}
	if err = d.health.admit(CauseNetwork); err != nil {
		return nil, err
	}
	addrs, err := d.resolve(ctx, host)
	if err != nil {
		return nil, err
	}
	permitted, err := d.judge(host, addrs)
	if err != nil {
		return nil, err
	}
	began := time.Now()
	conn, err := d.connect(ctx, network, host, permitted, port)
	return conn, d.health.connected(ctx, host, began, err)
}

// DialProxy connects to the configured proxy, whose address the guard does not judge. Any other address is
// refused, so that this is no way around the guard. A proxy that is not reached is an *UnhealthyError.
func (d *Dialer) DialProxy(ctx context.Context, network, address string) (net.Conn, error) {
	if d.proxy == nil || address != proxyAddr(d.proxy) {
		return nil, &BlockedError{Host: "the address dialled", Reason: "not the egress proxy's"}
	}
	host, port, err := splitAddress(address)
	if err != nil {
		return nil, err
	}
	if err = d.health.admit(CauseProxy); err != nil {
		return nil, err
	}
	addrs, err := d.resolve(ctx, host)
	var conn net.Conn
	if err == nil {
		conn, err = d.connect(ctx, network, host, interleave(addrs), port)
	}
	switch {
	case err == nil:
		d.health.works(CauseProxy)
	case !errors.Is(ctx.Err(), context.Canceled):
		err = d.health.fails(CauseProxy, err)
	}
	return conn, err
}

// splitAddress takes host:port as net/http gives it. An empty host would be loopback to package net.
func splitAddress(address string) (string, uint16, error) {
	host, p, err := net.SplitHostPort(address)
	if err != nil || host == "" {
		return "", 0, &BlockedError{Host: "the address dialled", Reason: "not host:port"}
	}
	port, err := strconv.ParseUint(p, 10, 16)
	if err != nil || port == 0 {
		return "", 0, &BlockedError{Host: CanonicalHost(host), Reason: "without a usable port"}
	}
	return CanonicalHost(host), uint16(port), nil
}

// resolve gives the addresses of a host, itself when it is one.
func (d *Dialer) resolve(ctx context.Context, host string) ([]netip.Addr, error) {
	if a, err := netip.ParseAddr(host); err == nil {
		return []netip.Addr{a}, nil
	}
	if err := d.health.admit(CauseResolver); err != nil {
		return nil, err
	}
	trace := httptrace.ContextClientTrace(ctx)
	if trace != nil && trace.DNSStart != nil {
		trace.DNSStart(httptrace.DNSStartInfo{Host: host})
	}
	began := time.Now()
	limited, cancel := context.WithTimeout(ctx, d.cfg.ResolveTimeout)
	defer cancel()
	addrs, err := d.net.Resolver.LookupNetIP(limited, "ip", host)
	if err == nil && len(addrs) == 0 {
		err = &net.DNSError{Err: "no addresses", Name: host, IsNotFound: true}
	}
	if trace != nil && trace.DNSDone != nil {
		trace.DNSDone(httptrace.DNSDoneInfo{Err: err})
	}
	if err != nil {
		err = &ResolveError{Host: host, Err: err}
	}
	if err = d.health.resolved(ctx, began, err); err != nil {
		return nil, err
	}
	return addrs, nil
}

// judge keeps the addresses that may be dialled. A name with forbidden and permitted addresses keeps the latter:
// only what is dialled matters.
func (d *Dialer) judge(host string, addrs []netip.Addr) ([]netip.Addr, error) {
	var permitted []netip.Addr
	var blocked *BlockedError
	for _, a := range addrs {
		err := d.guard.Check(a)
		if err == nil {
			permitted = append(permitted, a.Unmap())
		} else if blocked == nil && errors.As(err, &blocked) {
			blocked.Host = host
		}
	}
	if len(permitted) == 0 {
		return nil, blocked
	}
	return interleave(permitted), nil
}
