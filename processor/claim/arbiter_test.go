package claim_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/barnabas-webhooks/barnabas/processor/claim"
	"github.com/barnabas-webhooks/barnabas/schemas"
)

const window = 24 * time.Hour

var start = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

// question is one keyed event of the endpoint ep_1, its delivery named after its offset.
func question(key string, offset int64, at time.Duration, payload string) claim.Question {
	return claim.Question{
		EndpointID: "ep_1", Key: key, DeliveryID: deliveryID(offset), Offset: offset, At: start.Add(at),
		ContentHash: schemas.ContentHash(&schemas.Event{EventType: "test", Payload: []byte(payload)}),
	}
}

func judge(t *testing.T, a *claim.Arbiter, q claim.Question) schemas.Claim {
	t.Helper()
	c, err := a.Judge(q)
	require.NoError(t, err)
	return c
}

func deliveryID(offset int64) string { return fmt.Sprintf("dlv_%d", offset) }

func TestArbiter_LogOrderDecides(t *testing.T) {
	t.Parallel()
	for name, steps := range map[string][]struct {
		q       claim.Question
		verdict schemas.Verdict
		owner   int64 // offset of the event that owns the key afterwards
	}{
		"a repeat": {
			{question("k", 10, 0, "a"), schemas.VerdictFirst, 10},
			{question("k", 11, time.Second, "a"), schemas.VerdictDuplicate, 10},
			{question("k", 12, time.Hour, "a"), schemas.VerdictDuplicate, 10},
		},
		// C-001: the same key with another payload is never taken for a repeat.
		"a conflict": {
			{question("k", 10, 0, "a"), schemas.VerdictFirst, 10},
			{question("k", 11, 0, "b"), schemas.VerdictConflict, 10},
			{question("k", 12, 0, "a"), schemas.VerdictDuplicate, 10},
			{question("k", 13, 0, "a "), schemas.VerdictConflict, 10},
		},
		"two keys": {
			{question("k", 10, 0, "a"), schemas.VerdictFirst, 10},
			{question("l", 11, 0, "a"), schemas.VerdictFirst, 11},
			{question("l", 12, 0, "a"), schemas.VerdictDuplicate, 11},
		},
		// C-009: inside the window a repeat, outside it a new delivery; nothing between.
		"edges of the window": {
			{question("k", 10, 0, "a"), schemas.VerdictFirst, 10},
			{question("k", 11, 23*time.Hour+59*time.Minute, "a"), schemas.VerdictDuplicate, 10},
			{question("k", 12, window-time.Millisecond, "b"), schemas.VerdictConflict, 10},
			{question("k", 13, window, "a"), schemas.VerdictFirst, 13},
			{question("k", 14, window+time.Minute, "a"), schemas.VerdictDuplicate, 13},
			{question("k", 15, 2*window-time.Millisecond, "a"), schemas.VerdictDuplicate, 13},
			{question("k", 16, 2*window+time.Minute, "b"), schemas.VerdictFirst, 16},
		},
		// The window counts from the claiming record: repeats do not prolong it.
		"repeats do not prolong": {
			{question("k", 10, 0, "a"), schemas.VerdictFirst, 10},
			{question("k", 11, 20*time.Hour, "a"), schemas.VerdictDuplicate, 10},
			{question("k", 12, 24*time.Hour+time.Minute, "a"), schemas.VerdictFirst, 12},
		},
		// Invariant 3: a re-read comes to the same verdict.
		"read again": {
			{question("k", 10, 0, "a"), schemas.VerdictFirst, 10},
			{question("k", 11, 0, "a"), schemas.VerdictDuplicate, 10},
			{question("k", 12, 0, "b"), schemas.VerdictConflict, 10},
			{question("k", 10, 0, "a"), schemas.VerdictFirst, 10},
			{question("k", 11, 0, "a"), schemas.VerdictDuplicate, 10},
			{question("k", 12, 0, "b"), schemas.VerdictConflict, 10},
		},
		// A broker's clock that is set back must not open a second window.
		"a clock set back": {
			{question("k", 10, time.Hour, "a"), schemas.VerdictFirst, 10},
			{question("k", 11, 0, "a"), schemas.VerdictDuplicate, 10},
			{question("k", 12, -48*time.Hour, "a"), schemas.VerdictDuplicate, 10},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			a := claim.NewArbiter(window, claim.NewMemory())
			for i, s := range steps {
				c := judge(t, a, s.q)
				require.Equal(t, s.verdict, c.Verdict, "step %d", i)
				require.Equal(t, deliveryID(s.owner), c.DeliveryID, "step %d", i)
				require.Equal(t, s.owner, c.ClaimedOffset, "step %d", i)
				require.Equal(t, s.q.Offset, c.AnsweredOffset, "step %d: every write says what it answers", i)
			}
		})
	}
}

// C-007: the scope of a key is its endpoint, and no split of endpoint and key passes for another.
func TestArbiter_KeysOfOtherEndpointsAreOthers(t *testing.T) {
	t.Parallel()
	a := claim.NewArbiter(window, claim.NewMemory())
	offset := int64(0)
	for _, pair := range [][2]string{{"ep", "1"}, {"ep2", "1"}, {"e", "p1"}, {"ep1", ""}, {"", "ep1"}, {"ep\x00", "1"}} {
		q := question(pair[1], offset, 0, "a")
		q.EndpointID = pair[0]
		require.Equal(t, schemas.VerdictFirst, judge(t, a, q).Verdict, "%q", pair)
		q.Offset++
		require.Equal(t, schemas.VerdictDuplicate, judge(t, a, q).Verdict, "%q", pair)
		offset += 2
	}
}

// What is claimed is written whole: the owner, its content, its time, and the offset that this write answers.
func TestArbiter_ClaimSaysEverything(t *testing.T) {
	t.Parallel()
	a := claim.NewArbiter(window, claim.NewMemory())
	first := question("k", 7, 1500*time.Millisecond, "a")
	judge(t, a, first)
	c := judge(t, a, question("k", 9, time.Hour, "a"))
	require.Equal(t, schemas.Claim{
		EndpointID: "ep_1", Key: "k", DeliveryID: "dlv_7", PayloadHash: first.ContentHash[:16],
		ClaimedOffset: 7, ClaimedAt: first.At, AnsweredOffset: 9, Verdict: schemas.VerdictDuplicate,
	}, c)
	_, err := schemas.EncodeClaim(&c)
	require.NoError(t, err)
}

// Claims that were read back bind as those that were judged, in whatever order they come and however often.
func TestArbiter_RestoresInAnyOrder(t *testing.T) {
	t.Parallel()
	judged := claim.NewArbiter(window, claim.NewMemory())
	k1 := judge(t, judged, question("k", 1, 0, "a"))
	l1 := judge(t, judged, question("l", 2, time.Hour, "a"))
	k2 := judge(t, judged, question("k", 3, 25*time.Hour, "b")) // a new window, a new owner
	k2again := judge(t, judged, question("k", 4, 26*time.Hour, "b"))
	require.Equal(t, schemas.VerdictFirst, k2.Verdict)
	require.Equal(t, schemas.VerdictDuplicate, k2again.Verdict)
	for _, order := range [][]schemas.Claim{
		{k1, l1, k2, k2again}, {k2again, k2, l1, k1}, {k2, k1, k2again, l1}, {l1, k2again, k1}, {k2again, k2again, l1},
	} {
		a := claim.NewArbiter(window, claim.NewMemory())
		for i := range order {
			require.NoError(t, a.Restore(&order[i]))
		}
		require.Equal(t, schemas.VerdictDuplicate, judge(t, a, question("k", 5, 27*time.Hour, "b")).Verdict)
		require.Equal(t, schemas.VerdictConflict, judge(t, a, question("k", 6, 27*time.Hour, "a")).Verdict)
		require.Equal(t, schemas.VerdictFirst, judge(t, a, question("k", 3, 25*time.Hour, "b")).Verdict, "read again")
		require.Equal(t, schemas.VerdictFirst, judge(t, a, question("l", 7, 27*time.Hour, "a")).Verdict, "past its window")
	}
}

// Memory follows the keys of two windows, however long the unit lives.
func TestArbiter_GenerationsBoundMemory(t *testing.T) {
	t.Parallel()
	const perHour = 50
	a := claim.NewArbiter(window, claim.NewMemory())
	offset := int64(0)
	for hour := range 24 * 30 {
		for i := range perHour {
			judge(t, a, question(fmt.Sprintf("%d-%d", hour, i), offset, time.Duration(hour)*time.Hour, "a"))
			offset++
		}
		require.NoError(t, a.Settled(offset))
		require.LessOrEqual(t, a.Len(), int64(2*24*perHour))
	}
	require.GreaterOrEqual(t, a.Len(), int64(24*perHour), "a whole window is remembered")
	// And what was claimed within the window is remembered still, across any number of rotations.
	last := time.Duration(24*30-1) * time.Hour
	for hour := 24*30 - 24; hour < 24*30; hour++ {
		q := question(fmt.Sprintf("%d-0", hour), offset, last, "a")
		require.Equal(t, schemas.VerdictDuplicate, judge(t, a, q).Verdict, "hour %d", hour)
		offset++
	}
}
