package chaos

import (
	"io"
	"time"

	"github.com/barnabas-webhooks/barnabas/test/process"
)

// Options of a run.
type Options struct {
	// Binary is the barnabas executable; its processes are the ones that are killed.
	Binary string
	// Kills is how often a worker is killed with SIGKILL, 0 to 10,000. The other faults come in proportion, each at least once.
	Kills int
	// Seed draws the load, the receivers' moods and the faults. It makes the plan repeatable; the moments at which
	// the plan meets real processes are not.
	Seed uint64
	// Rate is in events per second, 1 to 5,000.
	Rate int
	// Endpoints is how many there are, 10 to 2,000.
	Endpoints int
	// Partitions is the number of units, 1 to 64.
	Partitions int
	// Session is the workers' session timeout: a worker that is frozen is frozen for longer. 3 s to 1 m.
	Session time.Duration
	// Limit ends the faults, whatever is left of them. What was left out is a violation: the run shows less than was asked for.
	Limit time.Duration
	// Dir takes the broker's data and the processes' logs; empty: a temporary one, removed when all held.
	Dir string
	// Keep leaves a temporary Dir behind in any case.
	Keep bool
	// Progress takes lines while the run goes on.
	Progress io.Writer
}

// DefaultOptions are those of make chaos, but for the binary and the seed.
func DefaultOptions() Options {
	return Options{
		Kills: 100, Rate: 200, Endpoints: 200, Partitions: 12, Session: 6 * time.Second,
		Limit: 25 * time.Minute, Progress: io.Discard,
	}
}

// Validate names every problem at once.
func (o *Options) Validate() error {
	var p process.Problems
	p.Add(o.Binary == "", "binary: the barnabas executable is needed")
	p.In("kills", o.Kills, 0, 10_000)
	p.In("rate", o.Rate, 1, 5000)
	p.In("endpoints", o.Endpoints, 10, 2000)
	p.In("partitions", o.Partitions, 1, 64)
	p.Add(o.Session < 3*time.Second || o.Session > time.Minute, "session: %s is outside 3s to 1m", o.Session)
	p.Add(o.Limit <= 0, "limit: %s must be positive", o.Limit)
	return p.Err()
}
