package schemas_test

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/barnabas-webhooks/barnabas/internal/testkit/golden"
)

// Each version of each record has three golden files: its schema, a sample's
// bytes, and what those decode to. Those of older versions are never rewritten,
// not even by make golden: their bytes are in somebody's topic.

func goldenFile(k kind, version int, ext string) string {
	return filepath.Join("testdata", "golden", fmt.Sprintf("%s.v%d.%s", k.name, version, ext))
}

func schemaFile(t *testing.T, k kind, version int) []byte {
	t.Helper()
	b, err := os.ReadFile(fmt.Sprintf("%s.v%d.avsc", k.name, version))
	require.NoError(t, err)
	return b
}

func readGolden(t *testing.T, k kind, version int, ext string) []byte {
	t.Helper()
	b, err := os.ReadFile(goldenFile(k, version, ext))
	require.NoError(t, err, "no such file yet: make golden writes it")
	return b
}

func asJSON(t *testing.T, v any) []byte {
	t.Helper()
	b, err := json.MarshalIndent(v, "", "  ")
	require.NoError(t, err)
	return append(b, '\n')
}

// Not parallel, nor are its subtests: under make golden it writes what the
// others read, and parallel tests start only when those that aren't have ended.
//
//nolint:paralleltest // see above
func TestGolden_NewestVersionIsWhatIsWritten(t *testing.T) {
	for _, k := range kinds() {
		t.Run(k.name, func(t *testing.T) {
			b, err := k.encode(k.sample())
			require.NoError(t, err)
			golden.Check(t, goldenFile(k, k.version, "avsc"), schemaFile(t, k, k.version))
			golden.Check(t, goldenFile(k, k.version, "bin"), b)
			golden.Check(t, goldenFile(k, k.version, "json"), asJSON(t, k.sample()))
		})
	}
}

func TestGolden_EveryVersionStillDecodes(t *testing.T) {
	t.Parallel()
	for _, k := range kinds() {
		for version := 1; version <= k.version; version++ {
			t.Run(fmt.Sprintf("%s.v%d", k.name, version), func(t *testing.T) {
				t.Parallel()
				v, err := k.decode(readGolden(t, k, version, "bin"))
				require.NoError(t, err)
				require.Equal(t, string(readGolden(t, k, version, "json")), string(asJSON(t, v)))
			})
		}
	}
}

// The fingerprint does not change with a dropped default or with a logical
// type, so that the schema's text is held too.
func TestGolden_ReleasedSchemasDoNotChange(t *testing.T) {
	t.Parallel()
	for _, k := range kinds() {
		for version := 1; version <= k.version; version++ {
			require.Equal(t, string(readGolden(t, k, version, "avsc")), string(schemaFile(t, k, version)),
				"%s.v%d.avsc is released: write version %d instead", k.name, version, version+1)
		}
	}
}

func TestGolden_NoFileIsLeftOut(t *testing.T) {
	t.Parallel()
	known := map[string]bool{}
	for _, k := range kinds() {
		for version := 1; version <= k.version; version++ {
			known[fmt.Sprintf("%s.v%d", k.name, version)] = true
		}
	}
	for _, dir := range []string{".", filepath.Join("testdata", "golden")} {
		files, err := filepath.Glob(filepath.Join(dir, "*.avsc"))
		require.NoError(t, err)
		require.Len(t, files, len(known))
		for _, f := range files {
			require.True(t, known[strings.TrimSuffix(filepath.Base(f), ".avsc")], f)
		}
	}
}
