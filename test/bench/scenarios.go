package bench

import (
	"context"
	"fmt"
	"io"
	"time"
)

// Kind is what a scenario measures, and so which table it is in.
type Kind string

// The kinds, in the order of their tables.
const (
	Throughput Kind = "throughput"
	Latency    Kind = "latency"
	Sending    Kind = "sending"
	Isolation  Kind = "isolation"
	StartUp    Kind = "start-up"
)

// Variants, by what is measured.
const (
	System    = "barnabas"
	BareLoop  = "bare loop"
	KafkaOnly = "kafka alone"
	ByAPI     = "barnabas, by the API"
	Answers   = "answers of the API"
	Repeated  = "the same key at once"
	Without   = "healthy ones alone"
	With      = "beside others"
	Empty     = "nothing remembered"
	First     = "first start"
	Again     = "next start"
)

// Names of the scenarios that targets are about.
const (
	SaturatedScenario = "ordered-100-0ms"
	Latency500        = "latency-500"
	APIScenario       = "api"
	HangScenario      = "isolation-hang"
	FloodScenario     = "isolation-flood"
)

// scenario is one thing to measure.
type scenario struct {
	name, what string
	kind       Kind
	long       bool
	// measure is one round, its number from 0: every variant, in an order that turns with the rounds.
	measure func(ctx context.Context, m *run, round int) (Round, error)
}

// preloaded are the scenarios with events that wait already. The saturated one, whose processor time and memory are held
// to targets, is the third.
func preloaded() []throughput {
	const slow = 20 * time.Millisecond
	return []throughput{
		{endpoints: 10, events: 100_000},
		{endpoints: 10, wait: slow, events: 4000},
		{endpoints: 100, events: 150_000},
		{endpoints: 100, wait: slow, events: 40_000},
		{endpoints: 100, events: 150_000, parallel: 8},
		{endpoints: 100, wait: slow, events: 100_000, parallel: 8},
		{endpoints: 100, events: 150_000, keys: true},
	}
}

// scenarios is the list.
func scenarios() []scenario {
	var list []scenario
	for _, t := range preloaded() {
		list = append(list, scenario{name: t.name(), what: t.what(), kind: Throughput, measure: t.measure})
	}
	for _, rate := range []int{100, 500} {
		l := latency{rate: rate}
		list = append(list, scenario{
			name: fmt.Sprintf("latency-%d", rate), kind: Latency, measure: l.measure,
			what: fmt.Sprintf("from produce to arrival at %d/s, 100 ordered endpoints", rate),
		})
	}
	list = append(list,
		scenario{
			name: APIScenario, kind: Sending, measure: measureSending,
			what: "POST /v1/deliveries, answered with the verdict, as fast as it goes",
		},
		scenario{
			name: HangScenario, kind: Isolation, measure: isolation{}.measure,
			what: "10 of 100 endpoints hang, each partition has one of them, 500/s",
		},
		scenario{
			name: FloodScenario, kind: Isolation, measure: isolation{flood: 100_000}.measure,
			what: "one endpoint beside 90 gets 100,000 events at once, its receiver takes 20 ms, 450/s to the others",
		},
		scenario{
			name: "waiting", kind: StartUp, long: true, measure: startUp{remember: waitingDeliveries, number: 1_000_000}.measure,
			what: "1 million deliveries wait in the tiers",
		},
		scenario{
			name: "keys", kind: StartUp, long: true, measure: startUp{remember: rememberedKeys, number: 10_000_000}.measure,
			what: "10 million idempotency keys are remembered in memory",
		},
		scenario{
			name: "keys-on-disk", kind: StartUp, long: true, what: "10 million idempotency keys are remembered on disk",
			measure: startUp{remember: rememberedKeys, number: 10_000_000, disk: true}.measure,
		},
	)
	return list
}

// List prints the names of all scenarios, and what they are.
func List(w io.Writer) {
	for _, s := range scenarios() {
		long := ""
		if s.long {
			long = " (long)"
		}
		fmt.Fprintf(w, "%-20s %s%s\n", s.name, s.what, long)
	}
}
