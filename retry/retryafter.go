package retry

import (
	"strings"
	"time"
)

// The three date forms that a recipient of HTTP must read (RFC 9110 section 5.6.7).
// GMT is literal in all of them: a form of Go's own would take any letters there as a zone with offset zero.
const (
	imfFixdate = "Mon, 02 Jan 2006 15:04:05 GMT"
	rfc850     = "Monday, 02-Jan-06 15:04:05 GMT"
	asctime    = time.ANSIC
)

// maxDateLength bounds what is looked at as a date: "Wednesday, 09-Nov-94 08:49:37 GMT" is the longest.
const maxDateLength = 33

// ParseRetryAfter reads a Retry-After header (RFC 9110 section 10.2.3): whole seconds or
// an HTTP date. Anything else, zero, negative or past gives 0, which means "not asked", never "now".
// Clamped to limit; a limit of zero or less ignores the header. Two headers contradict each other: both are ignored.
func ParseRetryAfter(values []string, now time.Time, limit time.Duration) time.Duration {
	if len(values) != 1 || limit <= 0 {
		return 0
	}
	v := strings.Trim(values[0], " \t") // optional white space around a field value is not part of it
	if v == "" {
		return 0
	}
	if wait, ok := deltaSeconds(v, limit); ok {
		return wait
	}
	at, ok := httpDate(v, now)
	if !ok {
		return 0
	}
	if wait := at.Sub(now); wait > 0 { // Sub saturates, so that a far date is cut too
		return min(wait, limit)
	}
	return 0
}

// deltaSeconds reads ASCII digits only, of any number: what would pass limit is limit, so that none overflows.
func deltaSeconds(v string, limit time.Duration) (time.Duration, bool) {
	var wait time.Duration
	for i := range len(v) {
		c := v[i]
		if c < '0' || c > '9' {
			return 0, false
		}
		if wait == limit {
			continue // cut already; the rest must still be digits
		}
		seconds := wait/time.Second*10 + time.Duration(c-'0')
		if seconds > limit/time.Second {
			wait = limit
		} else {
			wait = seconds * time.Second
		}
	}
	return wait, true
}

// httpDate reads one of the three forms, exactly: what time.Parse lets pass
// beyond them (fractions, other letter cases, a wrong weekday) is not a date.
func httpDate(v string, now time.Time) (time.Time, bool) {
	if len(v) > maxDateLength {
		return time.Time{}, false
	}
	for _, layout := range []string{imfFixdate, rfc850, asctime} {
		t, err := time.Parse(layout, v)
		if err != nil {
			continue
		}
		if layout == rfc850 {
			t = century(t, now)
		}
		if t.Format(layout) == v {
			return t, true
		}
	}
	return time.Time{}, false
}

// century applies RFC 9110: a two-digit year that seems to be more than 50 years
// ahead is the latest past year with the same two digits.
func century(t, now time.Time) time.Time {
	year := now.UTC().Year()/100*100 + t.Year()%100
	switch {
	case year > now.UTC().Year()+50:
		year -= 100
	case year < now.UTC().Year()-49:
		year += 100
	}
	return time.Date(year, t.Month(), t.Day(), t.Hour(), t.Minute(), t.Second(), 0, time.UTC)
}
