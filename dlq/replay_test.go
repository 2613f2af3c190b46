package dlq_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kgo"

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

// C-145: no scope, slips and rates that cannot be are refused before anything is read.
func TestReplay_RefusesWithoutScope(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.endpoints.enable("ep1")
	r.put(letters("ep1", 3)...)
	for name, tc := range map[string]struct {
		change func(*dlq.ReplayOptions)
		option string
	}{
		"no filter at all":     {change: func(o *dlq.ReplayOptions) { o.Filter = dlq.Filter{} }},
		"a limit is no scope":  {change: func(o *dlq.ReplayOptions) { o.Filter = dlq.Filter{Limit: 5} }},
		"empty endpoint":       {change: func(o *dlq.ReplayOptions) { o.Filter.Endpoints = []string{""} }, option: "endpoint"},
		"blank tenant":         {change: func(o *dlq.ReplayOptions) { o.Filter.Tenants = []string{"acme", " "} }, option: "tenant"},
		"reason with a typo":   {change: func(o *dlq.ReplayOptions) { o.Filter.Reasons = []string{"http_5x"} }, option: "reason"},
		"range the wrong way":  {change: func(o *dlq.ReplayOptions) { o.Filter.Since = time.Now(); o.Filter.Until = time.Now().Add(-time.Hour) }, option: "since"},
		"replayed ones too":    {change: func(o *dlq.ReplayOptions) { o.Filter.IncludeReplayed = true }, option: "include-replayed"},
		"negative limit":       {change: func(o *dlq.ReplayOptions) { o.Filter.Limit = -1 }, option: "limit"},
		"rate zero":            {change: func(o *dlq.ReplayOptions) { o.Rate = 0 }, option: "rate"},
		"rate negative":        {change: func(o *dlq.ReplayOptions) { o.Rate = -1 }, option: "rate"},
		"rate not a number":    {change: func(o *dlq.ReplayOptions) { o.Rate = math.NaN() }, option: "rate"},
		"rate without end":     {change: func(o *dlq.ReplayOptions) { o.Rate = math.Inf(1) }, option: "rate"},
		"no table":             {change: func(o *dlq.ReplayOptions) { o.Endpoints = nil }, option: "endpoints"},
		"scope by empty value": {change: func(o *dlq.ReplayOptions) { o.Filter = dlq.Filter{IDs: []string{""}} }, option: "id"},
	} {
		t.Run(name, func(t *testing.T) {
			o := r.options(dlq.Filter{All: true})
			tc.change(&o)
			res, err := r.queue.Replay(t.Context(), o)
			require.Nil(t, res)
			if tc.option == "" {
				require.ErrorIs(t, err, dlq.ErrNoScope)
			} else {
				var bad *dlq.OptionError
				require.ErrorAs(t, err, &bad)
				require.Equal(t, tc.option, bad.Option)
			}
			require.Equal(t, dlq.ExitUsage, dlq.ExitCode(res, err))
		})
	}
	require.Empty(t, r.replayedIDs())
}

// C-145: nothing matches = an error of its own and an exit code of its own.
func TestReplay_NothingMatches(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.endpoints.enable("ep1")
	r.put(letters("ep1", 3)...)
	for name, f := range map[string]dlq.Filter{
		"endpoint":   {Endpoints: []string{"ep9"}},
		"tenant":     {Tenants: []string{"other"}},
		"reason":     {Reasons: []string{"dns"}},
		"event type": {EventTypes: []string{"invoice"}},
		"id":         {IDs: []string{"dlv_ep1"}},
		"time":       {Since: time.Now().Add(time.Hour)},
		"all narrow": {Endpoints: []string{"ep1"}, Reasons: []string{"dns"}},
		"with all":   {All: true, Endpoints: []string{"ep9"}},
	} {
		t.Run(name, func(t *testing.T) {
			res, err := r.replay(f)
			require.ErrorIs(t, err, dlq.ErrNoMatch)
			require.Equal(t, dlq.ExitNoMatch, dlq.ExitCode(res, err))
			require.Zero(t, res.Matched)
		})
	}
	require.Empty(t, r.replayedIDs())
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

// C-149: deleted, unknown and disabled endpoints, another tenant's endpoint,
// what cannot be delivered: refused one by one, and stays; the rest goes.
func TestReplay_RefusesAndKeepsWhatCannotGo(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.endpoints.enable("open", "taken")
	r.endpoints.disable("closed")
	r.endpoints["gone"] = nil
	r.endpoints["taken"].Tenant = "other"
	now := time.Now()
	source := schemas.Coordinates{Topic: r.cat.Events(), Partition: 2, Offset: 17}
	big := letter("open", 1)
	big.Reason = schemas.ReasonTooLarge
	nameless := letter("open", 2)
	nameless.Delivery.ID = ""
	dotted := letter("open", 3)
	dotted.Delivery.ID = "a.b"
	refs := map[string]string{}
	for reason, l := range map[string]*schemas.DeadLetter{
		"":                            letter("open", 0),
		schemas.ReasonEndpointDeleted: letter("gone", 0),
		schemas.ReasonUnknownEndpoint: letter("never", 0),
		schemas.ReasonDisabled:        letter("closed", 0),
		dlq.RefusedTenantMismatch:     letter("taken", 0),
		schemas.ReasonUndecodable:     dlq.FromRaw("open", []byte("open"), []byte("garbage"), nil, schemas.ReasonUndecodable, "no Avro", source, now),
		schemas.ReasonTooLarge:        big,
		dlq.RefusedIncomplete:         nameless,
		"dotted":                      dotted,
	} {
		refs[reason] = r.put(l)[0]
	}
	refs[dlq.RefusedUnreadable] = r.produce(&kgo.Record{Topic: r.cat.DLQ(), Partition: 3, Key: []byte("open"), Value: []byte("not a dead letter")})[0]

	res, err := r.replay(dlq.Filter{All: true})
	require.NoError(t, err)
	require.True(t, res.Partial())
	require.Equal(t, dlq.ExitPartial, dlq.ExitCode(res, err))
	require.Equal(t, dlq.Counts{Matched: 10, Replayed: 1, Refused: 9}, res.Counts)
	require.Equal(t, map[string]int{
		schemas.ReasonEndpointDeleted: 1, schemas.ReasonUnknownEndpoint: 1, schemas.ReasonDisabled: 1, dlq.RefusedTenantMismatch: 1,
		schemas.ReasonUndecodable: 1, schemas.ReasonTooLarge: 1, dlq.RefusedIncomplete: 2, dlq.RefusedUnreadable: 1,
	}, res.RefusedBy)
	for _, f := range res.Refusals {
		if f.At != refs["dotted"] {
			require.Equal(t, refs[f.Reason], f.At)
		}
	}
	require.Equal(t, map[string]int{"dlv_open_0": 1}, r.replayedIDs())
	require.Len(t, r.collect(dlq.Filter{}), 9)

	// Healed, they go; running again otherwise changes nothing.
	r.endpoints.enable("gone", "never", "closed", "taken")
	res, err = r.replay(dlq.Filter{All: true})
	require.NoError(t, err)
	require.Equal(t, 4, res.Replayed)
	require.Equal(t, 1, res.AlreadyReplayed)
	require.Equal(t, 5, res.Refused)
	res, err = r.replay(dlq.Filter{All: true})
	require.NoError(t, err)
	require.Zero(t, res.Replayed)
	require.Len(t, r.replayedIDs(), 5)
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

// An operator who disables an endpoint while letters wait for the rate limit is obeyed.
func TestReplay_AsksForEndpointsAgainWhenSending(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.endpoints.enable("ep1")
	r.put(letters("ep1", 10)...)
	o := r.options(dlq.Filter{All: true})
	o.Rate = 20 // batches of 4
	o.Progress = func(p dlq.Progress) {
		if p.Phase == dlq.PhaseReplay {
			r.endpoints.disable("ep1") // called between batches, on the replay's own goroutine
		}
	}
	res, err := r.queue.Replay(t.Context(), o)
	require.NoError(t, err)
	require.Equal(t, dlq.Counts{Matched: 10, Replayed: 4, Refused: 6}, res.Counts)
	require.Len(t, r.replayedIDs(), 4)
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

// A mark that cannot be read must not lead to a second replay.
func TestReplay_UnreadableMarkRefusesItsDelivery(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.endpoints.enable("ep1")
	r.put(letters("ep1", 3)...)
	r.produce(&kgo.Record{Topic: r.cat.DLQState(), Partition: topics.Partition("ep1", partitions), Key: []byte("dlv_ep1_1"), Value: []byte("?")})
	res, err := r.replay(dlq.Filter{All: true})
	require.NoError(t, err)
	require.Equal(t, map[string]int{dlq.RefusedDoubtful: 1}, res.RefusedBy)
	require.Equal(t, map[string]int{"dlv_ep1_0": 1, "dlv_ep1_2": 1}, r.replayedIDs())
}

// The dlq topic was deleted and made anew: its offsets start again, and marks
// of the old one must not hide new letters.
func TestReplay_MarksOfARecreatedTopicAreOthers(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.endpoints.enable("ep1")
	mark, err := schemas.EncodeReplayMark(&schemas.ReplayMark{
		DeadLetter: schemas.Coordinates{Topic: r.cat.DLQ(), Partition: topics.Partition("ep1", partitions), Offset: 0},
		DeliveryID: "dlv_of_old", EndpointID: "ep1", Run: "r", ReplayedAt: time.Now(),
	})
	require.NoError(t, err)
	r.produce(&kgo.Record{Topic: r.cat.DLQState(), Partition: topics.Partition("ep1", partitions), Key: []byte("dlv_of_old"), Value: mark})
	r.put(letter("ep1", 0))
	res, err := r.replay(dlq.Filter{All: true})
	require.NoError(t, err)
	require.Equal(t, 1, res.Replayed)
}

func TestReplay_TopicsMustGoTogether(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.endpoints.enable("ep1")
	for _, tc := range []struct {
		prefix string
		counts map[string]int32 // of topics that exist
		topic  string           // that is to be named
	}{
		{"none.", nil, "dlq"},
		{"nostate.", map[string]int32{"dlq": 2, "replay": 2}, "dlq.state"},
		{"noreplay.", map[string]int32{"dlq": 2, "dlq.state": 2}, "replay"},
		{"state.", map[string]int32{"dlq": 2, "dlq.state": 3, "replay": 2}, "dlq.state"},
		{"replay.", map[string]int32{"dlq": 2, "dlq.state": 2, "replay": 3}, "replay"},
	} {
		t.Run(tc.prefix, func(t *testing.T) {
			cat := r.cat
			cat.Prefix = r.cat.Prefix + tc.prefix
			for name, n := range tc.counts {
				r.createTopics(n, cat.Prefix+name)
			}
			if tc.counts["dlq"] > 0 {
				l := letter("ep1", 0)
				rec, err := dlq.Record(cat.DLQ(), dlq.Partition(l, 2), l)
				require.NoError(t, err)
				r.produce(rec)
			}
			_, err := dlq.New(cat, r.kafka...).Replay(t.Context(), r.options(dlq.Filter{All: true}))
			var bad *dlq.TopicError
			require.ErrorAs(t, err, &bad)
			require.Equal(t, cat.Prefix+tc.topic, bad.Topic)
		})
	}
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
