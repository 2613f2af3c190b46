package processor

import (
	"errors"
	"fmt"
	"time"
)

// Config of the processor as a member of its group.
type Config struct {
	Group            string        // consumer group id
	SessionTimeout   time.Duration // the broker gives a silent member up after this
	Heartbeat        time.Duration // at most a third of the session timeout
	RebalanceTimeout time.Duration // how long a member may take to let go of units
	// DrainTimeout is how long requests in flight may go on when a unit is given up
	// or the process stops. It must leave the rebalance time to settle.
	DrainTimeout time.Duration
	// FetchWait is how long a fetch that finds nothing may wait at the broker. A
	// partition that is resumed waits as long at most, and an idle process fetches that often.
	FetchWait   time.Duration
	MaxInFlight int           // requests under way in the process
	Rate        float64       // requests per second of the process; 0: no bound
	MaxMemory   int64         // bytes of records held
	Window      time.Duration // how long an idempotency key is remembered
}

// settleMargin is kept between the drain and the rebalance timeout: a last beat
// and its transaction must fit.
const settleMargin = 2 * time.Second

// DefaultConfig is what DESIGN sections 5 and 10 name.
func DefaultConfig() Config {
	return Config{
		Group: "barnabas", SessionTimeout: 15 * time.Second, Heartbeat: 3 * time.Second, RebalanceTimeout: 60 * time.Second,
		DrainTimeout: 20 * time.Second, FetchWait: 500 * time.Millisecond, MaxInFlight: 1024, MaxMemory: 256 << 20, Window: 24 * time.Hour,
	}
}

// Validate names every problem at once.
func (c Config) Validate() error {
	var errs []error
	if c.Group == "" {
		errs = append(errs, errors.New("group: must not be empty"))
	}
	if c.SessionTimeout < time.Second {
		errs = append(errs, fmt.Errorf("session_timeout: %s must be at least 1s", c.SessionTimeout))
	}
	if c.Heartbeat <= 0 || 3*c.Heartbeat > c.SessionTimeout {
		errs = append(errs, fmt.Errorf("heartbeat: %s must be positive and at most a third of the session_timeout of %s",
			c.Heartbeat, c.SessionTimeout))
	}
	if c.DrainTimeout < 0 || c.DrainTimeout+settleMargin > c.RebalanceTimeout {
		errs = append(errs, fmt.Errorf("drain_timeout: %s must leave %s of the rebalance_timeout of %s to settle",
			c.DrainTimeout, settleMargin, c.RebalanceTimeout))
	}
	if c.FetchWait < 10*time.Millisecond || c.FetchWait > time.Minute {
		errs = append(errs, fmt.Errorf("fetch_wait: %s is outside 10ms to 1m", c.FetchWait))
	}
	if c.Rate < 0 {
		errs = append(errs, fmt.Errorf("rate: %g must not be negative", c.Rate))
	}
	if c.MaxInFlight < 1 {
		errs = append(errs, fmt.Errorf("max_in_flight: %d must be positive", c.MaxInFlight))
	}
	if c.MaxMemory < 8<<20 {
		errs = append(errs, fmt.Errorf("max_memory: %d bytes must be at least 8 MiB", c.MaxMemory))
	}
	if c.Window <= 0 {
		errs = append(errs, fmt.Errorf("window: %s must be positive", c.Window))
	}
	return errors.Join(errs...)
}
