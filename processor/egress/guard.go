package egress

import (
	"errors"
	"fmt"
	"net/netip"
)

// ErrBlocked is what every refusal of the guard wraps.
var ErrBlocked = errors.New("blocked by the egress guard")

// BlockedError says which address or host was refused and why. It is safe to show: no path, no query.
type BlockedError struct {
	Host   string     // as judged; may be a literal address
	Addr   netip.Addr // zero when the name itself was refused
	Reason string     // the kind of range, e.g. "private"
}

func (e *BlockedError) Error() string {
	if !e.Addr.IsValid() || e.Host == e.Addr.String() || e.Host == "" {
		host := e.Host
		if host == "" {
			host = e.Addr.String()
		}
		return fmt.Sprintf("%v: %s is %s", ErrBlocked, host, e.Reason)
	}
	return fmt.Sprintf("%v: %s has the address %s, which is %s", ErrBlocked, e.Host, e.Addr, e.Reason)
}

// Unwrap makes errors.Is(err, ErrBlocked) true.
func (e *BlockedError) Unwrap() error { return ErrBlocked }

// Guard judges addresses. It is immutable and safe for concurrent use.
type Guard struct {
	allow         []netip.Prefix
	allowLoopback bool
	v4, v6        []span
	metadata      map[netip.Addr]bool
	global, nat64 netip.Prefix
}

// NewGuard builds a guard from the allow-list of c; its error is that of ParseAllowList.
func NewGuard(c Config) (*Guard, error) {
	allow, err := ParseAllowList(c.Allow...)
	if err != nil {
		return nil, err
	}
	g := &Guard{
		allow: allow, allowLoopback: c.AllowLoopback, v4: specialV4(), v6: specialV6(),
		metadata: map[netip.Addr]bool{},
		global:   netip.MustParsePrefix("2000::/3"),
		nat64:    netip.MustParsePrefix("64:ff9b::/96"),
	}
	for _, a := range metadata() {
		g.metadata[a] = true
	}
	return g, nil
}

// Check says whether the address may be dialled: nil, or a *BlockedError.
//
// Public unicast addresses pass. Others pass when the allow-list holds them, with these exceptions: an address of
// a metadata service only when the list names that one address (/32, /128); loopback only with AllowLoopback or
// by an item that lies within loopback; an unspecified or zoned address never. IPv4-mapped IPv6 is judged as the
// IPv4 address that it is, and the transition forms of IPv6 also by the IPv4 address in them: NAT64 passes when
// that is public, the others need the allow-list, and none reaches metadata or loopback.
func (g *Guard) Check(a netip.Addr) error {
	block := func(reason string) error { return &BlockedError{Addr: a, Reason: reason} }
	switch {
	case !a.IsValid():
		return block("not an address")
	case a.Zone() != "":
		return block("an address with a zone")
	}
	addr := a.Unmap()
	reason := g.special(addr)
	switch {
	case addr.IsUnspecified():
		return block(reason)
	case g.metadata[addr]:
		if !g.named(addr) {
			return block("a metadata service")
		}
		return nil
	case addr.IsLoopback():
		if !g.loopbackOpen(addr) {
			return block("loopback")
		}
		return nil
	}
	if inner, form, ok := embedded(addr); ok {
		innerReason := g.special(inner)
		switch {
		case g.metadata[inner]:
			return block("a metadata service in " + form + " form")
		case inner.IsLoopback() || inner.IsUnspecified():
			return block(innerReason + " in " + form + " form")
		case g.nat64.Contains(addr) && innerReason == "":
			return nil
		case reason == "": // NAT64 or ISATAP around something special
			reason = innerReason
			if reason != "" {
				reason += " in " + form + " form"
			}
		}
	}
	if reason == "" || g.allowed(addr) {
		return nil
	}
	return block(reason)
}

// special is the kind of a non-public address, "" for a public one.
func (g *Guard) special(a netip.Addr) string {
	spans := g.v4
	if a.Is6() {
		spans = g.v6
	}
	for _, s := range spans {
		if s.prefix.Contains(a) {
			return s.name
		}
	}
	if a.Is6() && !g.global.Contains(a) && !g.nat64.Contains(a) {
		return "not global unicast"
	}
	return ""
}

func (g *Guard) allowed(a netip.Addr) bool {
	for _, p := range g.allow {
		if p.Contains(a) {
			return true
		}
	}
	return false
}

// named says whether the allow-list has this one address as an item of its own.
func (g *Guard) named(a netip.Addr) bool {
	for _, p := range g.allow {
		if p.IsSingleIP() && p.Addr() == a {
			return true
		}
	}
	return false
}

func (g *Guard) loopbackOpen(a netip.Addr) bool {
	if g.allowLoopback {
		return true
	}
	for _, p := range g.allow {
		// An item that starts in loopback and is at least as long as it lies within it: 0.0.0.0/0 does not.
		if p.Contains(a) && p.Addr().IsLoopback() && (p.Addr().Is6() || p.Bits() >= 8) {
			return true
		}
	}
	return false
}
