package endpoint_test

import (
	"bytes"
	"crypto/rand"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/barnabas-webhooks/barnabas/internal/secret"
	"github.com/barnabas-webhooks/barnabas/processor/endpoint"
	"github.com/barnabas-webhooks/barnabas/schemas"
)

func TestSecret_IsNeverPrinted(t *testing.T) {
	t.Parallel()
	const text = "PLANTED"
	ep := &endpoint.Endpoint{
		Endpoint: schemas.Endpoint{ID: "e1", URL: "https://h.example/" + text},
		Keys:     []endpoint.Key{{Secret: []byte(text)}},
	}
	for _, v := range []any{secret.String(text), []any{secret.String(text)}, struct{ S secret.String }{text}, ep.Keys[0], ep.Keys, ep} {
		for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x", "%X", "%d"} {
			out := fmt.Sprintf(verb, v)
			require.NotContains(t, out, text, verb)
			require.NotContains(t, strings.ToLower(out), hex.EncodeToString([]byte(text)), verb)
		}
		var logged bytes.Buffer
		slog.New(slog.NewTextHandler(&logged, nil)).Info("m", "v", v)
		slog.New(slog.NewJSONHandler(&logged, nil)).Info("m", "v", v)
		require.NotContains(t, logged.String(), text)
	}
	out, err := json.Marshal(map[string]any{"secret": secret.String(text), "key": ep.Keys[0]})
	require.NoError(t, err)
	require.NotContains(t, string(out), text)
	require.NotContains(t, string(out), base64.StdEncoding.EncodeToString([]byte(text)))
	require.Equal(t, text, secret.String(text).Reveal())
	require.Empty(t, fmt.Sprint(secret.String("")), "an empty secret must not look like one")
}

// C-203: a key from a file ends with a newline; whatever else is odd about it is refused with the reason.
func TestSealer_ReadsItsKey(t *testing.T) {
	t.Parallel()
	raw := make([]byte, 32)
	_, _ = rand.Read(raw)
	raw[0], raw[1], raw[2] = 0xfb, 0xff, 0xfe // + and / in base64, - and _ in the URL-safe alphabet
	std := base64.StdEncoding.EncodeToString(raw)
	var opened [][]byte
	sealed := mustSealer(t, std).Seal("e1", []byte("k"))
	for _, text := range []string{
		std, std + "\n", " " + std + "\r\n", strings.TrimRight(std, "="),
		base64.URLEncoding.EncodeToString(raw), base64.RawURLEncoding.EncodeToString(raw),
		hex.EncodeToString(raw), strings.ToUpper(hex.EncodeToString(raw)) + "\n",
	} {
		key, err := mustSealer(t, text).Open("e1", sealed)
		require.NoError(t, err, "the same key in another form")
		opened = append(opened, key)
	}
	require.Len(t, opened, 8)

	for text, reason := range map[string]string{
		"":                             "empty",
		" \n":                          "empty",
		hex.EncodeToString(raw[:31]):   "bytes",
		std[:40]:                       "is 30 bytes",
		strings.Repeat("A", 88):        "is 66 bytes",
		"not base64 at all, is it now": "neither",
	} {
		_, err := endpoint.NewSealer(secret.String(text))
		var bad *endpoint.SealingKeyError
		require.ErrorAs(t, err, &bad, "%d characters", len(text))
		require.Contains(t, err.Error(), reason)
		if s := strings.TrimSpace(text); s != "" {
			require.NotContains(t, err.Error(), s)
		}
	}
}

func TestReadSealer(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "key")
	require.NoError(t, os.WriteFile(path, []byte(keyA.Reveal()+"\n"), 0o600))
	s, err := endpoint.ReadSealer(path)
	require.NoError(t, err)
	_, err = s.Open("e1", sealer(t, keyA).Seal("e1", []byte("k")))
	require.NoError(t, err)
	_, err = endpoint.ReadSealer(path + ".missing")
	require.ErrorIs(t, err, os.ErrNotExist)
}

func TestSealer_OpensOnlyWhatItSealedForTheSameEndpoint(t *testing.T) {
	t.Parallel()
	s := sealer(t, keyA)
	sealed := s.Seal("e1", []byte("signing key"))
	key, err := s.Open("e1", sealed)
	require.NoError(t, err)
	require.Equal(t, "signing key", string(key))
	require.NotContains(t, string(sealed), "signing key")
	require.NotEqual(t, sealed, s.Seal("e1", []byte("signing key")), "nonces must differ")

	flipped := bytes.Clone(sealed)
	flipped[len(flipped)-1] ^= 1
	for name, open := range map[string]func() ([]byte, error){
		"another endpoint": func() ([]byte, error) { return s.Open("e2", sealed) },
		"another key":      func() ([]byte, error) { return sealer(t, keyB).Open("e1", sealed) },
		"changed":          func() ([]byte, error) { return s.Open("e1", flipped) },
		"cut":              func() ([]byte, error) { return s.Open("e1", sealed[:11]) },
		"empty":            func() ([]byte, error) { return s.Open("e1", nil) },
	} {
		_, err := open()
		require.ErrorIsf(t, err, endpoint.ErrUnseal, "%s: %v", name, err)
	}
}

// C-029: a rotated-out key signs until its overlap ends and not after.
func TestEndpoint_ActiveKeys(t *testing.T) {
	t.Parallel()
	now := time.Date(2030, 1, 2, 3, 4, 5, 0, time.UTC)
	ep := &endpoint.Endpoint{Keys: []endpoint.Key{
		{Secret: []byte("new")},
		{Secret: []byte("old"), ExpiresAt: now.Add(2 * time.Second)},
		{Secret: []byte("older"), ExpiresAt: now},
	}}
	require.Equal(t, [][]byte{[]byte("new"), []byte("old")}, ep.ActiveKeys(now))
	require.Equal(t, [][]byte{[]byte("new"), []byte("old")}, ep.ActiveKeys(now.Add(2*time.Second-1)))
	require.Equal(t, [][]byte{[]byte("new")}, ep.ActiveKeys(now.Add(2*time.Second)))
	require.Empty(t, (&endpoint.Endpoint{}).ActiveKeys(now))
}

func mustSealer(t *testing.T, text string) *endpoint.Sealer {
	t.Helper()
	s, err := endpoint.NewSealer(secret.String(text))
	require.NoError(t, err)
	return s
}
