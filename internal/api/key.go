package api

import (
	"net/http"
	"strings"

	"github.com/barnabas-webhooks/barnabas/schemas"
)

// MaxKeyBytes is the length of the longest idempotency key, in bytes, quotes and backslashes not counted.
const MaxKeyBytes = schemas.MaxNameBytes

// idempotencyKey reads the one Idempotency-Key of a request, in either of two forms:
//
//	Idempotency-Key: "order 17"   a string of RFC 9651, section 3.3.3, as draft-ietf-httpapi-idempotency-key-header
//	                              wants it: printable ASCII; \" and \\ stand for quote and backslash
//	Idempotency-Key: order-17     bare, as most clients send it: visible ASCII, and no quote in front
//
// Both name the same key if what is in the quotes is what is bare. Parameters behind a string (";a=1") are passed
// over, as the RFC asks of those that nobody defined.
func idempotencyKey(h http.Header) (string, error) {
	values := h.Values(HeaderIdempotencyKey)
	if len(values) == 0 {
		return "", problem(http.StatusBadRequest, CodeMissingKey, "Idempotency key missing",
			"The header Idempotency-Key is required: it makes sending again safe.")
	}
	if len(values) > 1 {
		return "", badRequest("Idempotency-Key must be there once.")
	}
	key := values[0]
	if strings.HasPrefix(key, `"`) {
		var ok bool
		if key, ok = quotedKey(key); !ok {
			return "", badRequest(`Idempotency-Key begins with a quote, and is not a string as in RFC 9651: "order 17"`)
		}
	} else if strings.ContainsFunc(key, func(c rune) bool { return c < '!' || c > '~' }) {
		return "", badRequest("Idempotency-Key must be visible ASCII; with spaces in it, put it in quotes.")
	}
	if key == "" || len(key) > MaxKeyBytes || strings.TrimLeft(key, " ") == "" {
		return "", badRequest("Idempotency-Key must have 1 to 255 characters, and not only spaces.")
	}
	return key, nil
}

// quotedKey reads a structured-field string, and passes over its parameters.
func quotedKey(text string) (string, bool) {
	var key strings.Builder
	for i := 1; i < len(text); i++ {
		switch c := text[i]; {
		case c == '"':
			rest := strings.TrimLeft(text[i+1:], " ")
			return key.String(), rest == "" || rest[0] == ';'
		case c == '\\':
			i++
			if i == len(text) || text[i] != '"' && text[i] != '\\' {
				return "", false
			}
			key.WriteByte(text[i])
		case c < ' ' || c > '~':
			return "", false
		default:
			key.WriteByte(c)
		}
	}
	return "", false // the closing quote is missing
}

// QuoteKey writes an idempotency key as the header's value: bare if it can be, else in quotes. Anything but printable
// ASCII makes a value that the server refuses.
func QuoteKey(key string) string {
	if !strings.HasPrefix(key, `"`) && !strings.Contains(key, " ") {
		return key
	}
	return `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`).Replace(key) + `"`
}
