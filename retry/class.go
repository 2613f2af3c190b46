package retry

import "net/http"

// Class is what an attempt came to: a closed set, used as metric label,
// dead-letter reason and policy input.
type Class string

// The classes. Only OK is a success.
const (
	OK              Class = "ok"               // a complete 2xx status line and headers were read
	DNS             Class = "dns"              // the name did not resolve
	Connect         Class = "connect"          // refused, unreachable, no route
	TLS             Class = "tls"              // handshake or certificate
	Timeout         Class = "timeout"          // any of the attempt's time limits
	Reset           Class = "reset"            // the connection broke after it was made
	Blocked         Class = "blocked"          // the egress guard refused the address
	HTTP3xx         Class = "http_3xx"         // redirects are not followed
	HTTP4xx         Class = "http_4xx"         // but 410 and 429
	HTTP429         Class = "http_429"         // too many requests
	HTTP5xx         Class = "http_5xx"         // server errors
	Gone            Class = "gone"             // 410: the receiver wants no more
	InvalidResponse Class = "invalid_response" // not HTTP, or a status outside 200..599
	Build           Class = "build"            // the request could not be made from configuration
	Cancelled       Class = "cancelled"        // we gave it up ourselves: shutdown, revocation
)

// Classes lists the set, in the order above. The slice is the caller's.
func Classes() []Class {
	return []Class{
		OK, DNS, Connect, TLS, Timeout, Reset, Blocked,
		HTTP3xx, HTTP4xx, HTTP429, HTTP5xx, Gone, InvalidResponse, Build, Cancelled,
	}
}

// ClassOfStatus maps an HTTP status code to its class; everything outside 200..599 is InvalidResponse.
func ClassOfStatus(code int) Class {
	switch {
	case code == http.StatusGone:
		return Gone
	case code == http.StatusTooManyRequests:
		return HTTP429
	case code >= 200 && code <= 299:
		return OK
	case code >= 300 && code <= 399:
		return HTTP3xx
	case code >= 400 && code <= 499:
		return HTTP4xx
	case code >= 500 && code <= 599:
		return HTTP5xx
	}
	// 1xx as a final status, 099, 600, 999: no array indexed by code/100 anywhere.
	return InvalidResponse
}
