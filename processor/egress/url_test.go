package egress_test

import (
	"errors"
	"fmt"
	"net/url"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/barnabas-webhooks/barnabas/processor/egress"
)

// C-202: valid URLs are taken and requested byte for byte.
func TestCheckURL_TakesValidOnesUnchanged(t *testing.T) {
	t.Parallel()
	for _, raw := range []string{
		"https://example.com", "https://example.com/", "https://example.com/hook", "https://example.com:8443/hook",
		"https://EXAMPLE.com/Hook", "https://example.com./x", "https://exAMple.com.:443/", "https://sub.sub.example.co.uk/a/b/c",
		"https://receiver/one-label", "https://my_service.internal.example/x", "https://xn--bcher-kva.example/x",
		"https://example.international/", "https://8.8.8.8/x", "https://8.8.8.8:9000/x", "https://[2606:4700::1111]/x",
		"https://[2606:4700::1111]:8443/x", "https://example.com/a%2Fb", "https://example.com/a%2fb", "https://example.com/%E2%82%AC",
		"https://example.com/a+b%20c", "https://example.com/?", "https://example.com?x=1", "https://example.com/?a=1&a=2&b",
		"https://example.com/?q=%zz", "https://example.com/?next=https://other.example/", "https://example.com//double//slash",
		"https://example.com/a/../b/./c", "https://example.com/;p=1/$x!'()*,~", "https://example.com/@user", "https://example.com/[x]",
		"https://1password.example/", "https://example.com:65535/", "https://a1.2b.example/x",
		"https://example.com/?" + strings.Repeat("q", 2000),
	} {
		u, err := egress.CheckURL(raw, egress.URLOptions{})
		require.NoError(t, err, raw)
		require.Equal(t, raw, u.String(), "kept as given")
		_, rest, _ := strings.Cut(raw, "://")
		target := strings.TrimPrefix(rest, u.Host)
		if !strings.HasPrefix(target, "/") {
			target = "/" + target
		}
		require.Equal(t, target, u.RequestURI(), "requested as given")
	}
	_, err := egress.CheckURL("http://example.com/", egress.URLOptions{AllowHTTP: true})
	require.NoError(t, err)
}

// C-169, C-171: what could be read in two ways, or is nonsense, is refused with a reason.
func TestCheckURL_RefusesTheRest(t *testing.T) {
	t.Parallel()
	for raw, reason := range map[string]string{
		"":                                                  "https://",
		"example.com/hook":                                  "https://",
		"//example.com/hook":                                "https://",
		"https:/example.com":                                "https://",
		"https:example.com":                                 "https://",
		"http://example.com/":                               "https is required",
		"HTTPS://example.com/":                              "scheme",
		"file:///etc/passwd":                                "scheme",
		"gopher://example.com/":                             "scheme",
		"javascript://example.com/%0aalert(1)":              "scheme",
		"javascript:alert(1)":                               "https://",
		"https://":                                          "empty",
		"https:///path":                                     "empty",
		"https://[]/":                                       "parsed",
		"https://:123/":                                     "empty",
		"https://./":                                        "empty",
		"https://user@example.com/":                         "user name",
		"https://user:pw%40x@example.com/":                  "user name",
		"https://h.example@[::1]/":                          "user name",
		"https://a@b@example.com/":                          "user name",
		"https://example.com\\@127.0.0.1/":                  "percent-encoded",
		"https://allowed.example#@10.0.0.1/":                "fragment",
		"https://example.com/#frag":                         "fragment",
		"https://exam\tple.com/":                            "percent-encoded",
		"https://example.com/\n":                            "percent-encoded",
		" https://example.com/":                             "percent-encoded",
		"https://example.com/a b":                           "percent-encoded",
		"https://example.com/\u20ac":                        "percent-encoded",
		"https://bücher.example/":                           "punycode",
		"https://example.com/|":                             "percent-encoded",
		"https://example.com/%zz":                           "parsed",
		"https://exa%6dple.com/":                            "percent-encoding",
		"https://[fe80::1%25eth0]/":                         "zone",
		"https://[example.com]/":                            "parsed",
		"https://[8.8.8.8]/":                                "parsed",
		"https://2606:4700::1/":                             "parsed",
		"https://[2606:4700::1/":                            "parsed",
		"https://example.com:0/":                            "port",
		"https://example.com:99999/":                        "port",
		"https://example.com:/":                             "port is empty",
		"https://example.com:80a/":                          "parsed",
		"https://example.com:-1/":                           "parsed",
		"https://a..b/":                                     "label",
		"https://-a.example/":                               "label",
		"https://" + strings.Repeat("a", 64) + ".example/":  "label",
		"https://" + strings.Repeat("a.", 130) + "example/": "253",
		"https://exa$mple.com/":                             "character",
		"https://2130706433/":                               "number",
		"https://0x7f000001/":                               "number",
		"https://0x7f.1/":                                   "number",
		"https://127.1/":                                    "number",
		"https://0177.0.0.1/":                               "number",
		"https://127.0.0.0x1/":                              "number",
		"https://1.2.3.4.5/":                                "number",
		"https://example.com/" + strings.Repeat("x", 4096):  "4096",
	} {
		_, err := egress.CheckURL(raw, egress.URLOptions{})
		require.ErrorIs(t, err, egress.ErrBadURL, raw)
		require.ErrorContains(t, err, reason, raw)
		var bad *egress.URLError
		require.ErrorAs(t, err, &bad, raw)
	}
}

// C-160, C-163, C-169: literal addresses and well-known names are judged when they are saved, in their canonical form.
func TestCheckURL_JudgesLiteralsAndKnownNames(t *testing.T) {
	t.Parallel()
	for _, host := range []string{
		"127.0.0.1", "127.0.0.1.", "127.0.0.1:8080", "[::1]", "[::1]:80", "[::ffff:127.0.0.1]", "[::FFFF:7F00:1]", "10.0.0.1",
		"169.254.169.254", "[fd00:ec2::254]", "[64:ff9b::a9fe:a9fe]", "[2002:7f00:1::1]", "0.0.0.0", "[::]", "100.100.100.200",
		"localhost", "LOCALHOST", "localhost.", "foo.LocalHost", "localhost:8080",
		"metadata.google.internal", "METADATA.google.internal.", "metadata.goog", "instance-data",
	} {
		_, err := egress.CheckURL("https://"+host+"/TOKENPATH?q=TOKENQ", egress.URLOptions{})
		require.ErrorIs(t, err, egress.ErrBlocked, host)
		require.NotErrorIs(t, err, egress.ErrBadURL, host)
		require.NotContains(t, err.Error(), "TOKEN")
	}
	open, err := egress.NewGuard(egress.Config{AllowLoopback: true, Allow: []string{"10.0.0.0/8"}})
	require.NoError(t, err)
	for _, host := range []string{"127.0.0.1:8080", "[::1]", "localhost:80", "10.1.2.3"} {
		_, err := egress.CheckURL("https://"+host+"/", egress.URLOptions{Guard: open})
		require.NoError(t, err, host)
	}
}

// C-193: no refusal repeats the secrets of a URL.
func TestCheckURL_ErrorsHoldNoSecrets(t *testing.T) {
	t.Parallel()
	for _, raw := range []string{
		"https://u:PASSWORD@host/TOKENPATH?token=TOKENQ", "http://u:PASSWORD@host/TOKENPATH?token=TOKENQ",
		"https://host:0/TOKENPATH?TOKENQ", "https://ho st/TOKENPATH", "https://host/TOKENPATH%zz", "https://host/TOKENPATH#TOKENQ",
		"ftp://host/TOKENPATH", "https://[x/TOKENPATH", "https://127.0.0.1/TOKENPATH", "https://host/TOKENPATH\x00",
	} {
		_, err := egress.CheckURL(raw, egress.URLOptions{})
		require.Error(t, err, raw)
		for _, secret := range []string{"PASSWORD", "TOKENPATH", "TOKENQ"} {
			require.NotContains(t, err.Error(), secret, raw)
		}
	}
}

// FuzzCheckURL: what is accepted is read by net/url, and so dialled, exactly as it was judged.
func FuzzCheckURL(f *testing.F) {
	for _, s := range []string{
		"https://example.com/a%2Fb?x=1", "https://[::1]:80/", "https://a@b/", "https://127.0.0.1./", "http://h.example@[::1]/",
		"https://example.com:443?x#y", "https://0x7f.1/", "https://a%2eb/",
	} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, raw string) {
		u, err := egress.CheckURL(raw, egress.URLOptions{AllowHTTP: true})
		if err != nil {
			require.True(t, errors.Is(err, egress.ErrBadURL) || errors.Is(err, egress.ErrBlocked))
			return
		}
		require.Equal(t, raw, u.String())
		again, err := url.Parse(raw)
		require.NoError(t, err)
		require.Equal(t, again.Host, u.Host)
		require.Nil(t, u.User)
		require.NotEmpty(t, u.Hostname())
		_, rest, _ := strings.Cut(raw, "://")
		require.True(t, strings.HasPrefix(rest, u.Host))
	})
}

// What was read once is remembered, of a bounded number of URLs; a refusal is made anew each time.
func TestDialer_RemembersURLs(t *testing.T) {
	t.Parallel()
	d := dialer(t, &world{}, func(c *egress.Config) { c.AllowHTTP = false })
	first, err := d.CheckURL("https://example.com/a?b")
	require.NoError(t, err)
	again, err := d.CheckURL("https://example.com/a?b")
	require.NoError(t, err)
	require.Same(t, first, again)
	require.Equal(t, "https://example.com/a?b", first.String())
	for range 2 {
		_, err = d.CheckURL("http://example.com/a?b")
		require.ErrorIs(t, err, egress.ErrBadURL)
		_, err = d.CheckURL("https://169.254.169.254/")
		require.ErrorIs(t, err, egress.ErrBlocked)
	}
	for i := range 4096 {
		_, err = d.CheckURL(fmt.Sprintf("https://example.com/%d", i))
		require.NoError(t, err)
	}
	again, err = d.CheckURL("https://example.com/a?b")
	require.NoError(t, err)
	require.NotSame(t, first, again, "forgotten among so many")
	require.Equal(t, first, again)
}
