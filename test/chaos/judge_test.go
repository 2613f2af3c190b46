package chaos_test

import (
	"crypto/sha256"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/barnabas-webhooks/barnabas/schemas"
	"github.com/barnabas-webhooks/barnabas/test/chaos"
	"github.com/barnabas-webhooks/barnabas/topics"
)

const (
	endpoint   = "ep-1"
	partitions = 2
	worker     = 41
)

// at is a moment of the story, in milliseconds.
func at(ms int) time.Time {
	return time.UnixMilli(1_700_000_000_000).Add(time.Duration(ms) * time.Millisecond)
}

// place is a record of the endpoint's unit.
func place(topic string, offset int64) schemas.Coordinates {
	return schemas.Coordinates{Topic: topic, Partition: topics.Partition(endpoint, partitions), Offset: offset}
}

func event(offset int64, id, key, body string) chaos.Event {
	return chaos.Event{
		At: place("events", offset), ID: id, Endpoint: endpoint, Key: key, Content: sha256.Sum256([]byte(body)), Body: sha256.Sum256([]byte(body)),
	}
}

// post is a POST and, beside it, the attempt that settles it.
func post(e *chaos.Evidence, id, body string, number, replay, ms, status int, class, decision string, source schemas.Coordinates) {
	e.Posts = append(e.Posts, chaos.Post{
		Delivery: id, Endpoint: endpoint, Attempt: number, Body: sha256.Sum256([]byte(body)), Verified: true,
		Start: at(ms + 1), End: at(ms + 5), Status: status,
	})
	e.History.Attempts = append(e.History.Attempts, chaos.Attempt{Attempt: schemas.Attempt{
		Kind: schemas.AttemptPost, DeliveryID: id, EndpointID: endpoint, Number: number, Replay: replay, At: at(ms), Duration: 5 * time.Millisecond,
		Class: class, Decision: decision, Source: source,
	}})
}

func refusal(id string, kind schemas.AttemptKind, source schemas.Coordinates) chaos.Attempt {
	return chaos.Attempt{Attempt: schemas.Attempt{Kind: kind, DeliveryID: id, EndpointID: endpoint, Source: source}}
}

// story is a run in which everything happens that may, and nothing that must not.
func story() *chaos.Evidence {
	stray := schemas.Coordinates{Topic: "events", Partition: 1 - topics.Partition(endpoint, partitions), Offset: 7}
	moved := event(6, "f", "k6", "F")
	moved.Origin = stray
	strayed := event(7, "f", "k6", "F")
	strayed.At, strayed.Strayed = stray, true
	e := &chaos.Evidence{
		Partitions: partitions, Longest: time.Second,
		History: &chaos.History{
			Events: []chaos.Event{
				event(0, "a", "k1", "A"), event(1, "b", "k2", "B"),
				event(2, "c", "k1", "A"), event(3, "d", "k1", "other"), // a repeat and a conflict of a's key
				event(4, "e", "", "E"), event(5, "w", "k5", "W"), moved, strayed,
			},
			Steps: []chaos.Step{
				{At: place("retry.1s", 0), ID: "b", Attempts: 1, Due: at(500)},
				{At: place("retry.1s", 1), ID: "e", Holds: 1, Due: at(400)},
				{At: place("retry.1s", 2), ID: "e", Attempts: 1, Holds: 1, Due: at(1400)},
				{At: place("replay", 0), ID: "e", Run: 1, Replay: true},
				{At: place("retry.1s", 3), ID: "w", Holds: 1, Due: at(99_000)},
			},
			Letters: []chaos.Letter{{At: place("dlq", 0), ID: "e", Reason: "http_5xx"}},
			Attempts: []chaos.Attempt{
				refusal("c", schemas.AttemptDuplicate, place("events", 2)), refusal("d", schemas.AttemptConflict, place("events", 3)),
			},
			Live: []schemas.Coordinates{place("retry.1s", 3)},
		},
		Sent: []chaos.Sent{
			{Endpoint: endpoint, Key: "k1", ID: "a"},
			{Endpoint: endpoint, Key: "k1", ID: "a", Replayed: true},
			{Endpoint: endpoint, Key: "k1", Conflict: true},
			{Endpoint: endpoint, Key: "k1", ID: "c", Pending: true},
			{Endpoint: endpoint, Key: "k2", At: place("events", 1)},
			{Endpoint: endpoint, At: place("events", 4)},
		},
		Tenures: []chaos.Tenure{
			{PID: worker, Unit: topics.Partition(endpoint, partitions), From: at(-1000), To: at(3000)},
			{PID: worker + 1, Unit: topics.Partition(endpoint, partitions), From: at(3500), To: at(100_000)},
		},
		Cuts: []chaos.Cut{{Kind: chaos.CutKill, PID: worker, From: at(3000), To: at(3000)}},
	}
	post(e, "a", "A", 1, 0, 0, 200, "ok", "delivered", place("events", 0))
	post(e, "b", "B", 1, 0, 10, 503, "http_5xx", "retry", place("events", 1))
	post(e, "b", "B", 2, 0, 600, 200, "ok", "delivered", place("retry.1s", 0))
	post(e, "e", "E", 1, 0, 450, 503, "http_5xx", "retry", place("retry.1s", 1))
	post(e, "e", "E", 2, 0, 1500, 503, "http_5xx", "dead", place("retry.1s", 2))
	post(e, "e", "E", 1, 1, 2000, 200, "ok", "delivered", place("replay", 0))
	// f lands, its worker is killed before that is settled, and the next owner sends it again.
	e.Posts = append(e.Posts, chaos.Post{
		Delivery: "f", Endpoint: endpoint, Attempt: 1, Body: sha256.Sum256([]byte("F")), Verified: true, Start: at(2950), End: at(2990), Status: 200,
	})
	post(e, "f", "F", 1, 0, 4000, 200, "ok", "delivered", place("events", 6))
	return e
}

func TestJudge_FindsNothingWrongWithASoundRun(t *testing.T) {
	t.Parallel()
	f := chaos.Judge(story())
	require.Empty(t, f.Violations)
	require.Equal(t, 7, f.Events)
	require.Equal(t, 5, f.Deliveries)
	require.Equal(t, []int{1, 1, 1}, []int{f.Repeats, f.Conflicts, f.Strays})
	require.Equal(t, 4, f.Landed)
	require.Equal(t, []int{1, 1, 0, 1}, []int{f.Dead, f.Replayed, f.LeftDead, f.Live})
	require.Equal(t, []int{8, 7, 1, 1}, []int{f.Posts, f.Settled, f.Hidden, f.Duplicates})
	require.Equal(t, &chaos.CutFinding{Cuts: 1, Hidden: 1, Median: 1, Most90: 1, MostHidden: 1, BoundOfMost: 1, OldestMillis: 10}, f.Cuts[chaos.CutKill])
}

// The judge is only worth what it can find: each rule is broken once.
func TestJudge_FindsWhatIsBroken(t *testing.T) {
	t.Parallel()
	drop := func(attempts []chaos.Attempt, id string, number int) []chaos.Attempt {
		return slices.DeleteFunc(attempts, func(a chaos.Attempt) bool { return a.DeliveryID == id && a.Number == number })
	}
	tests := map[string]struct {
		breaks func(*chaos.Evidence)
		want   string
	}{
		"acknowledged by Kafka, not there": {func(e *chaos.Evidence) { e.Sent[4].At.Offset = 99 }, "LOST Kafka acknowledged"},
		"answered by the API, not there":   {func(e *chaos.Evidence) { e.Sent[0].Key = "k-none" }, "LOST the API answered for key k-none"},
		"pending, not there":               {func(e *chaos.Evidence) { e.Sent[3].ID = "x" }, "LOST the API answered pending"},
		"the API names another owner":      {func(e *chaos.Evidence) { e.Sent[1].ID = "c" }, "WRONG the API answered for key k1"},
		"422 without a conflict":           {func(e *chaos.Evidence) { e.Sent[4].Conflict = true }, "WRONG the API answered 422 for key k2"},
		"settled and gone":                 {func(e *chaos.Evidence) { e.History.Live = nil }, "LOST delivery w, run 0: neither"},
		"an attempt that was not settled":  {func(e *chaos.Evidence) { e.History.Attempts = drop(e.History.Attempts, "a", 1) }, "LOST delivery a, run 0: neither"},
		"no receiver took it": {func(e *chaos.Evidence) {
			e.Posts = slices.DeleteFunc(e.Posts, func(p chaos.Post) bool { return p.Delivery == "a" })
		}, "LOST delivery a, run 0: settled as delivered, and no receiver took it"},
		"settled as ok, answered with 503": {func(e *chaos.Evidence) { e.Posts[0].Status = 503 }, "LOST delivery a, run 0: settled as delivered"},
		"a step is missing":                {func(e *chaos.Evidence) { e.History.Steps[2].Attempts = 2 }, "LOST delivery e, run 0: steps [1 3]"},
		"a repeat without a verdict":       {func(e *chaos.Evidence) { e.History.Attempts = drop(e.History.Attempts, "c", 0) }, "LOST the event at"},
		"a stray that was not moved": {func(e *chaos.Evidence) {
			e.History.Events = slices.DeleteFunc(e.History.Events, func(ev chaos.Event) bool { return ev.At.Offset == 6 })
		}, "LOST the event at"},

		"the repeat is delivered too": {func(e *chaos.Evidence) {
			post(e, "c", "A", 1, 0, 50, 200, "ok", "delivered", place("events", 2))
		}, "FORKED ep-1 was sent delivery \"c\""},
		"the repeat waits": {func(e *chaos.Evidence) {
			e.History.Steps = append(e.History.Steps, chaos.Step{At: place("retry.1s", 9), ID: "c", Attempts: 1})
		}, "FORKED a record at"},
		"two live copies": {func(e *chaos.Evidence) {
			e.History.Steps = append(e.History.Steps, chaos.Step{At: place("retry.1s", 9), ID: "w", Holds: 1})
			e.History.Live = append(e.History.Live, place("retry.1s", 9))
		}, "FORKED delivery w, run 0: delivered 0 times, 0 dead letters, waiting in 2 places"},
		"a copy that healed": {func(e *chaos.Evidence) {
			e.History.Steps = append(e.History.Steps, chaos.Step{At: place("retry.1s", 9), ID: "b", Attempts: 1})
		}, "FORKED delivery b, run 0: steps [1 1]"},
		"delivered twice": {func(e *chaos.Evidence) {
			post(e, "a", "A", 2, 0, 60, 200, "ok", "delivered", place("retry.1s", 9))
		}, "FORKED delivery a, run 0: delivered 2 times"},
		"an attempt's number twice": {func(e *chaos.Evidence) {
			post(e, "b", "B", 1, 0, 60, 503, "http_5xx", "retry", place("retry.1s", 9))
		}, "FORKED delivery b, run 0: attempts [1 1 2]"},
		"one source settled twice": {func(e *chaos.Evidence) {
			post(e, "b", "B", 3, 0, 60, 503, "http_5xx", "retry", place("events", 1))
		}, "FORKED the record at {events"},
		"two dead letters": {func(e *chaos.Evidence) {
			e.History.Letters = append(e.History.Letters, chaos.Letter{At: place("dlq", 1), ID: "e"})
		}, "FORKED delivery e, run 0: delivered 0 times, 2 dead letters"},
		"dead and delivered": {func(e *chaos.Evidence) {
			e.History.Letters = append(e.History.Letters, chaos.Letter{At: place("dlq", 1), ID: "a"})
		}, "FORKED delivery a, run 0: delivered 1 times, 1 dead letters"},
		"replayed twice": {func(e *chaos.Evidence) {
			e.History.Steps = append(e.History.Steps, chaos.Step{At: place("replay", 1), ID: "e", Run: 1, Replay: true})
		}, "FORKED delivery e was replayed 2 times"},
		"moved twice": {func(e *chaos.Evidence) {
			again := e.History.Events[6]
			again.At.Offset = 8
			e.History.Events = append(e.History.Events, again)
			e.History.Attempts = append(e.History.Attempts, refusal("f", schemas.AttemptDuplicate, again.Origin))
		}, "FORKED the event at"},
		"refused twice": {func(e *chaos.Evidence) {
			e.History.Attempts = append(e.History.Attempts, refusal("c", schemas.AttemptDuplicate, place("events", 2)))
		}, "FORKED the event at"},

		"a conflict taken for a repeat": {func(e *chaos.Evidence) { e.History.Attempts[1].Kind = schemas.AttemptDuplicate }, "WRONG the event at"},
		"the first of its key refused": {func(e *chaos.Evidence) {
			e.History.Attempts = append(e.History.Attempts, refusal("a", schemas.AttemptDuplicate, place("events", 0)))
		}, "WRONG the event at"},
		"a bad signature":      {func(e *chaos.Evidence) { e.Posts[0].Verified = false }, "WRONG a POST of delivery a"},
		"another's payload":    {func(e *chaos.Evidence) { e.Posts[0].Body = sha256.Sum256([]byte("B")) }, "WRONG delivery a was sent with another payload"},
		"another's endpoint":   {func(e *chaos.Evidence) { e.Posts[0].Endpoint = "ep-2" }, "WRONG delivery a of ep-1 was sent to ep-2"},
		"an attempt of nobody": {func(e *chaos.Evidence) { e.Posts[0].Attempt = 7 }, "WRONG delivery a: attempt 1"},

		"before its time": {func(e *chaos.Evidence) { e.History.Steps[0].Due = at(601) }, "EARLY delivery b was attempted 1ms before it was due"},

		"sent again, nobody was killed": {func(e *chaos.Evidence) { e.Cuts = nil }, "UNASKED delivery f, attempt 1"},
		"another worker was killed":     {func(e *chaos.Evidence) { e.Cuts[0].PID = 77 }, "UNASKED delivery f, attempt 1"},
		"killed much earlier":           {func(e *chaos.Evidence) { e.Cuts[0].From, e.Cuts[0].To = at(100), at(100) }, "UNASKED delivery f, attempt 1"},
		"later outcomes were settled":   {func(e *chaos.Evidence) { e.Posts[6].Start, e.Posts[6].End = at(1000), at(1100) }, "UNASKED delivery f, attempt 1"},
		"given up unsettled, Kafka was there": {func(e *chaos.Evidence) {
			e.Cuts[0].Kind, e.Outages = chaos.CutUndrained, []chaos.Outage{{From: at(3001), To: at(3002)}}
		}, "WRONG unit"},
		"lost, but another unit": {func(e *chaos.Evidence) {
			e.Cuts[0].Kind, e.Cuts[0].Units = chaos.CutLost, []int32{1 - topics.Partition(endpoint, partitions)}
		}, "UNASKED delivery f, attempt 1"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			e := story()
			tt.breaks(e)
			f := chaos.Judge(e)
			require.True(t, slices.ContainsFunc(f.Violations, func(v string) bool { return strings.HasPrefix(v, tt.want) }), "%q among %q", tt.want, f.Violations)
		})
	}
}

func TestJudge_ShortensLongLists(t *testing.T) {
	t.Parallel()
	e := story()
	for range 50 {
		e.Sent = append(e.Sent, chaos.Sent{Endpoint: endpoint, At: place("events", 99)})
	}
	f := chaos.Judge(e)
	require.Equal(t, 50, f.Lost)
	require.Len(t, f.Violations, 21)
	require.Contains(t, f.Violations, "LOST ... and 30 more")
}

func TestEvidence_IsKept(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "evidence")
	require.NoError(t, story().Save(path))
	e, err := chaos.Load(path)
	require.NoError(t, err)
	require.Equal(t, chaos.Judge(story()), chaos.Judge(e))
	_, err = chaos.Load(path + "-none")
	require.Error(t, err)
}
