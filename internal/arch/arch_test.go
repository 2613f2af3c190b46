package arch_test

import (
	"os"
	"testing"
	"testing/fstest"

	"github.com/stretchr/testify/require"

	"github.com/barnabas-webhooks/barnabas/internal/arch"
)

func TestTree_KeepsTheImportRules(t *testing.T) {
	t.Parallel()
	root := os.DirFS("../..")
	// A root that is not the module's would have nothing to find fault with.
	mod, err := os.ReadFile("../../go.mod")
	require.NoError(t, err)
	require.Contains(t, string(mod), "module "+arch.Module+"\n")

	violations, err := arch.Check(root, arch.Layers())
	require.NoError(t, err)
	for _, v := range violations {
		t.Error(v)
	}
}

func TestLayers_NameEachPackageOnceWithAReason(t *testing.T) {
	t.Parallel()
	seen := map[string]bool{}
	for _, layer := range arch.Layers() {
		require.NotEmpty(t, layer.Name)
		for _, p := range layer.Packages {
			require.False(t, seen[p.Path], "%s stands twice in the table", p.Path)
			seen[p.Path] = true
			require.NotEmpty(t, p.Why, p.Path)
		}
	}
}

func TestCheck_FindsEveryKindOfBreach(t *testing.T) {
	t.Parallel()
	layers := []arch.Layer{
		{Name: "low", Packages: []arch.Package{{Path: "low"}, {Path: "beside"}}},
		{Name: "mid", Packages: []arch.Package{{Path: "mid"}, {Path: "held", Only: []string{"low"}, Why: "kept small"}}},
		{Name: "high", Open: true, Packages: []arch.Package{{Path: "high/..."}}},
		{Name: "proof", Open: true, TestsOnly: true, Packages: []arch.Package{{Path: "kit"}}},
	}
	imports := func(pkg string, of ...string) string {
		src := "package " + pkg + "\n"
		for _, i := range of {
			src += "import _ \"" + i + "\"\n"
		}
		return src
	}
	own := func(p string) string { return arch.Module + "/" + p }

	tests := map[string]struct {
		file, source string
		want         string // part of the one violation; empty: none
	}{
		"lower layer":               {"mid/a.go", imports("mid", own("low"), "net/http"), ""},
		"two layers down":           {"high/x/a.go", imports("x", own("low")), ""},
		"open layer":                {"high/x/a.go", imports("x", own("high/y")), ""},
		"foreign module":            {"low/a.go", imports("low", "example.com/mid"), ""},
		"own test package":          {"low/a_test.go", imports("low_test", own("low")), ""},
		"test uses kit":             {"low/a_test.go", imports("low_test", own("kit")), ""},
		"test uses upper layer":     {"low/a_test.go", imports("low_test", own("high/x")), ""},
		"kit uses all":              {"kit/a.go", imports("kit", own("high/x")), ""},
		"test data is no code":      {"low/testdata/a.go", imports("a", own("high/x")), ""},
		"upper layer":               {"low/a.go", imports("low", own("mid")), `layer "mid" lies above "low"`},
		"upper layer, renamed":      {"low/a.go", "package low\nimport m \"" + own("mid") + "\"\n", `lies above "low"`},
		"behind a build tag":        {"low/a.go", "//go:build never\n\n" + imports("low", own("mid")), `lies above "low"`},
		"neighbour":                 {"low/a.go", imports("low", own("beside")), "do not know one another"},
		"held to less":              {"held/a.go", imports("held", own("low"), own("beside")), "kept small"},
		"kit outside of tests":      {"high/x/a.go", imports("x", own("kit")), "for tests only"},
		"no place":                  {"new/a.go", imports("new"), "has no place"},
		"folder's prefix is a name": {"highest/a.go", imports("highest"), "has no place"},
		"root":                      {"a.go", imports("barnabas"), "holds no Go package"},
		"banned folder":             {"high/util/a.go", imports("util"), `"util" says nothing`},
		"banned file":               {"low/helpers.go", imports("low"), `"helpers" says nothing`},
		"banned test file":          {"low/common_test.go", imports("low"), `"common" says nothing`},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, err := arch.Check(fstest.MapFS{tt.file: {Data: []byte(tt.source)}}, layers)
			require.NoError(t, err)
			if tt.want == "" {
				require.Empty(t, got)
				return
			}
			require.Len(t, got, 1)
			require.Equal(t, tt.file, got[0].File)
			require.Contains(t, got[0].String(), tt.want)
		})
	}
}

func TestCheck_RefusesWhatItCannotParse(t *testing.T) {
	t.Parallel()
	_, err := arch.Check(fstest.MapFS{"schemas/a.go": {Data: []byte("no go")}}, arch.Layers())
	require.ErrorContains(t, err, "schemas/a.go")
}
