package egress

import (
	"errors"
	"fmt"
	"net/netip"
	"net/url"
	"strconv"
	"strings"
)

// MaxURLLength is the longest endpoint URL taken, in bytes.
const MaxURLLength = 4096

// ErrBadURL is what every refusal of CheckURL wraps, but for those of the guard (ErrBlocked).
var ErrBadURL = errors.New("bad endpoint URL")

// URLError is why a URL was refused. It never holds the path, the query or the user info.
type URLError struct{ Reason string }

func (e *URLError) Error() string { return ErrBadURL.Error() + ": " + e.Reason }

// Unwrap makes errors.Is(err, ErrBadURL) true.
func (e *URLError) Unwrap() error { return ErrBadURL }

// URLOptions is what a deployment permits in endpoint URLs.
type URLOptions struct {
	AllowHTTP bool   // else https only
	Guard     *Guard // judges literal addresses and well-known names; nil: a guard with the default configuration
}

// CheckURL is the one parser of endpoint URLs: whatever it returns is what is dialled, and what it would read
// otherwise than others do is refused. An accepted URL is requested exactly as given: String and RequestURI give
// back the same bytes (a URL without path is requested as "/").
//
// Refused: other schemes than https (and http where allowed), user info, fragments, white space, control and
// non-ASCII characters, backslashes, empty or malformed hosts, ports outside 1..65535, and what the guard blocks
// as far as the text shows it: literal addresses, localhost, names of metadata services. The error is a
// *URLError or a *BlockedError, safe to show.
func CheckURL(raw string, o URLOptions) (*url.URL, error) {
	if len(raw) > MaxURLLength {
		return nil, &URLError{fmt.Sprintf("it has %d bytes; at most %d are taken", len(raw), MaxURLLength)}
	}
	if i := strings.IndexFunc(raw, notInURL); i >= 0 {
		return nil, &URLError{fmt.Sprintf("the character at position %d must be percent-encoded "+
			"(host names: in punycode)", i+1)}
	}
	scheme, rest, ok := strings.Cut(raw, "://")
	switch {
	case !ok || scheme == "":
		return nil, &URLError{"it does not start with https://"}
	case scheme != "https" && scheme != "http":
		return nil, &URLError{"the scheme is not https"}
	case scheme == "http" && !o.AllowHTTP:
		return nil, &URLError{"https is required"}
	}
	authority, suffix := rest, ""
	if i := strings.IndexAny(rest, "/?#"); i >= 0 {
		authority, suffix = rest[:i], rest[i:]
	}
	switch {
	case strings.Contains(authority, "@"):
		return nil, &URLError{"user name and password in the URL are not taken; use an Authorization header"}
	case strings.Contains(suffix, "#"):
		return nil, &URLError{"it has a fragment (#), which is never sent"}
	case strings.Contains(authority, "%"):
		return nil, &URLError{"the host has a percent-encoding or a zone"}
	}
	u, err := url.Parse(raw)
	if err != nil { // its text quotes the URL
		return nil, &URLError{"it cannot be parsed"}
	}
	// The reading above and that of net/url, which net/http dials by, must be one.
	if u.Host != authority || u.User != nil || u.Opaque != "" || u.RequestURI() != requestTarget(suffix) {
		return nil, &URLError{"it can be read in more than one way"}
	}
	if err := checkHost(u, o.Guard); err != nil {
		return nil, err
	}
	return u, nil
}

// requestTarget is what RFC 9112 section 3.2.1 wants in the request line for the rest of a URL.
func requestTarget(suffix string) string {
	if !strings.HasPrefix(suffix, "/") {
		return "/" + suffix
	}
	return suffix
}

// notInURL says whether a URL may not have the character (RFC 3986 section 2).
func notInURL(r rune) bool {
	switch {
	case 'a' <= r && r <= 'z', 'A' <= r && r <= 'Z', '0' <= r && r <= '9':
		return false
	}
	return !strings.ContainsRune("-._~:/?#[]@!$&'()*+,;=%", r)
}

func checkHost(u *url.URL, g *Guard) error {
	host := u.Hostname()
	bracketed := strings.HasPrefix(u.Host, "[")
	if host == "" {
		return &URLError{"the host is empty"}
	}
	if strings.HasSuffix(u.Host, ":") {
		return &URLError{"the port is empty"}
	}
	if p := u.Port(); p != "" {
		if n, err := strconv.ParseUint(p, 10, 16); err != nil || n == 0 {
			return &URLError{"the port is not in 1..65535"}
		}
	}
	name := CanonicalHost(host)
	if g == nil {
		g, _ = NewGuard(Config{}) // an empty allow-list always parses
	}
	if addr, err := netip.ParseAddr(name); err == nil {
		if addr.Is6() != bracketed {
			return &URLError{"brackets are for IPv6 addresses, which need them"}
		}
		return g.Check(addr)
	}
	if bracketed {
		return &URLError{"there is no IPv6 address in the brackets"}
	}
	if err := checkName(name); err != nil {
		return err
	}
	return g.CheckName(name)
}

// CanonicalHost is the form of a host that is judged: lower case, without the trailing dot of an absolute name.
func CanonicalHost(host string) string {
	return strings.TrimSuffix(strings.ToLower(host), ".")
}

// checkName takes what RFC 1123 calls a host name, and underscores, which are in use. A name whose last label is
// a number is no name (WHATWG URL, "ends in a number"): some resolvers read 127.1 or 0x7f000001 as an address.
func checkName(name string) error {
	if len(name) > 253 {
		return &URLError{"the host name has more than 253 characters"}
	}
	labels := strings.Split(name, ".")
	for _, label := range labels {
		if label == "" || len(label) > 63 || label[0] == '-' || label[len(label)-1] == '-' {
			return &URLError{"the host name has an empty, overlong or hyphen-edged label"}
		}
		for _, r := range label {
			if r != '-' && r != '_' && (r < 'a' || r > 'z') && (r < '0' || r > '9') {
				return &URLError{"the host name has a character that host names cannot have"}
			}
		}
	}
	last := labels[len(labels)-1]
	hex, isHex := strings.CutPrefix(last, "0x")
	if strings.Trim(last, "0123456789") == "" || isHex && strings.Trim(hex, "0123456789abcdef") == "" {
		return &URLError{"the host is a number, but not an IPv4 address in dotted form"}
	}
	return nil
}

// CheckName judges a canonical host name by itself: names that stand for loopback or for a metadata service are
// refused before anyone resolves them.
func (g *Guard) CheckName(name string) error {
	switch {
	case name == "localhost" || strings.HasSuffix(name, ".localhost"): // RFC 6761 section 6.3
		if !g.loopbackOpen(netip.AddrFrom4([4]byte{127, 0, 0, 1})) && !g.loopbackOpen(netip.IPv6Loopback()) {
			return &BlockedError{Host: name, Reason: "loopback"}
		}
	case name == "metadata.google.internal" || name == "metadata.goog" ||
		name == "instance-data" || name == "instance-data.ec2.internal" || name == "metadata.tencentyun.com":
		return &BlockedError{Host: name, Reason: "a metadata service"}
	}
	return nil
}
