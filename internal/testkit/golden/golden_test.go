package golden_test

import (
	"os"
	"path/filepath"
	"runtime"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/barnabas-webhooks/barnabas/internal/testkit/golden"
)

// These set the environment variable both ways, so that they hold under make golden too; hence not parallel.

func TestCheck_ComparesByteForByte(t *testing.T) {
	t.Setenv(golden.EnvWrite, "")
	file := filepath.Join(t.TempDir(), "want")
	require.NoError(t, os.WriteFile(file, []byte("a\n"), 0o600))
	require.False(t, fails(file, "a\n"))
	require.True(t, fails(file, "a"))
	require.True(t, fails(file+".missing", ""))
}

func TestCheck_WritesOnlyWhenAsked(t *testing.T) {
	file := filepath.Join(t.TempDir(), "testdata", "want")
	t.Setenv(golden.EnvWrite, "")
	require.True(t, fails(file, "a"))
	require.NoFileExists(t, file)

	t.Setenv(golden.EnvWrite, "1")
	require.False(t, fails(file, "a"))
	got, err := os.ReadFile(file)
	require.NoError(t, err)
	require.Equal(t, "a", string(got))
}

// recorder is a testing.TB that only remembers whether it failed.
type recorder struct {
	testing.TB
	failed bool
}

func (r *recorder) Name() string          { return "recorder" }
func (r *recorder) Helper()               {}
func (r *recorder) Logf(string, ...any)   {}
func (r *recorder) Errorf(string, ...any) { r.failed = true }
func (r *recorder) FailNow()              { r.failed = true; runtime.Goexit() }

// fails says whether Check fails a test.
func fails(file, got string) bool {
	r := &recorder{}
	done := make(chan struct{})
	go func() {
		defer close(done)
		golden.Check(r, file, []byte(got))
	}()
	<-done
	return r.failed
}
