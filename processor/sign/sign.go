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
	const entry = len(version) + 1 + (sha256.Size+2)/3*4 + 1
	out := make([]byte, 0, MaxKeys*entry) // on the stack, for its size is known
	head := signedHead(id, Timestamp(at))
	sum := make([]byte, 0, sha256.Size)
	for i, key := range keys {
		if i > 0 {
			out = append(out, ' ')
		}
		out = append(out, version...)
		out = append(out, ',')
		sum = appendMAC(sum[:0], head, body, key)
		out = base64.StdEncoding.AppendEncode(out, sum)
	}
	return string(out)
}

// Timestamp is the value of webhook-timestamp: whole Unix seconds, in decimal. It is what Sign signs.
func Timestamp(at time.Time) string {
	return strconv.FormatInt(at.Unix(), 10)
}

// signedHead is what is signed before the body: id.timestamp. with both dots. The timestamp is taken as text, so
// that a verifier judges exactly what came in.
func signedHead(id, timestamp string) []byte {
	head := make([]byte, 0, len(id)+len(timestamp)+2)
	head = append(head, id...)
	head = append(head, '.')
	head = append(head, timestamp...)
	return append(head, '.')
}

// appendMAC appends the HMAC over head and body to dst.
func appendMAC(dst, head, body, key []byte) []byte {
	h := hmac.New(sha256.New, key)
	h.Write(head)
	h.Write(body)
	return h.Sum(dst)
}
