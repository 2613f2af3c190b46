package deliver_test

import (
	"bufio"
	"crypto/tls"
	"net"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/barnabas-webhooks/barnabas/retry"
)

// C-062: connections that end at once, by a reset or in order, before, during and after the TLS handshake, before and after the
// request. Each is a failure of the network, with a reason, and of no other class.
func TestAttempt_ConnectionsThatEndAtOnce(t *testing.T) {
	t.Parallel()
	cert, ca := authority(t)
	reset := func(c net.Conn) {
		if tc, ok := c.(*tls.Conn); ok {
			c = tc.NetConn()
		}
		_ = c.(*net.TCPConn).SetLinger(0) // closed by a reset
		_ = c.Close()
	}
	closed := func(c net.Conn) { _ = c.Close() }
	for name, end := range map[string]func(net.Conn){"reset": reset, "closed": closed} {
		onAccept := func(_ int, c net.Conn) { end(c) }
		afterHello := func(_ int, c net.Conn) { _, _ = c.Read(make([]byte, 64)); end(c) }
		afterRequest := func(_ int, c net.Conn) { _, _, _ = readRequest(bufio.NewReader(c)); end(c) }
		for moment, tt := range map[string]struct {
			scheme string
			script func(int, net.Conn)
			want   []retry.Class
		}{
			"on accept":                  {"http", onAccept, []retry.Class{retry.Reset, retry.Connect}},
			"after the request":          {"http", afterRequest, []retry.Class{retry.Reset}},
			"on accept, https":           {"https", onAccept, []retry.Class{retry.Reset, retry.TLS, retry.Connect}},
			"in the handshake":           {"https", afterHello, []retry.Class{retry.Reset, retry.TLS}},
			"after the handshake":        {"https", overTLS(cert, nil, onAccept), []retry.Class{retry.Reset}},
			"after the request over TLS": {"https", overTLS(cert, nil, afterRequest), []retry.Class{retry.Reset}},
		} {
			addr := raw(t, tt.script)
			res := newRig(t, options{deliver: trusting(ca, short)}).Attempt(t.Context(), request(tt.scheme+"://"+addr+"/TOKENPATH"))
			require.Contains(t, tt.want, res.Class, "%s, %s: %s", moment, name, res.Error)
			require.NotEmpty(t, res.Error)
			require.False(t, res.Stale || res.Local, "%s, %s", moment, name)
			require.Zero(t, res.Status)
			planted(t, res.Error)
		}
	}
}
