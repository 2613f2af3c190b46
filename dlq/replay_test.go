package dlq_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/barnabas-webhooks/barnabas/dlq"
	"github.com/barnabas-webhooks/barnabas/schemas"
	"github.com/barnabas-webhooks/barnabas/topics"
)

// C-028, C-148, C-150: the id, the payload, the history and the trace survive;
// the budget is fresh; the replay count tells the runs apart.
func TestReplay_RevivesTheDeliveryByteForByte(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.endpoints.enable("ep1")
	dead := letter("ep1", 7)
	dead.Delivery.Payload = []byte("{\"a\" : 9007199254740993}\n\x00\xff")
	refs := r.put(dead)
	began := time.Now().Truncate(time.Millisecond)

	res, err := r.replay(dlq.Filter{Endpoints: []string{"ep1"}})
	require.NoError(t, err)
	require.Equal(t, dlq.Counts{Matched: 1, Replayed: 1}, res.Counts)
	require.Equal(t, dlq.ExitOK, dlq.ExitCode(res, err))

	p := topics.Partition("ep1", partitions)
	records := r.replayed()
	require.Len(t, records, 1)
	require.Len(t, records[p], 1)
	rec := records[p][0]
	require.Equal(t, "ep1", string(rec.Key))
	got, err := schemas.DecodeDelivery(rec.Value)
	require.NoError(t, err)
	require.WithinRange(t, got.RunStartedAt, began, time.Now())
	want := dead.Delivery
	want.Attempts, want.Holds, want.Replays, want.DueAt, want.RunStartedAt = 0, 0, 1, time.Time{}, got.RunStartedAt
	requireSameDelivery(t, want, got)

	marks := r.committed(r.cat.DLQState())
	require.Len(t, marks[p], 1)
	mark, err := schemas.DecodeReplayMark(marks[p][0].Value)
	require.NoError(t, err)
	require.Equal(t, dead.Delivery.ID, string(marks[p][0].Key))
	require.Equal(t, refs[0], fmt.Sprintf("%d/%d", mark.DeadLetter.Partition, mark.DeadLetter.Offset))
	require.Equal(t, r.cat.DLQ(), mark.DeadLetter.Topic)
	require.Equal(t, res.Run, mark.Run)
	require.Equal(t, "tester", mark.Operator)
}

func requireSameDelivery(t *testing.T, want, got schemas.Delivery) {
	t.Helper()
	utc := func(d *schemas.Delivery) {
		for _, at := range []*time.Time{&d.AcceptedAt, &d.DueAt, &d.RunStartedAt, &d.History.FirstAttemptAt, &d.History.LastAttemptAt} {
			if !at.IsZero() {
				*at = at.UTC()
			}
		}
	}
	utc(&want)
	utc(&got)
	require.Equal(t, want, got)
}

// C-145: a dry run counts per endpoint and writes nothing, not even a fence.
func TestReplay_DryRun(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.endpoints.enable("ep1", "ep2")
	r.endpoints.disable("ep3")
	r.put(letters("ep1", 5)...)
	r.put(letters("ep2", 2)...)
	r.put(letters("ep3", 1)...)
	_, err := r.replay(dlq.Filter{IDs: []string{"dlv_ep1_0"}})
	require.NoError(t, err)
	before := r.replayedIDs()

	o := r.options(dlq.Filter{All: true})
	o.DryRun = true
	var refused []dlq.Refusal
	o.OnRefusal = func(f dlq.Refusal) { refused = append(refused, f) }
	res, err := r.queue.Replay(t.Context(), o)
	require.NoError(t, err)
	require.True(t, res.DryRun)
	require.Equal(t, map[string]*dlq.Counts{
		"ep1": {Matched: 5, Replayed: 4, AlreadyReplayed: 1},
		"ep2": {Matched: 2, Replayed: 2},
		"ep3": {Matched: 1, Refused: 1},
	}, res.Endpoints)
	require.Equal(t, dlq.Counts{Matched: 8, Replayed: 6, AlreadyReplayed: 1, Refused: 1}, res.Counts)
	require.Len(t, refused, 1)
	require.Equal(t, before, r.replayedIDs())
	require.Len(t, r.collect(dlq.Filter{}), 7)
}

// C-140: a delivery that dies again is one new dead letter with the count of
// replays, and may be replayed again; its older letter stays replayed.
func TestReplay_DiesAgain(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.endpoints.enable("ep1")
	r.put(letters("ep1", 20)...)
	for round := range 4 {
		res, err := r.replay(dlq.Filter{Endpoints: []string{"ep1"}})
		require.NoError(t, err)
		want := dlq.Counts{Matched: 20 * (round + 1), Replayed: 20, AlreadyReplayed: 20 * round}
		if round > 0 {
			want.DiedAgain = 20
		}
		require.Equal(t, want, res.Counts)
		// The processor tries, and gives up on each once more.
		records := r.replayed()[topics.Partition("ep1", partitions)]
		require.Len(t, records, 20*(round+1))
		for _, rec := range records[20*round:] {
			d, err := schemas.DecodeDelivery(rec.Value)
			require.NoError(t, err)
			require.Equal(t, round+1, d.Replays)
			require.Zero(t, d.Attempts)
			d.Attempts = 9
			d.History.TotalAttempts += 9
			r.put(dlq.FromDelivery(&d, "http_5xx", "again", schemas.Coordinates{Topic: "t"}, time.Now()))
		}
	}
	for id, n := range r.replayedIDs() {
		require.Equal(t, 4, n, id)
	}
	stats, err := r.queue.Stats(t.Context(), dlq.Filter{}, time.Now(), dlq.ScanOptions{})
	require.NoError(t, err)
	require.Equal(t, dlq.Tally{Letters: 100, Waiting: 20, Replayed: 80, DiedAgain: 80}, stats.Tally)
	for _, l := range r.collect(dlq.Filter{}) {
		require.Equal(t, 4, l.Delivery.Replays)
		require.Equal(t, 45, l.Delivery.History.TotalAttempts)
	}
}

// C-151: whatever the order in which they died, letters of an endpoint are
// replayed in the order in which their events were accepted.
func TestReplay_RestoresTheOriginalOrder(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	var all []*schemas.DeadLetter
	for e := range 6 {
		id := fmt.Sprintf("ep%d", e)
		r.endpoints.enable(id)
		all = append(all, letters(id, 60)...)
	}
	rnd := rand.New(rand.NewPCG(1, 2))
	rnd.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
	r.put(all...)

	o := r.options(dlq.Filter{All: true})
	o.Rate = 1500 // batches far smaller than a partition
	res, err := r.queue.Replay(t.Context(), o)
	require.NoError(t, err)
	require.Equal(t, 360, res.Replayed)
	next := map[string]int64{}
	for p, records := range r.replayed() {
		for _, rec := range records {
			d, err := schemas.DecodeDelivery(rec.Value)
			require.NoError(t, err)
			require.Equal(t, topics.Partition(d.EndpointID, partitions), p)
			require.Equal(t, 1000+next[d.EndpointID], d.Origin.Offset, d.EndpointID)
			next[d.EndpointID]++
		}
	}
	require.Len(t, next, 6)
}

// Events that were re-routed keep the coordinates of where they were first
// written: the orders of both logs hold, merged by the time of acceptance.
func TestReplay_OrderAcrossOrigins(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.endpoints.enable("ep1")
	var all []*schemas.DeadLetter
	for n := range 40 {
		l := letter("ep1", n)
		if n%3 == 0 {
			l.Delivery.Origin.Partition, l.Delivery.Origin.Offset = 9, int64(n)
		}
		all = append([]*schemas.DeadLetter{l}, all...) // they die in reverse
	}
	r.put(all...)
	_, err := r.replay(dlq.Filter{All: true})
	require.NoError(t, err)
	for i, rec := range r.replayed()[topics.Partition("ep1", partitions)] {
		d, err := schemas.DecodeDelivery(rec.Value)
		require.NoError(t, err)
		require.Equal(t, fmt.Sprintf("dlv_ep1_%d", i), d.ID)
	}
}

// C-144: a filter reaches what it names and nothing else.
func TestReplay_ScopeIsExact(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.endpoints.enable("b", "c", "d")
	r.put(letters("b", 3)...)
	r.put(letters("c", 3)...)
	_, err := r.replay(dlq.Filter{Endpoints: []string{"b"}})
	require.NoError(t, err)
	require.Equal(t, map[string]int{"dlv_b_0": 1, "dlv_b_1": 1, "dlv_b_2": 1}, r.replayedIDs())
}

func TestReplay_LimitGoesOnWhereItStopped(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.endpoints.enable("ep1", "ep2", "ep3")
	r.endpoints.disable("ep4")
	r.put(letters("ep4", 5)...)
	for _, e := range []string{"ep1", "ep2", "ep3"} {
		r.put(letters(e, 5)...)
	}
	for round := range 4 {
		res, err := r.replay(dlq.Filter{All: true, Limit: 4})
		require.NoError(t, err)
		require.Equal(t, min(4, 15-4*round), res.Replayed, "round %d", round)
	}
	ids := r.replayedIDs()
	require.Len(t, ids, 15)
	for id, n := range ids {
		require.Equal(t, 1, n, id)
	}
}

// C-146: the rate is kept: a batch each fifth of a second, and no more.
func TestReplay_KeepsTheRate(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.endpoints.enable("ep1")
	r.put(letters("ep1", 60)...)
	o := r.options(dlq.Filter{All: true})
	o.Rate = 50
	began := time.Now()
	res, err := r.queue.Replay(t.Context(), o)
	require.NoError(t, err)
	require.Equal(t, 60, res.Replayed)
	// A lower bound that no slow machine can break: 10 at once, 50 more at 50/s.
	require.GreaterOrEqual(t, time.Since(began), time.Second)
}

func TestResult_TableAndJSON(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.endpoints.enable("ep1")
	r.put(letters("ep1", 3)...)
	r.put(letter("nobody", 1))
	res, err := r.replay(dlq.Filter{All: true})
	require.NoError(t, err)
	var table, js bytes.Buffer
	require.NoError(t, res.WriteTable(&table))
	for _, want := range []string{"ep1", "dlv_nobody_1", "unknown_endpoint", "4 matched: 3 replayed", "1 refused"} {
		require.Contains(t, table.String(), want)
	}
	require.NoError(t, res.WriteJSON(&js))
	var back map[string]any
	require.NoError(t, json.Unmarshal(js.Bytes(), &back))
	require.InDelta(t, 3, back["replayed"], 0)
	require.InDelta(t, 4, back["matched"], 0)
}
