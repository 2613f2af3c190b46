package obs_test

import (
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/barnabas-webhooks/barnabas/internal/obs"
)

// writes is a writer that remembers what each write brought.
type writes struct {
	mu   sync.Mutex
	each []string
}

func (w *writes) Write(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.each = append(w.each, string(p))
	return len(p), nil
}

// take gives how many lines each write brought since the last call.
func (w *writes) take() (counts []int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, p := range w.each {
		counts = append(counts, strings.Count(p, "\n"))
	}
	w.each = nil
	return counts
}

func batched(t *testing.T, format string) (out *writes, log *slog.Logger, flush func()) {
	t.Helper()
	out = &writes{}
	log, flush, err := obs.BatchedLogger(out, format, "info")
	require.NoError(t, err)
	return out, log, flush
}

func TestBatchedLogger_LinesGoOutTogetherAndSoon(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		out, log, flush := batched(t, obs.FormatJSON)
		for range 2 { // the timer starts anew
			log.Info("a")
			log.With("k", 1).WithGroup("g").Info("b", "k", 2)
			require.Empty(t, out.take())
			time.Sleep(10 * time.Millisecond)
			synctest.Wait()
			require.Equal(t, []int{2}, out.take())
		}

		log.Info("before a warning")
		log.With("k", 1).WithGroup("g").Warn("at once")
		require.Equal(t, []int{2}, out.take(), "with what was said before it")

		log.Info("the last")
		flush()
		require.Equal(t, []int{1}, out.take())
		time.Sleep(time.Second)
		synctest.Wait()
		require.Empty(t, out.take(), "nothing twice")
	})
}

func TestBatchedLogger_IsBounded(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		out, log, flush := batched(t, obs.FormatText)
		long := strings.Repeat("x", 1000)
		for range 100 {
			log.Info(long)
		}
		flush()
		counts, all := out.take(), 0
		for _, n := range counts {
			require.Less(t, n, 40, "lines of 1 KB in a write of 32 KB")
			all += n
		}
		require.Equal(t, 100, all)
	})
}

// Under the race detector: lines of many goroutines come whole, each once.
func TestBatchedLogger_ManyWriters(t *testing.T) {
	t.Parallel()
	out, log, flush := batched(t, obs.FormatText)
	var wg sync.WaitGroup
	for i := range 8 {
		wg.Go(func() {
			for j := range 200 {
				log.Log(t.Context(), []slog.Level{slog.LevelInfo, slog.LevelWarn}[j%2], "line", "i", i, "j", j)
			}
		})
	}
	wg.Wait()
	flush()
	seen := map[string]bool{}
	for _, p := range out.each {
		for line := range strings.Lines(p) {
			_, rest, found := strings.Cut(line, "msg=line ")
			require.True(t, found && strings.HasSuffix(line, "\n"), line)
			seen[rest] = true
		}
	}
	require.Len(t, seen, 1600)
}

func TestBatchedLogger_RefusesWhatLoggerRefuses(t *testing.T) {
	t.Parallel()
	_, _, err := obs.BatchedLogger(&writes{}, "xml", "info")
	require.ErrorIs(t, err, obs.ErrLogFormat)
}
