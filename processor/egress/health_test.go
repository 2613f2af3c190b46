package egress_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/barnabas-webhooks/barnabas/processor/egress"
)

// net of the health tests: hosts h0, h1, ... at 8.8.8.0, 8.8.8.1, ...; what is silent answers nothing.
type moody struct {
	world
	mu      sync.Mutex // guards what follows
	deaf    bool       // the resolver answers nothing
	misled  string     // the resolver cannot answer for this name
	mute    bool       // nor for the one of the check
	silent  []string   // hosts that answer nothing
	lookups int
}

func newMoody(hosts int) *moody {
	m := &moody{world: world{names: map[string][][]string{}, hosts: map[string]string{}}}
	for i := range hosts {
		m.names[fmt.Sprintf("h%d", i)] = [][]string{{fmt.Sprintf("8.8.8.%d", i)}}
		m.hosts[fmt.Sprintf("8.8.8.%d", i)] = "ok"
	}
	return m
}

func (m *moody) set(f func()) {
	m.mu.Lock()
	defer m.mu.Unlock()
	f()
}

func (m *moody) LookupNetIP(ctx context.Context, network, host string) ([]netip.Addr, error) {
	m.mu.Lock()
	m.lookups++
	deaf := m.deaf || host == m.misled || m.mute && strings.HasSuffix(host, ".invalid.")
	m.mu.Unlock()
	if deaf {
		<-ctx.Done()
		return nil, &net.DNSError{Err: "i/o timeout", Name: host, IsTimeout: true}
	}
	return m.world.LookupNetIP(ctx, network, host)
}

func (m *moody) Dial(ctx context.Context, network, address string) (net.Conn, error) {
	host, _, _ := net.SplitHostPort(address)
	m.mu.Lock()
	silent := slices.Contains(m.silent, host)
	m.mu.Unlock()
	if silent {
		<-ctx.Done()
		return nil, &net.OpError{Op: "dial", Net: "tcp", Err: ctx.Err()}
	}
	return m.world.Dial(ctx, network, address)
}

type change struct {
	cause egress.Cause
	well  bool
}

func healthRig(t *testing.T, m *moody, configure ...func(*egress.Config)) (try func(host string) error, changes func() []change) {
	t.Helper()
	cfg := egress.DefaultConfig()
	for _, c := range configure {
		c(&cfg)
	}
	d, err := egress.NewDialer(cfg, egress.Network{Resolver: m, Dial: m.Dial})
	require.NoError(t, err)
	var mu sync.Mutex
	var seen []change
	d.Health().OnChange(func(c egress.Cause, err error) {
		mu.Lock()
		defer mu.Unlock()
		seen = append(seen, change{c, err == nil})
	})
	try = func(host string) error {
		_, err := dial(t, d, host+":443")
		return err
	}
	return try, func() []change {
		mu.Lock()
		defer mu.Unlock()
		return slices.Clone(seen)
	}
}

func unhealthy(err error) (cause egress.Cause, tried bool) {
	var u *egress.UnhealthyError
	if errors.As(err, &u) {
		return u.Cause, u.Err != nil
	}
	return "", true
}

// A resolver that answers nothing is no endpoint's fault, from the first lookup on; one that fails for a name is its own.
func TestHealth_Resolver(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		m := newMoody(3)
		try, changes := healthRig(t, m)
		require.NoError(t, try("h0"))
		m.set(func() { m.misled = "h1" })
		cause, _ := unhealthy(try("h1"))
		require.Empty(t, cause, "the resolver answers for other names")
		require.Error(t, try("nowhere"))
		require.Empty(t, changes())

		time.Sleep(2 * time.Second)
		m.set(func() { m.deaf = true })
		cause, tried := unhealthy(try("h0"))
		require.Equal(t, egress.CauseResolver, cause)
		require.True(t, tried)
		m.set(func() { m.lookups = 0 })
		for range 100 {
			cause, tried = unhealthy(try("h2"))
			require.Equal(t, egress.CauseResolver, cause)
			require.False(t, tried, "fails at once")
		}
		require.Zero(t, m.lookups)
		require.NoError(t, try("8.8.8.2"), "an address needs no resolver")

		m.set(func() { m.deaf = false })
		time.Sleep(time.Second)
		require.NoError(t, try("h2"), "the probe")
		require.NoError(t, try("h0"))
		require.Equal(t, []change{{egress.CauseResolver, false}, {egress.CauseResolver, true}}, changes())
	})
}

// A resolver that answers others is there, though it does not know the name that every resolver should know.
func TestHealth_ResolverWithoutTheCheck(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		m := newMoody(2)
		try, changes := healthRig(t, m)
		m.mute = true
		m.set(func() { m.misled = "h1" })
		for range 5 {
			time.AfterFunc(time.Second, func() { _ = try("h0") })
			cause, _ := unhealthy(try("h1"))
			require.Empty(t, cause)
			time.Sleep(time.Minute)
		}
		require.Empty(t, changes())
		cause, _ := unhealthy(try("h1"))
		require.Equal(t, egress.CauseResolver, cause, "nobody else asked: taken for ours")
		require.NoError(t, try("8.8.8.0"))
		time.Sleep(time.Second)
		require.NoError(t, try("h0"))
	})
}

// Probes are one a second however many want to connect, and the first that is answered ends the outage.
func TestHealth_ProbesAreFew(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		m := newMoody(50)
		try, _ := healthRig(t, m)
		m.set(func() { m.deaf = true })
		require.Error(t, try("h0"))
		m.set(func() { m.lookups = 0 })
		var wg sync.WaitGroup
		begin := time.Now()
		for i := range 50 {
			wg.Go(func() {
				for range 600 { // a minute
					_ = try(fmt.Sprintf("h%d", i))
					time.Sleep(100 * time.Millisecond)
				}
			})
		}
		wg.Wait()
		most := 2 * int(time.Since(begin)/time.Second+1)
		require.LessOrEqual(t, m.lookups, most, "a lookup and its check, once a second")
		require.GreaterOrEqual(t, m.lookups, most/4)
	})
}

// Nobody reached any more: of hosts that were reached a while ago the third one tells.
func TestHealth_Network(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		m := newMoody(9)
		try, changes := healthRig(t, m)
		for i := range 5 {
			require.NoError(t, try(fmt.Sprintf("h%d", i)))
		}
		dead := func(hosts ...int) {
			m.set(func() {
				m.silent = nil
				for _, i := range hosts {
					m.silent = append(m.silent, fmt.Sprintf("8.8.8.%d", i))
				}
			})
		}
		dead(0, 1, 2, 5, 6, 7, 8)
		for range 3 { // two of them, again and again, with others reached in between
			for _, i := range []int{0, 1, 3} {
				cause, _ := unhealthy(try(fmt.Sprintf("h%d", i)))
				require.Empty(t, cause)
			}
		}
		for _, i := range []int{5, 6, 7, 8} { // never reached: theirs
			cause, _ := unhealthy(try(fmt.Sprintf("h%d", i)))
			require.Empty(t, cause)
		}
		require.Empty(t, changes())

		dead(0, 1, 2, 3, 4)
		for i, want := range []egress.Cause{"", "", egress.CauseNetwork, egress.CauseNetwork} {
			cause, _ := unhealthy(try(fmt.Sprintf("h%d", i)))
			require.Equal(t, want, cause, i)
		}
		dead()
		time.Sleep(time.Second)
		require.NoError(t, try("h4"), "the probe")
		require.NoError(t, try("h0"))
		require.Equal(t, []change{{egress.CauseNetwork, false}, {egress.CauseNetwork, true}}, changes())
	})
}

// A process that starts without a network has nobody that it reached before.
func TestHealth_NetworkFromTheStart(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		m := newMoody(4)
		m.silent = []string{"8.8.8.0", "8.8.8.1", "8.8.8.2", "8.8.8.3"}
		try, _ := healthRig(t, m)
		for i, want := range []egress.Cause{"", "", egress.CauseNetwork, egress.CauseNetwork} {
			cause, _ := unhealthy(try(fmt.Sprintf("h%d", i)))
			require.Equal(t, want, cause, i)
		}
	})
}

// What refuses is there, and one dead host is one dead host, however often it is tried.
func TestHealth_EndpointsOwnFaults(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		m := newMoody(6)
		try, changes := healthRig(t, m)
		for i := range 6 {
			require.NoError(t, try(fmt.Sprintf("h%d", i)))
		}
		m.set(func() {
			m.silent = []string{"8.8.8.0"}
			for i := 1; i < 6; i++ {
				m.hosts[fmt.Sprintf("8.8.8.%d", i)] = "refused"
			}
		})
		for range 20 {
			require.Error(t, try("h0"))
		}
		for i := range 6 {
			require.Error(t, try(fmt.Sprintf("h%d", i)))
		}
		require.Empty(t, changes())
	})
}

// An answer on a connection that was open already ends it too.
func TestHealth_HeardElsewhere(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		m := newMoody(4)
		d, err := egress.NewDialer(egress.DefaultConfig(), egress.Network{Resolver: m, Dial: m.Dial})
		require.NoError(t, err)
		m.silent = []string{"8.8.8.0", "8.8.8.1", "8.8.8.2"}
		for i := range 3 {
			_, _ = dial(t, d, fmt.Sprintf("h%d:443", i))
		}
		require.True(t, d.Health().Down(egress.CauseNetwork))
		d.Health().Heard()
		require.False(t, d.Health().Down(egress.CauseNetwork))
		_, err = dial(t, d, "h3:443")
		require.NoError(t, err)
	})
}

// Whoever gives up says nothing of the network.
func TestHealth_GivenUp(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		m := newMoody(4)
		m.deaf = true
		d, err := egress.NewDialer(egress.DefaultConfig(), egress.Network{Resolver: m, Dial: m.Dial})
		require.NoError(t, err)
		for range 5 {
			ctx, cancel := context.WithCancel(t.Context())
			time.AfterFunc(time.Second, cancel)
			_, err = d.DialContext(ctx, "tcp", "h0:443")
			require.Error(t, err)
		}
		require.False(t, d.Health().Down(egress.CauseResolver))
	})
}

// The proxy is the operator's: whatever keeps it from being reached is no endpoint's fault.
func TestHealth_Proxy(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		m := newMoody(1)
		cfg := egress.DefaultConfig()
		cfg.Proxy = "http://proxy.example:3128"
		d, err := egress.NewDialer(cfg, egress.Network{Resolver: m, Dial: m.Dial})
		require.NoError(t, err)
		m.names["proxy.example"], m.hosts["8.8.8.9"] = [][]string{{"8.8.8.9"}}, "refused"
		_, err = d.DialProxy(t.Context(), "tcp", "proxy.example:3128")
		cause, tried := unhealthy(err)
		require.Equal(t, egress.CauseProxy, cause)
		require.True(t, tried)
		_, err = d.DialProxy(t.Context(), "tcp", "proxy.example:3128")
		_, tried = unhealthy(err)
		require.False(t, tried)
		m.set(func() { m.hosts["8.8.8.9"] = "ok" })
		time.Sleep(time.Second)
		c, err := d.DialProxy(t.Context(), "tcp", "proxy.example:3128")
		require.NoError(t, err)
		require.NoError(t, c.Close())
		require.False(t, d.Health().Down(egress.CauseProxy))
	})
}
