package chaos

import (
	"compress/gzip"
	"encoding/gob"
	"errors"
	"fmt"
	"os"
	"time"
)

// Evidence is all that a run leaves behind.
type Evidence struct {
	Summary    Summary
	History    *History
	Posts      []Post
	Sent       []Sent
	Cuts       []Cut // faults that hide outcomes
	Tenures    []Tenure
	Outages    []Outage
	Partitions int
	Longest    time.Duration // of an attempt: its time limit
}

// evidenceFile is where a run keeps its evidence, in its folder.
const evidenceFile = "evidence.gob.gz"

// Save writes the evidence, to be judged again.
func (e *Evidence) Save(path string) (err error) {
	f, err := os.Create(path)
	if err != nil {
		return fmt.Errorf("save evidence: %w", err)
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	z := gzip.NewWriter(f)
	if err := errors.Join(gob.NewEncoder(z).Encode(e), z.Close()); err != nil {
		return fmt.Errorf("save evidence: %w", err)
	}
	return nil
}

// Load reads what Save wrote.
func Load(path string) (*Evidence, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("load evidence: %w", err)
	}
	defer f.Close() //nolint:errcheck // it was only read
	z, err := gzip.NewReader(f)
	if err != nil {
		return nil, fmt.Errorf("load evidence: %w", err)
	}
	e := &Evidence{}
	if err := gob.NewDecoder(z).Decode(e); err != nil {
		return nil, fmt.Errorf("load evidence: %w", err)
	}
	return e, nil
}
