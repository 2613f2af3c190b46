package app

import (
	"log/slog"
	"os"
	"runtime/debug"
	"runtime/metrics"
	"slices"
	"time"

	"github.com/barnabas-webhooks/barnabas/internal/config"
	"github.com/barnabas-webhooks/barnabas/internal/obs"
)

const (
	// besideRecords is what a process may need beside the records that limits.memory counts, in bytes: requests in
	// flight, buffers of the Kafka clients, some tens of thousands of endpoints, and garbage.
	besideRecords = 160 << 20
	// liveHeadroom is the least that is left above what lives, as a share of it: 1/4. With less the collector would
	// run all the time where endpoints or idempotency keys need more than besideRecords.
	liveHeadroom = 4
	boundEvery   = time.Second
)

// SoftMemoryLimit is what the Go runtime is told to keep its memory under, in bytes: for a process that may hold so
// many bytes of records, and in which so many bytes of heap live.
func SoftMemoryLimit(records, live int64) int64 {
	return max(records+besideRecords, live+live/liveHeadroom)
}

// boundMemory keeps garbage from piling up: by itself, Go lets it become as much as what lives, and a process that
// holds its 256 MiB of records would need twice that. Until stop, the runtime has a soft limit, which rises where
// more lives than was thought of. It leaves a limit alone that was set from outside, with GOMEMLIMIT. The limit is that
// of the whole operating system process: it is for whoever is that process.
func boundMemory(cfg *config.Config, log *slog.Logger) (stop func()) {
	if os.Getenv("GOMEMLIMIT") != "" || !slices.Contains(cfg.Roles, config.RoleProcessor) {
		return func() {}
	}
	records := int64(cfg.Limits.Memory)
	limit := SoftMemoryLimit(records, 0)
	before := debug.SetMemoryLimit(limit)
	log.Info("soft memory limit", obs.KeyBytes, limit)
	end, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		live := []metrics.Sample{{Name: "/gc/heap/live:bytes"}}
		tick := time.NewTicker(boundEvery)
		defer tick.Stop()
		for {
			select {
			case <-end:
				return
			case <-tick.C:
			}
			if metrics.Read(live); live[0].Value.Kind() == metrics.KindUint64 {
				debug.SetMemoryLimit(SoftMemoryLimit(records, int64(live[0].Value.Uint64())))
			}
		}
	}()
	return func() {
		close(end)
		<-ended
		debug.SetMemoryLimit(before)
	}
}
