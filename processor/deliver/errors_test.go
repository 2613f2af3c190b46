package deliver_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http/httptest"
	"net/netip"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/barnabas-webhooks/barnabas/processor/deliver"
	"github.com/barnabas-webhooks/barnabas/processor/egress"
	"github.com/barnabas-webhooks/barnabas/retry"
)

// wrapped is an error wrapper of others, with nothing but Unwrap.
type wrapped struct{ error }

func (w wrapped) Unwrap() error { return w.error }

// C-062: network errors by class, also wrapped twice.
func TestAttempt_DialErrors(t *testing.T) {
	t.Parallel()
	twice := func(err error) error { return fmt.Errorf("a: %w", wrapped{fmt.Errorf("b: %w", err)}) }
	op := func(err error) error { return &net.OpError{Op: "dial", Net: "tcp", Err: err} }
	cases := map[string]struct {
		err   error
		want  retry.Class
		local bool
	}{
		"refused":             {op(syscall.ECONNREFUSED), retry.Connect, false},
		"host unreachable":    {op(syscall.EHOSTUNREACH), retry.Connect, false},
		"no route":            {op(syscall.ENETUNREACH), retry.Connect, false},
		"reset while dialled": {op(syscall.ECONNRESET), retry.Connect, false},
		"kernel timeout":      {op(syscall.ETIMEDOUT), retry.Timeout, false},
		"out of descriptors":  {op(syscall.EMFILE), retry.Connect, true},
		"out of ports":        {op(syscall.EADDRNOTAVAIL), retry.Connect, true},
		"unknown":             {errors.New("odd"), retry.Connect, false},
	}
	for name, c := range cases {
		for _, err := range []error{c.err, twice(c.err), twice(twice(c.err))} {
			r := newRig(t, options{network: egress.Network{
				Dial: func(context.Context, string, string) (net.Conn, error) { return nil, err },
			}})
			res := r.Attempt(t.Context(), request("http://receiver.example/TOKENPATH"))
			require.Equal(t, c.want, res.Class, "%s: %s", name, res.Error)
			require.Equal(t, c.local, res.Local, name)
			require.False(t, res.Sent)
			require.Contains(t, res.Error, "receiver.example")
			planted(t, res.Error)
		}
	}
}

// failing is a resolver that fails for names of receivers, or for all.
type failing struct {
	err error
	all bool
}

func (f failing) LookupNetIP(_ context.Context, _, host string) ([]netip.Addr, error) {
	if !f.all && !strings.HasSuffix(host, ".example") {
		return nil, &net.DNSError{Err: "no such host", Name: host, IsNotFound: true}
	}
	return nil, f.err
}

// C-062: names that do not resolve, for whatever reason. That of a name is its endpoint's; that of all is ours.
func TestAttempt_ResolverErrors(t *testing.T) {
	t.Parallel()
	for name, err := range map[string]error{
		"NXDOMAIN":      &net.DNSError{Err: "no such host", Name: "x", IsNotFound: true},
		"SERVFAIL":      &net.DNSError{Err: "server misbehaving", Name: "x", IsTemporary: true},
		"timeout":       &net.DNSError{Err: "i/o timeout", Name: "x", IsTimeout: true},
		"wrapped twice": fmt.Errorf("a: %w", wrapped{&net.DNSError{Err: "no such host", IsNotFound: true}}),
		"deadline":      context.DeadlineExceeded,
	} {
		for _, all := range []bool{false, true} {
			r := newRig(t, options{network: egress.Network{Resolver: failing{err: err, all: all}}})
			res := r.Attempt(t.Context(), request("https://receiver.example/"))
			require.Equal(t, retry.DNS, res.Class, "%s: %s", name, res.Error)
			require.Contains(t, res.Error, "receiver.example")
			var dns *net.DNSError
			noSuchHost := errors.As(err, &dns) && dns.IsNotFound
			require.Equal(t, all && !noSuchHost, res.Local, "%s: %s", name, res.Error)
		}
	}
}

// C-062: nobody listens.
func TestAttempt_RefusedPort(t *testing.T) {
	t.Parallel()
	srv := httptest.NewServer(nil)
	srv.Close()
	res := newRig(t, options{}).Attempt(t.Context(), request(srv.URL))
	require.Equal(t, retry.Connect, res.Class, res.Error)
	require.ErrorContains(t, errors.New(res.Error), "refused")
}

// The endpoint's own limit counts, under the deployment's cap.
func TestAttempt_TotalLimit(t *testing.T) {
	t.Parallel()
	addr := raw(t, silent)
	for name, change := range map[string]func(*deliver.Config, *deliver.Request){
		"deployment's": func(c *deliver.Config, _ *deliver.Request) { c.Timeout = 300 * time.Millisecond },
		"endpoint's":   func(_ *deliver.Config, r *deliver.Request) { r.Endpoint.Timeout = 300 * time.Millisecond },
		"capped": func(c *deliver.Config, r *deliver.Request) {
			c.Timeout, c.TLSTimeout, c.HeaderTimeout, c.MaxTimeout = 300*time.Millisecond, time.Millisecond, 300*time.Millisecond, 300*time.Millisecond
			r.Endpoint.Timeout = time.Hour
		},
	} {
		req := request("http://" + addr)
		r := newRig(t, options{deliver: func(c *deliver.Config) { change(c, &req) }})
		res := r.Attempt(t.Context(), req)
		require.Equal(t, retry.Timeout, res.Class, name)
		require.Contains(t, res.Error, "time ran out while", name)
		require.True(t, res.Sent, name)
	}
}

// errRevoked stands for the engine's own causes.
var errRevoked = errors.New("the unit was revoked")

// A cancel of ours is no fault of the receiver's, at whatever point it comes.
func TestAttempt_Cancelled(t *testing.T) {
	t.Parallel()
	t.Run("before", func(t *testing.T) {
		t.Parallel()
		ctx, cancel := context.WithCancelCause(t.Context())
		cancel(errRevoked)
		res := newRig(t, options{}).Attempt(ctx, request("http://receiver.example"))
		require.Equal(t, retry.Cancelled, res.Class)
		require.Contains(t, res.Error, "revoked")
		require.False(t, res.Sent)
	})
	t.Run("while connecting", func(t *testing.T) {
		t.Parallel()
		dialling := make(chan struct{})
		r := newRig(t, options{network: egress.Network{Dial: func(ctx context.Context, _, _ string) (net.Conn, error) {
			close(dialling)
			<-ctx.Done()
			return nil, ctx.Err()
		}}, egress: func(c *egress.Config) { c.ConnectTimeout = 200 * time.Millisecond }})
		ctx, cancel := context.WithCancelCause(t.Context())
		go func() { <-dialling; cancel(errRevoked) }()
		res := r.Attempt(ctx, request("http://receiver.example"))
		require.Equal(t, retry.Cancelled, res.Class)
		require.False(t, res.Sent)
	})
	t.Run("while waiting", func(t *testing.T) {
		t.Parallel()
		ctx, cancel := context.WithCancelCause(t.Context())
		addr := raw(t, func(_ int, c net.Conn) {
			_, _, _ = readRequest(bufio.NewReader(c))
			cancel(errRevoked)
			silent(0, c)
		})
		res := newRig(t, options{}).Attempt(ctx, request("http://"+addr))
		require.Equal(t, retry.Cancelled, res.Class)
		require.True(t, res.Sent, "the receiver may have it")
	})
	t.Run("in the body", func(t *testing.T) {
		t.Parallel()
		synctest.Test(t, func(t *testing.T) {
			here, there := net.Pipe()
			r := newRig(t, options{network: egress.Network{
				Dial: func(context.Context, string, string) (net.Conn, error) { return here, nil },
			}})
			ctx, cancel := context.WithCancelCause(t.Context())
			go func() {
				_, _, _ = readRequest(bufio.NewReader(there))
				_, _ = io.WriteString(there, "HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nx")
				synctest.Wait() // the attempt waits for the rest of the body
				cancel(errRevoked)
			}()
			res := r.Attempt(ctx, request("http://receiver.example"))
			require.Equal(t, retry.OK, res.Class, "what was read stands")
			require.Equal(t, 200, res.Status)
			require.Equal(t, "x", string(res.Excerpt))
			require.NoError(t, there.Close())
		})
	})
}
