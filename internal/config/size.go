package config

import (
	"errors"
	"fmt"
	"math"
	"strings"

	"github.com/dustin/go-humanize"
)

// Size is an amount of bytes.
type Size int64

// Units of Size.
const (
	KiB Size = 1 << 10
	MiB Size = 1 << 20
	GiB Size = 1 << 30
)

// ErrSize is a text that is not an amount of bytes.
var ErrSize = errors.New(`not a size: use a number with a unit, like "900KiB", "256MiB" or "1GiB"`)

// ParseSize reads "256MiB", "1.5 GiB", "10MB" (powers of 1000) or a plain number
// of bytes.
func ParseSize(s string) (Size, error) {
	s = strings.TrimSpace(s)
	if strings.HasPrefix(s, "-") {
		return 0, fmt.Errorf("%q is negative: %w", s, ErrSize)
	}
	n, err := humanize.ParseBytes(s)
	if err != nil || n > math.MaxInt64 {
		return 0, fmt.Errorf("%q: %w", s, ErrSize)
	}
	return Size(n), nil
}

// Bytes is the size as a number.
func (s Size) Bytes() int64 { return int64(s) }

// String is the shortest text that ParseSize reads back exactly.
func (s Size) String() string {
	for _, u := range []struct {
		size Size
		name string
	}{{GiB, "GiB"}, {MiB, "MiB"}, {KiB, "KiB"}} {
		if s >= u.size && s%u.size == 0 {
			return fmt.Sprintf("%d%s", s/u.size, u.name)
		}
	}
	return fmt.Sprintf("%dB", int64(s))
}
