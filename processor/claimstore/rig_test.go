package claimstore_test

import (
	"log/slog"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/stretchr/testify/require"

	"github.com/barnabas-webhooks/barnabas/processor/claimstore"
)

type store = claimstore.Store

const window = 24 * time.Hour

// open opens the store in /claims of a file system. It is closed when the test ends, unless it was before.
func open(t *testing.T, fs vfs.FS) *store {
	t.Helper()
	s, err := claimstore.Open(options(fs))
	require.NoError(t, err)
	t.Cleanup(func() { _ = s.Close() })
	return s
}

func options(fs vfs.FS) claimstore.Options {
	return claimstore.Options{
		Config: claimstore.Config{Directory: "/claims", Cache: 8 << 20}, Window: window, Log: slog.New(slog.DiscardHandler), FS: fs,
	}
}
