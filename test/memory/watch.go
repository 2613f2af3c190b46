package memory

import (
	"context"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"

	"github.com/barnabas-webhooks/barnabas/test/process"
	"github.com/barnabas-webhooks/barnabas/topics"
)

// Sample is what was seen at one moment. Sizes are in MiB.
type Sample struct {
	Seconds     float64 `json:"seconds"` // since the process was started
	RSS         float64 `json:"rss_mib"`
	Peak        float64 `json:"peak_mib"` // as the kernel has it (VmHWM)
	Held        float64 `json:"held_mib"` // charged to the process's budget
	Heap        float64 `json:"heap_mib"` // live and garbage
	Descriptors int     `json:"descriptors"`
	Goroutines  int     `json:"goroutines"`
	InFlight    int     `json:"in_flight"`
	Attempts    int64   `json:"attempts"` // so far
	Settled     int64   `json:"settled"`  // decisions so far: records moved
	Lag         int64   `json:"lag"`      // of events
	Waiting     int64   `json:"waiting"`  // in the tiers
	Breakers    int     `json:"breakers_open"`
	CPU         float64 `json:"cpu_seconds"` // so far
	// Holds are waits that spent no attempt, so far, by reason.
	Holds map[string]int64 `json:"holds"`
}

// holds lists the waits by reason.
func (s *Sample) holds() string {
	var list []string
	for _, reason := range slices.Sorted(maps.Keys(s.Holds)) {
		list = append(list, fmt.Sprintf("%d %s", s.Holds[reason], reason))
	}
	return strings.Join(list, ", ")
}

const mib = 1 << 20

// sample looks once. What cannot be read at the moment keeps the last value, but for the process itself.
func (m *run) sample(ctx context.Context, last Sample) (Sample, error) {
	s := last
	s.Seconds = time.Since(m.started).Seconds()
	usage, err := process.ReadUsage(m.worker.PID)
	if err != nil {
		return s, err
	}
	s.RSS, s.Peak, s.CPU = float64(usage.RSS)/mib, max(last.Peak, float64(usage.Peak)/mib), usage.CPU.Seconds()
	if files, err := os.ReadDir(fmt.Sprintf("/proc/%d/fd", m.worker.PID)); err == nil {
		s.Descriptors = len(files)
	}
	if values, err := process.Scrape(ctx, m.site.metrics); err == nil {
		s.Held, s.Heap = values["barnabas_held_bytes"]/mib, values["go_memstats_heap_inuse_bytes"]/mib
		s.InFlight, s.Goroutines = int(values["barnabas_in_flight"]), int(values["go_goroutines"])
		s.Attempts, s.Settled = int64(values["barnabas_attempts_total"]), int64(values["barnabas_decisions_total"])
		s.Holds = map[string]int64{}
		for name, n := range values {
			if reason, ok := strings.CutPrefix(name, holdsOf); ok && n > 0 {
				s.Holds[strings.TrimSuffix(reason, `"}`)] = int64(n)
			}
		}
		s.Breakers = int(values["barnabas_breakers_open"])
	}
	lags, err := m.lags(ctx)
	if err != nil {
		return s, nil //nolint:nilerr // a broker under load may be late
	}
	s.Lag, s.Waiting = 0, 0
	m.drained = true
	for _, p := range lags {
		switch p.Topic {
		case m.site.catalogue.Events():
			s.Lag += p.Lag
			m.drained = m.drained && max(p.Committed, 0) >= m.ends[p.Partition]
		case m.site.catalogue.Replay():
		default:
			s.Waiting += p.Lag
		}
	}
	m.positions = lags
	return s, nil
}

func (m *run) lags(ctx context.Context) ([]topics.PartitionLag, error) {
	limited, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	return topics.Lag(limited, m.admin, m.site.group, m.site.catalogue)
}

// holdsOf is how a series of holds begins; its reason follows.
const holdsOf = `barnabas_holds_total{reason="`

// profile keeps a heap profile of the process: where the bytes are when they are most.
func (m *run) profile(ctx context.Context, name string) {
	file, err := os.Create(filepath.Join(m.site.dir, name+".pb.gz"))
	if err != nil {
		return // a profile more or less
	}
	_ = process.Fetch(ctx, "http://"+m.site.metrics+"/debug/pprof/heap", file)
	_ = file.Close()
}

// trim deletes what is settled, so that the rounds of what waits do not fill the disk.
func (m *run) trim(ctx context.Context) {
	offsets := kadm.Offsets{}
	for _, p := range m.positions {
		if p.Committed > p.Start {
			offsets.AddOffset(p.Topic, p.Partition, p.Committed, -1)
		}
	}
	if len(offsets) == 0 {
		return
	}
	limited, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	if _, err := m.admin.DeleteRecords(limited, offsets); err != nil {
		m.say("what is settled could not be deleted: %v", err)
	}
}
