package sim_test

import (
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/barnabas-webhooks/barnabas/internal/config"
)

// Profile is what kind of run a seed makes.
type Profile struct {
	Seed uint64
	Long bool // the real schedule, over days; else one of seconds
	Calm bool // nobody crashes, freezes or is cut off: then no POST may be made twice
	// Brokers is one: with several, a client's sinks ask for their producer id at the same time, and franz-go holds
	// a mutex meanwhile. Who waits for a mutex is not durably blocked, so the bubble's clock would stand still for ever.
	Brokers   int
	Processes int // at most at a time
	Endpoints int
	Latency   bool
	Window    time.Duration // of idempotency keys
	Length    time.Duration // of the schedule
	Steps     int
	InFlight  int
	Entries   int // of a lane
	Memory    config.Size
}

func (p Profile) String() string {
	kind, weather := "short", "rough"
	if p.Long {
		kind = "long"
	}
	if p.Calm {
		weather = "calm"
	}
	return fmt.Sprintf("seed %d: %s and %s, %s, %d steps, %d brokers, at most %d processes, %d endpoints, latency %t, window %s, lanes of %d, %d in flight, %s of memory",
		p.Seed, kind, weather, p.Length, p.Steps, p.Brokers, p.Processes, p.Endpoints, p.Latency, p.Window, p.Entries, p.InFlight, p.Memory)
}

// NewProfile draws the profile of a seed: one in eight is long, one in four calm.
func NewProfile(seed uint64) (Profile, *rand.Rand) {
	rnd := rand.New(rand.NewPCG(seed, 0))
	p := Profile{
		Seed: seed, Long: seed%8 == 7, Calm: seed%4 == 3, Brokers: 1, Processes: 1 + rnd.IntN(3),
		Endpoints: 2 + rnd.IntN(8), Latency: rnd.IntN(2) == 0, InFlight: []int{2, 16, 1024}[rnd.IntN(3)], Entries: []int{4, 32, 256}[rnd.IntN(3)],
	}
	p.Memory = []config.Size{8 * config.MiB, 256 * config.MiB}[rnd.IntN(2)]
	if seed%16 == 7 {
		p.Calm = false // of the long ones, half
	}
	if p.Long {
		p.Latency, p.Processes = false, min(p.Processes, 2)
		p.Window, p.Length, p.Steps = 24*time.Hour, 24*time.Hour, 40+rnd.IntN(40)
		return p, rnd
	}
	p.Window = []time.Duration{15 * time.Second, 24 * time.Hour}[rnd.IntN(2)]
	p.Length, p.Steps = time.Duration(20+rnd.IntN(60))*time.Second, 40+rnd.IntN(80)
	return p, rnd
}

// Setting is the world of a profile.
func (p Profile) Setting() Setting {
	s := Setting{Brokers: p.Brokers, FetchWait: 250 * time.Millisecond, Configure: p.configure}
	if p.Long {
		s.FetchWait = 30 * time.Second
	}
	if p.Latency {
		var mu sync.Mutex
		rnd := rand.New(rand.NewPCG(p.Seed, 2))
		s.Latency = func() time.Duration {
			mu.Lock()
			defer mu.Unlock()
			return time.Duration(rnd.Int64N(int64(3 * time.Millisecond)))
		}
	}
	return s
}

func (p Profile) configure(c *config.Config) {
	c.Idempotency.Window = p.Window
	c.Limits.InFlight, c.Limits.Memory, c.Lanes.MaxEntries = p.InFlight, p.Memory, p.Entries
	if p.Long {
		c.Processor.SessionTimeout, c.Processor.HeartbeatInterval = 45*time.Second, 15*time.Second
		c.API.MaxLag = 0 // a look at the lag every 5 s of a day would be most of what such a run does
		return
	}
	c.Retry.Caps = []time.Duration{500 * time.Millisecond, time.Second, 2 * time.Second, 5 * time.Second, 5 * time.Second}
	c.Retry.Tiers = []time.Duration{time.Second, 2 * time.Second, 5 * time.Second}
	c.Retry.Lifetime, c.Retry.MaxRetryAfter = time.Minute, 10*time.Second
	c.Breaker.OpenFor, c.Breaker.OpenMax, c.Breaker.Window = time.Second, 8*time.Second, 5*time.Second
	c.Lanes.MaxAge = 2 * time.Second
	c.Timeouts.DNS, c.Timeouts.Connect, c.Timeouts.TLS, c.Timeouts.Headers = time.Second, time.Second, time.Second, 2*time.Second
	c.Timeouts.Total, c.Timeouts.MaxTotal = 3*time.Second, 5*time.Second
	c.Processor.SessionTimeout, c.Processor.HeartbeatInterval = 6*time.Second, time.Second
	// kfake begins to wait anew, for a whole rebalance timeout, with each member that joins, where Kafka does not. A join
	// that fails is repeated after that timeout, the request's and 5 s; a third of it must be more than the timeout, or
	// three members can keep each other waiting for ever.
	c.Processor.RebalanceTimeout, c.Processor.DrainTimeout, c.Processor.Beat = 8*time.Second, 6*time.Second, 50*time.Millisecond
	c.Processor.TransactionTimeout = 5 * time.Second
	c.Kafka.DialTimeout, c.Kafka.RequestTimeout, c.Kafka.RetryTimeout = 2*time.Second, 12*time.Second, 20*time.Second
}
