package kafka_test

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"io"
	"log/slog"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/barnabas-webhooks/barnabas/internal/kafka"
	"github.com/barnabas-webhooks/barnabas/internal/secret"
)

func quietLog() *slog.Logger { return slog.New(slog.NewTextHandler(io.Discard, nil)) }

// ping makes a client of the configuration and says whether it reaches the cluster.
func ping(t *testing.T, conf kafka.Config) error {
	t.Helper()
	opts, err := conf.Options(quietLog())
	require.NoError(t, err)
	cl, err := kgo.NewClient(opts...)
	require.NoError(t, err)
	defer cl.Close()
	return conf.Ping(t.Context(), cl)
}

func broker(t *testing.T, opts ...kfake.Opt) *kfake.Cluster {
	t.Helper()
	c, err := kfake.NewCluster(append([]kfake.Opt{kfake.NumBrokers(1)}, opts...)...)
	require.NoError(t, err)
	t.Cleanup(c.Close)
	return c
}

// at is the configuration for a cluster.
func at(c *kfake.Cluster) kafka.Config {
	conf := kafka.DefaultConfig()
	conf.Brokers = c.ListenAddrs()
	return conf
}

func cluster(t *testing.T, opts ...kfake.Opt) kafka.Config {
	t.Helper()
	return at(broker(t, opts...))
}

func TestOptions_PlainConnection(t *testing.T) {
	t.Parallel()
	require.NoError(t, ping(t, cluster(t)))
}

func TestOptions_SASL(t *testing.T) {
	t.Parallel()
	for _, mechanism := range kafka.Mechanisms() {
		t.Run(mechanism, func(t *testing.T) {
			t.Parallel()
			conf := cluster(t, kfake.EnableSASL(), kfake.Superuser(mechanism, "barnabas", "planted-secret"))
			conf.SASL = kafka.SASL{Mechanism: mechanism, Username: "barnabas", Password: "planted-secret"}
			require.NoError(t, ping(t, conf))

			file := filepath.Join(t.TempDir(), "password")
			require.NoError(t, os.WriteFile(file, []byte("planted-secret\n"), 0o600))
			conf.SASL.Password, conf.SASL.PasswordFile = "", file
			require.NoError(t, ping(t, conf), "C-203: the line end of a password file is not part of it")

			conf.SASL.PasswordFile, conf.SASL.Password = "", secret.String("planted-wrong")
			err := ping(t, conf)
			var pingErr *kafka.PingError
			require.ErrorAs(t, err, &pingErr)
			require.NotContains(t, err.Error(), "planted")
		})
	}
}

// A renewed password is used at the next authentication, without a restart (C-131).
func TestOptions_PasswordFileIsReadAgain(t *testing.T) {
	t.Parallel()
	conf := cluster(t, kfake.EnableSASL(), kfake.Superuser(kafka.MechanismPlain, "u", "right"))
	file := filepath.Join(t.TempDir(), "password")
	require.NoError(t, os.WriteFile(file, []byte("wrong"), 0o600))
	conf.SASL = kafka.SASL{Mechanism: kafka.MechanismPlain, Username: "u", PasswordFile: file}
	opts, err := conf.Options(quietLog())
	require.NoError(t, err)
	cl, err := kgo.NewClient(opts...)
	require.NoError(t, err)
	defer cl.Close()

	require.Error(t, conf.Ping(t.Context(), cl))
	require.NoError(t, os.WriteFile(file, []byte("right"), 0o600))
	require.NoError(t, conf.Ping(t.Context(), cl))
}

func TestOptions_TLS(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	ca := newAuthority(t, "test authority")
	server := ca.issue(t, dir, "server", "127.0.0.1")
	client := ca.issue(t, dir, "client", "")
	other := newAuthority(t, "another authority")
	caFile, otherFile := ca.write(t, dir, "ca.pem"), other.write(t, dir, "other.pem")

	cert, err := tls.LoadX509KeyPair(server.cert, server.key)
	require.NoError(t, err)
	pool := x509.NewCertPool()
	pool.AddCert(ca.cert)
	base := cluster(t, kfake.TLS(&tls.Config{
		MinVersion: tls.VersionTLS12, Certificates: []tls.Certificate{cert},
		ClientCAs: pool, ClientAuth: tls.RequireAndVerifyClientCert,
	}))

	for name, c := range map[string]struct {
		tls kafka.TLS
		ok  bool
		say string
	}{
		"mutual":              {kafka.TLS{Enabled: true, CAFile: caFile, CertFile: client.cert, KeyFile: client.key}, true, ""},
		"no certificate":      {kafka.TLS{Enabled: true, CAFile: caFile}, false, ""},
		"unknown authority":   {kafka.TLS{Enabled: true, CAFile: otherFile, CertFile: client.cert, KeyFile: client.key}, false, "authority"},
		"system's authority":  {kafka.TLS{Enabled: true, CertFile: client.cert, KeyFile: client.key}, false, "authority"},
		"another server name": {kafka.TLS{Enabled: true, CAFile: caFile, CertFile: client.cert, KeyFile: client.key, ServerName: "kafka.example"}, false, "kafka.example"},
		"no TLS at all":       {kafka.TLS{}, false, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			conf := base
			conf.TLS = c.tls
			err := ping(t, conf)
			if c.ok {
				require.NoError(t, err)
				return
			}
			require.Error(t, err)
			require.ErrorContains(t, err, c.say)
		})
	}
}

func TestOptions_BrokenFilesAreReportedAtStart(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	garbage := filepath.Join(dir, "garbage")
	require.NoError(t, os.WriteFile(garbage, []byte("planted-secret, not PEM"), 0o600))
	empty := filepath.Join(dir, "empty")
	require.NoError(t, os.WriteFile(empty, []byte("\n"), 0o600))
	for name, c := range map[string]struct {
		change func(*kafka.Config)
		want   string
	}{
		"absent CA":         {func(c *kafka.Config) { c.TLS = kafka.TLS{Enabled: true, CAFile: "/absent"} }, "tls.ca_file"},
		"CA without PEM":    {func(c *kafka.Config) { c.TLS = kafka.TLS{Enabled: true, CAFile: garbage} }, "no PEM certificate"},
		"certificate":       {func(c *kafka.Config) { c.TLS = kafka.TLS{Enabled: true, CertFile: garbage, KeyFile: garbage} }, "tls.cert_file"},
		"absent password":   {func(c *kafka.Config) { c.SASL = kafka.SASL{Mechanism: "PLAIN", Username: "u", PasswordFile: "/absent"} }, "password_file"},
		"empty password":    {func(c *kafka.Config) { c.SASL = kafka.SASL{Mechanism: "PLAIN", Username: "u", PasswordFile: empty} }, "empty"},
		"invalid settings":  {func(c *kafka.Config) { c.Brokers = nil }, "brokers"},
		"unknown mechanism": {func(c *kafka.Config) { c.SASL.Mechanism = "GSSAPI" }, "sasl.mechanism"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			conf := kafka.DefaultConfig()
			c.change(&conf)
			_, err := conf.Options(quietLog())
			require.ErrorContains(t, err, c.want)
			require.NotContains(t, err.Error(), "planted-secret")
		})
	}
}

// A whole client and broker on a virtual network: what the simulation does.
func TestOptions_DialerOverride(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var network kfake.VirtualNetwork
		c, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.Ports(9092), kfake.ListenFn(network.Listen))
		require.NoError(t, err)
		defer c.Close()
		conf := kafka.DefaultConfig()
		conf.Brokers = []string{"localhost:9092"}
		conf.Dialer = network.DialContext
		require.NoError(t, ping(t, conf))
	})
}

// C-236: five minutes of a refusing broker leave a few lines per minute and cause.
func TestOptions_ARefusingBrokerDoesNotFloodTheLog(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var network kfake.VirtualNetwork // nobody listens
		conf := kafka.DefaultConfig()
		conf.Brokers = []string{"localhost:9092"}
		var mu sync.Mutex
		dials := 0
		conf.Dialer = func(ctx context.Context, n, addr string) (net.Conn, error) {
			mu.Lock()
			dials++
			mu.Unlock()
			return network.DialContext(ctx, n, addr)
		}
		var out lockedBuffer
		opts, err := conf.Options(slog.New(slog.NewTextHandler(&out, &slog.HandlerOptions{Level: slog.LevelInfo})))
		require.NoError(t, err)
		cl, err := kgo.NewClient(append(opts, kgo.ConsumerGroup("g"), kgo.ConsumeTopics("t"))...)
		require.NoError(t, err)
		time.Sleep(5 * time.Minute)
		cl.Close()

		mu.Lock()
		defer mu.Unlock()
		require.Greater(t, dials, 30, "it goes on trying")
		require.Less(t, dials, 3000, "and backs off between tries")
		require.NotEmpty(t, out.String())
		byMessage := map[string]int{}
		for line := range strings.Lines(out.String()) {
			require.Contains(t, line, "component=kafka")
			_, rest, _ := strings.Cut(line, "msg=")
			msg, _, _ := strings.Cut(rest, " addr")
			byMessage[msg]++
		}
		for msg, n := range byMessage {
			require.LessOrEqual(t, n, 18, "3 lines a minute and cause: %s", msg)
		}
		require.Less(t, strings.Count(out.String(), "\n"), 60, out.String())
	})
}

// lockedBuffer is a log's sink.
type lockedBuffer struct {
	mu  sync.Mutex // guards buf
	buf bytes.Buffer
}

func (b *lockedBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.Write(p)
}

func (b *lockedBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.String()
}

// authority signs certificates for tests.
type authority struct {
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
}

type pair struct{ cert, key string } // files

func newAuthority(t *testing.T, name string) authority {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: name},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	require.NoError(t, err)
	cert, err := x509.ParseCertificate(der)
	require.NoError(t, err)
	return authority{cert: cert, key: key}
}

func (a authority) write(t *testing.T, dir, name string) string {
	t.Helper()
	return writePEM(t, filepath.Join(dir, name), "CERTIFICATE", a.cert.Raw)
}

func (a authority) issue(t *testing.T, dir, name, ip string) pair {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	template := &x509.Certificate{
		SerialNumber: big.NewInt(2), Subject: pkix.Name{CommonName: name},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}
	if ip != "" {
		template.IPAddresses = []net.IP{net.ParseIP(ip)}
	}
	der, err := x509.CreateCertificate(rand.Reader, template, a.cert, &key.PublicKey, a.key)
	require.NoError(t, err)
	keyDER, err := x509.MarshalECPrivateKey(key)
	require.NoError(t, err)
	return pair{
		cert: writePEM(t, filepath.Join(dir, name+".pem"), "CERTIFICATE", der),
		key:  writePEM(t, filepath.Join(dir, name+".key"), "EC PRIVATE KEY", keyDER),
	}
}

func writePEM(t *testing.T, path, kind string, der []byte) string {
	t.Helper()
	require.NoError(t, os.WriteFile(path, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}), 0o600))
	return path
}
