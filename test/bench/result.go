package bench

import (
	"io"
	"slices"
	"strings"

	"github.com/barnabas-webhooks/barnabas/test/process"
)

// Figure is the name of something measured; its unit is in it.
type Figure string

// The figures.
const (
	PerSecond    Figure = "delivered_per_second"
	Accepted     Figure = "accepted_per_second"
	P50          Figure = "p50_ms"
	P99          Figure = "p99_ms"
	Max          Figure = "max_ms"
	ProcessorCPU Figure = "processor_cpu_seconds_per_1000"
	BrokerCPU    Figure = "broker_cpu_seconds_per_1000"
	APICPU       Figure = "api_cpu_seconds_per_1000"
	BareCPU      Figure = "bare_cpu_seconds_per_1000"
	Peak         Figure = "processor_peak_mb" // resident, 10^6 bytes
	APIPeak      Figure = "api_peak_mb"       // of the one that needed most
	Resident     Figure = "processor_resident_mb"
	Workers      Figure = "workers"
	Sent         Figure = "sent"
	Missing      Figure = "missing"           // events that did not arrive
	Repeats      Figure = "repeats"           // arrivals after the first of an event
	Pending      Figure = "pending"           // answers without a verdict
	Refused      Figure = "refused"           // answers that are no 2xx
	Held         Figure = "holds"             // times that a delivery was put off without an attempt
	Extra        Figure = "extra_deliveries"  // more than one for a key
	HungRequests Figure = "hung_requests"     // taken and never answered
	Ready        Figure = "ready_ms"          // from the start of the process
	FirstCame    Figure = "first_delivery_ms" // likewise
	Remembered   Figure = "remembered"        // keys, or deliveries that wait
	BytesPerKey  Figure = "resident_bytes_per_remembered"
	DiskPerKey   Figure = "disk_bytes_per_remembered"
)

// Figures are what was measured of one variant in one round.
type Figures map[Figure]float64

// Round is one round of a scenario: figures by variant.
type Round map[string]Figures

// Scenario is what was measured of one.
type Scenario struct {
	Name   string  `json:"name"`
	What   string  `json:"what"`
	Kind   Kind    `json:"kind"`
	Rounds []Round `json:"rounds"`
	// Medians over the rounds, of each variant.
	Medians Round `json:"medians"`
}

// Median of a figure over the rounds that have it; false: none has.
func (s *Scenario) Median(variant string, f Figure) (float64, bool) {
	return s.median(func(r Round) (float64, bool) {
		v, ok := r[variant][f]
		return v, ok
	})
}

// Ratio is the median of the ratios of one variant's figure to another's in each round.
func (s *Scenario) Ratio(variant, to string, f Figure) (float64, bool) {
	return s.median(func(r Round) (float64, bool) {
		a, ok := r[variant][f]
		b, ok2 := r[to][f]
		return a / b, ok && ok2 && b != 0
	})
}

// Sum of a figure over all variants and rounds.
func (s *Scenario) Sum(f Figure) float64 {
	sum := 0.0
	for _, r := range s.Rounds {
		for _, figures := range r {
			sum += figures[f]
		}
	}
	return sum
}

func (s *Scenario) median(of func(Round) (float64, bool)) (float64, bool) {
	var values []float64
	for _, r := range s.Rounds {
		if v, ok := of(r); ok {
			values = append(values, v)
		}
	}
	if len(values) == 0 {
		return 0, false
	}
	return MedianOf(values), true
}

// MedianOf sorts what it is given, which must not be empty; of an even number it is the mean of the middle two.
func MedianOf(values []float64) float64 {
	slices.Sort(values)
	n := len(values)
	return (values[(n-1)/2] + values[n/2]) / 2
}

// medians gathers the median of everything.
func (s *Scenario) medians() Round {
	all := Round{}
	for _, r := range s.Rounds {
		for variant, figures := range r {
			if all[variant] == nil {
				all[variant] = Figures{}
			}
			for f := range figures {
				all[variant][f], _ = s.Median(variant, f)
			}
		}
	}
	return all
}

// chooseBare copies to the variant BareLoop what was measured of the bare loop with the number of workers that did best.
func (s *Scenario) chooseBare() {
	best, most := "", 0.0
	for variant := range s.medians() {
		if v, ok := s.Median(variant, PerSecond); ok && strings.HasPrefix(variant, BareLoop+",") && v > most {
			best, most = variant, v
		}
	}
	for _, r := range s.Rounds {
		of, ok := r[best]
		if !ok {
			continue
		}
		r[BareLoop] = Figures{}
		for _, f := range []Figure{PerSecond, Workers, BareCPU} { // not what is summed up over all variants
			if v, ok := of[f]; ok {
				r[BareLoop][f] = v
			}
		}
	}
}

// Result is what a run came to.
type Result struct {
	Conditions Conditions `json:"conditions"`
	Scenarios  []Scenario `json:"scenarios"`
	Targets    []Judged   `json:"targets"`
}

// Scenario finds one by its name; nil: it was not run.
func (r *Result) Scenario(name string) *Scenario {
	for i := range r.Scenarios {
		if r.Scenarios[i].Name == name {
			return &r.Scenarios[i]
		}
	}
	return nil
}

// Finish computes the medians and judges the targets.
func (r *Result) Finish() {
	for i := range r.Scenarios {
		r.Scenarios[i].chooseBare()
		r.Scenarios[i].Medians = r.Scenarios[i].medians()
	}
	r.Targets = Judge(r)
}

// Held says whether no target was missed.
func (r *Result) Held() bool {
	return !slices.ContainsFunc(r.Targets, func(j Judged) bool { return j.Verdict == Failed })
}

// WriteJSON prints everything, each round included.
func (r *Result) WriteJSON(w io.Writer) error { return process.WriteJSON(w, r) }
