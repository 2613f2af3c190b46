package breaker

import (
	"errors"
	"fmt"
	"math"
	"time"
)

// maxTrips ends the counting of openings, long after OpenMax has ended the doubling.
const maxTrips = 1000

// Config of all breakers of a deployment. See DefaultConfig for the defaults and their meaning.
type Config struct {
	ConsecutiveHard int     // of dns, connect, tls, timeout, reset, 5xx, 429; in [1, 1,000,000]
	ConsecutiveAny  int     // of any failure; at least ConsecutiveHard, at most 1,000,000
	WindowRatio     float64 // hard failures / attempts within Window ...; in (0, 1]
	WindowMin       int     // ... when there were at least so many; in [1, 1,000,000]
	Window          time.Duration
	OpenFor         time.Duration // first opening; doubles with each that follows; at least 1 ms
	OpenMax         time.Duration // where the doubling ends, before jitter; at most 24 h
	Jitter          float64       // +- share of the open time; in [0, 0.9]
	// ProbeTimeout is after how long a probe that nobody reports counts as lost. Longer than
	// any attempt may take. Zero: never.
	ProbeTimeout time.Duration
}

// DefaultConfig is the breaker of DESIGN section 10: open after 5 hard failures in a row, 20 of
// any class, or half of at least 20 within a minute; for 30 s, doubling to 15 m, +-20 %.
func DefaultConfig() Config {
	return Config{
		ConsecutiveHard: 5,
		ConsecutiveAny:  20,
		WindowRatio:     0.5,
		WindowMin:       20,
		Window:          time.Minute,
		OpenFor:         30 * time.Second,
		OpenMax:         15 * time.Minute,
		Jitter:          0.2,
		ProbeTimeout:    2 * time.Minute,
	}
}

// ErrInvalid is what every problem found by Validate wraps.
var ErrInvalid = errors.New("invalid breaker configuration")

// Validate reports all problems at once, each naming its field and the value.
func (c Config) Validate() error {
	const most = 1_000_000
	var errs []error
	check := func(ok bool, format string, args ...any) {
		if !ok {
			errs = append(errs, fmt.Errorf("%w: "+format, append([]any{ErrInvalid}, args...)...))
		}
	}
	check(c.ConsecutiveHard >= 1 && c.ConsecutiveHard <= most, "consecutive_hard: %d is not in [1, %d]", c.ConsecutiveHard, most)
	check(c.ConsecutiveAny >= 1 && c.ConsecutiveAny <= most, "consecutive_any: %d is not in [1, %d]", c.ConsecutiveAny, most)
	check(c.ConsecutiveAny >= c.ConsecutiveHard,
		"consecutive_any: %d is less than consecutive_hard %d, which could then never be reached", c.ConsecutiveAny, c.ConsecutiveHard)
	check(c.WindowRatio > 0 && c.WindowRatio <= 1, "window_ratio: %v is not in (0, 1]", c.WindowRatio)
	check(c.WindowMin >= 1 && c.WindowMin <= most, "window_min: %d is not in [1, %d]", c.WindowMin, most)
	check(c.Window >= time.Second && c.Window <= time.Hour, "window: %s is not in [1s, 1h]", c.Window)
	check(c.OpenFor >= time.Millisecond, "open_for: %s is less than 1ms", c.OpenFor)
	check(c.OpenMax >= c.OpenFor && c.OpenMax <= 24*time.Hour, "open_max: %s is not in [open_for, 24h]", c.OpenMax)
	check(c.Jitter >= 0 && c.Jitter <= 0.9, "jitter: %v is not in [0, 0.9]", c.Jitter)
	check(c.ProbeTimeout >= 0, "probe_timeout: %s is negative", c.ProbeTimeout)
	return errors.Join(errs...)
}

// OpenTime is how long opening number trips (1 for the first) lasts: OpenFor doubled trips-1
// times, cut to OpenMax, times a factor drawn from [1-Jitter, 1+Jitter). rnd is uniform in [0, 1).
func (c Config) OpenTime(trips int, rnd float64) time.Duration {
	d := c.OpenFor
	for range min(trips, maxTrips) - 1 {
		if d >= c.OpenMax/2 {
			d = c.OpenMax
			break
		}
		d *= 2
	}
	if math.IsNaN(rnd) {
		rnd = 0.5
	}
	factor := 1 + c.Jitter*(2*min(max(rnd, 0), 1)-1)
	return max(1, time.Duration(float64(min(d, c.OpenMax))*factor))
}

// longest is what no opening lasts longer than.
func (c *Config) longest() time.Duration { return c.OpenTime(maxTrips, 1) }
