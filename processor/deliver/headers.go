package deliver

import (
	"errors"
	"fmt"
	"strings"

	"github.com/barnabas-webhooks/barnabas/schemas"
)

// Headers of every POST beside those of package sign. They are the same on each attempt, but for the counter.
const (
	// HeaderAttempt counts the attempts of a delivery's run, from 1.
	HeaderAttempt = "barnabas-attempt"
	// HeaderEventType is the event's type, percent-encoded where it is not printable ASCII; left out when empty.
	HeaderEventType = "barnabas-event-type"
)

// Limits of an endpoint's custom headers.
const (
	MaxHeaders          = 32
	MaxHeaderNameBytes  = 128
	MaxHeaderValueBytes = 4 << 10
	MaxHeadersBytes     = 16 << 10 // all names and values together
)

// ErrHeaders is what every refusal of ValidateHeaders wraps.
var ErrHeaders = errors.New("bad custom header")

// IsReservedHeader says whether an endpoint may not set the header itself, in any letter case: what Barnabas or the
// connection owns, and what net/http would take as leave to repeat a POST.
func IsReservedHeader(name string) bool {
	n := strings.ToLower(name)
	for _, prefix := range []string{"webhook-", "barnabas-", "proxy-"} {
		if strings.HasPrefix(n, prefix) {
			return true
		}
	}
	switch n {
	case "content-type", "content-length", "content-encoding", "host", "user-agent", "date",
		"transfer-encoding", "connection", "keep-alive", "te", "trailer", "upgrade", "expect", "http2-settings",
		"traceparent", "tracestate",
		"idempotency-key", "x-idempotency-key":
		return true
	}
	return false
}

// ValidateHeaders judges custom headers when they are saved, all problems at once, and again before they are sent.
// Names are tokens (RFC 9110 section 5.1) and not reserved; each is there once. Values are printable ASCII without
// leading or trailing white space: net/http would trim them in silence, and pass other bytes on. Errors name the
// header and never hold its value.
func ValidateHeaders(headers []schemas.Header) error {
	if len(headers) == 0 {
		return nil
	}
	if len(headers) > MaxHeaders {
		return fmt.Errorf("%w: %d headers are set; at most %d are taken", ErrHeaders, len(headers), MaxHeaders)
	}
	var errs []error
	seen := map[string]bool{}
	total := 0
	for _, h := range headers {
		total += len(h.Key) + len(h.Value)
		name := strings.ToLower(h.Key)
		if problem := headerProblem(h, seen[name]); problem != "" {
			errs = append(errs, fmt.Errorf("%w: %q %s", ErrHeaders, clip(h.Key), problem))
		}
		seen[name] = true
	}
	if total > MaxHeadersBytes {
		errs = append(errs, fmt.Errorf("%w: together they have %d bytes; at most %d are taken", ErrHeaders, total,
			MaxHeadersBytes))
	}
	return errors.Join(errs...)
}

func headerProblem(h schemas.Header, again bool) string {
	switch {
	case h.Key == "":
		return "has no name"
	case len(h.Key) > MaxHeaderNameBytes:
		return fmt.Sprintf("has a name of %d bytes; at most %d are taken", len(h.Key), MaxHeaderNameBytes)
	case strings.IndexFunc(h.Key, notInToken) >= 0:
		return "has a character in its name that names cannot have"
	case IsReservedHeader(h.Key):
		return "is reserved"
	case again:
		return "is there twice"
	case len(h.Value) > MaxHeaderValueBytes:
		return fmt.Sprintf("has a value of %d bytes; at most %d are taken", len(h.Value), MaxHeaderValueBytes)
	case !validValue(string(h.Value)):
		return "has a value with control or non-ASCII characters, or white space at an end"
	}
	return ""
}

// notInToken is the complement of RFC 9110's tchar.
func notInToken(r rune) bool {
	switch {
	case 'a' <= r && r <= 'z', 'A' <= r && r <= 'Z', '0' <= r && r <= '9':
		return false
	}
	return !strings.ContainsRune("!#$%&'*+-.^_`|~", r)
}

// validValue takes printable ASCII and inner spaces and tabs.
func validValue(v string) bool {
	if strings.Trim(v, " \t") != v {
		return false
	}
	for i := range len(v) {
		if c := v[i]; c != '\t' && (c < ' ' || c > '~') {
			return false
		}
	}
	return true
}

// encodeValue makes any text a header value: bytes outside of printable ASCII, white space and % are percent-encoded.
func encodeValue(v string) string {
	const hex = "0123456789ABCDEF"
	var b strings.Builder
	for i := range len(v) {
		if c := v[i]; c > ' ' && c <= '~' && c != '%' {
			b.WriteByte(c)
		} else {
			b.Write([]byte{'%', hex[c>>4], hex[c&15]})
		}
	}
	return b.String()
}

func clip(s string) string {
	const limit = 64
	if len(s) > limit {
		return s[:limit] + "..."
	}
	return s
}
