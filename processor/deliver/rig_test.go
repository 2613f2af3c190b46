package deliver_test

import (
	"bufio"
	"context"
	"crypto/tls"
	"encoding/pem"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"path/filepath"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/barnabas-webhooks/barnabas/processor/deliver"
	"github.com/barnabas-webhooks/barnabas/processor/egress"
	"github.com/barnabas-webhooks/barnabas/processor/endpoint"
	"github.com/barnabas-webhooks/barnabas/schemas"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// key is the signing key of the rig's endpoints.
func key() []byte { return []byte("0123456789abcdef0123456789abcdef") }

// resolver answers from a table; names not in it do not exist.
type resolver map[string][]string

func (r resolver) LookupNetIP(_ context.Context, _, host string) ([]netip.Addr, error) {
	var out []netip.Addr
	for _, a := range r[host] {
		out = append(out, netip.MustParseAddr(a))
	}
	if out == nil {
		return nil, &net.DNSError{Err: "no such host", Name: host, IsNotFound: true}
	}
	return out, nil
}

// rig is a sender whose dialer may reach loopback, and whose names all lead there.
type rig struct {
	*deliver.Sender
	dialer *egress.Dialer
}

type options struct {
	deliver func(*deliver.Config)
	egress  func(*egress.Config)
	network egress.Network
}

func newRig(t *testing.T, o options) *rig {
	t.Helper()
	ec := egress.DefaultConfig()
	ec.AllowLoopback, ec.AllowHTTP = true, true
	if o.egress != nil {
		o.egress(&ec)
	}
	if o.network.Resolver == nil {
		o.network.Resolver = resolver{"receiver.example": {"127.0.0.1"}, "localhost": {"127.0.0.1"}}
	}
	d, err := egress.NewDialer(ec, o.network)
	require.NoError(t, err)
	dc := deliver.DefaultConfig()
	dc.Version = "test"
	if o.deliver != nil {
		o.deliver(&dc)
	}
	s, err := deliver.New(dc, d)
	require.NoError(t, err)
	t.Cleanup(s.Close)
	return &rig{Sender: s, dialer: d}
}

// short makes the limits small, for receivers that never answer; not so small that a busy machine meets them.
func short(c *deliver.Config) {
	c.Timeout = 3 * time.Second
	c.TLSTimeout = 2 * time.Second
	c.HeaderTimeout = 2 * time.Second
}

// request is a plain one to the URL.
func request(url string) deliver.Request {
	return deliver.Request{
		Number: 1,
		Delivery: &schemas.Delivery{
			ID: "dlv_1", EndpointID: "ep_1", EventType: "invoice.paid", ContentType: "application/json",
			Payload: []byte(`{"n":1}`),
		},
		Endpoint: &endpoint.Endpoint{
			Endpoint: schemas.Endpoint{ID: "ep_1", URL: url, State: schemas.EndpointEnabled},
			Keys:     []endpoint.Key{{Secret: key()}},
		},
	}
}

// serve runs a whole net/http receiver on loopback.
func serve(t *testing.T, h http.HandlerFunc) string {
	t.Helper()
	srv := httptest.NewServer(h)
	t.Cleanup(srv.Close)
	return srv.URL
}

// raw listens on loopback and hands every connection to the script, which may do to it what it likes. The address
// is returned. Scripts get the number of the connection, from 0; they end with the test.
func raw(t *testing.T, script func(n int, c net.Conn)) string {
	t.Helper()
	l, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	require.NoError(t, err)
	var wg sync.WaitGroup
	var mu sync.Mutex
	var open []net.Conn
	wg.Go(func() {
		for n := 0; ; n++ {
			c, err := l.Accept()
			if err != nil {
				return
			}
			mu.Lock()
			open = append(open, c)
			mu.Unlock()
			wg.Go(func() {
				defer func() { _ = c.Close() }()
				script(n, c)
			})
		}
	})
	t.Cleanup(func() {
		_ = l.Close()
		mu.Lock()
		for _, c := range open {
			_ = c.Close()
		}
		mu.Unlock()
		wg.Wait()
	})
	return l.Addr().String()
}

// readRequest takes one whole request off the connection.
func readRequest(br *bufio.Reader) (*http.Request, []byte, error) {
	req, err := http.ReadRequest(br)
	if err != nil {
		return nil, nil, err
	}
	body, err := io.ReadAll(req.Body)
	return req, body, err
}

// answering is a script that reads one request and writes the text.
func answering(text string) func(int, net.Conn) {
	return func(_ int, c net.Conn) {
		if _, _, err := readRequest(bufio.NewReader(c)); err == nil {
			_, _ = io.WriteString(c, text)
		}
	}
}

// silent reads until the other side gives up.
func silent(_ int, c net.Conn) { _, _ = io.Copy(io.Discard, c) }

// authority is a certificate for loopback and example names, with the file to trust it by.
func authority(t *testing.T) (tls.Certificate, string) {
	t.Helper()
	srv := httptest.NewUnstartedServer(nil)
	srv.StartTLS()
	cert := srv.TLS.Certificates[0]
	srv.Close()
	file := filepath.Join(t.TempDir(), "ca.pem")
	block := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: cert.Certificate[0]})
	require.NoError(t, os.WriteFile(file, block, 0o600))
	return cert, file
}

// trusting sets the CA file.
func trusting(file string, more ...func(*deliver.Config)) func(*deliver.Config) {
	return func(c *deliver.Config) {
		c.CAFile = file
		for _, m := range more {
			m(c)
		}
	}
}

// overTLS wraps a script: the handshake first, with the given ALPN protocols.
func overTLS(cert tls.Certificate, alpn []string, script func(n int, c net.Conn)) func(int, net.Conn) {
	return func(n int, c net.Conn) {
		tc := tls.Server(c, &tls.Config{Certificates: []tls.Certificate{cert}, NextProtos: alpn, MinVersion: tls.VersionTLS12})
		if tc.Handshake() == nil {
			script(n, tc)
		}
	}
}

// planted asserts that none of the secrets in the rig's URLs and headers is in a text.
func planted(t *testing.T, text string) {
	t.Helper()
	for _, secret := range []string{"PASSWORD", "TOKENPATH", "TOKENQ", "HEADERSECRET", string(key())} {
		require.NotContains(t, text, secret, "a secret is in %q", text)
	}
}

// redirect leads every connection to one address, or lets it through (to is empty), and remembers what was asked for.
type redirect struct {
	to     string
	refuse bool

	mu    sync.Mutex
	asked []string
}

func (r *redirect) dial(ctx context.Context, network, address string) (net.Conn, error) {
	r.mu.Lock()
	r.asked = append(r.asked, address)
	r.mu.Unlock()
	if r.refuse {
		return nil, &net.OpError{Op: "dial", Net: network, Err: syscall.ECONNREFUSED}
	}
	if r.to != "" {
		address = r.to
	}
	return (&net.Dialer{}).DialContext(ctx, network, address)
}

func (r *redirect) seen() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.asked
}
