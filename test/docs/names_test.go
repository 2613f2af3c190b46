package docs_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/barnabas-webhooks/barnabas/internal/config"
)

var (
	pointer  = regexp.MustCompile(`^([a-z0-9_./-]+\.go)(?::([A-Za-z_][A-Za-z0-9_.]*))?$`)
	testName = regexp.MustCompile(`^(?:Test|Fuzz|Example|Benchmark)[A-Z]\w+$`)
	variable = regexp.MustCompile(`\bBARNABAS_[A-Z0-9_]+\b`)
)

// A pointer `path/file.go:Name` names a file, and what is declared in it.
func TestPages_PointIntoTheCode(t *testing.T) {
	t.Parallel()
	dir := root(t)
	pointers := 0
	for _, p := range pages(t) {
		for _, span := range p.spans() {
			m := pointer.FindStringSubmatch(span)
			if m == nil || !strings.Contains(m[1], "/") {
				continue
			}
			pointers++
			path := filepath.Join(dir, filepath.FromSlash(m[1]))
			if _, err := os.Stat(path); err != nil {
				t.Errorf("%s: there is no %s", p.Name, m[1])
				continue
			}
			if m[2] != "" && !slices.Contains(declared(t, path), m[2]) {
				t.Errorf("%s: %s declares no %s", p.Name, m[1], m[2])
			}
		}
	}
	require.Greater(t, pointers, 20)
}

// declared lists what a file declares: functions, Type.Method, types, constants and variables. A method
// is there by its own name too.
func declared(t *testing.T, path string) []string {
	t.Helper()
	file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution)
	require.NoError(t, err)
	var names []string
	for _, d := range file.Decls {
		switch d := d.(type) {
		case *ast.FuncDecl:
			names = append(names, d.Name.Name)
			if d.Recv != nil {
				names = append(names, receiver(d.Recv.List[0].Type)+"."+d.Name.Name)
			}
		case *ast.GenDecl:
			for _, spec := range d.Specs {
				switch s := spec.(type) {
				case *ast.TypeSpec:
					names = append(names, s.Name.Name)
				case *ast.ValueSpec:
					for _, n := range s.Names {
						names = append(names, n.Name)
					}
				}
			}
		}
	}
	return names
}

// receiver is the name of a method's type.
func receiver(e ast.Expr) string {
	switch e := e.(type) {
	case *ast.StarExpr:
		return receiver(e.X)
	case *ast.IndexExpr:
		return receiver(e.X)
	case *ast.Ident:
		return e.Name
	}
	return ""
}

// testFiles are the paths of all test files, but for those in folders that Go passes over.
func testFiles(t *testing.T) (paths []string) {
	t.Helper()
	dir := root(t)
	require.NoError(t, filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && path != dir && (strings.HasPrefix(d.Name(), ".") || strings.HasPrefix(d.Name(), "_")):
			return fs.SkipDir
		case strings.HasSuffix(path, "_test.go"):
			paths = append(paths, path)
		}
		return nil
	}))
	return paths
}

// A test that a page calls the proof of something is there.
func TestPages_NameTestsThatExist(t *testing.T) {
	t.Parallel()
	tests := map[string]bool{}
	for _, path := range testFiles(t) {
		for _, name := range declared(t, path) {
			tests[name] = true
		}
	}
	found := 0
	for _, p := range pages(t) {
		for _, span := range p.spans() {
			if !testName.MatchString(span) {
				continue
			}
			found++
			if !tests[span] {
				t.Errorf("%s: there is no test %s", p.Name, span)
			}
		}
	}
	require.Greater(t, found, 10)
}

// A setting that a page names is one, and so is a variable of the environment.
func TestPages_NameSettingsThatExist(t *testing.T) {
	t.Parallel()
	keys, sections, variables := map[string]bool{}, map[string]bool{}, map[string]bool{}
	for _, k := range config.Keys() {
		keys[k.Path], variables[k.Env()] = true, true
		for at := k.Path; strings.Contains(at, "."); {
			at = at[:strings.LastIndexByte(at, '.')]
			sections[at] = true
		}
	}
	setting := regexp.MustCompile(`^([a-z]+)\.[a-z][a-z0-9_.]*$`)
	found := 0
	for _, p := range pages(t) {
		for _, span := range p.spans() {
			m := setting.FindStringSubmatch(span)
			if m == nil || !sections[m[1]] || keys[span] || sections[span] || strings.HasSuffix(span, ".go") {
				if keys[span] {
					found++
				}
				continue
			}
			t.Errorf("%s: there is no setting %s", p.Name, span)
		}
		text := p.Prose
		for _, b := range p.Code {
			text += b.Text
		}
		for _, name := range variable.FindAllString(text, -1) {
			if !variables[name] && !strings.HasPrefix(name, "BARNABAS_TEST_") && !strings.HasPrefix(name, "BARNABAS_SIM_") && !slices.Contains(otherVariables(), name) {
				t.Errorf("%s: there is no variable %s", p.Name, name)
			}
		}
	}
	require.Greater(t, found, 10)
}

// otherVariables are those that are no settings of a process.
func otherVariables() []string {
	return []string{"BARNABAS_CONFIG", "BARNABAS_URL", "BARNABAS_API_KEY", "BARNABAS_SIM_LOG"}
}

// A configuration that a page shows is taken as it stands.
func TestPages_ShowConfigurationsThatLoad(t *testing.T) {
	t.Parallel()
	found := 0
	for _, p := range pages(t) {
		for _, b := range p.Code {
			if b.Lang != "yaml" || !strings.HasPrefix(b.Text, "# barnabas.yaml") {
				continue
			}
			found++
			file := filepath.Join(t.TempDir(), "barnabas.yaml")
			require.NoError(t, os.WriteFile(file, []byte(b.Text), 0o600))
			_, err := config.Load(config.Source{File: file})
			require.NoError(t, err, p.Name)
		}
	}
	require.Positive(t, found)
}

// The map of packages is whole: a row for each, and none for what is not there.
func TestArchitecture_MapsEveryPackage(t *testing.T) {
	t.Parallel()
	dir := root(t)
	there := map[string]bool{}
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && path != dir && (strings.HasPrefix(d.Name(), ".") || strings.HasPrefix(d.Name(), "_") || d.Name() == "testdata"):
			return fs.SkipDir
		case strings.HasSuffix(path, ".go"):
			name, err := filepath.Rel(dir, filepath.Dir(path))
			if err != nil {
				return err
			}
			name = filepath.ToSlash(name)
			if strings.HasPrefix(name, "internal/testkit/") { // one row for what tests share
				name = "internal/testkit"
			}
			there[name] = true
		}
		return nil
	})
	require.NoError(t, err)
	_, section, _ := strings.Cut(read(t, "docs/ARCHITECTURE.md"), "## File map")
	section, _, _ = strings.Cut(section, "\n## ")
	rows := map[string]bool{}
	for _, m := range regexp.MustCompile("(?m)^\\| `([a-z0-9/]+)` \\|").FindAllStringSubmatch(section, -1) {
		rows[m[1]] = true
	}
	require.Equal(t, there, rows)
}

// A case is held down by tests that name it: each that the table gives lies in a file that does, or the row's claim is a rumour.
func TestCases_AreNamedByTheirTests(t *testing.T) {
	t.Parallel()
	files := map[string][]string{} // texts of the files that declare a test
	for _, path := range testFiles(t) {
		text, err := os.ReadFile(path)
		require.NoError(t, err)
		for _, name := range declared(t, path) {
			files[name] = append(files[name], string(text))
		}
	}
	rows := regexp.MustCompile(`(?m)^\| (C-\d+) \|[^|]*\|([^|]*)\|`).FindAllStringSubmatch(read(t, "docs/cases.md"), -1)
	require.NotEmpty(t, rows)
	for _, row := range rows {
		named := regexp.MustCompile("`(Test\\w+)`").FindAllStringSubmatch(row[2], -1)
		require.NotEmpty(t, named, row[1])
		for _, test := range named {
			require.True(t, slices.ContainsFunc(files[test[1]], func(text string) bool { return strings.Contains(text, row[1]) }),
				"%s: no file of %s names it", row[1], test[1])
		}
	}
}
