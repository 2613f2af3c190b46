package endpoint

import (
	"fmt"
	"log/slog"
)

// redacted is what a secret looks like wherever it is printed.
const redacted = "***"

// Secret is text that must not be seen: a signing secret on its way in or out, or the sealing key.
// It prints as *** with every verb of package fmt, in logs, in JSON and in YAML; Reveal gives the text.
type Secret string

// Reveal returns the text itself. Each call is a place to review.
func (s Secret) Reveal() string { return string(s) }

// Format prints ***, or nothing for an empty secret, whatever the verb.
func (s Secret) Format(f fmt.State, _ rune) { fmt.Fprint(f, s.mask()) }

// String returns ***, or nothing for an empty secret.
func (s Secret) String() string { return s.mask() }

// LogValue prints ***, or nothing for an empty secret.
func (s Secret) LogValue() slog.Value { return slog.StringValue(s.mask()) }

// MarshalText writes ***, or nothing for an empty secret, so that encoders cannot leak it.
func (s Secret) MarshalText() ([]byte, error) { return []byte(s.mask()), nil }

// UnmarshalText takes the text as it stands.
func (s *Secret) UnmarshalText(b []byte) error {
	*s = Secret(b)
	return nil
}

func (s Secret) mask() string {
	if s == "" {
		return ""
	}
	return redacted
}
