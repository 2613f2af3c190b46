package tracker

import (
	"encoding/base64"
	"encoding/binary"
	"math/bits"
	"strings"
)

// MaxMetadata is the broker's limit on commit metadata, in characters (offset.metadata.max.bytes).
const MaxMetadata = 4096

// MaxTag is how many characters a tag may have.
const MaxTag = 32

// The forms of the metadata: version, tag, and the map in unpadded base64, separated by colons.
//
// The bitmap has bit i (the lowest of byte 0 first) for offset commit+1+i, without trailing zero bytes; the commit
// itself is open by definition. With nothing done above the commit it is "bn1:8f3a-17:". A full window takes 2,731
// characters of base64, 2,768 in all.
//
//	bn1:8f3a-17:BQ
//
// Where the highest done offset lies beyond Window, the map is a list of numbers (unsigned varints): how far that offset
// lies above the commit, then from one offset that is not done to the next, from the commit on.
//
//	bn2:8f3a-17:oI0GAQI
const (
	version    = "bn1:"
	farVersion = "bn2:"
)

// doneMap collects what is done above the commit, in ascending order.
type doneMap struct {
	commit int64
	far    bool    // what is done may lie beyond Window
	top    int64   // the highest that is done
	bytes  []byte  // the bitmap, grown to the last bit set, so that it never ends in a zero
	open   []int64 // of far: those that are not done
}

// say adds an offset. One beyond the windows is left out: callers keep it from being settled (Fits).
func (m *doneMap) say(offset int64, done bool) {
	i := offset - m.commit - 1
	switch {
	case i < 0 || i >= FarWindow:
		return
	case !done && m.far:
		m.open = append(m.open, offset)
		return
	case !done:
		return
	}
	m.top = offset
	if i >= Window {
		return
	}
	at := int(i / 8)
	for len(m.bytes) <= at {
		m.bytes = append(m.bytes, 0)
	}
	m.bytes[at] |= 1 << (i % 8)
}

func (m *doneMap) encode(tag string) string {
	if !validTag(tag) {
		tag = ""
	}
	bitmap := func() string { return version + tag + ":" + base64.RawStdEncoding.EncodeToString(m.bytes) }
	if m.top <= m.commit+Window {
		return bitmap()
	}
	list := binary.AppendUvarint(nil, uint64(m.top-m.commit))
	before := m.commit
	for _, o := range m.open {
		if o > m.top {
			break // nothing is done above it: it need not be said
		}
		list = binary.AppendUvarint(list, uint64(o-before))
		before = o
	}
	if far := farVersion + tag + ":" + base64.RawStdEncoding.EncodeToString(list); len(far) <= MaxMetadata {
		return far
	}
	return bitmap() // cannot be (FarOpen); a commit that the broker refuses would settle nothing at all
}

// decode lists what the metadata of a commit calls done, ascending; nil for anything that encode cannot have written.
func decode(commit int64, metadata string) []int64 {
	form, _, encoded, ok := split(metadata)
	if !ok {
		return nil
	}
	data, err := base64.RawStdEncoding.Strict().DecodeString(encoded)
	if err != nil {
		return nil
	}
	// The decoder skips line ends; we write none.
	if base64.RawStdEncoding.EncodedLen(len(data)) != len(encoded) {
		return nil
	}
	if form == farVersion {
		return decodeFar(commit, data)
	}
	if len(data) > Window/8 {
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

// decodeFar reads the list of what is not done. What lies between two of those, and does not exist in the log, counts
// as done, which says nothing.
func decodeFar(commit int64, data []byte) []int64 {
	next := func() (int64, bool) {
		v, n := binary.Uvarint(data)
		if n <= 0 || n > 1 && data[n-1] == 0 || v == 0 || v > FarWindow { // too long, or not the shortest form, or not ours
			return 0, false
		}
		data = data[n:]
		return int64(v), true
	}
	span, ok := next()
	if !ok || span <= Window {
		return nil
	}
	done := make([]int64, 0, span)
	at, top := commit+1, commit+span
	for open := commit; len(data) > 0; {
		step, ok := next()
		if open += step; !ok || open >= top {
			return nil
		}
		for ; at < open; at++ {
			done = append(done, at)
		}
		at++
	}
	for ; at <= top; at++ {
		done = append(done, at)
	}
	return done
}

// Tag reads the caller's mark out of commit metadata; empty when it is not ours.
func Tag(metadata string) string {
	_, tag, _, _ := split(metadata)
	return tag
}

func split(metadata string) (form, tag, encoded string, ok bool) {
	if len(metadata) > MaxMetadata || !strings.HasPrefix(metadata, version) && !strings.HasPrefix(metadata, farVersion) {
		return "", "", "", false
	}
	form = metadata[:len(version)]
	tag, encoded, ok = strings.Cut(metadata[len(form):], ":")
	if !ok || !validTag(tag) {
		return "", "", "", false
	}
	return form, tag, encoded, true
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
