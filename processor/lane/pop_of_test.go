package lane_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/barnabas-webhooks/barnabas/processor/lane"
)

// What has waited too long leaves out of turn: the head of its class, and nobody's share changes.
func TestLane_PopOfTakesTheHeadOfOneClass(t *testing.T) {
	t.Parallel()
	var l lane.Lane[string]
	now := time.Now()
	_, ok := l.PopOf(lane.Retry)
	require.False(t, ok)
	l.Push(lane.Live, "live", 1, now)
	l.Push(lane.Replay, "replay 1", 2, now)
	l.Push(lane.Replay, "replay 2", 4, now)
	it, ok := l.PopOf(lane.Replay)
	require.True(t, ok)
	require.Equal(t, "replay 1", it)
	require.Equal(t, 2, l.Len())
	require.Equal(t, 5, l.Bytes())
	_, ok = l.PopOf(lane.Retry)
	require.False(t, ok)
	next, class, _ := l.Pop()
	require.Equal(t, "live", next)
	require.Equal(t, lane.Live, class)
	it, _ = l.PopOf(lane.Replay)
	require.Equal(t, "replay 2", it)
	l.Push(lane.Retry, "retry", 1, now)
	it, _ = l.PopOf(200)
	require.Equal(t, "retry", it, "what is no class counts as a retry")
	require.Zero(t, l.Bytes())
}
