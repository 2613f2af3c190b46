package memory

import (
	"io"
	"time"

	"github.com/barnabas-webhooks/barnabas/test/process"
)

// Options of a run.
type Options struct {
	// Binary is the barnabas executable.
	Binary string
	// Events wait before the process starts, 1,000 to 100 million.
	Events int
	// Size of each payload in bytes, 64 to 512 KiB.
	Size int
	// Endpoints is how many dead ones there are, 3 to 100,000.
	Endpoints int
	// Healthy is how many healthy ones there are in the dead ones' partitions, and as many in partitions of their
	// own, 1 to 100.
	Healthy int
	// Rate of the live events to healthy endpoints, per second, 1 to 1,000.
	Rate int
	// Keys gives every event an idempotency key. Keys are remembered for a day, so memory grows with their number.
	Keys bool
	// Partitions is the number of units, 4 to 256. A sixteenth of them, at least one, is kept free of dead endpoints.
	Partitions int
	// Limit is what the process may need, in MiB of resident memory.
	Limit int
	// After is how long the run goes on when everything has been taken in once.
	After time.Duration
	// Patience ends the run, whatever has been taken in.
	Patience time.Duration
	// Set are more settings of the process, as barnabas serve --set takes them.
	Set []string
	// Dir is where the folder with the broker's data is made; empty: where temporary ones are. The data is deleted at
	// the end, whatever happened.
	Dir string
	// Keep leaves the process's log and heap profiles behind in any case.
	Keep bool
	// Progress takes lines while the run goes on.
	Progress io.Writer
}

// DefaultOptions are those of make memory, but for the binary.
func DefaultOptions() Options {
	return Options{
		Events: 2_000_000, Size: 10_240, Endpoints: 10_000, Healthy: 10, Rate: 20, Partitions: 64, Limit: 512,
		After: 3 * time.Minute, Patience: 90 * time.Minute, Progress: io.Discard,
	}
}

// Validate names every problem at once.
func (o *Options) Validate() error {
	var p process.Problems
	p.Add(o.Binary == "", "binary: the barnabas executable is needed")
	p.In("events", o.Events, 1000, 100_000_000)
	p.In("size", o.Size, 64, 512<<10)
	p.In("endpoints", o.Endpoints, 3, 100_000)
	p.In("healthy", o.Healthy, 1, 100)
	p.In("rate", o.Rate, 1, 1000)
	p.In("partitions", o.Partitions, 4, 256)
	p.In("limit", o.Limit, 1, 1<<20)
	p.Add(o.After < 0, "after: %s must not be negative", o.After)
	p.Add(o.Patience <= 0, "patience: %s must be positive", o.Patience)
	return p.Err()
}

// apart is how many partitions no dead endpoint is in.
func (o *Options) apart() int { return max(1, o.Partitions/16) }
