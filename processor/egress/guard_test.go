package egress_test

import (
	"net/netip"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/barnabas-webhooks/barnabas/processor/egress"
)

func guard(t *testing.T, allow ...string) *egress.Guard {
	t.Helper()
	g, err := egress.NewGuard(egress.Config{Allow: allow})
	require.NoError(t, err)
	return g
}

// C-160, C-161, C-163: every special range, in every spelling.
func TestGuard_BlocksWhatIsNotPublic(t *testing.T) {
	t.Parallel()
	g := guard(t)
	for _, a := range []string{
		// C-163
		"0.0.0.0", "0.1.2.3", "10.0.0.1", "10.255.255.255", "100.64.0.1", "100.127.255.255", "100.100.100.200",
		"127.0.0.1", "127.255.255.254", "169.254.169.254", "169.254.0.1", "172.16.0.1", "172.31.255.255",
		"192.0.0.1", "192.0.0.192", "192.0.2.1", "192.88.99.1", "192.168.0.1", "198.18.0.1", "198.19.255.255",
		"198.51.100.1", "203.0.113.1", "224.0.0.1", "239.255.255.255", "240.0.0.1", "255.255.255.255",
		"168.63.129.16", // public by the registries
		"::", "::1", "2001:db8::1", "100::1", "fd00:ec2::254", "fd20:ce::254", "fc00::1", "fdff::1", "fe80::1", "febf::1",
		"fec0::1", "ff02::1", "ff0e::1", "2001:2::1", "2001:10::1", "2001:20::1", "3fff::1", "5f00::1", "4000::1",
		// C-160: IPv4-mapped, also in the long and the hexadecimal form
		"::ffff:127.0.0.1", "::ffff:7f00:1", "::ffff:169.254.169.254", "::ffff:10.0.0.1",
		"0000:0000:0000:0000:0000:ffff:7f00:0001", "::ffff:0.0.0.0", "::ffff:192.168.1.1",
		// C-161: transition forms
		"64:ff9b::a9fe:a9fe", "64:ff9b::7f00:1", "64:ff9b::10.0.0.1", "64:ff9b::0.0.0.0", "64:ff9b:1::8.8.8.8",
		"2002:7f00:1::1", "2002:a9fe:a9fe::1", "2002:808:808::1", "2001:0:4136:e378:8000:63bf:3fff:fdd2",
		"::127.0.0.1", "::8.8.8.8", "2606:4700::5efe:10.0.0.1", "2606:4700::200:5efe:127.0.0.1",
		"2606:4700::1%eth0", "fe80::1%lo",
	} {
		err := g.Check(netip.MustParseAddr(a))
		require.ErrorIs(t, err, egress.ErrBlocked, a)
		var blocked *egress.BlockedError
		require.ErrorAs(t, err, &blocked, a)
		require.NotEmpty(t, blocked.Reason, a)
	}
	require.ErrorIs(t, g.Check(netip.Addr{}), egress.ErrBlocked)
}

func TestGuard_LetsPublicPass(t *testing.T) {
	t.Parallel()
	g := guard(t)
	for _, a := range []string{
		"8.8.8.8", "1.1.1.1", "9.255.255.255", "11.0.0.0", "100.63.255.255", "100.128.0.0", "126.255.255.255", "128.0.0.1",
		"172.15.255.255", "172.32.0.0", "192.0.1.0", "192.167.255.255", "198.17.255.255", "198.20.0.0", "223.255.255.255",
		"2606:4700::1111", "2a00:1450:4001::1", "2001:4860:4860::8888", "2003::1",
		"::ffff:8.8.8.8", "64:ff9b::8.8.8.8", "2606:4700::5efe:8.8.8.8",
	} {
		require.NoError(t, g.Check(netip.MustParseAddr(a)), a)
	}
}

// C-177: an allow-list opens what it says and closes nothing else; metadata and loopback need to be said.
func TestGuard_AllowList(t *testing.T) {
	t.Parallel()
	cases := []struct {
		allow string
		opens []string
		shut  []string
	}{
		{
			"10.1.2.0/24",
			[]string{"10.1.2.3", "::ffff:10.1.2.3", "8.8.8.8", "2606:4700::1"},
			[]string{"10.1.3.1", "127.0.0.1", "169.254.169.254", "64:ff9b::10.1.2.3"},
		},
		{
			"0.0.0.0/0, ::/0",
			[]string{"10.1.2.3", "192.168.1.1", "fc00::1", "8.8.8.8", "169.254.1.1"},
			[]string{
				"127.0.0.1", "::1", "0.0.0.0", "::", "169.254.169.254", "169.254.170.2", "100.100.100.200", "168.63.129.16",
				"fd00:ec2::254", "::ffff:127.0.0.1", "::ffff:169.254.169.254", "64:ff9b::a9fe:a9fe", "2002:7f00:1::1",
				"2002:a9fe:a9fe::1", "64:ff9b:1::a9fe:a9fe", "fe80::1%eth0", "fe80::a9fe:a9fe",
			},
		},
		{"169.254.0.0/16", []string{"169.254.1.1"}, []string{"169.254.169.254", "169.254.170.23"}},
		{"169.254.169.254", []string{"169.254.169.254", "::ffff:169.254.169.254"}, []string{"169.254.169.253", "169.254.1.1"}},
		{"fd00:ec2::254/128", []string{"fd00:ec2::254"}, []string{"fd00:ec2::23", "fd00:ec2::1"}},
		{"127.0.0.0/8", []string{"127.0.0.1", "::ffff:127.0.0.1"}, []string{"::1", "10.0.0.1", "0.0.0.0"}},
		{"127.0.0.1", []string{"127.0.0.1"}, []string{"127.0.0.2"}},
		{"::1", []string{"::1"}, []string{"127.0.0.1"}},
		{"0.0.0.0/8", nil, []string{"0.0.0.0", "127.0.0.1"}},
		{"::ffff:10.0.0.0/104", []string{"10.2.3.4"}, []string{"192.168.0.1"}},
		{"2002::/16", []string{"2002:808:808::1"}, []string{"2002:7f00:1::1", "2002:a9fe:a9fe::1"}},
		{"64:ff9b::/96", []string{"64:ff9b::10.0.0.1"}, []string{"64:ff9b::127.0.0.1"}},
	}
	for _, c := range cases {
		g := guard(t, c.allow)
		for _, a := range c.opens {
			require.NoError(t, g.Check(netip.MustParseAddr(a)), "%s with %s", a, c.allow)
		}
		for _, a := range c.shut {
			require.ErrorIs(t, g.Check(netip.MustParseAddr(a)), egress.ErrBlocked, "%s with %s", a, c.allow)
		}
	}
}

func TestGuard_AllowLoopback(t *testing.T) {
	t.Parallel()
	g, err := egress.NewGuard(egress.Config{AllowLoopback: true})
	require.NoError(t, err)
	for _, a := range []string{"127.0.0.1", "127.1.2.3", "::1", "::ffff:127.0.0.1"} {
		require.NoError(t, g.Check(netip.MustParseAddr(a)), a)
	}
	for _, a := range []string{"0.0.0.0", "::", "10.0.0.1", "169.254.169.254", "64:ff9b::7f00:1"} {
		require.ErrorIs(t, g.Check(netip.MustParseAddr(a)), egress.ErrBlocked, a)
	}
	require.NoError(t, g.CheckName("localhost"))
	require.ErrorIs(t, g.CheckName("metadata.google.internal"), egress.ErrBlocked)
}

// C-177: what operators really write.
func TestParseAllowList(t *testing.T) {
	t.Parallel()
	good := map[string][]string{
		"":                                     nil,
		" , ,":                                 nil,
		"10.0.0.0/8":                           {"10.0.0.0/8"},
		" 10.0.0.0/8 , 192.168.1.5 ,":          {"10.0.0.0/8", "192.168.1.5/32"},
		"10.0.0.0/8 172.16.0.0/12\n":           {"10.0.0.0/8", "172.16.0.0/12"},
		"10.0.0.1,,10.0.0.2":                   {"10.0.0.1/32", "10.0.0.2/32"},
		"fd00::/8, 2001:db8::1":                {"fd00::/8", "2001:db8::1/128"},
		"::ffff:10.1.2.3, ::ffff:10.0.0.0/104": {"10.1.2.3/32", "10.0.0.0/8"},
	}
	for text, want := range good {
		got, err := egress.ParseAllowList(text)
		require.NoError(t, err, text)
		var texts []string
		for _, p := range got {
			texts = append(texts, p.String())
		}
		require.Equal(t, want, texts, text)
	}
	for _, bad := range []string{
		"internal.example", "10.0.0.0/33", "10.0.0", "10.0.0.256", "10.0.0.0-10.0.0.9", "10.1.2.3/24", "10.*", "fe80::1%eth0",
		"[::1]", "10.0.0.1:80", "::ffff:0.0.0.0/90", "https://10.0.0.1", "10.0.0.0/8;", "localhost",
	} {
		_, err := egress.ParseAllowList("192.168.0.0/16", "10.9.9.9, "+bad)
		require.ErrorContains(t, err, `"`+bad+`"`, bad)
	}
	_, err := egress.ParseAllowList("one", "two")
	require.ErrorContains(t, err, "one")
	require.ErrorContains(t, err, "two", "all bad items at once")
}

func TestConfig_Validate(t *testing.T) {
	t.Parallel()
	require.NoError(t, egress.DefaultConfig().Validate())
	err := egress.Config{Allow: []string{"nonsense"}, Proxy: "socks5://u:PASSWORD@p", NoProxy: []string{"a b", "x/y"}}.Validate()
	for _, part := range []string{"nonsense", "resolve_timeout", "connect_timeout", "fallback_delay", "proxy", "x/y"} {
		require.ErrorContains(t, err, part)
	}
	require.NotContains(t, err.Error(), "PASSWORD")
	c := egress.DefaultConfig()
	c.NoProxy = []string{"example.com"}
	require.ErrorContains(t, c.Validate(), "no proxy")
}

func FuzzParseAllowList(f *testing.F) {
	for _, s := range []string{"", "10.0.0.0/8, ::1", "::ffff:1.2.3.4/97", "fe80::1%x", "host", "1.2.3.4/"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		prefixes, err := egress.ParseAllowList(s)
		if err != nil {
			require.Nil(t, prefixes)
			return
		}
		for _, p := range prefixes {
			require.True(t, p.IsValid())
			require.Equal(t, p, p.Masked())
			require.False(t, p.Addr().Is4In6())
		}
	})
}

// FuzzGuard: no allow-list but an explicit one reaches a metadata service or loopback, in whatever form.
func FuzzGuard(f *testing.F) {
	for _, s := range []string{"::1", "64:ff9b::a9fe:a9fe", "2002:7f00:1::1", "::ffff:127.0.0.1", "2001:0:0:0:0:0:8000:fffe"} {
		b := netip.MustParseAddr(s).As16()
		f.Add(b[:])
	}
	all, err := egress.NewGuard(egress.Config{Allow: []string{"0.0.0.0/0", "::/0"}})
	require.NoError(f, err)
	none, err := egress.NewGuard(egress.Config{})
	require.NoError(f, err)
	f.Fuzz(func(t *testing.T, b []byte) {
		a, ok := netip.AddrFromSlice(b)
		if !ok {
			return
		}
		openErr, closedErr := all.Check(a), none.Check(a)
		if openErr != nil {
			require.Error(t, closedErr, "what everything does not open, nothing does")
			require.ErrorIs(t, openErr, egress.ErrBlocked)
		}
		if a.Unmap().IsLoopback() || a.IsUnspecified() {
			require.Error(t, openErr)
		}
		require.Equal(t, openErr == nil, all.Check(a.Unmap()) == nil)
		require.Equal(t, closedErr == nil, none.Check(a.Unmap()) == nil)
	})
}
