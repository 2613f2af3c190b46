package sign_test

import (
	"bytes"
	"crypto/rand"
	"encoding/base64"
	"fmt"
	"io"
	"strings"
	"testing"
	"time"

	reference "github.com/standard-webhooks/standard-webhooks/libraries/go"
	"github.com/stretchr/testify/require"

	"github.com/barnabas-webhooks/barnabas/processor/sign"
)

// C-032: every spelling either yields the bytes that the reference library derives, or is refused with its reason.
func TestParseSecret(t *testing.T) {
	t.Parallel()
	std := func(n int) string { return base64.StdEncoding.EncodeToString(bytes.Repeat([]byte{0xfb}, n)) }
	raw := func(n int) string { return base64.RawStdEncoding.EncodeToString(bytes.Repeat([]byte{0xfb}, n)) }
	url := base64.URLEncoding.EncodeToString(bytes.Repeat([]byte{0xfb}, 32))
	cases := map[string]struct {
		secret string
		size   int    // of the key, when accepted
		reason string // else
	}{
		"padded":                    {"whsec_" + std(32), 32, ""},
		"unpadded":                  {"whsec_" + raw(32), 32, ""},
		"no prefix":                 {std(25), 25, ""},
		"shortest":                  {"whsec_" + std(24), 24, ""},
		"longest":                   {"whsec_" + std(64), 64, ""},
		"too short by one":          {"whsec_" + std(23), 0, "23 bytes"},
		"eight bytes":               {"whsec_" + std(8), 0, "8 bytes"},
		"too long by one":           {"whsec_" + std(65), 0, "65 bytes"},
		"128 bytes":                 {"whsec_" + std(128), 0, "128 bytes"},
		"endless":                   {"whsec_" + strings.Repeat("A", 1<<20), 0, "too many"},
		"empty":                     {"", 0, "empty"},
		"prefix only":               {"whsec_", 0, "empty"},
		"url-safe alphabet":         {"whsec_" + url, 0, "URL-safe"},
		"trailing newline":          {"whsec_" + std(32) + "\n", 0, "white space"},
		"leading space":             {" whsec_" + std(32), 0, "white space"},
		"line break inside":         {"whsec_" + std(32)[:10] + "\n" + std(32)[10:], 0, "line break"},
		"doubled prefix":            {"whsec_whsec_" + std(32), 0, "twice"},
		"signature version pasted":  {"v1,whsec_" + std(32), 0, "signature version"},
		"asymmetric private key":    {"whsk_" + std(32), 0, "asymmetric"},
		"not base64":                {"whsec_" + strings.Repeat("!", 43), 0, "not base64"},
		"half padded":               {"whsec_" + raw(34) + "=", 0, "not base64"},
		"bits no encoder would set": {"whsec_" + strings.Repeat("A", 42) + "B=", 0, "not base64"},
	}
	for name, c := range cases {
		got, err := sign.ParseSecret(c.secret)
		if c.reason != "" {
			require.ErrorIs(t, err, sign.ErrSecret, name)
			require.ErrorContains(t, err, c.reason, name)
			if len(c.secret) > 30 {
				require.NotContains(t, err.Error(), c.secret[10:30], "%s: the secret is in the error", name)
			}
			continue
		}
		require.NoError(t, err, name)
		require.Len(t, got, c.size, name)
		padded := strings.TrimPrefix(c.secret, "whsec_")
		padded += strings.Repeat("=", (4-len(padded)%4)%4) // the Go reference takes padded base64 only
		wh, err := reference.NewWebhook(padded)
		require.NoError(t, err, name)
		now := time.Now()
		theirs, err := wh.Sign("id", now, []byte("b"))
		require.NoError(t, err, name)
		require.Equal(t, theirs, sign.Sign("id", now, []byte("b"), [][]byte{got}), name)
	}
}

func TestNewSecret_RoundTrip(t *testing.T) {
	t.Parallel()
	a, b := sign.NewSecret(rand.Reader), sign.NewSecret(rand.Reader)
	require.NotEqual(t, a, b)
	key, err := sign.ParseSecret(a)
	require.NoError(t, err)
	require.Len(t, key, 32)
	require.Equal(t, a, sign.FormatSecret(key))
	require.Panics(t, func() { sign.NewSecret(noChance{}) })
}

// noChance is a source without chance.
type noChance struct{}

func (noChance) Read([]byte) (int, error) { return 0, io.ErrUnexpectedEOF }

func FuzzParseSecret(f *testing.F) {
	for _, s := range []string{"", "whsec_", "v1,whsec_AAAA", "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw", "whsec_\n", "===="} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		key, err := sign.ParseSecret(s)
		if err != nil {
			require.ErrorIs(t, err, sign.ErrSecret)
			return
		}
		require.GreaterOrEqual(t, len(key), sign.MinKeySize)
		require.LessOrEqual(t, len(key), sign.MaxKeySize)
		again, err := sign.ParseSecret(sign.FormatSecret(key))
		require.NoError(t, err)
		require.Equal(t, key, again)
	})
}

func FuzzVerify(f *testing.F) {
	f.Add("id", "1700000000", "v1,abc v1a,x", []byte("body"))
	f.Add("", "", "", []byte(nil))
	f.Add("a.b", "1700000000", "v1,"+strings.Repeat("A", 44), []byte{0})
	f.Fuzz(func(t *testing.T, id, stamp, signature string, body []byte) {
		now := time.Unix(1700000000, 0)
		// Nobody without the key makes a signature that verifies.
		require.Error(t, sign.Verify(headers(id, stamp, signature), body, [][]byte{key(1)}, now, -1))
	})
}

func ExampleSign() {
	key, _ := sign.ParseSecret("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw")
	header := sign.Sign("msg_p5jXN8AQM9LWM0D4loKWxJek", time.Unix(1614265330, 0), []byte(`{"test": 2432232314}`), [][]byte{key})
	fmt.Println(header)
	// Output: v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=
}
