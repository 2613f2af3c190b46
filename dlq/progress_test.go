package dlq_test

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/barnabas-webhooks/barnabas/dlq"
)

// Without a terminal: plain lines, few of them, with what is left.
func TestReporter_PlainLines(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var out strings.Builder
		r := dlq.NewReporter(&out, false)
		for i := range int64(101) {
			r.Update(dlq.Progress{Phase: dlq.PhaseReplay, Done: i * 10, Total: 1000, Refused: 2})
			time.Sleep(200 * time.Millisecond)
		}
		r.Close()
		lines := strings.Split(strings.TrimSpace(out.String()), "\n")
		require.Equal(t, []string{
			"replaying: 250 of 1000 (25%), 2 refused, 15s left",
			"replaying: 500 of 1000 (50%), 2 refused, 10s left",
			"replaying: 750 of 1000 (75%), 2 refused, 5s left",
			"replaying: 1000 of 1000 (100%), 2 refused",
		}, lines)
	})
}

// On a terminal: one bar for each phase.
func TestReporter_Bar(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var out lockedBuffer
		r := dlq.NewReporter(&out, true)
		for _, phase := range []dlq.Phase{dlq.PhaseCount, dlq.PhaseReplay} {
			for i := range int64(11) {
				r.Update(dlq.Progress{Phase: phase, Done: i, Total: 10})
				time.Sleep(time.Second)
			}
		}
		r.Update(dlq.Progress{Phase: dlq.PhaseCount}) // nothing to go through
		r.Close()
		require.Contains(t, out.String(), "counting")
		require.Contains(t, out.String(), "replaying")
		require.Contains(t, out.String(), "\r")
	})
}
