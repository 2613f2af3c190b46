package dlq_test

import (
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/barnabas-webhooks/barnabas/dlq"
	"github.com/barnabas-webhooks/barnabas/schemas"
	"github.com/barnabas-webhooks/barnabas/topics"
)

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
