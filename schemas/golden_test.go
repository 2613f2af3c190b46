package schemas_test

import (
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

var update = flag.Bool("update", false, "rewrite the golden files of the newest version of each record")

// Each version of each record has three golden files: its schema, a sample's
// bytes, and what those decode to. Those of older versions are never rewritten,
// not even by -update: their bytes are in somebody's topic.

func golden(k kind, version int, ext string) string {
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
	b, err := os.ReadFile(golden(k, version, ext))
	require.NoError(t, err, "run: go test ./schemas -run Golden -update")
	return b
}

func asJSON(t *testing.T, v any) []byte {
	t.Helper()
	b, err := json.MarshalIndent(v, "", "  ")
	require.NoError(t, err)
	return append(b, '\n')
}

func TestGolden_NewestVersionIsWhatIsWritten(t *testing.T) {
	t.Parallel()
	for _, k := range kinds() {
		t.Run(k.name, func(t *testing.T) {
			t.Parallel()
			b, err := k.encode(k.sample())
			require.NoError(t, err)
			if *update {
				require.NoError(t, os.MkdirAll(filepath.Join("testdata", "golden"), 0o750))
				require.NoError(t, os.WriteFile(golden(k, k.version, "avsc"), schemaFile(t, k, k.version), 0o600))
				require.NoError(t, os.WriteFile(golden(k, k.version, "bin"), b, 0o600))
				require.NoError(t, os.WriteFile(golden(k, k.version, "json"), asJSON(t, k.sample()), 0o600))
			}
			require.Equal(t, readGolden(t, k, k.version, "bin"), b)
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
