package egress

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"net/url"
	"strings"
)

// parseProxy reads the egress proxy's URL; nil for "". Its errors never quote the text: it may hold a password.
func parseProxy(raw string) (*url.URL, error) {
	if raw == "" {
		return nil, nil
	}
	u, err := url.Parse(raw)
	switch {
	case err != nil:
		return nil, errors.New("is not a URL")
	case u.Scheme != "http" && u.Scheme != "https":
		return nil, errors.New("the scheme is neither http nor https")
	case u.Hostname() == "":
		return nil, errors.New("the host is empty")
	case u.Path != "" && u.Path != "/" || u.RawQuery != "" || u.Fragment != "":
		return nil, errors.New("has a path, a query or a fragment")
	}
	return u, nil
}

// proxyAddr is the host:port that net/http dials for a proxy.
func proxyAddr(u *url.URL) string {
	port := u.Port()
	if port == "" {
		port = map[string]string{"http": "80", "https": "443"}[u.Scheme]
	}
	return net.JoinHostPort(u.Hostname(), port)
}

// bypass is a parsed no-proxy list.
type bypass struct {
	all      bool
	names    map[string]bool
	suffixes []string // with the leading dot
	prefixes []netip.Prefix
}

func parseBypass(items []string) (bypass, error) {
	b := bypass{names: map[string]bool{}}
	var errs []error
	for _, item := range items {
		for _, word := range strings.FieldsFunc(item, func(r rune) bool { return strings.ContainsRune(", \t\r\n", r) }) {
			if err := b.add(word); err != nil {
				errs = append(errs, fmt.Errorf("%q %w", clip(word), err))
			}
		}
	}
	return b, errors.Join(errs...)
}

func (b *bypass) add(word string) error {
	name := CanonicalHost(word)
	if name == "*" {
		b.all = true
		return nil
	}
	if p, err := parsePrefix(word); err == nil {
		b.prefixes = append(b.prefixes, p)
		return nil
	} else if strings.Contains(word, "/") {
		return err
	}
	domain := strings.TrimPrefix(strings.TrimPrefix(name, "*"), ".")
	if checkName(domain) != nil {
		return errors.New("is not a host name, domain suffix, IP address, CIDR prefix or *")
	}
	if domain != name {
		b.suffixes = append(b.suffixes, "."+domain)
		return nil
	}
	b.names[name] = true
	return nil
}

// match says whether the host is to be connected to directly.
func (b bypass) match(host string) bool {
	name := CanonicalHost(host)
	if b.all || b.names[name] {
		return true
	}
	if a, err := netip.ParseAddr(name); err == nil {
		for _, p := range b.prefixes {
			if p.Contains(a.Unmap()) {
				return true
			}
		}
		return false
	}
	for _, s := range b.suffixes {
		if strings.HasSuffix(name, s) {
			return true
		}
	}
	return false
}
