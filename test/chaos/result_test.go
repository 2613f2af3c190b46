package chaos_test

import (
	"bytes"
	"encoding/json"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/barnabas-webhooks/barnabas/schemas"
	"github.com/barnabas-webhooks/barnabas/test/chaos"
)

// settledStory is a run at whose end nothing waits.
func settledStory() *chaos.Evidence {
	e := story()
	e.History.Live = nil
	e.History.Steps = slices.DeleteFunc(e.History.Steps, func(s chaos.Step) bool { return s.ID == "w" })
	post(e, "w", "W", 1, 0, 30, 200, "ok", "delivered", schemas.Coordinates{Topic: "events", Partition: place("", 0).Partition, Offset: 5})
	e.Summary = chaos.Summary{Seed: 7, Planned: 3, Faults: map[string]int{"kill -9 worker": 2, "rolling restart": 1}}
	return e
}

func TestResult_HoldsOnlyWhereEverythingLandedAndAllWasDone(t *testing.T) {
	t.Parallel()
	r := chaos.NewResult(settledStory())
	require.True(t, r.Held(), "%q", r.Violations)
	var table bytes.Buffer
	require.NoError(t, r.WriteTable(&table))
	require.Contains(t, table.String(), "All held; seed 7")
	require.NotContains(t, table.String(), "VIOLATED")

	for want, breaks := range map[string]func(*chaos.Evidence){
		"HARNESS 0 deliveries are dead letters and 1 wait": func(e *chaos.Evidence) { *e = *story() },
		"HARNESS only 3 of 4 faults":                       func(e *chaos.Evidence) { e.Summary.Planned = 4 },
		"HARNESS no answer":                                func(e *chaos.Evidence) { e.Summary.GaveUp = []string{"no answer"} },
		"WRONG worker-1 ended by itself":                   func(e *chaos.Evidence) { e.Summary.Misbehaved = []string{"worker-1 ended by itself"} },
		"LOST Kafka acknowledged":                          func(e *chaos.Evidence) { e.Sent[4].At.Offset = 99 },
	} {
		e := settledStory()
		breaks(e)
		r := chaos.NewResult(e)
		require.False(t, r.Held())
		table.Reset()
		require.NoError(t, r.WriteTable(&table))
		require.Contains(t, table.String(), "VIOLATED: "+want)
		require.Contains(t, table.String(), "1 violations; seed")
	}
}

func TestResult_AsJSON(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	require.NoError(t, chaos.NewResult(settledStory()).WriteJSON(&out))
	var got map[string]any
	require.NoError(t, json.Unmarshal(out.Bytes(), &got))
	require.InDelta(t, 7, got["seed"], 0)
	require.InDelta(t, 0, got["lost"], 0)
	require.InDelta(t, 0, got["forked"], 0)
	require.Equal(t, []any{}, got["violations"])
}
