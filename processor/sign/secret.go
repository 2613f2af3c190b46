package sign

import (
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"strings"
)

// SecretPrefix marks a Standard Webhooks signing secret. It is optional when a secret is read.
const SecretPrefix = "whsec_"

// Sizes of a key in bytes, from the specification.
const (
	MinKeySize = 24
	MaxKeySize = 64
	newKeySize = 32
)

// ErrSecret is what every refusal of ParseSecret wraps. Their texts give the reason and never the secret.
var ErrSecret = errors.New("bad signing secret")

// ParseSecret reads a signing secret: standard base64, padded or not, with or without the prefix whsec_. What it
// accepts yields the same key bytes as the reference libraries; what they could read otherwise is refused, with
// the reason: the URL-safe alphabet, white space, a pasted "v1," or doubled prefix, and keys of fewer than 24 or
// more than 64 bytes.
func ParseSecret(s string) ([]byte, error) {
	reject := func(reason string) ([]byte, error) { return nil, fmt.Errorf("%w: %s", ErrSecret, reason) }
	if len(s) > 4*MaxKeySize {
		return reject(fmt.Sprintf("%d characters are too many for a key of at most %d bytes", len(s), MaxKeySize))
	}
	encoded := strings.TrimPrefix(s, SecretPrefix)
	switch {
	case encoded == "":
		return reject("it is empty")
	case strings.TrimSpace(s) != s:
		return reject("it begins or ends with white space; is there a newline at the end of the file?")
	case strings.HasPrefix(s, "v1,") || strings.HasPrefix(s, "v1a,"):
		return reject("it begins with a signature version; leave that out")
	case strings.HasPrefix(s, "whsk_") || strings.HasPrefix(s, "whpk_"):
		return reject("it is an asymmetric key; a shared secret is needed")
	case strings.Contains(encoded, SecretPrefix):
		return reject("the prefix " + SecretPrefix + " is there twice")
	case strings.ContainsAny(encoded, "-_"):
		return reject("it is in the URL-safe base64 alphabet; the standard one, with + and /, is needed")
	case strings.ContainsAny(encoded, "\r\n"): // the decoder would skip them
		return reject("there is a line break in it")
	}
	key, err := decode(encoded)
	if err != nil {
		return reject("it is not base64") // err quotes a position only, but adds nothing
	}
	if len(key) < MinKeySize || len(key) > MaxKeySize {
		return reject(fmt.Sprintf("the key has %d bytes; %d to %d are needed", len(key), MinKeySize, MaxKeySize))
	}
	return key, nil
}

// decode takes whole padding or none, and no bits that an encoder would not have set: two different texts never
// mean one key.
func decode(encoded string) ([]byte, error) {
	if strings.HasSuffix(encoded, "=") {
		return base64.StdEncoding.Strict().DecodeString(encoded)
	}
	return base64.RawStdEncoding.Strict().DecodeString(encoded)
}

// FormatSecret is the text form of a key, as ParseSecret reads it and subscribers are given it.
func FormatSecret(key []byte) string {
	return SecretPrefix + base64.StdEncoding.EncodeToString(key)
}

// NewSecret makes a secret of 32 bytes from rand (crypto/rand.Reader outside of tests), in text form. It panics
// when rand fails: there is no use in going on without chance, and crypto/rand never does.
func NewSecret(rand io.Reader) string {
	key := make([]byte, newKeySize)
	if _, err := io.ReadFull(rand, key); err != nil {
		panic(fmt.Sprintf("sign: no random bytes: %v", err))
	}
	return FormatSecret(key)
}
