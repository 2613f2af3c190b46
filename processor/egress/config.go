package egress

import (
	"errors"
	"fmt"
	"time"
)

// Config is what an operator may set about outbound connections.
type Config struct {
	// Allow opens ranges that are not public: IP addresses and CIDR prefixes (see ParseAllowList). Empty: none.
	Allow []string `koanf:"allow"`
	// AllowLoopback opens 127.0.0.0/8 and ::1, and names that mean them. For development.
	AllowLoopback bool `koanf:"allow_loopback"`
	// AllowHTTP permits endpoints without TLS. Payloads then travel in the clear.
	AllowHTTP bool `koanf:"allow_http"`

	// ResolveTimeout bounds one DNS resolution. 0 is refused.
	ResolveTimeout time.Duration `koanf:"resolve_timeout"`
	// ConnectTimeout bounds connecting, over all addresses of a name together. 0 is refused.
	ConnectTimeout time.Duration `koanf:"connect_timeout"`
	// FallbackDelay is the head start of an address over the next one. 0 is refused.
	FallbackDelay time.Duration `koanf:"fallback_delay"`

	// Proxy is the URL of an HTTP CONNECT proxy, http or https, with optional user info. Empty: none. Names are
	// then resolved by the proxy, whose duty it is to judge them; literal addresses are still judged here.
	Proxy string `koanf:"proxy"`
	// NoProxy lists what is connected to directly, through the guard: host names, domain suffixes (".example.com"
	// or "*.example.com"), IP addresses, CIDR prefixes, or "*". Empty: nothing.
	NoProxy []string `koanf:"no_proxy"`
}

// DefaultConfig is closed: public addresses over https only, with the time limits of DESIGN.md section 10.
func DefaultConfig() Config {
	return Config{
		ResolveTimeout: 2 * time.Second,
		ConnectTimeout: 3 * time.Second,
		FallbackDelay:  200 * time.Millisecond,
	}
}

// Validate reports all problems at once.
func (c Config) Validate() error {
	var errs []error
	if _, err := ParseAllowList(c.Allow...); err != nil {
		errs = append(errs, err)
	}
	for _, d := range []struct {
		name  string
		value time.Duration
		max   time.Duration
	}{
		{"resolve_timeout", c.ResolveTimeout, time.Minute},
		{"connect_timeout", c.ConnectTimeout, time.Minute},
		{"fallback_delay", c.FallbackDelay, 10 * time.Second},
	} {
		if d.value <= 0 || d.value > d.max {
			errs = append(errs, fmt.Errorf("%s: %v is not in (0, %v]", d.name, d.value, d.max))
		}
	}
	if _, err := parseProxy(c.Proxy); err != nil {
		errs = append(errs, fmt.Errorf("proxy: %w", err))
	}
	if _, err := parseBypass(c.NoProxy); err != nil {
		errs = append(errs, fmt.Errorf("no_proxy: %w", err))
	}
	if c.Proxy == "" && len(c.NoProxy) > 0 {
		errs = append(errs, errors.New("no_proxy: is set, but there is no proxy"))
	}
	return errors.Join(errs...)
}
