package plan_test

import (
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/barnabas-webhooks/barnabas/internal/plan"
	"github.com/barnabas-webhooks/barnabas/schemas"
	"github.com/barnabas-webhooks/barnabas/topics"
)

func made(t *testing.T, in plan.Input) plan.Plan {
	t.Helper()
	in.Ladders = 100
	p, err := plan.Make(in)
	require.NoError(t, err)
	return p
}

// The numbers of the defaults, each by hand: what an operator would do with pencil and paper.
func TestMake_TheNumbersByHand(t *testing.T) {
	t.Parallel()
	p := made(t, input())
	require.InDelta(t, 0.95*200*0.2, p.Load.InFlight, 1e-9, "Little: 190 healthy events a second, 200 ms each")
	require.Equal(t, 50, p.Load.HungInFlight, "50 failing endpoints, one request each")
	require.Equal(t, 55+50, p.Load.SlotsNeeded, "38 / 0.7, and the hung ones")
	require.Equal(t, 2, p.Load.ProcessesNeeded)
	require.InDelta(t, 5, p.Load.BusiestCan, 1e-9, "one at a time, 200 ms each")
	require.InDelta(t, (16384-4096)/35.1, p.Load.PartitionCan, 0.01, "5 s + 30 s + 100 ms")
	require.Equal(t, int(200*2*86400), p.Memory.Keys, "one process carries all: two windows' keys")
	require.Equal(t, int64(p.Memory.Keys)*200, p.Memory.KeysBytes)
	require.Equal(t, int64(128<<20)/p.Memory.RecordBytes, int64(p.Memory.LookAhead), "half of limits.memory, not 64 * 4 * 8,192")
	require.Equal(t, []int{21_000, 28_000, 143_000}, []int{p.Outage.Windows[0].Requests, p.Outage.Windows[1].Requests, p.Outage.Windows[2].Requests})
	require.Equal(t, 2*1024*(1+6), p.Outage.Windows[0].ByInFlight, "2 processes, 6 rounds of 10 s and what began before")
	require.Equal(t, 720_000, p.Outage.WaitingPerHour)
	require.Equal(t, 200*26*3600, p.Outage.WaitingMost)
	require.Equal(t, 936_000, p.Outage.FailingWaiting)
	events := p.Disk.Topics[0]
	require.Equal(t, "barnabas.events", events.Topic)
	require.Equal(t, int64(200*7*86400)*int64(events.RecordBytes)*3, events.Bytes)
	sum := int64(0)
	for _, topic := range p.Disk.Topics {
		sum += topic.Bytes
	}
	require.Equal(t, sum, p.Disk.Total)
	require.True(t, p.Verdict.Fits)
}

// What strict order costs, by hand: each waits for the settling of the one before, and a head that fails holds the rest.
func TestMake_StrictOrder(t *testing.T) {
	t.Parallel()
	require.Nil(t, made(t, input()).Line)
	ordered, p := made(t, input()), made(t, strict(input()))
	require.InDelta(t, 1/0.3, p.Line.PerSecond, 1e-9, "200 ms, and a beat of 100")
	require.InDelta(t, 1/0.3, p.Load.BusiestCan, 1e-9)
	require.Equal(t, []float64{2.5, 30, 300, 1800}, p.Line.HoldSeconds[:4])
	require.InDelta(t, 21600, p.Line.HoldMaxSeconds[7], 0)
	require.InDelta(t, 45332.5, p.Line.HeldSeconds, 1e-9, "half of the caps' sum")
	require.Equal(t, 90665, p.Line.Backlog, "two a second")
	require.InDelta(t, 90665/(1/0.3-2), p.Line.DrainSeconds, 1)
	require.Equal(t, 9, p.Line.Rewrites)
	require.Equal(t, ordered.Bound, p.Bound, "only the head is attempted")

	in := strict(input())
	in.Busiest = 0.02
	p = made(t, in)
	require.False(t, p.Verdict.Fits, "four a second are too many")
	require.Zero(t, p.Line.DrainSeconds)
	in.Latency = time.Second
	require.Contains(t, made(t, in).Markdown(), "`order: parallel`")
}

// The bound is that of the endpoints, and of nothing that has to do with how much waits.
func TestMake_TheBoundDoesNotKnowTheVolume(t *testing.T) {
	t.Parallel()
	in := input()
	in.Processes = 2
	want := made(t, in)
	in.Rate, in.Burst, in.Payload, in.Busiest, in.Keyed = 2000, 1_000_000, 100_000, 0.5, 0
	got := made(t, in)
	require.Equal(t, want.Bound, got.Bound)
	require.Equal(t, want.Outage.Windows, got.Outage.Windows)
	in.Endpoints = 500
	require.Equal(t, want.Outage.Windows[1].Requests/2, made(t, in).Outage.Windows[1].Requests)
}

func TestMake_TheCapsBound(t *testing.T) {
	t.Parallel()
	in := input()
	in.Processes, in.Group.Rate, in.Group.MaxInFlight = 3, 100, 10
	w := made(t, in).Outage.Windows
	require.Equal(t, 3*(100*60+10), w[0].ByRate)
	require.Equal(t, 3*(100*60+10), w[0].Requests, "less than the breakers of 1,000 endpoints let through in a minute")
	require.Equal(t, 3*10*(1+60/10), w[0].RequestsHung)
	require.Equal(t, 28_000, w[1].Requests, "in an hour it is the breakers")
	require.Equal(t, 3*10*(1+3600/10), w[1].RequestsHung)
}

// What the verdict asks for is enough: with every change made, it fits.
func TestVerdict_WhatItAsksForIsEnough(t *testing.T) {
	t.Parallel()
	in := strained()
	in.Busiest = 0 // its cure is another endpoint's setting: see below
	setting := regexp.MustCompile("`([a-z_.-]+):? ([0-9]+)(MiB)?`")
	for round := range 4 {
		p := made(t, in)
		if p.Verdict.Fits {
			require.Positive(t, round, "it must not have fitted before")
			return
		}
		for _, c := range p.Verdict.Checks {
			if c.Status != plan.DoesNot {
				require.NotEqual(t, plan.Fits == c.Status, c.Change != "")
				continue
			}
			require.NotEmpty(t, c.Why)
			all := setting.FindAllStringSubmatch(c.Change, -1)
			require.NotEmpty(t, all, c.Change)
			m := all[len(all)-1]
			value, err := strconv.Atoi(m[2])
			require.NoError(t, err)
			switch m[1] {
			case "--processes":
				in.Processes = max(in.Processes, value)
			case "limits.in_flight":
				in.Group.MaxInFlight = value
			case "limits.rate":
				in.Group.Rate = float64(value)
			case "topics.partitions":
				in.Topics.Partitions = max(in.Topics.Partitions, value)
			default:
				require.Failf(t, "an unknown cure", "%s: %s", c.Name, c.Change)
			}
		}
	}
	require.Fail(t, "four rounds of changes do not help")
}

func TestVerdict_TheBusiestEndpoint(t *testing.T) {
	t.Parallel()
	in := input()
	in.Rate, in.Busiest, in.Latency = 50, 0.2, 150*time.Millisecond
	p := made(t, in)
	require.False(t, p.Verdict.Fits)
	require.Contains(t, p.Verdict.Checks[1].Change, "`max_in_flight: 3`")
	require.Contains(t, p.Verdict.Checks[1].Change, "answers within 70ms")
	require.True(t, made(t, parallel(in, 3)).Verdict.Fits)
	require.False(t, made(t, parallel(in, 2)).Verdict.Fits)
	in.Latency = 70 * time.Millisecond
	require.True(t, made(t, in).Verdict.Fits)
	in.Latency = 71 * time.Millisecond
	require.False(t, made(t, in).Verdict.Fits)
	// More than a partition bears, whatever their number.
	in.Rate, in.Busiest, in.Latency = 2000, 0.5, time.Millisecond
	p = made(t, parallel(in, 100))
	require.Zero(t, p.Load.PartitionsNeeded)
	require.Contains(t, p.Markdown(), "No number of partitions will do")
}

// Keys on disk take the cache's memory and no more, and their disk is said.
func TestMake_KeysOnDisk(t *testing.T) {
	t.Parallel()
	in := input()
	in.Memory = 1 << 30
	p := made(t, in)
	require.False(t, p.Verdict.Fits)
	require.Contains(t, p.Verdict.Checks[2].Change, "`claims.directory`")
	in.Claims = plan.Claims{OnDisk: true, Cache: 64 << 20}
	p = made(t, in)
	require.True(t, p.Verdict.Fits)
	require.Equal(t, int64(64<<20), p.Memory.KeysBytes)
	require.Equal(t, int64(2*64*200*2*86400), p.Memory.KeysDisk)
	require.Equal(t, int64(200*2*86400*5/4+32<<20), p.Memory.CacheNeeded)
	require.Contains(t, p.Markdown(), "`claims.cache: 74MiB`")
	require.Contains(t, p.Markdown(), "4.1 GiB in `claims.directory`")
}

// A record is as large in Kafka as the plan says, for every size of length that a varint may take.
func TestMake_EventsAreAsLargeInKafka(t *testing.T) {
	t.Parallel()
	const n = 40
	for _, payload := range []int{0, 50, 63, 64, 2048, 9000, 500_000} {
		broker, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.SeedTopics(1, "t"))
		require.NoError(t, err)
		t.Cleanup(broker.Close)
		client, err := kgo.NewClient(kgo.SeedBrokers(broker.ListenAddrs()...), kgo.ProducerBatchCompression(kgo.NoCompression()))
		require.NoError(t, err)
		t.Cleanup(client.Close)
		for range n { // each by itself: a batch each
			r := &kgo.Record{Topic: "t", Key: []byte("ep_" + strings.Repeat("x", 26)), Value: make([]byte, payload), Headers: []kgo.RecordHeader{
				{Key: topics.HeaderEventType, Value: []byte("order.paid")},
				{Key: topics.HeaderContentType, Value: []byte("application/json")},
				{Key: topics.HeaderIdempotencyKey, Value: []byte("order-4f8a11c2-9d3e-4a07-b1c5-0e6f7a8b9c0d")},
			}}
			require.NoError(t, client.ProduceSync(t.Context(), r).FirstErr())
		}
		in := input()
		in.Payload = payload
		stored := broker.PartitionInfo("t", 0).NumBytes
		want := int64(made(t, in).Disk.Topics[0].RecordBytes)
		require.LessOrEqual(t, stored/n, want, "%d bytes of payload", payload)
		require.Greater(t, stored/n, want-5, "%d bytes of payload: no more than the deltas' spare bytes too much", payload)
	}
}

// Every size and share stays a number, for whatever is asked.
func TestRender_AnyVolume(t *testing.T) {
	t.Parallel()
	for _, change := range []func(*plan.Input){
		func(in *plan.Input) { in.Endpoints, in.Busiest = 1, 0 },
		func(in *plan.Input) { in.Failing, in.Keyed = 1, 0 },
		func(in *plan.Input) { in.Failing, in.Burst, in.Payload = 0, 0, 0 },
		func(in *plan.Input) { in.Payload = schemas.MaxPayloadBytes },
		func(in *plan.Input) { in.Rate, in.Burst = plan.MaxRate, plan.MaxBurst },
		func(in *plan.Input) {
			in.Rate, in.Payload, in.Copies, in.Failing = plan.MaxRate, schemas.MaxPayloadBytes, 10, 1
		},
		func(in *plan.Input) { in.Rate, in.Latency = 0.01, time.Nanosecond },
		func(in *plan.Input) { in.Memory, in.Processes = 1, 1 },
		func(in *plan.Input) { in.Topics.Partitions = 1 },
		func(in *plan.Input) { in.Policy.Tiers = in.Policy.Tiers[:1] },
		func(in *plan.Input) { in.Policy.Tiers = []time.Duration{24 * time.Hour} },
	} {
		in := input()
		change(&in)
		text := made(t, in).Markdown()
		for _, bad := range []string{"NaN", "Inf", "%!", "-1", "| -"} {
			require.NotContains(t, strings.ReplaceAll(strings.ReplaceAll(text, "(in flight - 1)", ""), "^(k-1)", ""), bad)
		}
	}
}
