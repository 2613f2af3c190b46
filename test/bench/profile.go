package bench

import (
	"context"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/barnabas-webhooks/barnabas/test/process"
)

// profile runs the saturated scenario twice more, since sampling costs: once for processor time and allocations, once for
// what goroutines wait for.
func (m *run) profile(ctx context.Context) error {
	if err := os.MkdirAll(m.Profile, 0o750); err != nil {
		return fmt.Errorf("profiles: %w", err)
	}
	saturated := throughput{endpoints: 100, events: 300_000}
	for _, names := range [][]string{{"profile", "allocs"}, {"block", "mutex"}} {
		m.say("%s, for profiles: %v", saturated.name(), names)
		f, err := saturated.system(ctx, m, func(n *node) error {
			var taking errgroup.Group
			for _, name := range names {
				taking.Go(func() error { return m.take(ctx, n, name) })
			}
			return taking.Wait()
		})
		if err != nil {
			return fmt.Errorf("profiles: %w", err)
		}
		m.say("  %s", f)
	}
	return nil
}

// profileLasting is how long a profile is taken at the full scale: a little less than the run lasts.
const profileLasting = 8 * time.Second

// take keeps one profile of the seconds to come.
func (m *run) take(ctx context.Context, n *node, name string) error {
	file := name
	if name == "profile" {
		file = "cpu"
	}
	path := filepath.Join(m.Profile, file+".pb.gz")
	out, err := os.Create(path)
	if err != nil {
		return fmt.Errorf("profile: %w", err)
	}
	defer out.Close() //nolint:errcheck // what could not be written makes Fetch fail
	seconds := math.Ceil(m.lasting(profileLasting, time.Second).Seconds())
	if err := process.Fetch(ctx, fmt.Sprintf("http://%s/debug/pprof/%s?seconds=%.0f", n.metrics, name, seconds), out); err != nil {
		return err
	}
	m.say("  %s", path)
	return nil
}
