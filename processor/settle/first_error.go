package settle

import (
	"errors"
	"sync"
)

// firstError keeps the first of the errors that concurrent callbacks report,
// but prefers one that names an unwritable record: that one can be mended.
type firstError struct {
	mu  sync.Mutex // guards err
	err error
}

func (f *firstError) set(err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	var unwritable *unwritableError
	if f.err == nil || (errors.As(err, &unwritable) && !errors.As(f.err, &unwritable)) {
		f.err = err
	}
}

func (f *firstError) get() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.err
}
