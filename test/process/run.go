package process

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"time"
)

// Pause waits; false: ctx has ended.
func Pause(ctx context.Context, d time.Duration) bool {
	select {
	case <-ctx.Done():
		return false
	case <-time.After(d):
		return true
	}
}

// WriteJSON prints a run's result.
func WriteJSON(w io.Writer, result any) error {
	e := json.NewEncoder(w)
	e.SetIndent("", "  ")
	if err := e.Encode(result); err != nil {
		return fmt.Errorf("print result: %w", err)
	}
	return nil
}

// Problems gathers what is wrong with a run's options.
type Problems struct{ errs []error }

// Add notes one, unless it is right.
func (p *Problems) Add(wrong bool, format string, args ...any) {
	if wrong {
		p.errs = append(p.errs, fmt.Errorf(format, args...))
	}
}

// In notes a number that is outside its range.
func (p *Problems) In(name string, v, lowest, highest int) {
	p.Add(v < lowest || v > highest, "%s: %d is outside %d to %d", name, v, lowest, highest)
}

// Err names every problem at once; nil: there is none.
func (p *Problems) Err() error { return errors.Join(p.errs...) }
