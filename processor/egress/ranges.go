package egress

import "net/netip"

// span is one special range and what it is.
type span struct {
	prefix netip.Prefix
	name   string
}

// specialV4 are the IPv4 ranges of the IANA special-purpose registry (RFC 6890 and later) that are not globally
// reachable, and multicast and reserved space.
func specialV4() []span {
	return []span{
		{netip.MustParsePrefix("0.0.0.0/8"), "unspecified"}, // 0.0.0.0 reaches loopback on Linux
		{netip.MustParsePrefix("10.0.0.0/8"), "private"},
		{netip.MustParsePrefix("100.64.0.0/10"), "carrier-grade NAT"},
		{netip.MustParsePrefix("127.0.0.0/8"), "loopback"},
		{netip.MustParsePrefix("169.254.0.0/16"), "link-local"},
		{netip.MustParsePrefix("172.16.0.0/12"), "private"},
		{netip.MustParsePrefix("192.0.0.0/24"), "protocol assignments"},
		{netip.MustParsePrefix("192.0.2.0/24"), "documentation"},
		{netip.MustParsePrefix("192.88.99.0/24"), "6to4 relay"},
		{netip.MustParsePrefix("192.168.0.0/16"), "private"},
		{netip.MustParsePrefix("198.18.0.0/15"), "benchmarking"},
		{netip.MustParsePrefix("198.51.100.0/24"), "documentation"},
		{netip.MustParsePrefix("203.0.113.0/24"), "documentation"},
		{netip.MustParsePrefix("224.0.0.0/4"), "multicast"},
		{netip.MustParsePrefix("240.0.0.0/4"), "reserved"}, // with the broadcast address
	}
}

// specialV6 names IPv6 ranges. What is in none of them and not in 2000::/3 is blocked too, as not global unicast:
// the list inside 2000::/3 must be complete, the rest is there for the sake of clear reasons.
func specialV6() []span {
	return []span{
		{netip.MustParsePrefix("::/128"), "unspecified"},
		{netip.MustParsePrefix("::1/128"), "loopback"},
		{netip.MustParsePrefix("64:ff9b:1::/48"), "local NAT64"},
		{netip.MustParsePrefix("100::/64"), "discard-only"},
		{netip.MustParsePrefix("fc00::/7"), "private"},
		{netip.MustParsePrefix("fe80::/10"), "link-local"},
		{netip.MustParsePrefix("fec0::/10"), "site-local"},
		{netip.MustParsePrefix("ff00::/8"), "multicast"},
		{netip.MustParsePrefix("2001::/32"), "Teredo"},
		{netip.MustParsePrefix("2001::/23"), "protocol assignments"}, // benchmarking, ORCHID, AMT, ...
		{netip.MustParsePrefix("2001:db8::/32"), "documentation"},
		{netip.MustParsePrefix("2002::/16"), "6to4"},
		{netip.MustParsePrefix("3fff::/20"), "documentation"},
	}
}

// metadata are addresses where clouds and container platforms hand out credentials. Some lie in ranges that are
// public by the registries (168.63.129.16), so they are listed one by one.
func metadata() []netip.Addr {
	return []netip.Addr{
		netip.MustParseAddr("169.254.169.254"), // AWS, Azure, Google, OpenStack, Oracle, DigitalOcean, Hetzner
		netip.MustParseAddr("169.254.169.253"), // AWS resolver
		netip.MustParseAddr("169.254.170.2"),   // AWS ECS tasks
		netip.MustParseAddr("169.254.170.23"),  // AWS EKS pod identity
		netip.MustParseAddr("169.254.0.23"),    // Tencent
		netip.MustParseAddr("100.100.100.200"), // Alibaba
		netip.MustParseAddr("192.0.0.192"),     // Oracle, older
		netip.MustParseAddr("168.63.129.16"),   // Azure wire server
		netip.MustParseAddr("fd00:ec2::254"),   // AWS
		netip.MustParseAddr("fd00:ec2::253"),   // AWS resolver
		netip.MustParseAddr("fd00:ec2::23"),    // AWS EKS pod identity
		netip.MustParseAddr("fd20:ce::254"),    // Google
		netip.MustParseAddr("fe80::a9fe:a9fe"), // OpenStack
	}
}

// embedded returns the IPv4 address that a transition form of IPv6 carries, and the form's name. Packets to such
// an address may end at the IPv4 one.
func embedded(a netip.Addr) (netip.Addr, string, bool) {
	if a.Is4() {
		return netip.Addr{}, "", false
	}
	b := a.As16()
	v4 := func(i int) netip.Addr { return netip.AddrFrom4([4]byte(b[i : i+4])) }
	switch {
	case within(a, "64:ff9b::/96"):
		return v4(12), "NAT64", true
	case within(a, "64:ff9b:1::/48"): // RFC 8215; with the usual /96 of it
		return v4(12), "local NAT64", true
	case within(a, "2002::/16"):
		return v4(2), "6to4", true
	case within(a, "2001::/32"): // RFC 4380: the client's address, inverted
		return netip.AddrFrom4([4]byte{^b[12], ^b[13], ^b[14], ^b[15]}), "Teredo", true
	case within(a, "::/96") && a != netip.IPv6Unspecified() && a != netip.IPv6Loopback():
		return v4(12), "IPv4-compatible", true
	case (b[8] == 0 || b[8] == 2) && b[9] == 0 && b[10] == 0x5e && b[11] == 0xfe:
		return v4(12), "ISATAP", true
	}
	return netip.Addr{}, "", false
}

func within(a netip.Addr, prefix string) bool { return netip.MustParsePrefix(prefix).Contains(a) }
