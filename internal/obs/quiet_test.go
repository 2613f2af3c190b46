package obs_test

import (
	"bytes"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/barnabas-webhooks/barnabas/internal/obs"
)

func lines(b *bytes.Buffer) int { return strings.Count(b.String(), "\n") }

// C-236: a cause that repeats leaves a few lines a minute.
func TestQuiet_AFewLinesPerMinuteAndCause(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var out bytes.Buffer
		log := slog.New(obs.NewQuiet(slog.NewTextHandler(&out, nil), obs.QuietOptions{}))

		refused := errors.New("connect: connection refused")
		for i := range 600 { // one minute of failures, each from another local port and behind another wrap
			log.Warn("unable to open connection to broker",
				"err", fmt.Errorf("dial tcp 127.0.0.1:%d: %w", 40000+i, refused))
			time.Sleep(100 * time.Millisecond)
		}
		require.Equal(t, 3, lines(&out), out.String())

		time.Sleep(time.Second)
		log.Warn("unable to open connection to broker", "err", refused)
		require.Equal(t, 4, lines(&out))
		require.Contains(t, out.String(), obs.KeySuppressed+"=597")

		// Another cause, or another message, is not silenced by the first.
		log.Warn("unable to open connection to broker", "err", errors.New("no such host"))
		log.Warn("unable to request api versions", "err", refused)
		log.Error("unable to open connection to broker", "err", refused)
		require.Equal(t, 7, lines(&out))
	})
}

func TestQuiet_DerivedLoggersShareTheBudget(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var out bytes.Buffer
		log := slog.New(obs.NewQuiet(slog.NewTextHandler(&out, nil), obs.QuietOptions{Burst: 1}))
		for i := range 10 {
			log.With("broker", i).Warn("lost")
			log.WithGroup("g").Warn("lost")
		}
		require.Equal(t, 1, lines(&out), out.String())

		// An error given by With is part of the cause too.
		log.With("err", errors.New("a")).Warn("lost")
		log.With("err", errors.New("b")).Warn("lost")
		require.Equal(t, 3, lines(&out), out.String())
	})
}

func TestQuiet_RemembersABoundedNumberOfCauses(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var out bytes.Buffer
		log := slog.New(obs.NewQuiet(slog.NewTextHandler(&out, nil), obs.QuietOptions{Burst: 1, Causes: 4}))
		for i := range 1000 {
			log.Warn("failed", "err", strings.Repeat("x", i%20)+"!")
		}
		require.LessOrEqual(t, lines(&out), 5, "four causes and the shared one")
		time.Sleep(2 * time.Minute)
		out.Reset()
		log.Warn("failed", "err", "something new")
		require.Equal(t, 1, lines(&out), "old causes make room")
	})
}
