package kafka

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/sasl"
	"github.com/twmb/franz-go/pkg/sasl/plain"
	"github.com/twmb/franz-go/pkg/sasl/scram"
	"github.com/twmb/franz-go/plugin/kslog"

	"github.com/barnabas-webhooks/barnabas/internal/obs"
	"github.com/barnabas-webhooks/barnabas/internal/secret"
)

// ErrNoCertificates is a CA file without a PEM certificate in it.
var ErrNoCertificates = errors.New("no PEM certificate in file")

// PingError is a cluster that could not be reached.
type PingError struct {
	Brokers []string
	Err     error
}

func (e *PingError) Error() string {
	return fmt.Sprintf("reach kafka at %s: %v", strings.Join(e.Brokers, ","), e.Err)
}

// Unwrap returns the last broker's error.
func (e *PingError) Unwrap() error { return e.Err }

// metadataMinAge is how soon after the last look at the cluster a client may look again. The client writes what a broker refused
// for a moment only after such a look, and among that is each write that came before the end of the transaction before
// was told to all partitions (CONCURRENT_TRANSACTIONS, KIP-890): with the client's own 5 s, nothing would be settled for so long.
const metadataMinAge = 100 * time.Millisecond

// Options are the client options that every Kafka client of the process shares.
// The configuration is validated, and files are read once so that a missing or
// broken one is reported at start.
func (c Config) Options(log *slog.Logger) ([]kgo.Opt, error) {
	if err := c.Validate(); err != nil {
		return nil, fmt.Errorf("kafka: %w", err)
	}
	opts := []kgo.Opt{
		kgo.SeedBrokers(c.Brokers...),
		kgo.ClientID(c.ClientID),
		kgo.RequestTimeoutOverhead(c.RequestTimeout),
		kgo.RetryTimeout(c.RetryTimeout),
		kgo.MetadataMinAge(metadataMinAge),
		kgo.WithLogger(kslog.New(Logger(log))),
	}
	dial, err := c.dialer()
	if err != nil {
		return nil, err
	}
	opts = append(opts, kgo.Dialer(dial))
	mechanism, err := c.SASL.mechanism()
	if err != nil {
		return nil, err
	}
	if mechanism != nil {
		opts = append(opts, kgo.SASL(mechanism))
	}
	return opts, nil
}

// Ping asks the cluster for its metadata and returns a *PingError when no broker
// answers before ctx ends.
func (c Config) Ping(ctx context.Context, cl *kgo.Client) error {
	if err := cl.Ping(ctx); err != nil {
		return &PingError{Brokers: c.Brokers, Err: err}
	}
	return nil
}

// dialer opens a connection within DialTimeout, the TLS handshake included.
func (c Config) dialer() (func(ctx context.Context, network, addr string) (net.Conn, error), error) {
	dial := c.Dialer
	if dial == nil {
		dial = (&net.Dialer{}).DialContext
	}
	var conf *tls.Config
	if c.TLS.Enabled {
		var err error
		if conf, err = c.TLS.config(); err != nil {
			return nil, err
		}
	}
	return func(ctx context.Context, network, addr string) (net.Conn, error) {
		ctx, cancel := context.WithTimeout(ctx, c.DialTimeout)
		defer cancel()
		conn, err := dial(ctx, network, addr)
		if err != nil || conf == nil {
			return conn, err
		}
		mine := conf.Clone()
		if mine.ServerName == "" {
			host, _, err := net.SplitHostPort(addr)
			if err != nil {
				host = addr
			}
			mine.ServerName = host
		}
		secured := tls.Client(conn, mine)
		if err := secured.HandshakeContext(ctx); err != nil {
			return nil, errors.Join(fmt.Errorf("tls handshake with %s: %w", addr, err), conn.Close())
		}
		return secured, nil
	}, nil
}

func (t TLS) config() (*tls.Config, error) {
	conf := &tls.Config{MinVersion: tls.VersionTLS12, ServerName: t.ServerName}
	if t.CAFile != "" {
		pem, err := os.ReadFile(t.CAFile)
		if err != nil {
			return nil, fmt.Errorf("read tls.ca_file: %w", err)
		}
		conf.RootCAs = x509.NewCertPool()
		if !conf.RootCAs.AppendCertsFromPEM(pem) {
			return nil, fmt.Errorf("read tls.ca_file %s: %w", t.CAFile, ErrNoCertificates)
		}
	}
	if t.CertFile == "" {
		return conf, nil
	}
	load := func() (*tls.Certificate, error) {
		cert, err := tls.LoadX509KeyPair(t.CertFile, t.KeyFile)
		if err != nil {
			return nil, fmt.Errorf("load tls.cert_file and tls.key_file: %w", err)
		}
		return &cert, nil
	}
	if _, err := load(); err != nil {
		return nil, err
	}
	conf.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return load() }
	return conf, nil
}

func (s SASL) mechanism() (sasl.Mechanism, error) {
	if s.Mechanism == "" {
		return nil, nil //nolint:nilnil // no mechanism is a normal configuration
	}
	password := func() (string, error) {
		if s.PasswordFile == "" {
			return s.Password.Reveal(), nil
		}
		p, err := secret.ReadFile(s.PasswordFile)
		if err != nil {
			return "", fmt.Errorf("sasl.password_file: %w", err)
		}
		return p.Reveal(), nil
	}
	if _, err := password(); err != nil {
		return nil, err
	}
	scramAuth := func(context.Context) (scram.Auth, error) {
		p, err := password()
		return scram.Auth{User: s.Username, Pass: p}, err
	}
	switch s.Mechanism {
	case MechanismScramSHA256:
		return scram.Sha256(scramAuth), nil
	case MechanismScramSHA512:
		return scram.Sha512(scramAuth), nil
	default: // Validate has left only PLAIN
		return plain.Plain(func(context.Context) (plain.Auth, error) {
			p, err := password()
			return plain.Auth{User: s.Username, Pass: p}, err
		}), nil
	}
}

// Logger is the log of Kafka clients: franz-go's info lines at debug, and of
// what repeats a few lines per minute and cause.
func Logger(log *slog.Logger) *slog.Logger {
	return slog.New(obs.NewQuiet(demote{log.Handler()}, obs.QuietOptions{})).With(obs.KeyComponent, "kafka")
}

// demote logs info at debug: franz-go's info lines tell its inner steps, and an
// operator's info level is for what Barnabas does.
type demote struct{ slog.Handler }

func (d demote) Enabled(ctx context.Context, l slog.Level) bool {
	return d.Handler.Enabled(ctx, demoted(l))
}

func (d demote) Handle(ctx context.Context, r slog.Record) error {
	r.Level = demoted(r.Level)
	return d.Handler.Handle(ctx, r)
}

func (d demote) WithAttrs(a []slog.Attr) slog.Handler { return demote{d.Handler.WithAttrs(a)} }
func (d demote) WithGroup(n string) slog.Handler      { return demote{d.Handler.WithGroup(n)} }

func demoted(l slog.Level) slog.Level {
	if l == slog.LevelInfo {
		return slog.LevelDebug
	}
	return l
}
