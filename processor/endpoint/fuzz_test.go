package endpoint_test

import (
	"strings"
	"testing"

	"github.com/barnabas-webhooks/barnabas/internal/secret"
	"github.com/barnabas-webhooks/barnabas/processor/endpoint"
)

// FuzzNewSealer: whatever the text, a key or an error that repeats none of it; the same key whatever white space is around.
func FuzzNewSealer(f *testing.F) {
	for _, text := range []string{
		keyA.Reveal(), "AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=\n", "AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8", "--__", "=", " \t", "\x00\xff",
	} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		s, err := endpoint.NewSealer(secret.String(text))
		if err != nil {
			if trimmed := strings.TrimSpace(text); len(trimmed) > 24 && strings.Contains(err.Error(), trimmed) {
				t.Fatalf("the error repeats the key: %v", err)
			}
			return
		}
		again, err := endpoint.NewSealer(secret.String("\n" + text + " \r\n"))
		if err != nil {
			t.Fatal(err)
		}
		key, err := again.Open("e1", s.Seal("e1", []byte("k")))
		if err != nil || string(key) != "k" {
			t.Fatalf("%q, %v", key, err)
		}
	})
}
