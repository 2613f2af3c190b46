package docs_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/barnabas-webhooks/barnabas/internal/testkit"
)

// root is the checkout's folder.
func root(t *testing.T) string {
	t.Helper()
	dir, err := testkit.Root()
	require.NoError(t, err)
	return dir
}

// read is a file of the checkout, by its path from the root.
func read(t *testing.T, name string) string {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(root(t), name))
	require.NoError(t, err)
	return string(b)
}

// tempDir is a folder that outlives the first test that needs it.
func tempDir() (dir string, remove func(), err error) {
	dir, err = os.MkdirTemp("", "barnabas-docs-")
	return dir, func() { _ = os.RemoveAll(dir) }, err
}
