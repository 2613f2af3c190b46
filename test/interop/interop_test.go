//go:build interop

package interop_test

import (
	"encoding/base64"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/barnabas-webhooks/barnabas/processor/sign"
	"github.com/barnabas-webhooks/barnabas/test/interop"
)

func TestSignatures_VerifyWithOtherLibraries(t *testing.T) {
	t.Parallel()
	var requests []interop.Request
	for i, body := range bodies() {
		requests = append(requests, signed(i, []byte(body), time.Now(), key(i)))
	}
	require.NoError(t, interop.CheckAll(t.Context(), requests))
}

// In the overlap of a rotation a receiver may hold either secret. C-029
func TestSignatures_VerifyWithEitherSecretOfARotation(t *testing.T) {
	t.Parallel()
	body := []byte(`{"rotated":true}`)
	both := signed(0, body, time.Now(), key(1), key(2))
	old := both
	old.Secret = sign.FormatSecret(key(2))
	require.NotEqual(t, both.Secret, old.Secret)
	require.NoError(t, interop.CheckAll(t.Context(), []interop.Request{both, old}))
}

// What must not verify does not: else the tests above would say nothing.
func TestVerifiers_RefuseWhatIsNotRight(t *testing.T) {
	t.Parallel()
	now := time.Now()
	change := func(f func(*interop.Request)) interop.Request {
		r := signed(0, []byte(`{"a":1}`), now, key(1))
		f(&r)
		return r
	}
	wrong := []interop.Request{
		change(func(r *interop.Request) { r.Body = []byte(`{"a":1} `) }),
		change(func(r *interop.Request) { r.Secret = sign.FormatSecret(key(9)) }),
		change(func(r *interop.Request) { r.Headers[sign.HeaderID] = "other" }),
		change(func(r *interop.Request) { r.Headers[sign.HeaderTimestamp] = sign.Timestamp(now.Add(time.Second)) }),
		change(func(r *interop.Request) { delete(r.Headers, sign.HeaderSignature) }),
		signed(0, []byte(`{"a":1}`), now.Add(-10*time.Minute), key(1)), // older than the libraries' five minutes
	}
	for _, v := range interop.Verifiers() {
		lines, err := v.Check(t.Context(), wrong)
		require.NoError(t, err, v.Name)
		for i, line := range lines {
			require.Truef(t, strings.HasPrefix(line, "fail "), "%s took request %d: %s", v.Name, i, line)
		}
	}
}

// bodies are those that broke signatures elsewhere. The libraries for JavaScript and Python read a body as UTF-8 before
// they check it, so that other bytes verify nowhere but in Go; those are tested next to the code.
func bodies() []string {
	all := []string{
		// C-020: what a second serialisation would change.
		`{"b":1,"a":2,"b":3}`, `{ "a" : [ ] , "b" : { } }`, `{"a":{"a":{"a":{}}}}`, `[[],[[]],{}]`,
		// C-022: numbers that do not survive a float64.
		`{"n":9007199254740993}`, `{"n":-0}`, `{"n":1.0}`, `{"n":1E400}`, `{"n":` + strings.Repeat("9", 400) + `}`,
		// C-023: what encoders escape or normalise.
		"{\"s\":\"\u2028\u2029\"}", `{"s":"😀 𝄞 👩‍👩‍👧‍👦"}`, "{\"s\":\"e\u0301 \u00e9\"}", `{"s":"<>&"}`, `{"s":"\/"}`, `{"s":"\u0041\ud83d\ude00"}`,
		"{\"s\":\"\u0000\"}", "\ufeff{}",
		// C-025: nothing, and what is trimmed.
		"", "\n", "{}\n", "{}   ", "{\r\n\"a\": 1\r\n}\r\n", " \t{}", "plain text, no JSON",
	}
	// C-020: a thousand made bodies, the same ones on each run.
	random := rand.New(rand.NewPCG(20, 20))
	for range 1000 {
		all = append(all, value(random, 4))
	}
	return all
}

// value makes JSON with odd spaces, doubled keys in any order and empty nests.
func value(r *rand.Rand, depth int) string {
	space := []string{"", " ", "\n", "\t ", "\r\n"}[r.IntN(5)]
	kind := r.IntN(7)
	if depth == 0 {
		kind %= 5
	}
	switch kind {
	case 0:
		return space + "null"
	case 1:
		return fmt.Sprintf("%s%d%s", space, r.Int64()-r.Int64(), space)
	case 2:
		return fmt.Sprintf("%s%ve%d", space, r.Float64(), r.IntN(600)-300)
	case 3:
		return fmt.Sprintf(`"%c\u%04x%c"%s`, 'a'+rune(r.IntN(0x500)), r.IntN(0xd800), 0x1f300+rune(r.IntN(0x200)), space)
	case 4:
		return []string{"{}", "[]", "[{}]", `{"":{}}`}[r.IntN(4)] + space
	case 5:
		items := make([]string, r.IntN(4))
		for i := range items {
			items[i] = value(r, depth-1)
		}
		return space + "[" + strings.Join(items, ",") + "]"
	default:
		items := make([]string, r.IntN(5))
		for i := range items {
			items[i] = fmt.Sprintf(`%s"%c":%s`, space, 'a'+rune(r.IntN(3)), value(r, depth-1))
		}
		return "{" + strings.Join(items, ",") + "}" + space
	}
}

// key is a signing key of 24 to 64 bytes, which are the lengths that the specification allows.
func key(n int) []byte {
	b := make([]byte, 24+n%41)
	for i := range b {
		b[i] = byte(n + 7*i)
	}
	return b
}

// signed is a request as Barnabas signs it; the receiver holds the first key.
func signed(n int, body []byte, at time.Time, keys ...[]byte) interop.Request {
	id := "dlv_" + base64.RawURLEncoding.EncodeToString(fmt.Appendf(nil, "%d", n))
	return interop.Request{
		Headers: map[string]string{
			sign.HeaderID:        id,
			sign.HeaderTimestamp: sign.Timestamp(at),
			sign.HeaderSignature: sign.Sign(id, at, body, keys),
		},
		Body:   body,
		Secret: sign.FormatSecret(keys[0]),
	}
}
