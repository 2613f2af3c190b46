package bench

import "fmt"

// Verdict on a target.
type Verdict string

// The verdicts.
const (
	Passed Verdict = "pass"
	Failed Verdict = "FAIL"
	NotRun Verdict = "not run"
)

// Judged is a target and what came of it.
type Judged struct {
	Target  string  `json:"target"`
	Wanted  string  `json:"wanted"`
	Got     float64 `json:"got"` // 0 where it was not run
	Verdict Verdict `json:"verdict"`
}

// target is a promise: a figure, and a bound on it.
type target struct {
	name  string
	limit float64
	least bool // the limit is the least that is allowed, not the most
	got   func(*Result) (float64, bool)
}

// unchanged is how much of a rate may be missing before it is called changed: the resolution of the measurement.
const unchanged = 0.99

// targets is the list.
func targets() []target {
	var list []target
	for _, t := range preloaded() {
		limit := 0.75
		if t.endpoints == 10 {
			limit = 0.8
		}
		if !t.keys { // no equal comparison: the bare loop remembers nothing
			list = append(list, target{"delivered/s beside the bare loop: " + t.what(), limit, true, ratio(t.name(), System, BareLoop, PerSecond)})
		}
	}
	return append(list,
		target{"end to end at 500/s, p50 in ms", 2.2, false, median(Latency500, System, P50)},
		target{"end to end at 500/s, p99 in ms", 6, false, median(Latency500, System, P99)},
		target{"processor and broker, CPU seconds per 1,000 deliveries, saturated", 0.055, false, sum(
			median(SaturatedScenario, System, ProcessorCPU), median(SaturatedScenario, System, BrokerCPU))},
		target{"memory of the processor with 100 endpoints, MB at the peak", 64, false, median(SaturatedScenario, System, Peak)},
		target{"10 of 100 endpoints hang: healthy delivered/s beside the run without", unchanged, true, ratio(HangScenario, With, Without, PerSecond)},
		target{"10 of 100 endpoints hang: healthy p99 beside the run without", 1.2, false, ratio(HangScenario, With, Without, P99)},
		target{"one endpoint flooded: healthy delivered/s beside the run without", unchanged, true, ratio(FloodScenario, With, Without, PerSecond)},
		target{"one endpoint flooded: healthy p99 beside the run without", 1.2, false, ratio(FloodScenario, With, Without, P99)},
		target{"API: accepted/s with verdict", 10_000, true, median(APIScenario, System, Accepted)},
		target{"API: 20 repeats at once, p99 of the answer in ms", 20, false, median(APIScenario, Repeated, P99)},
		target{"API: 20 repeats at once, deliveries besides the first", 0, false, total(Extra, APIScenario)},
		target{"events missing, over the whole run", 0, false, total(Missing, "")},
		target{"deliveries of an event after its first, over the whole run", 0, false, total(Repeats, "")},
	)
}

// Judge holds a result against the targets.
func Judge(r *Result) []Judged {
	var all []Judged
	for _, t := range targets() {
		sign := "≤"
		if t.least {
			sign = "≥"
		}
		j := Judged{Target: t.name, Wanted: fmt.Sprintf("%s %s", sign, short(t.limit)), Verdict: NotRun}
		if got, ok := t.got(r); ok {
			j.Got, j.Verdict = got, Passed
			if t.least && got < t.limit || !t.least && got > t.limit {
				j.Verdict = Failed
			}
		}
		all = append(all, j)
	}
	return all
}

// What targets are about.

func median(scenario, variant string, f Figure) func(*Result) (float64, bool) {
	return func(r *Result) (float64, bool) {
		if s := r.Scenario(scenario); s != nil {
			return s.Median(variant, f)
		}
		return 0, false
	}
}

func ratio(scenario, variant, to string, f Figure) func(*Result) (float64, bool) {
	return func(r *Result) (float64, bool) {
		if s := r.Scenario(scenario); s != nil {
			return s.Ratio(variant, to, f)
		}
		return 0, false
	}
}

func sum(of ...func(*Result) (float64, bool)) func(*Result) (float64, bool) {
	return func(r *Result) (all float64, ok bool) {
		for _, one := range of {
			v, ok := one(r)
			if !ok {
				return 0, false
			}
			all += v
		}
		return all, true
	}
}

// total is the sum over all variants and rounds, of one scenario or, where none is named, of all.
func total(f Figure, scenario string) func(*Result) (float64, bool) {
	return func(r *Result) (all float64, ok bool) {
		for i := range r.Scenarios {
			if s := &r.Scenarios[i]; scenario == "" || s.Name == scenario {
				all, ok = all+s.Sum(f), true
			}
		}
		return all, ok
	}
}
