package sign_test

import (
	"bytes"
	"encoding/base64"
	"math/rand/v2"
	"net/http"
	"strings"
	"testing"
	"time"

	reference "github.com/standard-webhooks/standard-webhooks/libraries/go"
	"github.com/stretchr/testify/require"

	"github.com/barnabas-webhooks/barnabas/processor/sign"
)

func key(n byte) []byte { return bytes.Repeat([]byte{n}, 32) }

// headers are the three of a signed request.
func headers(id, timestamp, signature string) http.Header {
	h := http.Header{}
	h.Set(sign.HeaderID, id)
	h.Set(sign.HeaderTimestamp, timestamp)
	h.Set(sign.HeaderSignature, signature)
	return h
}

// The example of the specification: made by its authors, not by us.
func TestSign_SpecificationVector(t *testing.T) {
	t.Parallel()
	secret, err := sign.ParseSecret("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw")
	require.NoError(t, err)
	got := sign.Sign("msg_p5jXN8AQM9LWM0D4loKWxJek", time.Unix(1614265330, 0), []byte(`{"test": 2432232314}`), [][]byte{secret})
	require.Equal(t, "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=", got)
}

// C-020, C-022, C-023, C-025: whatever the bytes are, the reference library verifies them.
func TestSign_ReferenceLibraryVerifies(t *testing.T) {
	t.Parallel()
	bodies := [][]byte{
		nil, []byte("\n"), []byte("{}\n"), []byte("{}   "), []byte("{\r\n}\r\n"),
		[]byte(`{"n":9007199254740993,"m":-0,"f":1.0,"big":1E400,"x":` + strings.Repeat("9", 400) + `}`),
		[]byte("{\"a\":\"\u2028\u2029 \U0001F4A9 e\u0301 <>&\",\"b\":\"\\/ \\u0041\"}"),
		[]byte(`{"b":1,"a":{},"b":2,"c":[ ]}`),
		{0, 1, 2, 0xff, 0xfe, '.', '.'},
	}
	rnd := rand.New(rand.NewPCG(1, 2))
	for range 200 {
		b := make([]byte, rnd.IntN(2000))
		for i := range b {
			b[i] = byte(rnd.Uint32())
		}
		bodies = append(bodies, b)
	}
	now := time.Now()
	wh, err := reference.NewWebhookRaw(key(7))
	require.NoError(t, err)
	for _, body := range bodies {
		// The reference's key is second: it must be found at any position.
		h := headers("dlv_1", sign.Timestamp(now), sign.Sign("dlv_1", now, body, [][]byte{key(1), key(7)}))
		require.NoError(t, wh.Verify(body, h))
		require.NoError(t, sign.Verify(h, body, [][]byte{key(7)}, now, 0))
		require.Error(t, wh.Verify(append(bytes.Clone(body), 'x'), h))
		require.ErrorIs(t, sign.Verify(h, append(bytes.Clone(body), 'x'), [][]byte{key(7)}, now, 0), sign.ErrSignature)
	}
}

// C-029: all keys sign, in the given order, and the header's length is bounded.
func TestSign_AllKeysInOrderAndBounded(t *testing.T) {
	t.Parallel()
	at := time.Unix(1700000000, 0)
	one := func(n byte) string { return sign.Sign("id", at, []byte("b"), [][]byte{key(n)}) }
	require.Equal(t, one(1)+" "+one(2), sign.Sign("id", at, []byte("b"), [][]byte{key(1), key(2)}))
	require.Empty(t, sign.Sign("id", at, []byte("b"), nil))

	var many [][]byte
	for n := range byte(100) {
		many = append(many, key(n))
	}
	got := sign.Sign("id", at, []byte("b"), many)
	require.Len(t, strings.Fields(got), sign.MaxKeys)
	require.LessOrEqual(t, len(got), 800)
}

// C-035: whole Unix seconds, also after 2038, and equal to what is signed.
func TestTimestamp_WholeSeconds(t *testing.T) {
	t.Parallel()
	for _, at := range []time.Time{
		time.Unix(1700000000, 999_999_999), time.Unix(1<<31-1, 0), time.Unix(1<<31, 5), time.Unix(1<<33, 0),
	} {
		stamp := sign.Timestamp(at)
		require.Regexp(t, `^[0-9]+$`, stamp)
		h := headers("id", stamp, sign.Sign("id", at, nil, [][]byte{key(1)}))
		require.NoError(t, sign.Verify(h, nil, [][]byte{key(1)}, at, 0))
	}
	require.Equal(t, "1700000000", sign.Timestamp(time.Unix(1700000000, 999_999_999)))
}

// C-033: only a full match passes, at any position; work is bounded.
func TestVerify_FullMatchAtAnyPosition(t *testing.T) {
	t.Parallel()
	now := time.Unix(1700000000, 0)
	right := sign.Sign("id", now, []byte("b"), [][]byte{key(1)})
	mac := strings.TrimPrefix(right, "v1,")
	other := "v1," + base64.StdEncoding.EncodeToString(key(9))
	cases := map[string]struct {
		signature string
		want      error
	}{
		"right":                   {right, nil},
		"right in second place":   {other + " " + right, nil},
		"unknown version first":   {"v9,abc " + right, nil},
		"asymmetric first":        {"v1a,abc " + right, nil},
		"no signature":            {"v1,", sign.ErrSignature},
		"only the version":        {"v1", sign.ErrSignature},
		"a true prefix":           {right[:len(right)-4], sign.ErrSignature},
		"one character less":      {right[:len(right)-1], sign.ErrSignature},
		"something behind":        {right + "A", sign.ErrSignature},
		"another part behind":     {right + ",", sign.ErrSignature},
		"without version":         {mac, sign.ErrSignature},
		"another version":         {"v2," + mac, sign.ErrSignature},
		"separated by tabs":       {other + "\t" + right, sign.ErrSignature},
		"wrong":                   {other, sign.ErrSignature},
		"within the bound":        {strings.Repeat("v1,x ", 63) + right, nil},
		"beyond the bound":        {strings.Repeat("v1,x ", 64) + right, sign.ErrSignature},
		"a thousand entries":      {strings.Repeat(other+" ", 1000) + right, sign.ErrMalformed},
		"empty":                   {"", sign.ErrMalformed},
		"base64 in URL alphabet":  {"v1," + strings.NewReplacer("+", "-", "/", "_", "=", "").Replace(mac), sign.ErrSignature},
		"upper-case version":      {"V1," + mac, sign.ErrSignature},
		"spaces between and ends": {"  " + right + "  ", nil},
	}
	for name, c := range cases {
		err := sign.Verify(headers("id", sign.Timestamp(now), c.signature), []byte("b"), [][]byte{key(2), key(1)}, now, 0)
		require.ErrorIs(t, err, c.want, name)
		require.Equal(t, c.want == nil, err == nil, name)
	}
}

func TestVerify_Timestamps(t *testing.T) {
	t.Parallel()
	now := time.Unix(1700000000, 0)
	for stamp, want := range map[string]error{
		"1700000000": nil, "1700000300": nil, "1699999700": nil,
		"1700000301": sign.ErrTimestamp, "1699999699": sign.ErrTimestamp,
		"1700000000000":        sign.ErrTimestamp, // C-035: milliseconds
		"9223372036854775807":  sign.ErrTimestamp,
		"-9223372036854775808": sign.ErrTimestamp,
		"1700000000.5":         sign.ErrMalformed, "+1700000000": sign.ErrMalformed, "01700000000": sign.ErrMalformed,
		" 1700000000": sign.ErrMalformed, "": sign.ErrMalformed, "9223372036854775808": sign.ErrMalformed,
	} {
		// The signature is right for the text sent, so that the timestamp alone decides.
		err := sign.Verify(headers("id", stamp, "v1,x"), nil, [][]byte{key(1)}, now, 0)
		if want == nil {
			require.ErrorIs(t, err, sign.ErrSignature, stamp)
			continue
		}
		require.ErrorIs(t, err, want, stamp)
	}
	h := headers("id", "5", sign.Sign("id", time.Unix(5, 0), nil, [][]byte{key(1)}))
	require.NoError(t, sign.Verify(h, nil, [][]byte{key(1)}, now, -1), "negative tolerance: no check")
}

func TestVerify_RefusesMissingAndDoubledHeaders(t *testing.T) {
	t.Parallel()
	now := time.Unix(1700000000, 0)
	for _, name := range []string{sign.HeaderID, sign.HeaderTimestamp, sign.HeaderSignature} {
		h := headers("id", sign.Timestamp(now), sign.Sign("id", now, nil, [][]byte{key(1)}))
		require.NoError(t, sign.Verify(h, nil, [][]byte{key(1)}, now, 0))
		h.Add(name, "another")
		require.ErrorIs(t, sign.Verify(h, nil, [][]byte{key(1)}, now, 0), sign.ErrMalformed, "%s twice", name)
		h.Del(name)
		require.ErrorIs(t, sign.Verify(h, nil, [][]byte{key(1)}, now, 0), sign.ErrMalformed, "no %s", name)
	}
	h := headers("id", sign.Timestamp(now), sign.Sign("id", now, nil, [][]byte{key(1)}))
	require.ErrorIs(t, sign.Verify(h, nil, nil, now, 0), sign.ErrSignature, "no keys: nothing matches")
}
