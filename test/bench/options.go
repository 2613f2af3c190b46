package bench

import (
	"io"
	"regexp"
	"time"

	"github.com/barnabas-webhooks/barnabas/test/process"
)

// Options of a run.
type Options struct {
	// Binary is the barnabas executable.
	Binary string
	// Self is the executable that runs receiver, bare loop and plain consumer: the command's own.
	Self string
	// Rounds of each scenario, 1 to 100. Three at least for figures that are to be shown.
	Rounds int
	// Scenario chooses scenarios by their names; nil: all but the long ones.
	Scenario *regexp.Regexp
	// Long adds the scenarios that take long: a million waiting deliveries, ten million keys.
	Long bool
	// Events is the share of the full number of events, and of the full durations, 0.001 to 10.
	Events float64
	// Size of each payload in bytes, MinPayload to 32 KiB.
	Size int
	// Partitions is the number of units, 1 to 256.
	Partitions int
	// Heap of the broker in MiB, all of it from the start on, 256 to 65,536. Small ones are collected often, and while
	// that is done nothing moves: the p99 of all latencies is then that of Java.
	Heap int
	// Connections is how many callers the API has at a time when it is saturated, 1 to 1,000.
	Connections int
	// Nodes is how many API processes there are in the API's scenario, 1 to 4.
	Nodes int
	// Profile is a folder for profiles of the processor in the saturated run; empty: none are taken.
	Profile string
	// Set are more settings of the processes under test, as barnabas serve --set takes them. {dir} stands for a folder
	// of the process's own.
	Set []string
	// Dir is where the folder with the broker's data is made; empty: where temporary ones are. The data is deleted at
	// the end, whatever happened.
	Dir string
	// Keep leaves the processes' logs behind in any case.
	Keep bool
	// Progress takes lines while the run goes on.
	Progress io.Writer
}

// DefaultOptions are those of make bench, but for the executables.
func DefaultOptions() Options {
	return Options{
		Rounds: 3, Events: 1, Size: 1024, Partitions: 64, Heap: 4096, Connections: 64, Nodes: 1, Progress: io.Discard,
	}
}

// Validate names every problem at once.
func (o *Options) Validate() error {
	var p process.Problems
	p.Add(o.Binary == "", "binary: the barnabas executable is needed")
	p.Add(o.Self == "", "self: the benchmark's executable is needed")
	p.In("rounds", o.Rounds, 1, 100)
	p.Add(!(o.Events >= 0.001 && o.Events <= 10), "events: %v is outside 0.001 to 10", o.Events)
	p.In("size", o.Size, MinPayload, maxBody/2)
	p.In("partitions", o.Partitions, 1, 256)
	p.In("heap", o.Heap, 256, 65536)
	p.In("connections", o.Connections, 1, 1000)
	p.In("nodes", o.Nodes, 1, 4)
	p.Add(len(o.chosen()) == 0, "scenario: none is called %s", o.Scenario)
	return p.Err()
}

// chosen are the scenarios to run. A filter that names a long one means it.
func (o *Options) chosen() []scenario {
	var list []scenario
	for _, s := range scenarios() {
		named := o.Scenario != nil && o.Scenario.MatchString(s.name)
		if named || o.Scenario == nil && (o.Long || !s.long) {
			list = append(list, s)
		}
	}
	return list
}

// events is n, scaled, at least lowest.
func (o *Options) events(n, lowest int) int { return max(lowest, int(float64(n)*o.Events)) }

// lasting is d, scaled, at least lowest.
func (o *Options) lasting(d, lowest time.Duration) time.Duration {
	return max(lowest, time.Duration(float64(d)*o.Events))
}
