package schemas

import (
	"fmt"
	"math"
	"mime"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"
)

// defaultContentType is what an event that names none is sent as.
const defaultContentType = "application/json"

// CheckEndpointID reports what is wrong with an endpoint id: it has 1 to 255
// bytes of printable UTF-8. The error is a *[FieldError].
func CheckEndpointID(s string) error { return checkName("endpoint_id", s) }

// checkName holds s to 1 to 255 bytes of printable UTF-8.
func checkName(field, s string) error {
	if s == "" {
		return &FieldError{Field: field, Problem: "is missing or empty"}
	}
	return checkOptionalName(field, s)
}

func checkOptionalName(field, s string) error {
	if len(s) > MaxNameBytes {
		return &FieldError{Field: field, Problem: fmt.Sprintf("has %d bytes, the limit is %d", len(s), MaxNameBytes)}
	}
	if printableASCII(s) { // nearly all of them
		return nil
	}
	if !utf8.ValidString(s) {
		return &FieldError{Field: field, Problem: notUTF8}
	}
	for i, r := range s {
		if !unicode.IsPrint(r) {
			return &FieldError{Field: field, Problem: fmt.Sprintf("has the unprintable character %U at byte %d", r, i)}
		}
	}
	return nil
}

// checkDeliveryID holds an id to what fits a webhook-id header and keeps
// "id.timestamp.body", the string that is signed, unambiguous: no dot.
func checkDeliveryID(field, s string) error {
	switch {
	case s == "":
		return &FieldError{Field: field, Problem: "is missing or empty"}
	case len(s) > MaxDeliveryIDBytes:
		return &FieldError{Field: field, Problem: fmt.Sprintf("has %d bytes, the limit is %d", len(s), MaxDeliveryIDBytes)}
	}
	for i := range len(s) {
		c := s[i]
		if (c < 'a' || c > 'z') && (c < 'A' || c > 'Z') && (c < '0' || c > '9') && c != '_' && c != '-' {
			return &FieldError{Field: field, Problem: "may hold only letters, digits, _ and -"}
		}
	}
	return nil
}

// checkContentType holds a media type to what may stand in an HTTP header as
// it is; empty means the default.
func checkContentType(field, s string) error {
	switch {
	case s == "", s == defaultContentType: // nearly all of them: parsing one makes a map
		return nil
	case len(s) > MaxNameBytes:
		return &FieldError{Field: field, Problem: fmt.Sprintf("has %d bytes, the limit is %d", len(s), MaxNameBytes)}
	case !printableASCII(s):
		return &FieldError{Field: field, Problem: "may hold only printable ASCII"}
	}
	media, _, err := mime.ParseMediaType(s)
	if err != nil || !strings.Contains(media, "/") {
		return &FieldError{Field: field, Problem: "is not a media type such as application/json"}
	}
	return nil
}

func checkPayload(field string, b []byte) error {
	if len(b) > MaxPayloadBytes {
		return tooLarge(field, len(b), MaxPayloadBytes)
	}
	return nil
}

func checkCoordinates(field string, c *Coordinates) error {
	switch {
	case len(c.Topic) > maxTopicBytes:
		return &FieldError{Field: field + ".topic", Problem: fmt.Sprintf("has %d bytes, the limit is %d", len(c.Topic), maxTopicBytes)}
	case c.Partition < 0 || c.Offset < 0:
		return &FieldError{Field: field, Problem: "has a negative partition or offset"}
	}
	return nil
}

// count is one number of a record that is never negative.
type count struct {
	field string
	n     int
}

// OneMore is the count after n. The largest that a record holds stays what it is: a record that carried it could not be
// written any more, neither to wait nor as a dead letter, and its source could never be settled.
func OneMore(n int) int { return min(n, math.MaxInt32-1) + 1 }

func checkCounts(counts ...count) error {
	for _, c := range counts {
		if c.n < 0 || c.n > math.MaxInt32 {
			return &FieldError{Field: c.field, Problem: fmt.Sprintf("is %d, outside 0 to 2147483647", c.n)}
		}
	}
	return nil
}

func checkOneOf[S ~string](field string, s S, allowed ...S) error {
	if slices.Contains(allowed, s) {
		return nil
	}
	// A copy is printed: allowed itself would be on the heap at every call.
	return &FieldError{Field: field, Problem: fmt.Sprintf("is none of %q", slices.Clone(allowed))}
}

// firstError is the first that is not nil: a check reads as a list of rules.
func firstError(errs ...error) error {
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}

// trace is a trace-context value that may be passed on, or nothing: a broken
// one must not cost the delivery (W3C Trace Context, section 3.3.1: ignore it).
func trace(s string) string {
	if len(s) > MaxTraceBytes || !printableASCII(s) {
		return ""
	}
	return s
}

func printableASCII(s string) bool {
	for i := range len(s) {
		if s[i] < ' ' || s[i] > '~' {
			return false
		}
	}
	return true
}

// clean makes s fit to be stored: valid UTF-8 of at most limit bytes, cut
// between characters.
func clean(s string, limit int) string {
	s = strings.ToValidUTF8(s, "\uFFFD")
	if len(s) <= limit {
		return s
	}
	for limit > 0 && !utf8.RuneStart(s[limit]) {
		limit--
	}
	return s[:limit]
}

func cut(b []byte, limit int) []byte { return b[:min(len(b), limit)] }
