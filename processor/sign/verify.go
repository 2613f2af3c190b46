package sign

import (
	"crypto/hmac"
	"encoding/base64"
	"errors"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// DefaultTolerance is how far a timestamp may be from the verifier's clock, as the reference libraries have it.
const DefaultTolerance = 5 * time.Minute

// Limits of what Verify looks at, so that a hostile header costs a bounded amount of work.
const (
	maxSignatureHeader = 8 << 10 // bytes; 160 signatures
	maxEntries         = 64      // signatures compared
	maxIDLength        = 1 << 10 // bytes
)

// Why Verify refuses a request. ErrMalformed covers headers that are missing, doubled, oversized or not numbers.
var (
	ErrMalformed = errors.New("webhook headers are missing or malformed")
	ErrTimestamp = errors.New("webhook timestamp is outside the tolerance")
	ErrSignature = errors.New("no signature matches")
)

// Verify says whether one of the signatures in the header is a full match for one of the keys, at any position.
// Entries of unknown versions are passed over. The time it takes does not depend on where a signature differs.
// tolerance bounds the distance of the timestamp from now, both ways; 0 means DefaultTolerance. Negative turns
// the check off: for tests and for reading old requests only.
func Verify(header http.Header, body []byte, keys [][]byte, now time.Time, tolerance time.Duration) error {
	id, ok1 := only(header, HeaderID)
	stamp, ok2 := only(header, HeaderTimestamp)
	signatures, ok3 := only(header, HeaderSignature)
	if !ok1 || !ok2 || !ok3 || len(id) > maxIDLength || len(signatures) > maxSignatureHeader {
		return ErrMalformed
	}
	seconds, err := strconv.ParseInt(stamp, 10, 64)
	if err != nil || strconv.FormatInt(seconds, 10) != stamp { // "+5", "007": not what a signer writes
		return ErrMalformed
	}
	if tolerance == 0 {
		tolerance = DefaultTolerance
	}
	if tolerance > 0 && !within(seconds, now, tolerance) {
		return ErrTimestamp
	}
	return match(signatures, id, stamp, body, keys)
}

// match compares every entry with every key without leaving early: the verdict shows, its place does not.
func match(signatures, id, stamp string, body []byte, keys [][]byte) error {
	keys = keys[:min(len(keys), MaxKeys)]
	wanted := make([][]byte, 0, len(keys))
	head := signedHead(id, stamp)
	for _, key := range keys {
		wanted = append(wanted, base64.StdEncoding.AppendEncode(nil, appendMAC(nil, head, body, key)))
	}
	found, seen := false, 0
	for entry := range strings.SplitSeq(signatures, " ") {
		if seen++; seen > maxEntries {
			break
		}
		v, encoded, _ := strings.Cut(entry, ",")
		if v != version {
			continue
		}
		for _, w := range wanted {
			// hmac.Equal is false for unequal lengths, so an empty or cut signature never matches.
			found = hmac.Equal([]byte(encoded), w) || found
		}
	}
	if !found {
		return ErrSignature
	}
	return nil
}

// within is overflow-safe for any int64: it compares seconds, never their difference as a Duration.
func within(seconds int64, now time.Time, tolerance time.Duration) bool {
	t := int64(tolerance / time.Second)
	return seconds >= now.Unix()-t && seconds <= now.Unix()+t
}

// only returns a header's value when it was sent exactly once and is not empty. Two values are refused: two
// readers could take different ones.
func only(header http.Header, name string) (string, bool) {
	values := header.Values(name)
	if len(values) != 1 || values[0] == "" {
		return "", false
	}
	return values[0], true
}
