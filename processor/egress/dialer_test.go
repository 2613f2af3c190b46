package egress_test

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"net/url"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/barnabas-webhooks/barnabas/processor/egress"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// world is a network of our own: names, and how each address behaves. Nothing real is ever dialled.
type world struct {
	names  map[string][][]string // the answers to successive queries; the last one repeats
	silent time.Duration         // how long the resolver takes
	hosts  map[string]string     // address -> "ok", "refused", "unreachable"; else a black hole

	mu      sync.Mutex
	queries map[string]int
	dialled []string
	open    int // connections not closed
}

func (w *world) LookupNetIP(ctx context.Context, _, host string) ([]netip.Addr, error) {
	if w.silent > 0 {
		select {
		case <-time.After(w.silent):
		case <-ctx.Done():
			return nil, &net.DNSError{Err: "i/o timeout", Name: host, IsTimeout: true}
		}
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	answers := w.names[host]
	if len(answers) == 0 {
		return nil, &net.DNSError{Err: "no such host", Name: host, IsNotFound: true}
	}
	if w.queries == nil {
		w.queries = map[string]int{}
	}
	n := min(w.queries[host], len(answers)-1)
	w.queries[host]++
	var out []netip.Addr
	for _, a := range answers[n] {
		out = append(out, netip.MustParseAddr(a))
	}
	return out, nil
}

func (w *world) Dial(ctx context.Context, _, address string) (net.Conn, error) {
	ap := netip.MustParseAddrPort(address)
	w.mu.Lock()
	w.dialled = append(w.dialled, address)
	behaviour := w.hosts[ap.Addr().String()]
	w.mu.Unlock()
	switch behaviour {
	case "ok":
		a, b := net.Pipe()
		_ = b.Close()
		w.mu.Lock()
		w.open++
		w.mu.Unlock()
		return &conn{Conn: a, address: address, closed: sync.OnceFunc(func() {
			w.mu.Lock()
			defer w.mu.Unlock()
			w.open--
		})}, nil
	case "refused":
		return nil, &net.OpError{Op: "dial", Net: "tcp", Err: syscall.ECONNREFUSED}
	case "unreachable":
		return nil, &net.OpError{Op: "dial", Net: "tcp", Err: syscall.EHOSTUNREACH}
	}
	<-ctx.Done()
	return nil, &net.OpError{Op: "dial", Net: "tcp", Err: ctx.Err()}
}

// conn knows what was dialled.
type conn struct {
	net.Conn
	address string
	closed  func()
}

func (c *conn) Close() error { c.closed(); return c.Conn.Close() }

func dialer(t *testing.T, w *world, change ...func(*egress.Config)) *egress.Dialer {
	t.Helper()
	cfg := egress.DefaultConfig()
	for _, c := range change {
		c(&cfg)
	}
	d, err := egress.NewDialer(cfg, egress.Network{Resolver: w, Dial: w.Dial})
	require.NoError(t, err)
	return d
}

// dial connects, closes, and says to which address.
func dial(t *testing.T, d *egress.Dialer, address string) (string, error) {
	t.Helper()
	c, err := d.DialContext(t.Context(), "tcp", address)
	if err != nil {
		require.Nil(t, c)
		return "", err
	}
	got := c.(*conn).address
	require.NoError(t, c.Close())
	return got, nil
}

// C-054: a broken address costs at most a few hundred milliseconds, whichever it is.
func TestDialer_FallsBackOverAllAddresses(t *testing.T) {
	t.Parallel()
	cases := map[string]struct {
		addrs []string
		hosts map[string]string
		want  string
		most  time.Duration
	}{
		"black-holed AAAA, good A": {
			[]string{"2606:4700::1", "8.8.8.8"}, map[string]string{"8.8.8.8": "ok"}, "8.8.8.8:443", 200 * time.Millisecond,
		},
		"refused A, good AAAA": {
			[]string{"8.8.8.8", "2606:4700::1"},
			map[string]string{"8.8.8.8": "refused", "2606:4700::1": "ok"},
			"[2606:4700::1]:443", 0,
		},
		"four, only the last alive": {
			[]string{"8.8.8.1", "8.8.8.2", "8.8.8.3", "8.8.8.4"},
			map[string]string{"8.8.8.4": "ok"},
			"8.8.8.4:443",
			600 * time.Millisecond,
		},
		"a broken family costs one head start": {
			[]string{"2606:4700::1", "2606:4700::2", "2606:4700::3", "8.8.8.8"},
			map[string]string{"8.8.8.8": "ok"},
			"8.8.8.8:443", 200 * time.Millisecond,
		},
		"unreachable family": {
			[]string{"2606:4700::1", "2606:4700::2", "8.8.8.8"},
			map[string]string{"2606:4700::1": "unreachable", "2606:4700::2": "unreachable", "8.8.8.8": "ok"},
			"8.8.8.8:443", 0,
		},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				w := &world{names: map[string][][]string{"host.example": {c.addrs}}, hosts: c.hosts}
				d := dialer(t, w)
				begin := time.Now()
				got, err := dial(t, d, "host.example:443")
				require.NoError(t, err)
				require.Equal(t, c.want, got)
				require.LessOrEqual(t, time.Since(begin), c.most) // virtual time: exact
				synctest.Wait()
				require.Zero(t, w.open, "no connection is left open")
			})
		})
	}
}

// The slower of two good addresses is closed again.
func TestDialer_ClosesLateConnections(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := &world{names: map[string][][]string{"host.example": {{"8.8.8.1", "8.8.8.2"}}}, hosts: map[string]string{
			"8.8.8.1": "ok", "8.8.8.2": "ok",
		}}
		slow := func(ctx context.Context, network, address string) (net.Conn, error) {
			if address == "8.8.8.1:80" {
				time.Sleep(250 * time.Millisecond) // does not heed its context
			} else {
				time.Sleep(10 * time.Millisecond)
			}
			return w.Dial(ctx, network, address)
		}
		d, err := egress.NewDialer(egress.DefaultConfig(), egress.Network{Resolver: w, Dial: slow})
		require.NoError(t, err)
		got, err := dial(t, d, "host.example:80")
		require.NoError(t, err)
		require.Equal(t, "8.8.8.2:80", got)
		time.Sleep(time.Second)
		synctest.Wait()
		require.Len(t, w.dialled, 2)
		require.Zero(t, w.open)
	})
}

func TestDialer_TimeLimits(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		many := []string{"8.8.8.1", "8.8.8.2", "8.8.8.3", "8.8.8.4", "8.8.8.5", "8.8.8.6", "8.8.8.7", "8.8.8.8", "8.8.8.9"}
		w := &world{names: map[string][][]string{"hole.example": {many}}}
		d := dialer(t, w)
		begin := time.Now()
		_, err := dial(t, d, "hole.example:443")
		var connect *egress.ConnectError
		require.ErrorAs(t, err, &connect)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.Equal(t, 3*time.Second, time.Since(begin))
		synctest.Wait()
		require.Len(t, w.dialled, 8, "the addresses tried are bounded")

		slow := dialer(t, &world{silent: time.Hour})
		begin = time.Now()
		_, err = dial(t, slow, "host.example:443")
		var resolve *egress.ResolveError
		require.ErrorAs(t, err, &resolve)
		require.ErrorContains(t, err, "resolve host.example: the resolver did not answer in time")
		require.Equal(t, 3*time.Second, time.Since(begin), "and a second to see whether it answers anything")

		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(time.Second, cancel)
		_, err = d.DialContext(ctx, "tcp", "hole.example:443")
		require.ErrorIs(t, err, context.Canceled)
	})
}

func TestDialer_TypedErrors(t *testing.T) {
	t.Parallel()
	w := &world{names: map[string][][]string{"gone.example": {{}}, "down.example": {{"8.8.8.1", "8.8.8.2"}}}, hosts: map[string]string{
		"8.8.8.1": "refused", "8.8.8.2": "unreachable",
	}}
	d := dialer(t, w)
	_, err := dial(t, d, "nx.example:443")
	var resolve *egress.ResolveError
	require.ErrorAs(t, err, &resolve)
	require.ErrorContains(t, err, "no such host")
	_, err = dial(t, d, "gone.example:443")
	require.ErrorAs(t, err, &resolve, "an answer without addresses")
	_, err = dial(t, d, "down.example:443")
	require.ErrorIs(t, err, syscall.ECONNREFUSED)
	require.ErrorIs(t, err, syscall.EHOSTUNREACH)
	require.ErrorContains(t, err, "2 addresses failed")
}

// C-160, C-161, C-163, C-165: the address that is dialled is a permitted one, whatever names resolve to; not one
// packet goes to another.
func TestDialer_DialsOnlyPermittedAddresses(t *testing.T) {
	t.Parallel()
	forbidden := []string{
		"127.0.0.1", "10.0.0.1", "169.254.169.254", "::1", "::ffff:10.0.0.1", "64:ff9b::a9fe:a9fe", "2002:7f00:1::1", "fd00:ec2::254",
		"0.0.0.0", "100.64.0.1",
	}
	w := &world{
		names: map[string][][]string{
			"mixed.example":  {{"10.0.0.1", "8.8.8.8", "::1"}},
			"rebind.example": {{"8.8.8.8"}, {"127.0.0.1"}, {"8.8.8.8", "169.254.169.254"}},
			"mapped.example": {{"::ffff:8.8.8.8"}},
		},
		hosts: map[string]string{"8.8.8.8": "ok"},
	}
	for i, a := range forbidden {
		w.names[fmt.Sprintf("bad%d.example", i)] = [][]string{{a}}
		w.hosts[netip.MustParseAddr(a).String()] = "ok"
	}
	d := dialer(t, w)
	for i, a := range forbidden {
		for _, host := range []string{fmt.Sprintf("bad%d.example", i), a, a + "."} {
			_, err := dial(t, d, net.JoinHostPort(host, "443"))
			require.ErrorIs(t, err, egress.ErrBlocked, host)
		}
	}
	require.Empty(t, w.dialled)

	for _, host := range []string{"mixed.example", "mapped.example"} {
		got, err := dial(t, d, host+":443")
		require.NoError(t, err)
		require.Equal(t, "8.8.8.8:443", got)
	}

	_, err := dial(t, d, "rebind.example:443")
	require.NoError(t, err)
	_, err = dial(t, d, "rebind.example:443")
	require.ErrorIs(t, err, egress.ErrBlocked, "every connection is judged anew")
	require.ErrorContains(t, err, "rebind.example has the address 127.0.0.1, which is loopback")
	got, err := dial(t, d, "rebind.example:443")
	require.NoError(t, err)
	require.Equal(t, "8.8.8.8:443", got)
	for _, a := range w.dialled {
		require.Equal(t, "8.8.8.8:443", a)
	}
}

// C-169: an empty host would be loopback, port 0 nothing.
func TestDialer_RefusesNonsenseAddresses(t *testing.T) {
	t.Parallel()
	w := &world{hosts: map[string]string{"8.8.8.8": "ok"}}
	d := dialer(t, w)
	for _, address := range []string{":443", "8.8.8.8", "8.8.8.8:0", "8.8.8.8:65536", "8.8.8.8:http", "8.8.8.8:", "[::1%lo]:80", "localhost:80", "LOCALHOST.:80"} {
		_, err := dial(t, d, address)
		require.ErrorIs(t, err, egress.ErrBlocked, address)
	}
	require.Empty(t, w.dialled)
}

// C-174: the operator's proxy may be private; nothing else becomes reachable by it.
func TestDialer_Proxy(t *testing.T) {
	t.Parallel()
	w := &world{
		names: map[string][][]string{"proxy.internal.example": {{"10.0.0.9"}}},
		hosts: map[string]string{"10.0.0.9": "ok", "10.0.0.1": "ok", "8.8.8.8": "ok"},
	}
	d := dialer(t, w, func(c *egress.Config) {
		c.Proxy = "http://user:PASSWORD@proxy.internal.example:3128"
		c.NoProxy = []string{".direct.example, *.star.example", "one.example", "10.0.0.0/8", "9.9.9.9"}
	})
	c, err := d.DialProxy(t.Context(), "tcp", "proxy.internal.example:3128")
	require.NoError(t, err)
	require.NoError(t, c.Close())
	for _, other := range []string{"10.0.0.1:3128", "proxy.internal.example:80", "10.0.0.9:3128", "8.8.8.8:443"} {
		_, err = d.DialProxy(t.Context(), "tcp", other)
		require.ErrorIs(t, err, egress.ErrBlocked, other)
	}
	_, err = dial(t, d, "proxy.internal.example:3128")
	require.ErrorIs(t, err, egress.ErrBlocked, "the proxy is no endpoint")

	for host, direct := range map[string]bool{
		"a.direct.example": true, "A.Direct.Example.": true, "direct.example": false, "notdirect.example": false,
		"x.star.example": true, "one.example": true, "two.one.example": false, "10.1.2.3": true, "9.9.9.9": true,
		"9.9.9.8": false, "[::ffff:10.0.0.1]": true, "other.example": false,
	} {
		u, err := url.Parse("https://" + host + "/")
		require.NoError(t, err)
		require.Equal(t, direct, d.ProxyFor(u) == nil, host)
	}
	none := dialer(t, w)
	require.Nil(t, none.Proxy())
	_, err = none.DialProxy(t.Context(), "tcp", "proxy.internal.example:3128")
	require.ErrorIs(t, err, egress.ErrBlocked)
}

func TestDialer_BadConfigIsRefused(t *testing.T) {
	t.Parallel()
	_, err := egress.NewDialer(egress.Config{}, egress.Network{})
	require.Error(t, err)
	var none *egress.BlockedError
	require.NotErrorAs(t, err, &none)
}
