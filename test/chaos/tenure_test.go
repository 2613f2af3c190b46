package chaos_test

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/barnabas-webhooks/barnabas/test/chaos"
)

func TestReadTenures_FollowsUnitsThroughALog(t *testing.T) {
	t.Parallel()
	second := func(s int) time.Time { return time.Date(2026, 1, 1, 0, 0, s, 0, time.UTC) }
	tenures, losses, err := chaos.ReadTenures(strings.NewReader(`{"time":"2026-01-01T00:00:01Z","msg":"units assigned","units":[0,1]}
{"time":"2026-01-01T00:00:02Z","msg":"unit started","unit":0}
{"time":"2026-01-01T00:00:03Z","msg":"unit ran out of time to drain: its next owner repeats what is not settled","unit":1,"outcomes":3}
{"time":"2026-01-01T00:00:03Z","msg":"units given up","units":[1]}
{"time":"2026-01-01T00:00:04Z","msg":"units assigned","units":[2]}
{"time":"2026-01-01T00:00:05Z","msg":"units lost","units":[0]}
{"time":"2026-01-01T00:00:06Z","msg":"attempt","units":[9]}
{"time":"2026-01-01T00:00:06Z","msg":"units gi`), 7, second(8))
	require.NoError(t, err)
	require.ElementsMatch(t, []chaos.Tenure{
		{PID: 7, Unit: 1, From: second(1), To: second(3)},
		{PID: 7, Unit: 0, From: second(1), To: second(5)},
		{PID: 7, Unit: 2, From: second(4), To: second(8)},
	}, tenures)
	require.ElementsMatch(t, []chaos.Cut{
		{Kind: chaos.CutUndrained, PID: 7, From: second(3), To: second(3), Units: []int32{1}},
		{Kind: chaos.CutLost, PID: 7, From: second(5), To: second(5), Units: []int32{0}},
	}, losses)
}
