package sign

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"strconv"
	"time"
)

// The headers of a signed request, in the spelling of the specification.
const (
	HeaderID        = "webhook-id"
	HeaderTimestamp = "webhook-timestamp"
	HeaderSignature = "webhook-signature"
)

// MaxKeys bounds the keys that one request is signed with, and so the header: 16 signatures are 767 bytes.
// More than two are active only after several rotations within one overlap.
const MaxKeys = 16

// version is the symmetric scheme of the specification.
const version = "v1"

// Sign returns the value of webhook-signature: "v1," and the base64 of the MAC for each key, in the given order
// (newest first by convention), separated by single spaces. Keys after the first MaxKeys are not used. Without
// keys it returns "": the caller must not send that.
func Sign(id string, at time.Time, body []byte, keys [][]byte) string {
	keys = keys[:min(len(keys), MaxKeys)]
	entry := len(version) + 1 + base64.StdEncoding.EncodedLen(sha256.Size)
	out := make([]byte, 0, len(keys)*(entry+1))
	for i, key := range keys {
		if i > 0 {
			out = append(out, ' ')
		}
		out = append(out, version...)
		out = append(out, ',')
		out = base64.StdEncoding.AppendEncode(out, mac(id, Timestamp(at), body, key))
	}
	return string(out)
}

// Timestamp is the value of webhook-timestamp: whole Unix seconds, in decimal. It is what Sign signs.
func Timestamp(at time.Time) string {
	return strconv.FormatInt(at.Unix(), 10)
}

// mac is the HMAC over id.timestamp.body. The timestamp is taken as text, so that a verifier judges exactly what
// came in.
func mac(id, timestamp string, body, key []byte) []byte {
	h := hmac.New(sha256.New, key)
	h.Write([]byte(id))
	h.Write([]byte{'.'})
	h.Write([]byte(timestamp))
	h.Write([]byte{'.'})
	h.Write(body)
	return h.Sum(nil)
}
