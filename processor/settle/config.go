package settle

import (
	"errors"
	"fmt"
	"time"
)

// Config of the settler.
type Config struct {
	// Beat is how long outcomes gather before they are settled. 10 ms to 5 s.
	Beat time.Duration
	// TransactionTimeout is when the broker aborts a transaction that its owner
	// left open; readers of the retry tiers wait that long behind a killed process.
	TransactionTimeout time.Duration
	// MaxBytes bounds the records of one transaction, shared out among the units that have something to settle; each
	// may settle 64 KiB and one record in any case. What is left follows in the next, a tenth of a beat later. 1 MiB to 64 MiB.
	MaxBytes int64
	// MaxBackoff bounds the wait between tries of a beat that fails.
	MaxBackoff time.Duration
}

// DefaultConfig is what DESIGN section 7 names: a beat of 100 ms, a transaction
// timeout of 10 s; 16 MiB in one transaction; failing beats are tried again after at most 5 s.
func DefaultConfig() Config {
	return Config{Beat: 100 * time.Millisecond, TransactionTimeout: 10 * time.Second, MaxBytes: 16 << 20, MaxBackoff: 5 * time.Second}
}

// Validate names every problem at once.
func (c Config) Validate() error {
	var errs []error
	if c.Beat < 10*time.Millisecond || c.Beat > 5*time.Second {
		errs = append(errs, fmt.Errorf("beat: %s is outside 10ms to 5s", c.Beat))
	}
	if c.TransactionTimeout < 2*c.Beat || c.TransactionTimeout < time.Second {
		errs = append(errs, fmt.Errorf("transaction_timeout: %s must be at least 1s and twice the beat", c.TransactionTimeout))
	}
	if c.MaxBytes < 1<<20 || c.MaxBytes > 64<<20 {
		errs = append(errs, fmt.Errorf("max_bytes: %d is outside 1 MiB to 64 MiB", c.MaxBytes))
	}
	if c.MaxBackoff <= 0 {
		errs = append(errs, fmt.Errorf("max_backoff: %s must be positive", c.MaxBackoff))
	}
	return errors.Join(errs...)
}
