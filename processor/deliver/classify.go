package deliver

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"syscall"
	"time"

	"github.com/barnabas-webhooks/barnabas/processor/egress"
	"github.com/barnabas-webhooks/barnabas/retry"
)

// ProxyError is the egress proxy's refusal to connect.
type ProxyError struct{ Status int }

func (e *ProxyError) Error() string {
	return fmt.Sprintf("the egress proxy answered CONNECT with status %d", e.Status)
}

// fault is a classified failure.
type fault struct {
	class  retry.Class
	text   string
	stale  bool
	local  bool
	lasted time.Duration // how long a local fault has lasted
}

// classify says what a failed round trip came to. It goes by error types, through any wrapping, and by how far the
// attempt had come; what net/http leaves untyped is told apart in one place (garbled). The texts are made here or
// by package egress: those of net/http quote URLs and what the receiver sent.
func classify(err error, seen snapshot) fault {
	var blocked *egress.BlockedError
	var resolve *egress.ResolveError
	var connect *egress.ConnectError
	var proxy *ProxyError
	var unhealthy *egress.UnhealthyError
	switch {
	case errors.As(err, &blocked):
		return fault{class: retry.Blocked, text: blocked.Error()}
	case errors.As(err, &unhealthy):
		f := fault{class: retry.Connect, text: printable(unhealthy.Error()), local: true, lasted: unhealthy.For}
		if unhealthy.Cause == egress.CauseResolver {
			f.class = retry.DNS
		}
		return f
	case errors.As(err, &resolve):
		return fault{class: retry.DNS, text: resolve.Error()}
	case errors.As(err, &connect):
		f := fault{class: retry.Connect, text: printable(connect.Error()), local: isLocal(err)}
		if isTimeout(err) && !f.local {
			f.class = retry.Timeout
		}
		return f
	case errors.As(err, &proxy): // our credentials are our own matter
		return fault{class: retry.Connect, text: proxy.Error(), local: proxy.Status == http.StatusProxyAuthRequired}
	case errors.Is(err, errResends):
		return fault{class: retry.Reset, text: errResends.Error()}
	}
	if reason, ok := certificate(err); ok {
		return fault{class: retry.TLS, text: "TLS: " + reason}
	}
	switch {
	case isTimeout(err):
		return fault{class: retry.Timeout, text: "time ran out while " + seen.phase.doing()}
	case isLocal(err):
		return fault{class: retry.Connect, text: "out of descriptors, ports or memory", local: true}
	}
	if f, ok := handshake(err, seen); ok {
		return f
	}
	answered := seen.phase == reading
	switch {
	case isLost(err) && answered:
		return fault{class: retry.Reset, text: "the connection was lost in the middle of the answer's headers"}
	case answered || garbled(err):
		return fault{class: retry.InvalidResponse, text: "the answer is not valid HTTP, or its headers are too large"}
	case seen.reused:
		return fault{class: retry.Reset, text: "a reused connection was closed before the answer", stale: true}
	case seen.gotConn.IsZero():
		return fault{class: retry.Connect, text: "the connection could not be set up"}
	}
	return fault{class: retry.Reset, text: "the connection was lost before the answer"}
}

// certificate gives the cause where the receiver's certificate or its TLS is at fault.
func certificate(err error) (string, bool) {
	var verify *tls.CertificateVerificationError
	var record tls.RecordHeaderError
	var invalid x509.CertificateInvalidError
	var name x509.HostnameError
	var authority x509.UnknownAuthorityError
	switch {
	case errors.As(err, &invalid) && invalid.Reason == x509.Expired:
		return "the certificate has expired or is not yet valid", true
	case errors.As(err, &invalid):
		return printable(invalid.Error()), true
	case errors.As(err, &name):
		return "the certificate is not for the host " + printable(name.Host), true
	case errors.As(err, &authority):
		return "the certificate is signed by an unknown authority", true
	case errors.As(err, &verify):
		return printable(verify.Err.Error()), true
	case errors.As(err, &record):
		return "the receiver does not speak TLS there", true
	}
	return "", false
}

// handshake is a failure in the TLS handshake, or an alert in place of an answer (TLS 1.3 refuses client
// certificates that late; net/http may then report the write that the alert cut short, and the class is reset).
func handshake(err error, seen snapshot) (fault, bool) {
	var op *net.OpError
	alert := errors.As(err, &op) && (op.Op == "remote error" || op.Op == "local error")
	switch {
	case alert:
		return fault{class: retry.TLS, text: "TLS: " + printable(op.Err.Error())}, true
	case seen.tlsErr == nil || !seen.gotConn.IsZero():
		return fault{}, false
	case errors.Is(err, syscall.ECONNRESET), errors.Is(err, syscall.EPIPE), errors.Is(err, syscall.ECONNABORTED):
		return fault{class: retry.Reset, text: "the connection was reset in the TLS handshake"}, true
	case isLost(err):
		return fault{class: retry.TLS, text: "TLS: the receiver closed the connection in the handshake"}, true
	}
	return fault{class: retry.TLS, text: "TLS: the handshake failed"}, true
}

func isTimeout(err error) bool {
	if errors.Is(err, context.DeadlineExceeded) || errors.Is(err, errTotal) {
		return true
	}
	// errors.As alone would stop at the first net.Error of several joined ones.
	switch e := err.(type) { //nolint:errorlint // walks the tree itself
	case interface{ Unwrap() []error }:
		for _, inner := range e.Unwrap() {
			if isTimeout(inner) {
				return true
			}
		}
		return false
	case interface{ Timeout() bool }:
		if e.Timeout() {
			return true
		}
	}
	if inner := errors.Unwrap(err); inner != nil {
		return isTimeout(inner)
	}
	return false
}

// isLocal says that this machine ran out of something.
func isLocal(err error) bool {
	for _, errno := range []syscall.Errno{
		syscall.EMFILE, syscall.ENFILE, syscall.ENOBUFS, syscall.ENOMEM, syscall.EADDRNOTAVAIL,
	} {
		if errors.Is(err, errno) {
			return true
		}
	}
	return false
}

// isLost says that the connection ended, in whatever way.
func isLost(err error) bool {
	for _, target := range []error{
		io.EOF, io.ErrUnexpectedEOF, io.ErrClosedPipe, net.ErrClosed,
		syscall.ECONNRESET, syscall.EPIPE, syscall.ECONNABORTED,
	} {
		if errors.Is(err, target) {
			return true
		}
	}
	return false
}

// garbled knows by text the errors for which net/http's HTTP/2 has no exported type and no hook before them: the
// peer broke the protocol. Each entry has a test with a real peer; should a text change, such an attempt counts as
// reset, which is retried the same.
func garbled(err error) bool {
	text := err.Error()
	for _, known := range []string{
		"connection error: PROTOCOL_ERROR",
		"connection error: FRAME_SIZE_ERROR",
		"connection error: COMPRESSION_ERROR",
		"http2: frame too large",
		"http2: response header list larger than advertised limit",
	} {
		if strings.Contains(text, known) {
			return true
		}
	}
	return false
}

// printable bounds a text and takes control characters out of it.
func printable(s string) string {
	const limit = 256
	s = strings.Map(func(r rune) rune {
		if r < ' ' || r == 0x7f || r == '�' {
			return '?'
		}
		return r
	}, s)
	if len(s) > limit {
		s = strings.ToValidUTF8(s[:limit], "") + "..."
	}
	return s
}
