// Package golden compares what a test makes with a file of the repository, and
// rewrites the file where that is asked for: by "make golden" for testdata/ and
// by "make docs" for the pages of docs/ that mirror code.
//
// Those two run the tests whose names contain Golden or Docs, with [EnvWrite]
// set; nothing else rewrites such a file.
package golden

import (
	"bytes"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// EnvWrite makes [Check], when set to anything, rewrite files instead of comparing with them.
const EnvWrite = "BARNABAS_TEST_GOLDEN_WRITE"

// Check fails the test when the file, relative to the test's folder, does not hold exactly got.
func Check(t testing.TB, file string, got []byte) {
	t.Helper()
	want, err := os.ReadFile(file)
	if !errors.Is(err, fs.ErrNotExist) {
		require.NoError(t, err)
	}
	same := err == nil && bytes.Equal(want, got)
	if os.Getenv(EnvWrite) == "" {
		require.NoError(t, err, "no such file yet: make golden (or make docs) writes it")
		if !same {
			// As text, for the difference to be readable; bytes that are no text show as escapes.
			require.Equal(t, string(want), string(got), "%s differs: if the change is meant, make golden (or make docs)", file)
		}
		return
	}
	if same {
		return
	}
	require.NoError(t, os.MkdirAll(filepath.Dir(file), 0o750))
	require.NoError(t, os.WriteFile(file, got, 0o600))
	t.Logf("wrote %s", file)
}
