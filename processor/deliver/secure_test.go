package deliver_test

import (
	"bufio"
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"io"
	"log" //nolint:depguard // what net/http takes
	"log/slog"
	"math/big"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/barnabas-webhooks/barnabas/processor/deliver"
	"github.com/barnabas-webhooks/barnabas/processor/egress"
	"github.com/barnabas-webhooks/barnabas/retry"
	"github.com/barnabas-webhooks/barnabas/schemas"
)

// issue makes a certificate signed by itself, and the file to trust it by.
func issue(t *testing.T, change func(*x509.Certificate)) (tls.Certificate, string) {
	t.Helper()
	k, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "test"},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		DNSNames: []string{"receiver.example"}, IsCA: true, BasicConstraintsValid: true,
		KeyUsage: x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign,
	}
	change(template)
	der, err := x509.CreateCertificate(rand.Reader, template, template, &k.PublicKey, k)
	require.NoError(t, err)
	file := filepath.Join(t.TempDir(), "ca.pem")
	require.NoError(t, os.WriteFile(file, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), 0o600))
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: k}, file
}

// C-056, C-062: certificates by cause.
func TestAttempt_Certificates(t *testing.T) {
	t.Parallel()
	same := func(*x509.Certificate) {}
	cases := map[string]struct {
		change func(*x509.Certificate)
		trust  bool
		server func(*tls.Config)
		want   retry.Class
		reason string
	}{
		"trusted by the CA file": {same, true, nil, retry.OK, ""},
		"unknown authority":      {same, false, nil, retry.TLS, "unknown authority"},
		"expired":                {func(c *x509.Certificate) { c.NotAfter = time.Now().Add(-time.Minute) }, true, nil, retry.TLS, "expired"},
		"not yet valid": {func(c *x509.Certificate) {
			c.NotBefore = time.Now().Add(time.Minute)
		}, true, nil, retry.TLS, "not yet valid"},
		"wrong name": {func(c *x509.Certificate) { c.DNSNames = []string{"other.example"} }, true, nil, retry.TLS, "not for the host receiver.example"},
		"old TLS": {same, true, func(c *tls.Config) {
			c.MinVersion, c.MaxVersion = tls.VersionTLS10, tls.VersionTLS11
		}, retry.TLS, "protocol version"},
		"wants a client certificate": {same, true, func(c *tls.Config) {
			c.ClientAuth, c.MaxVersion = tls.RequireAnyClientCert, tls.VersionTLS12 // in 1.3 the alert may be overtaken
		}, retry.TLS, "TLS: "},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			cert, ca := issue(t, c.change)
			if !c.trust {
				ca = ""
			}
			addr := raw(t, func(_ int, conn net.Conn) {
				cfg := &tls.Config{Certificates: []tls.Certificate{cert}, MinVersion: tls.VersionTLS12}
				if c.server != nil {
					c.server(cfg)
				}
				tc := tls.Server(conn, cfg)
				if _, _, err := readRequest(bufio.NewReader(tc)); err == nil {
					_, _ = io.WriteString(tc, okAnswer)
				}
				silent(0, conn) // closing with bytes unread would send a reset that overtakes the alert
			})
			r := newRig(t, options{deliver: trusting(ca), network: toAddress(addr)})
			res := r.Attempt(t.Context(), request("https://receiver.example/TOKENPATH"))
			require.Equal(t, c.want, res.Class, res.Error)
			require.Contains(t, res.Error, c.reason)
			planted(t, res.Error)
		})
	}
}

// toAddress leads every connection to one address.
func toAddress(addr string) egress.Network {
	return egress.Network{Dial: (&redirect{to: addr}).dial}
}

func TestNew_CAFile(t *testing.T) {
	t.Parallel()
	d, err := egress.NewDialer(egress.DefaultConfig(), egress.Network{})
	require.NoError(t, err)
	cfg := deliver.DefaultConfig()
	cfg.CAFile = filepath.Join(t.TempDir(), "none.pem")
	_, err = deliver.New(cfg, d)
	require.ErrorIs(t, err, os.ErrNotExist)
	require.NoError(t, os.WriteFile(cfg.CAFile, []byte("nothing"), 0o600))
	_, err = deliver.New(cfg, d)
	require.ErrorContains(t, err, "no PEM certificate")
	_, cfg.CAFile = issue(t, func(*x509.Certificate) {})
	s, err := deliver.New(cfg, d)
	require.NoError(t, err)
	require.False(t, s.RootsEmpty())
}

func TestConfig_Validate(t *testing.T) {
	t.Parallel()
	require.NoError(t, deliver.DefaultConfig().Validate())
	err := deliver.Config{}.Validate()
	for _, name := range []string{
		"timeout", "max_timeout", "tls_timeout", "header_timeout", "max_header_bytes", "max_body_bytes", "max_retry_after",
		"max_idle_conns", "max_idle_conns_per_host", "idle_conn_timeout", "max_conn_age", "ping_after", "ping_timeout",
	} {
		require.ErrorContains(t, err, name+": ")
	}
	c := deliver.DefaultConfig()
	c.Timeout, c.MaxExcerptBytes = time.Hour, 5000
	require.ErrorContains(t, c.Validate(), "timeout: 1h0m0s is not in (0, 30s]")
	require.ErrorContains(t, c.Validate(), "max_excerpt_bytes")
}

// C-160 to C-171 at connect time: nothing forbidden is dialled, whether by literal or by name.
func TestAttempt_Blocked(t *testing.T) {
	t.Parallel()
	dialled := &redirect{to: "127.0.0.1:1"}
	names := resolver{
		"internal.example": {"10.0.0.1"}, "meta.example": {"169.254.169.254"}, "mapped.example": {"::ffff:127.0.0.1"},
		"nat64.example": {"64:ff9b::7f00:1"},
	}
	r := newRig(t, options{
		network: egress.Network{Resolver: names, Dial: dialled.dial},
		egress:  func(c *egress.Config) { c.AllowLoopback = false },
	})
	for _, host := range []string{
		"internal.example", "meta.example", "mapped.example", "nat64.example", "127.0.0.1", "127.0.0.1.", "[::1]", "10.1.2.3:8080",
		"169.254.169.254", "localhost", "LOCALHOST.", "metadata.google.internal", "[::ffff:a9fe:a9fe]",
	} {
		for _, scheme := range []string{"http", "https"} {
			res := r.Attempt(t.Context(), request(scheme+"://"+host+"/TOKENPATH?TOKENQ"))
			require.Equal(t, retry.Blocked, res.Class, "%s: %s", host, res.Error)
			require.False(t, res.Sent)
			planted(t, res.Error)
		}
	}
	require.Empty(t, dialled.seen())
}

// C-174: through the operator's proxy; the environment's is ignored; what the proxy may not reach stays blocked.
func TestAttempt_Proxy(t *testing.T) {
	cert, ca := issue(t, func(*x509.Certificate) {})
	receiver := raw(t, overTLS(cert, nil, answering(okAnswer)))
	var connects []string
	proxy := raw(t, func(_ int, c net.Conn) {
		req, err := http.ReadRequest(bufio.NewReader(c))
		if err != nil {
			return
		}
		connects = append(connects, req.Method+" "+req.Host+" "+req.Header.Get("Proxy-Authorization"))
		if req.Host != "receiver.example:443" {
			_, _ = io.WriteString(c, "HTTP/1.1 407 Denied PASSWORD\r\nContent-Length: 0\r\n\r\n")
			return
		}
		up, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", receiver)
		if err != nil {
			return
		}
		_, _ = io.WriteString(c, "HTTP/1.1 200 OK\r\n\r\n")
		go func() { _, _ = io.Copy(up, c); _ = up.Close() }()
		_, _ = io.Copy(c, up)
	})
	t.Setenv("HTTPS_PROXY", "http://127.0.0.1:1")
	t.Setenv("HTTP_PROXY", "http://127.0.0.1:1")

	dialled := &redirect{}
	r := newRig(t, options{
		deliver: trusting(ca),
		network: egress.Network{Resolver: resolver{}, Dial: dialled.dial}, // names are the proxy's to resolve
		egress: func(c *egress.Config) {
			c.AllowLoopback = false
			c.Proxy = "http://user:PASSWORD@" + proxy // loopback: the guard is not for it
			c.NoProxy = []string{"direct.example"}
		},
	})
	res := r.Attempt(t.Context(), request("https://receiver.example/hook"))
	require.Equal(t, retry.OK, res.Class, res.Error)

	res = r.Attempt(t.Context(), request("https://other.example/hook"))
	require.Equal(t, retry.Connect, res.Class)
	require.Contains(t, res.Error, "407")
	planted(t, res.Error)

	for _, url := range []string{"https://10.0.0.1/", "http://" + proxy + "/", "https://localhost/"} {
		res = r.Attempt(t.Context(), request(url))
		require.Equal(t, retry.Blocked, res.Class, url)
	}
	res = r.Attempt(t.Context(), request("https://direct.example/"))
	require.Equal(t, retry.DNS, res.Class, "not through the proxy")
	require.Equal(t, []string{
		"CONNECT receiver.example:443 Basic dXNlcjpQQVNTV09SRA==", "CONNECT other.example:443 Basic dXNlcjpQQVNTV09SRA==",
	}, connects)
	for _, a := range dialled.seen() {
		require.Equal(t, proxy, a)
	}
}

// Without an explicit proxy the environment's is not asked.
func TestAttempt_EnvironmentProxyIsIgnored(t *testing.T) {
	t.Setenv("HTTP_PROXY", "http://127.0.0.1:1")
	t.Setenv("HTTPS_PROXY", "http://127.0.0.1:1")
	got := &recorder{}
	url := serve(t, got.ServeHTTP)
	r := newRig(t, options{network: toAddress(strings.TrimPrefix(url, "http://"))})
	// Go's own rule leaves loopback out, so a name is needed to see the difference.
	res := r.Attempt(t.Context(), request("http://receiver.example/"))
	require.Equal(t, retry.OK, res.Class, res.Error)
}

// C-193: one endpoint full of secrets fails in every way there is; nothing of them is in a result or in a log.
func TestAttempt_NoSecretsInResults(t *testing.T) {
	var logged bytes.Buffer
	log.SetOutput(&logged)
	slog.SetDefault(slog.New(slog.NewTextHandler(&logged, &slog.HandlerOptions{Level: slog.LevelDebug})))
	t.Cleanup(func() { log.SetOutput(os.Stderr); slog.SetDefault(slog.New(slog.NewTextHandler(os.Stderr, nil))) })

	cert, ca := issue(t, func(*x509.Certificate) {})
	echo := func(_ int, c net.Conn) { // sends the request back as it came
		buf := make([]byte, 8<<10)
		n, _ := c.Read(buf)
		_, _ = c.Write(buf[:n])
	}
	closed := raw(t, func(int, net.Conn) {})
	const path = "/services/TOKENPATH?token=TOKENQ"
	seen := map[retry.Class]bool{}
	for name, c := range map[string]struct {
		url    string
		script func(int, net.Conn)
	}{
		"refused":         {"http://nobody.example" + path, nil},
		"no such host":    {"http://nx.example" + path, nil},
		"blocked":         {"http://10.0.0.1" + path, nil},
		"user info":       {"http://u:PASSWORD@receiver.example" + path, nil},
		"bad escape":      {"http://receiver.example/TOKENPATH%zz?TOKENQ", nil},
		"TLS to plain":    {"https://receiver.example" + path, echo},
		"unknown CA":      {"https://receiver.example" + path, overTLS(mustAuthority(t), nil, silent)},
		"timeout":         {"http://receiver.example" + path, silent},
		"TLS timeout":     {"https://receiver.example" + path, silent},
		"reset":           {"http://receiver.example" + path, reset},
		"echo":            {"http://receiver.example" + path, echo},
		"echo over TLS":   {"https://receiver.example" + path, overTLS(cert, nil, echo)},
		"echo over h2":    {"https://receiver.example" + path, overTLS(cert, []string{"h2"}, echo)},
		"redirect":        {"http://receiver.example" + path, answering("HTTP/1.1 302 Found\r\nLocation: http://u:PASSWORD@x/TOKENPATH\r\nContent-Length: 0\r\n\r\n")},
		"500":             {"http://receiver.example" + path, answering("HTTP/1.1 500 TOKENPATH\r\nContent-Length: 0\r\n\r\n")},
		"410":             {"http://receiver.example" + path, answering("HTTP/1.1 410 Gone\r\nContent-Length: 0\r\n\r\n")},
		"429":             {"http://receiver.example" + path, answering("HTTP/1.1 429 Slow\r\nContent-Length: 0\r\n\r\n")},
		"404":             {"http://receiver.example" + path, answering("HTTP/1.1 404 No\r\nContent-Length: 0\r\n\r\n")},
		"too long header": {"http://receiver.example" + path, answering("HTTP/1.1 200 OK\r\nX: " + strings.Repeat("TOKENPATH", 9000) + "\r\n\r\n")},
	} {
		to := &redirect{to: closed}
		if c.script != nil {
			to.to = raw(t, c.script)
		} else {
			to.refuse = true
		}
		r := newRig(t, options{deliver: trusting(ca, short), network: egress.Network{
			Resolver: resolver{"receiver.example": {"127.0.0.1"}, "nobody.example": {"127.0.0.1"}}, Dial: to.dial,
		}})
		req := request(c.url)
		req.Endpoint.Headers = []schemas.Header{{Key: "Authorization", Value: []byte("Bearer HEADERSECRET")}}
		res := r.Attempt(t.Context(), req)
		require.NotEqual(t, retry.OK, res.Class, name)
		require.NotEmpty(t, res.Error, name)
		planted(t, res.Error)
		planted(t, string(res.Excerpt))
		seen[res.Class] = true
		r.Close()
	}
	planted(t, logged.String())
	for _, class := range retry.Classes() { // C-214: the classes are told apart
		if class != retry.OK && class != retry.Cancelled {
			require.True(t, seen[class], class)
		}
	}
}

func mustAuthority(t *testing.T) tls.Certificate {
	t.Helper()
	cert, _ := authority(t)
	return cert
}
