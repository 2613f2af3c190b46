package claimstore

import (
	"errors"
	"fmt"
)

// Config of a store.
type Config struct {
	// Directory of the database; its own, and this process's alone. Made if it is not there.
	Directory string
	// Cache is how many bytes of memory the database uses at most, for blocks, filters and what is not
	// written yet. For new keys to cost no disk read it must hold the filters: 1.25 bytes a key held.
	Cache int64
}

// minCache holds two memtables and the filters of a table or two.
const minCache = 8 << 20

// DefaultConfig is a cache for the filters of about 30 million keys, and no directory.
func DefaultConfig() Config { return Config{Cache: 64 << 20} }

// Validate names every problem at once.
func (c Config) Validate() error {
	var errs []error
	if c.Directory == "" {
		errs = append(errs, errors.New("directory: must not be empty"))
	}
	if c.Cache < minCache {
		errs = append(errs, fmt.Errorf("cache: %d bytes must be at least %d", c.Cache, minCache))
	}
	return errors.Join(errs...)
}
