package retry_test

import (
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/barnabas-webhooks/barnabas/retry"
)

const day = 24 * time.Hour

// C-081, C-082: valid forms are honoured, everything else is as if it were not there.
func TestParseRetryAfter(t *testing.T) {
	t.Parallel()
	// now is Sunday, 1 March 2026, 12:00:00 GMT.
	for value, want := range map[string]time.Duration{
		"1": time.Second, "120": 2 * time.Minute, " 120 ": 2 * time.Minute, "\t7": 7 * time.Second, "007": 7 * time.Second,
		"7200": 2 * time.Hour, "86400": day, "86401": day, "31536000": day,
		"9223372036": day, "9223372037": day, "18446744073709551616": day, "18446744073709551617": day,
		strings.Repeat("9", 5000): day, strings.Repeat("0", 5000) + "5": 5 * time.Second,

		"": 0, " ": 0, "0": 0, "000": 0, "-5": 0, "-0": 0, "+120": 0, "1.5": 0, "1,5": 0, "1e3": 0, "0x10": 0, "1_000": 0,
		"120, 240": 0, "120,": 0, "120;": 0, "120 s": 0, "120s": 0, "2m": 0, "\"120\"": 0, "soon": 0,
		"１２０": 0, "٣": 0, "12\x0030": 0, "12\n": 0, "\u00a012": 0, strings.Repeat("9", 500) + "x": 0,

		"Sun, 01 Mar 2026 12:01:30 GMT":   90 * time.Second,
		" Sun, 01 Mar 2026 12:01:30 GMT ": 90 * time.Second,
		"Sunday, 01-Mar-26 12:01:30 GMT":  90 * time.Second,
		"Sun Mar  1 12:01:30 2026":        90 * time.Second,
		"Tue, 01 Mar 2033 12:00:00 GMT":   day,
		"Fri, 31 Dec 9999 23:59:59 GMT":   day,
		"Tuesday, 01-Mar-33 12:00:00 GMT": day,
		"Sunday, 01-Mar-76 12:00:00 GMT":  day, // 50 years ahead is ahead
		"Tuesday, 01-Mar-77 12:00:00 GMT": 0,   // 51 would be: it is 1977
		"Sun, 01 Mar 2026 12:00:00 GMT":   0,
		"Sun, 01 Mar 2026 11:59:59 GMT":   0,
		"Sun, 06 Nov 1994 08:49:37 GMT":   0,
		"Sunday, 06-Nov-94 08:49:37 GMT":  0,
		"Sun Nov  6 08:49:37 1994":        0,

		"2026-03-01T12:01:30Z": 0, "2026-03-01 12:01:30": 0, "20260301": day, // eight digits are seconds
		"Mon, 01 Mar 2026 12:01:30 GMT":    0, // it is a Sunday
		"Sun, 01 Mar 2026 12:01:30 UTC":    0,
		"Sun, 01 Mar 2026 12:01:30 +0000":  0,
		"Sun, 01 Mar 2026 12:01:30":        0,
		"Sun, 1 Mar 2026 12:01:30 GMT":     0,
		"Sun, 01 Mar 26 12:01:30 GMT":      0,
		"Sun, 01 Mar 2026 12:01:30.5 GMT":  0,
		"Sun, 01 Mar 2026 12:01 GMT":       0,
		"sun, 01 mar 2026 12:01:30 gmt":    0,
		"Sun, 01 Mar 2026 25:01:30 GMT":    0,
		"Sun, 30 Feb 2026 12:01:30 GMT":    0,
		"Sunday, 01-Mar-26 12:01:30 PST":   0,
		"Sunday, 01-Mar-2026 12:01:30 GMT": 0,
		"Sun Mar 1 12:01:30 2026":          0,
	} {
		require.Equal(t, want, retry.ParseRetryAfter([]string{value}, now, day), "%.60q", value)
	}
}

func TestParseRetryAfter_TwoHeadersAreNone(t *testing.T) {
	t.Parallel()
	for _, values := range [][]string{nil, {}, {"120", "240"}, {"120", "120"}, {"120", ""}, {"", "120"}} {
		require.Zero(t, retry.ParseRetryAfter(values, now, day), "%q", values)
	}
}

func TestParseRetryAfter_IsCut(t *testing.T) {
	t.Parallel()
	for limit, want := range map[time.Duration]time.Duration{
		0: 0, -day: 0, 1: 1, time.Second: time.Second, 1500 * time.Millisecond: 1500 * time.Millisecond, day: 10 * time.Second,
	} {
		require.Equal(t, want, retry.ParseRetryAfter([]string{"10"}, now, limit), "%s", limit)
		require.Equal(t, want, retry.ParseRetryAfter([]string{"Sun, 01 Mar 2026 12:00:10 GMT"}, now, limit), "%s", limit)
	}
	const most = time.Duration(1<<63 - 1)
	require.Equal(t, most, retry.ParseRetryAfter([]string{"9999999999999"}, now, most))
	require.Equal(t, 9223372036*time.Second, retry.ParseRetryAfter([]string{"9223372036"}, now, most))
}

// A date is absolute: what is left of it depends on now, also in another zone and within a second.
func TestParseRetryAfter_DatesCountFromNow(t *testing.T) {
	t.Parallel()
	const v = "Sun, 01 Mar 2026 12:01:30 GMT"
	east := now.In(time.FixedZone("east", 5*3600+1800)).Add(250 * time.Millisecond)
	require.Equal(t, 89750*time.Millisecond, retry.ParseRetryAfter([]string{v}, east, day))
	for offset := -50 * 365 * day; offset < 250*365*day; offset += 37*day + 12345*time.Second {
		at := now.Add(offset)
		then := at.Add(time.Hour)
		for _, layout := range []string{http.TimeFormat, "Monday, 02-Jan-06 15:04:05 GMT", time.ANSIC} {
			require.Equal(t, time.Hour, retry.ParseRetryAfter([]string{then.Format(layout)}, at, day), then.Format(layout))
		}
	}
}

func FuzzParseRetryAfter(f *testing.F) {
	for _, s := range []string{
		"120", "0", "-1", "1e3", "99999999999999999999", "Sun, 01 Mar 2026 12:01:30 GMT", "Sunday, 01-Mar-26 12:01:30 GMT",
		"Sun Mar  1 12:01:30 2026", "2026-03-01T12:01:30Z", "１", " 1 ",
	} {
		f.Add(s, int64(day))
	}
	f.Fuzz(func(t *testing.T, value string, limit int64) {
		got := retry.ParseRetryAfter([]string{value}, now, time.Duration(limit))
		require.GreaterOrEqual(t, got, time.Duration(0))
		require.LessOrEqual(t, got, max(0, time.Duration(limit)))
		require.Zero(t, retry.ParseRetryAfter([]string{value, value}, now, time.Duration(limit)))
		if got == 0 || limit < int64(time.Second) {
			return
		}
		// Whatever is honoured is one of the forms, by the judgement of others.
		v := strings.Trim(value, " \t")
		if n, err := strconv.ParseUint(v, 10, 63); err == nil {
			want := time.Duration(limit)
			if n <= uint64(limit)/uint64(time.Second) {
				want = time.Duration(n) * time.Second
			}
			require.Equal(t, want, got)
			return
		}
		if strings.Trim(v, "0123456789") == "" {
			return // digits beyond what strconv takes
		}
		at, err := http.ParseTime(v)
		require.NoError(t, err)
		if at.Year() > 1969 && at.Year() < 2069 {
			require.Equal(t, min(at.Sub(now), time.Duration(limit)), got)
		}
	})
}
