package schemas

import (
	"crypto/sha256"
	"encoding/binary"
	"strings"
	"time"

	"github.com/google/uuid"
)

// crockford is Crockford's base 32 alphabet in lower case: no i, l, o, u to
// misread, and text sorts as the bytes do.
const crockford = "0123456789abcdefghjkmnpqrstvwxyz"

// deliveryIDPrefix tells a delivery id from the other ids an operator meets.
const deliveryIDPrefix = "dlv_"

// deliveryID writes 16 bytes as dlv_ and 26 characters of Crockford's base 32,
// unpadded; the last character holds 3 bits.
func deliveryID(b [16]byte) string {
	out := make([]byte, 0, len(deliveryIDPrefix)+26)
	out = append(out, deliveryIDPrefix...)
	var bits, held uint
	for _, c := range b {
		bits = bits<<8 | uint(c)
		for held += 8; held >= 5; {
			held -= 5
			out = append(out, crockford[bits>>held&31])
		}
	}
	return string(append(out, crockford[bits<<(5-held)&31]))
}

// PackDeliveryID is the 16 bytes that a minted or derived id stands for, for whoever keeps
// millions of them; false for an id that a producer chose, which has no short form.
func PackDeliveryID(id string) (b [16]byte, ok bool) {
	text, ok := strings.CutPrefix(id, deliveryIDPrefix)
	if !ok || len(text) != 26 {
		return b, false
	}
	var bits, held uint
	n := 0
	for i := range len(text) {
		digit := strings.IndexByte(crockford, text[i])
		if digit < 0 {
			return b, false
		}
		bits = bits<<5 | uint(digit)
		if held += 5; held >= 8 {
			held -= 8
			b[n] = byte(bits >> held)
			n++
		}
	}
	return b, bits&(1<<held-1) == 0 // the last character's spare bits, or two texts would be one id
}

// UnpackDeliveryID is the id whose short form is b.
func UnpackDeliveryID(b [16]byte) string { return deliveryID(b) }

// MintDeliveryID makes the id of a delivery that the send API accepts: dlv_
// and a UUIDv7 in Crockford's base 32, 30 characters in all. Ids of later
// milliseconds sort behind those of earlier ones.
func MintDeliveryID() string { return deliveryID(uuid.Must(uuid.NewV7())) }

// MintedAt is when a delivery id was minted, to the millisecond. It is false for
// what MintDeliveryID did not make: derived ids hold no time. (One in 64 of those
// looks minted, with a time that is nearly never within the last years.)
func MintedAt(id string) (time.Time, bool) {
	text, ok := strings.CutPrefix(id, deliveryIDPrefix)
	if !ok || len(text) != 26 {
		return time.Time{}, false
	}
	var b [16]byte
	var bits, held uint
	at := 0
	for i := range len(text) {
		digit := strings.IndexByte(crockford, text[i])
		if digit < 0 {
			return time.Time{}, false
		}
		bits, held = bits<<5|uint(digit), held+5
		if held >= 8 {
			held -= 8
			b[at] = byte(bits >> held)
			at++
		}
	}
	if bits&(1<<held-1) != 0 || b[6]>>4 != 7 || b[8]>>6 != 2 { // spare bits, UUID version 7, variant of RFC 9562
		return time.Time{}, false
	}
	millis := binary.BigEndian.Uint64(b[:8]) >> 16
	return time.UnixMilli(int64(millis)).UTC(), true
}

// DeriveDeliveryID makes the id of a delivery whose producer gave none: the same
// coordinates and record timestamp (Unix ms, which tells a recreated topic's
// offsets apart) always give the same id. It has the form of a minted one, over
// the first 16 bytes of a SHA-256.
func DeriveDeliveryID(c Coordinates, timestampMillis int64) string {
	const intro = "barnabas delivery"
	b := make([]byte, 0, len(intro)+8+maxTopicBytes+24) // on the stack, for its size is known
	b = append(b, intro...)
	b = appendPrefixed(b, c.Topic)
	b = binary.BigEndian.AppendUint64(b, uint64(c.Partition))
	b = binary.BigEndian.AppendUint64(b, uint64(c.Offset))
	b = binary.BigEndian.AppendUint64(b, uint64(timestampMillis))
	sum := sha256.Sum256(b)
	return deliveryID([16]byte(sum[:16]))
}

// ContentHash is what an idempotency key is bound to: SHA-256 over event type,
// content type and payload, each behind its length in 8 bytes, big-endian, so that none can pass
// for a part of another. An empty content type counts as application/json.
func ContentHash(e *Event) []byte {
	contentType := e.ContentType
	if contentType == "" {
		contentType = defaultContentType
	}
	h := sha256.New()
	head := make([]byte, 0, 24+2*MaxNameBytes) // on the stack, for its size is known
	head = appendPrefixed(head, e.EventType)
	head = appendPrefixed(head, contentType)
	head = binary.BigEndian.AppendUint64(head, uint64(len(e.Payload)))
	h.Write(head)
	h.Write(e.Payload)
	return h.Sum(nil)
}

func appendPrefixed(b []byte, s string) []byte {
	return append(binary.BigEndian.AppendUint64(b, uint64(len(s))), s...)
}
