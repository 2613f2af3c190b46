package deliver_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/barnabas-webhooks/barnabas/retry"
)

// C-081: Retry-After as it comes over the wire, in every form, from a failure of any status. Valid forms are read; what is
// not, and what is over, is as if it were not there. Two headers contradict each other. A success is not asked.
func TestAttempt_RetryAfter(t *testing.T) {
	t.Parallel()
	soon := time.Now().Add(90 * time.Second).UTC()
	for value, want := range map[string]time.Duration{
		"120": 2 * time.Minute, " 120 ": 2 * time.Minute, "\t120": 2 * time.Minute, "86400": 24 * time.Hour, "31536000": 24 * time.Hour,
		strings.Repeat("9", 400): 24 * time.Hour,

		soon.Format(http.TimeFormat): 90 * time.Second, soon.Format("Monday, 02-Jan-06 15:04:05 GMT"): 90 * time.Second,
		soon.Format(time.ANSIC): 90 * time.Second, "Fri, 31 Dec 9999 23:59:59 GMT": 24 * time.Hour,

		"": 0, "0": 0, "-5": 0, "1.5": 0, "+120": 0, "1e3": 0, "120, 240": 0, "120;q=1": 0, "\"120\"": 0, "１２０": 0, "soon": 0,
		soon.Format(time.RFC3339): 0, soon.Format(time.RFC1123Z): 0, soon.Format("2006-01-02 15:04:05"): 0,
		soon.Add(-time.Hour).Format(http.TimeFormat): 0, "Sun, 06 Nov 1994 08:49:37 GMT": 0, strings.Repeat("9", 400) + "s": 0,

		"120\r\nRetry-After: 240": 0, "120\r\nretry-after: 120": 0, "120\r\nRETRY-AFTER:": 0,
	} {
		for _, code := range []int{200, 302, 408, 425, 429, 500, 503} {
			addr := raw(t, answering(fmt.Sprintf("HTTP/1.1 %d X\r\nContent-Length: 0\r\nRetry-After: %s\r\n\r\n", code, value)))
			res := newRig(t, options{}).Attempt(t.Context(), request("http://"+addr))
			require.Equal(t, code, res.Status, res.Error)
			if res.Class == retry.OK {
				require.Zero(t, res.RetryAfter)
				continue
			}
			require.LessOrEqual(t, res.RetryAfter, want, "%d %.60q", code, value)
			require.GreaterOrEqual(t, res.RetryAfter, want*9/10-time.Second, "%d %.60q", code, value) // a date is nearer by now
		}
	}
}
