package egress

import (
	"errors"
	"fmt"
	"net/netip"
	"strings"
)

// ParseAllowList reads IP addresses and CIDR prefixes, one or several to an item, separated by commas or white
// space; empty items are passed over. Everything else is refused, all bad items named: host names, because the
// guard judges addresses and a name can point anywhere tomorrow; prefixes with bits beyond their length, because
// one of the two was not meant; zones. IPv4-mapped items count as IPv4.
func ParseAllowList(items ...string) ([]netip.Prefix, error) {
	var out []netip.Prefix
	var errs []error
	for _, item := range items {
		for _, word := range strings.FieldsFunc(item, func(r rune) bool { return strings.ContainsRune(", \t\r\n", r) }) {
			p, err := parsePrefix(word)
			if err != nil {
				errs = append(errs, fmt.Errorf("allow-list: %q %w", clip(word), err))
				continue
			}
			out = append(out, p)
		}
	}
	if len(errs) > 0 {
		return nil, errors.Join(errs...)
	}
	return out, nil
}

var errNotAnAddress = errors.New("is not an IP address or CIDR prefix; host names cannot be allowed, their addresses can")

func parsePrefix(word string) (netip.Prefix, error) {
	if !strings.Contains(word, "/") {
		a, err := netip.ParseAddr(word)
		switch {
		case err != nil:
			return netip.Prefix{}, errNotAnAddress
		case a.Zone() != "":
			return netip.Prefix{}, errors.New("has a zone")
		}
		a = a.Unmap()
		return netip.PrefixFrom(a, a.BitLen()), nil
	}
	p, err := netip.ParsePrefix(word)
	if err != nil {
		return netip.Prefix{}, errNotAnAddress
	}
	if p.Masked() != p {
		return netip.Prefix{}, fmt.Errorf("has bits set beyond its length; did you mean %s?", p.Masked())
	}
	if p.Addr().Is4In6() {
		if p.Bits() < 96 {
			return netip.Prefix{}, errors.New("mixes IPv4-mapped and other addresses")
		}
		p = netip.PrefixFrom(p.Addr().Unmap(), p.Bits()-96)
	}
	return p, nil
}

// clip keeps a quoted mistake from filling a log.
func clip(s string) string {
	const limit = 64
	if len(s) > limit {
		return s[:limit] + "..."
	}
	return s
}
