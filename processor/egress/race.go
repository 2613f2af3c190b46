package egress

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"time"
)

// errNoAnswer stands for an address that was still silent when the time to connect ran out.
var errNoAnswer = errors.New("no answer within the time to connect")

// interleave orders addresses as RFC 8305 section 4 asks: the resolver's order within a family, the families in
// turn, so that a broken family costs one head start and not one for each of its addresses.
func interleave(addrs []netip.Addr) []netip.Addr {
	if len(addrs) == 0 {
		return addrs
	}
	var first, second []netip.Addr
	for _, a := range addrs {
		if a.Unmap().Is4() == addrs[0].Unmap().Is4() {
			first = append(first, a)
		} else {
			second = append(second, a)
		}
	}
	out := make([]netip.Addr, 0, len(addrs))
	for i := range max(len(first), len(second)) {
		if i < len(first) {
			out = append(out, first[i])
		}
		if i < len(second) {
			out = append(out, second[i])
		}
	}
	return out[:min(len(out), maxAddresses)]
}

// connect tries the addresses in order, each with a head start of FallbackDelay over the next (none over the next
// when it fails at once), and returns the first connection. The others are given up and closed.
func (d *Dialer) connect(ctx context.Context, network, host string, addrs []netip.Addr, port uint16) (net.Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, d.cfg.ConnectTimeout)
	defer cancel()
	type result struct {
		conn net.Conn
		err  error
	}
	results := make(chan result)
	done := make(chan struct{})
	defer close(done)
	try := func(a netip.Addr) {
		conn, err := d.net.Dial(ctx, network, netip.AddrPortFrom(a, port).String())
		select {
		case results <- result{conn, err}:
		case <-done: // another one won, or time is up
			if conn != nil {
				_ = conn.Close()
			}
		}
	}

	timer := time.NewTimer(0) // the first starts at once
	defer timer.Stop()
	var errs []error
	next := 0
	for len(errs) < len(addrs) {
		start := timer.C
		if next == len(addrs) {
			start = nil
		}
		select {
		case <-start:
			go try(addrs[next])
			next++
			timer.Reset(d.cfg.FallbackDelay)
		case r := <-results:
			if r.err == nil {
				return r.conn, nil
			}
			errs = append(errs, r.err)
			timer.Reset(0)
		case <-ctx.Done():
			return nil, &ConnectError{Host: host, Errs: append(errs, errors.Join(errNoAnswer, ctx.Err()))}
		}
	}
	return nil, &ConnectError{Host: host, Errs: errs}
}
