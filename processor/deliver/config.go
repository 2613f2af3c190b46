package deliver

import (
	"errors"
	"fmt"
	"time"
)

// Config bounds attempts. The limits of resolving and connecting are in egress.Config.
type Config struct {
	// Version goes into the User-Agent: "Barnabas/<version>". Empty: no version.
	Version string `koanf:"-"`

	// Timeout bounds a whole attempt, the response body included, where the endpoint sets none. 0 is refused.
	Timeout time.Duration `koanf:"timeout"`
	// MaxTimeout caps what an endpoint may set. 0 is refused.
	MaxTimeout time.Duration `koanf:"max_timeout"`
	// TLSTimeout bounds a TLS handshake. 0 is refused.
	TLSTimeout time.Duration `koanf:"tls_timeout"`
	// HeaderTimeout bounds the wait for status and headers once the request is written. 0 is refused.
	HeaderTimeout time.Duration `koanf:"header_timeout"`

	// MaxHeaderBytes bounds the header section, interim answers included.
	MaxHeaderBytes int64 `koanf:"max_header_bytes"`
	// MaxBodyBytes bounds what is read of a response body; a connection with more is not reused.
	MaxBodyBytes int64 `koanf:"max_body_bytes"`
	// MaxExcerptBytes bounds what is kept of it, at most 4 KiB. 0: nothing is kept.
	MaxExcerptBytes int64 `koanf:"max_excerpt_bytes"`
	// MaxRetryAfter caps a receiver's Retry-After. 0 is refused.
	MaxRetryAfter time.Duration `koanf:"max_retry_after"`

	// MaxIdleConns and MaxIdleConnsPerHost bound the connections kept for reuse. Endpoints of one provider share a host, and
	// those that are at work at a time should find a connection each. 0 is refused.
	MaxIdleConns        int `koanf:"max_idle_conns"`
	MaxIdleConnsPerHost int `koanf:"max_idle_conns_per_host"`
	// IdleConnTimeout closes a connection unused for so long. 0 is refused.
	IdleConnTimeout time.Duration `koanf:"idle_conn_timeout"`
	// MaxConnAge is how long a connection takes new requests: addresses behind a name move. 0 is refused.
	MaxConnAge time.Duration `koanf:"max_conn_age"`
	// PingAfter is the silence on an HTTP/2 connection after which it is pinged; PingTimeout how long the answer
	// may take before the connection is given up. 0 is refused.
	PingAfter   time.Duration `koanf:"ping_after"`
	PingTimeout time.Duration `koanf:"ping_timeout"`

	// CAFile holds further root certificates in PEM, beside the system's. Empty: none.
	CAFile string `koanf:"ca_file"`
}

// excerptLimit is the contract's bound of Result.Excerpt.
const excerptLimit = 4 << 10

// DefaultConfig has the limits of DESIGN.md section 10.
func DefaultConfig() Config {
	return Config{
		Timeout:             15 * time.Second,
		MaxTimeout:          30 * time.Second,
		TLSTimeout:          5 * time.Second,
		HeaderTimeout:       10 * time.Second,
		MaxHeaderBytes:      64 << 10,
		MaxBodyBytes:        64 << 10,
		MaxExcerptBytes:     excerptLimit,
		MaxRetryAfter:       24 * time.Hour,
		MaxIdleConns:        1024,
		MaxIdleConnsPerHost: 256,
		IdleConnTimeout:     30 * time.Second,
		MaxConnAge:          5 * time.Minute,
		PingAfter:           10 * time.Second,
		PingTimeout:         5 * time.Second,
	}
}

// Validate reports all problems at once.
func (c Config) Validate() error {
	var errs []error
	durations := []struct {
		name       string
		value, max time.Duration
	}{
		{"timeout", c.Timeout, c.MaxTimeout},
		{"max_timeout", c.MaxTimeout, 5 * time.Minute},
		{"tls_timeout", c.TLSTimeout, c.MaxTimeout},
		{"header_timeout", c.HeaderTimeout, c.MaxTimeout},
		{"max_retry_after", c.MaxRetryAfter, 7 * 24 * time.Hour},
		{"idle_conn_timeout", c.IdleConnTimeout, time.Hour},
		{"max_conn_age", c.MaxConnAge, 24 * time.Hour},
		{"ping_after", c.PingAfter, time.Hour},
		{"ping_timeout", c.PingTimeout, time.Minute},
	}
	for _, d := range durations {
		if d.value <= 0 || d.value > d.max {
			errs = append(errs, fmt.Errorf("%s: %v is not in (0, %v]", d.name, d.value, d.max))
		}
	}
	sizes := []struct {
		name            string
		value, min, max int64
	}{
		{"max_header_bytes", c.MaxHeaderBytes, 1 << 10, 1 << 20},
		{"max_body_bytes", c.MaxBodyBytes, excerptLimit, 1 << 20},
		{"max_excerpt_bytes", c.MaxExcerptBytes, 0, excerptLimit},
		{"max_idle_conns", int64(c.MaxIdleConns), 1, 1 << 16},
		{"max_idle_conns_per_host", int64(c.MaxIdleConnsPerHost), 1, 1 << 12},
	}
	for _, s := range sizes {
		if s.value < s.min || s.value > s.max {
			errs = append(errs, fmt.Errorf("%s: %d is not in %d..%d", s.name, s.value, s.min, s.max))
		}
	}
	return errors.Join(errs...)
}
