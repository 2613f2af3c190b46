package unit

import (
	"errors"
	"fmt"
	"time"
)

// Config of every unit of a deployment.
type Config struct {
	LaneEntries int           // a lane holds at most so many deliveries; beyond, it spills
	LaneBytes   int64         // ... and at most so many payload bytes
	LaneAge     time.Duration // a delivery that waited longer at the head of its lane is spilled
	// LanePause is how long intake may stand still for a full lane that drains
	// fast, rather than spill it: the bound on what a flood does to its neighbours.
	LanePause      time.Duration
	WaitingRecords int           // look-ahead of one tier: so many records are kept in memory until due, while memory is not half full
	UnknownGrace   time.Duration // an event for an unknown endpoint is held so long, then dead
	BatchOutcomes  int           // at most so many outcomes in one batch
	BatchBytes     int64         // ... and so many bytes of records
	MaxInFlight    int           // of a parallel endpoint that sets none
}

// DefaultConfig is what DESIGN section 10 names.
func DefaultConfig() Config {
	return Config{
		LaneEntries: 256, LaneBytes: 4 << 20, LaneAge: 5 * time.Second, LanePause: 250 * time.Millisecond,
		WaitingRecords: 8192, UnknownGrace: time.Minute,
		BatchOutcomes: 4096, BatchBytes: 8 << 20, MaxInFlight: 8,
	}
}

// Validate names every problem at once.
func (c Config) Validate() error {
	var errs []error
	positive := func(name string, v int64) {
		if v <= 0 {
			errs = append(errs, fmt.Errorf("%s: %d must be positive", name, v))
		}
	}
	positive("lane_entries", int64(c.LaneEntries))
	positive("lane_bytes", c.LaneBytes)
	positive("lane_age", int64(c.LaneAge))
	positive("waiting_records", int64(c.WaitingRecords))
	positive("batch_outcomes", int64(c.BatchOutcomes))
	positive("batch_bytes", c.BatchBytes)
	positive("max_in_flight", int64(c.MaxInFlight))
	if c.LanePause < 0 || c.UnknownGrace < 0 {
		errs = append(errs, errors.New("lane_pause, unknown_grace: must not be negative"))
	}
	return errors.Join(errs...)
}
