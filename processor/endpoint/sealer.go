package endpoint

import (
	"crypto/aes"
	"crypto/cipher"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/barnabas-webhooks/barnabas/internal/secret"
)

// SealingKeySize is the size of the key that secrets are sealed with, in bytes: AES-256.
const SealingKeySize = 32

// ErrUnseal says that a sealed secret could not be opened: another sealing key, another endpoint, or damaged bytes.
var ErrUnseal = errors.New("endpoint: a signing secret cannot be unsealed with this process's sealing key")

// SealingKeyError says what is wrong with the text of a sealing key, without repeating any of it.
type SealingKeyError struct{ Reason string }

func (e *SealingKeyError) Error() string { return "sealing key: " + e.Reason }

// Sealer encrypts signing secrets for the endpoints topic: AES-256-GCM, a random nonce first, the endpoint's id as
// additional data, so that a ciphertext moved to another endpoint does not open. Safe for concurrent use.
type Sealer struct{ aead cipher.AEAD }

// NewSealer takes the key's 32 bytes as text: base64 (either alphabet, padded or not) or hex.
// White space around it is dropped, since a secret file usually ends with a newline (C-203).
// The error is a *SealingKeyError.
func NewSealer(key secret.String) (*Sealer, error) {
	raw, err := parseSealingKey(key.Reveal())
	if err != nil {
		return nil, err
	}
	block, err := aes.NewCipher(raw)
	if err != nil {
		return nil, &SealingKeyError{Reason: "not an AES-256 key"}
	}
	aead, err := cipher.NewGCMWithRandomNonce(block)
	if err != nil {
		return nil, fmt.Errorf("sealing key: %w", err)
	}
	return &Sealer{aead: aead}, nil
}

// ReadSealer is NewSealer on the content of a file.
func ReadSealer(path string) (*Sealer, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("sealing key: %w", err)
	}
	return NewSealer(secret.String(text))
}

func parseSealingKey(text string) ([]byte, error) {
	text = strings.TrimSpace(text)
	if text == "" {
		return nil, &SealingKeyError{Reason: "is empty; want 32 random bytes in base64 or hex"}
	}
	// The two forms differ in length (64 characters of hex, 43 or 44 of base64), so neither can be taken for the other.
	if len(text) == hex.EncodedLen(SealingKeySize) {
		if raw, err := hex.DecodeString(text); err == nil {
			return raw, nil
		}
	}
	std := strings.NewReplacer("-", "+", "_", "/").Replace(strings.TrimRight(text, "="))
	raw, err := base64.RawStdEncoding.DecodeString(std)
	if err != nil {
		return nil, &SealingKeyError{Reason: "is neither base64 nor hex; want 32 random bytes in one of them"}
	}
	if len(raw) != SealingKeySize {
		return nil, &SealingKeyError{Reason: fmt.Sprintf("is %d bytes; want %d", len(raw), SealingKeySize)}
	}
	return raw, nil
}

// Seal encrypts a signing key for one endpoint. Two calls never give the same bytes.
func (s *Sealer) Seal(endpointID string, key []byte) []byte {
	return s.aead.Seal(nil, nil, key, []byte(endpointID)) //nolint:gosec // NewGCMWithRandomNonce draws the nonce itself
}

// Open decrypts what Seal made for the same endpoint. The error is ErrUnseal.
func (s *Sealer) Open(endpointID string, sealed []byte) ([]byte, error) {
	key, err := s.aead.Open(nil, nil, sealed, []byte(endpointID))
	if err != nil {
		return nil, ErrUnseal // the reason is always the same one: authentication failed
	}
	return key, nil
}
