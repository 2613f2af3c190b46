package tracker

import (
	"encoding/base64"
	"math/bits"
	"strings"
)

// MaxMetadata is the broker's limit on commit metadata, in characters (offset.metadata.max.bytes).
const MaxMetadata = 4096

// MaxTag is how many characters a tag may have.
const MaxTag = 32

// The form of the metadata: version, tag, and the bitmap in unpadded base64 without
// its trailing zero bytes, separated by colons. Bit i of the bitmap (the lowest of byte
// 0 first) is offset commit+1+i; the commit itself is open by definition.
//
//	bn1:8f3a-17:BQ
//
// With nothing done above the commit that is "bn1:8f3a-17:". A full window takes
// 2,731 characters of base64, 2,768 in all.
const version = "bn1:"

// bitmap collects what is done in (commit, commit+Window].
type bitmap struct {
	commit int64
	bytes  []byte // grown to the last bit set, so it never ends in a zero
}

func newBitmap(commit int64) *bitmap { return &bitmap{commit: commit} }

// add sets the bit of an offset. One beyond the window is left out: callers keep it from being settled (Fits).
func (m *bitmap) add(offset int64) {
	i := offset - m.commit - 1
	if i < 0 || i >= Window {
		return
	}
	at := int(i / 8)
	for len(m.bytes) <= at {
		m.bytes = append(m.bytes, 0)
	}
	m.bytes[at] |= 1 << (i % 8)
}

func (m *bitmap) addAll(offsets []int64) {
	for _, o := range offsets {
		m.add(o)
	}
}

func (m *bitmap) encode(tag string) string {
	if !validTag(tag) {
		tag = ""
	}
	return version + tag + ":" + base64.RawStdEncoding.EncodeToString(m.bytes)
}

// decode lists what the metadata of a commit calls done, ascending; nil for anything that encode cannot have written.
func decode(commit int64, metadata string) []int64 {
	_, encoded, ok := split(metadata)
	if !ok {
		return nil
	}
	data, err := base64.RawStdEncoding.Strict().DecodeString(encoded)
	if err != nil || len(data) > Window/8 {
		return nil
	}
	// The decoder skips line ends; we write none.
	if base64.RawStdEncoding.EncodedLen(len(data)) != len(encoded) {
		return nil
	}
	n := 0
	for _, b := range data {
		n += bits.OnesCount8(b)
	}
	if n == 0 {
		return nil
	}
	done := make([]int64, 0, n)
	for at, b := range data {
		for ; b != 0; b &= b - 1 {
			done = append(done, commit+1+int64(at)*8+int64(bits.TrailingZeros8(b)))
		}
	}
	return done
}

// Tag reads the caller's mark out of commit metadata; empty when it is not ours.
func Tag(metadata string) string {
	tag, _, _ := split(metadata)
	return tag
}

func split(metadata string) (tag, encoded string, ok bool) {
	rest, ours := strings.CutPrefix(metadata, version)
	if !ours || len(metadata) > MaxMetadata {
		return "", "", false
	}
	tag, encoded, ok = strings.Cut(rest, ":")
	if !ok || !validTag(tag) {
		return "", "", false
	}
	return tag, encoded, true
}

func validTag(tag string) bool {
	if len(tag) > MaxTag {
		return false
	}
	for i := range len(tag) {
		c := tag[i]
		if c != '-' && (c < '0' || c > '9') && (c < 'a' || c > 'z') && (c < 'A' || c > 'Z') {
			return false
		}
	}
	return true
}
