// Package secret holds values that must not be shown: passwords, keys, tokens.
//
// A String prints, logs and marshals as ***, whatever the verb or encoder; the
// only way to its bytes is Reveal, which is easy to grep for. It does not
// protect memory: it keeps secrets out of output, not out of a core dump.
package secret

import (
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"strings"
)

// Mask is what is shown in place of a secret.
const Mask = "***"

// maxFile bounds a secret file, in bytes: keys and passwords are short, and a
// path that points at something else must not be read into memory.
const maxFile = 64 << 10

// ErrEmptyFile is a secret file that holds nothing, or nothing but line ends.
var ErrEmptyFile = errors.New("secret file is empty")

// ErrFileTooLarge is a secret file of more than 64 KiB: most likely the wrong path.
var ErrFileTooLarge = errors.New("secret file is larger than 64 KiB")

// String is a secret text. The zero value means "not set" and prints as nothing.
type String string

// Reveal returns the secret itself, for the one call that needs it.
func (s String) Reveal() string { return string(s) }

// String implements fmt.Stringer; it never returns the secret.
func (s String) String() string {
	if s == "" {
		return ""
	}
	return Mask
}

// Format implements fmt.Formatter, so that no verb (%d, %x, %#v) gets at the bytes.
func (s String) Format(f fmt.State, _ rune) { _, _ = io.WriteString(f, s.String()) }

// LogValue implements slog.LogValuer.
func (s String) LogValue() slog.Value { return slog.StringValue(s.String()) }

// MarshalText implements encoding.TextMarshaler, which JSON and YAML encoders use.
func (s String) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// ReadFile reads a secret from a file. Line ends at the end of the file are not
// part of it (editors and `echo` put them there); every other byte is.
func ReadFile(path string) (String, error) {
	f, err := os.Open(path)
	if err != nil {
		return "", fmt.Errorf("read secret: %w", err)
	}
	defer func() { _ = f.Close() }()
	b, err := io.ReadAll(io.LimitReader(f, maxFile+1))
	if err != nil {
		return "", fmt.Errorf("read secret: %w", err)
	}
	if len(b) > maxFile {
		return "", fmt.Errorf("read secret %s: %w", path, ErrFileTooLarge)
	}
	text := strings.TrimRight(string(b), "\r\n")
	if text == "" {
		return "", fmt.Errorf("read secret %s: %w", path, ErrEmptyFile)
	}
	return String(text), nil
}
