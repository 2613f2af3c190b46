package kafka

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/barnabas-webhooks/barnabas/internal/secret"
)

// SASL mechanisms.
const (
	MechanismPlain       = "PLAIN"
	MechanismScramSHA256 = "SCRAM-SHA-256"
	MechanismScramSHA512 = "SCRAM-SHA-512"
)

// Mechanisms lists the SASL mechanisms that are supported.
func Mechanisms() []string {
	return []string{MechanismPlain, MechanismScramSHA256, MechanismScramSHA512}
}

// Config says how to reach a Kafka cluster. Field tags name the keys and the
// documentation of the configuration file.
type Config struct {
	Brokers        []string      `koanf:"brokers"         doc:"Bootstrap addresses, host:port. At least one."`
	ClientID       string        `koanf:"client_id"       doc:"Client id in the broker's logs, metrics and quotas."`
	DialTimeout    time.Duration `koanf:"dial_timeout"    doc:"Limit for opening one connection, TLS handshake included."`
	RequestTimeout time.Duration `koanf:"request_timeout" doc:"Limit for the answer to one request, on top of a wait that the request itself asks for."`
	RetryTimeout   time.Duration `koanf:"retry_timeout"   doc:"How long one request is retried before its error is reported. Fetches and the group go on regardless."`
	TLS            TLS           `koanf:"tls"`
	SASL           SASL          `koanf:"sasl"`

	// Dialer, when set, opens the connections in place of net.Dialer; TLS is
	// still put on top. For in-memory networks.
	Dialer func(ctx context.Context, network, addr string) (net.Conn, error) `koanf:"-"`
}

// TLS is the transport's encryption.
type TLS struct {
	Enabled    bool   `koanf:"enabled"     doc:"Connect with TLS (1.2 or later)."`
	CAFile     string `koanf:"ca_file"     doc:"PEM file of the authorities that sign brokers. Empty: the system's."`
	CertFile   string `koanf:"cert_file"   doc:"PEM file of the client certificate (mTLS). Read again at each handshake."`
	KeyFile    string `koanf:"key_file"    doc:"PEM file of the client certificate's private key."`
	ServerName string `koanf:"server_name" doc:"Name to expect in the brokers' certificates. Empty: the host that is dialled."`
}

// SASL is the client's authentication. Off while Mechanism is empty.
type SASL struct {
	Mechanism    string        `koanf:"mechanism"     doc:"PLAIN, SCRAM-SHA-256 or SCRAM-SHA-512. Empty: none."`
	Username     string        `koanf:"username"      doc:"User name."`
	Password     secret.String `koanf:"password"      doc:"Password. Prefer password_file."`
	PasswordFile string        `koanf:"password_file" doc:"File that holds the password; line ends at its end are ignored. Read again at each authentication."`
}

// DefaultConfig is a local broker in the clear.
func DefaultConfig() Config {
	return Config{
		Brokers:        []string{"127.0.0.1:9092"},
		ClientID:       "barnabas",
		DialTimeout:    5 * time.Second,
		RequestTimeout: 10 * time.Second,
		RetryTimeout:   30 * time.Second,
	}
}

// FieldError is one setting that cannot be used. Key is relative to the Config
// and named as in the configuration file: "sasl.mechanism".
type FieldError struct {
	Key     string
	Problem string
}

func (e *FieldError) Error() string { return e.Key + ": " + e.Problem }

// Validate reports every problem, joined; each is a *FieldError. It reads no file.
func (c Config) Validate() error {
	var errs []error
	bad := func(key, format string, args ...any) {
		errs = append(errs, &FieldError{Key: key, Problem: fmt.Sprintf(format, args...)})
	}
	if len(c.Brokers) == 0 {
		bad("brokers", "at least one address is needed")
	}
	for i, b := range c.Brokers {
		if problem := checkBroker(b); problem != "" {
			bad("brokers", "item %d: %s", i+1, problem)
		}
		if slices.Contains(c.Brokers[:i], b) {
			bad("brokers", "item %d: %q is listed twice", i+1, b)
		}
	}
	for key, d := range map[string]time.Duration{
		"dial_timeout": c.DialTimeout, "request_timeout": c.RequestTimeout, "retry_timeout": c.RetryTimeout,
	} {
		if d <= 0 {
			bad(key, "must be more than 0, not %s", d)
		}
	}
	c.TLS.validate(bad)
	c.SASL.validate(bad)
	slices.SortStableFunc(errs, func(a, b error) int { return strings.Compare(a.Error(), b.Error()) })
	return errors.Join(errs...)
}

// checkBroker says what is wrong with an address; empty when nothing is.
func checkBroker(addr string) string {
	host, port, err := net.SplitHostPort(addr)
	if err != nil {
		return fmt.Sprintf("%q is not host:port", addr)
	}
	if host == "" || strings.ContainsAny(addr, " \t\r\n/@") {
		return fmt.Sprintf("%q is not host:port", addr)
	}
	if n, err := strconv.Atoi(port); err != nil || n < 1 || n > 65535 {
		return fmt.Sprintf("%q: the port must be a number from 1 to 65535", addr)
	}
	return ""
}

func (t TLS) validate(bad func(key, format string, args ...any)) {
	if (t.CertFile == "") != (t.KeyFile == "") {
		bad("tls.cert_file", "cert_file and key_file belong together: set both or none")
	}
	if !t.Enabled && (t.CAFile != "" || t.CertFile != "" || t.KeyFile != "" || t.ServerName != "") {
		bad("tls.enabled", "is false, but other tls settings are given: set it to true or remove them")
	}
}

func (s SASL) validate(bad func(key, format string, args ...any)) {
	if s.Mechanism == "" {
		if s.Username != "" || s.Password != "" || s.PasswordFile != "" {
			bad("sasl.mechanism", "is empty, but credentials are given: one of %s", strings.Join(Mechanisms(), ", "))
		}
		return
	}
	if !slices.Contains(Mechanisms(), s.Mechanism) {
		bad("sasl.mechanism", "must be one of %s, not %q", strings.Join(Mechanisms(), ", "), s.Mechanism)
	}
	if s.Username == "" {
		bad("sasl.username", "is needed for %s", s.Mechanism)
	}
	switch {
	case s.Password != "" && s.PasswordFile != "":
		bad("sasl.password", "password and password_file are both set: give one")
	case s.Password == "" && s.PasswordFile == "":
		bad("sasl.password", "password or password_file is needed for %s", s.Mechanism)
	}
}
