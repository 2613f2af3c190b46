package arch

import (
	"fmt"
	"go/parser"
	"go/token"
	"io/fs"
	"path"
	"slices"
	"strconv"
	"strings"
)

// Violation is one breach of the rules.
type Violation struct {
	File string // or folder, relative to the root
	Text string // what is wrong and what to do
}

// String is the violation as a line.
func (v Violation) String() string { return v.File + ": " + v.Text }

// Check parses the imports of all Go files under root and returns what breaks the rules, in the order of the files.
func Check(root fs.FS, layers []Layer) ([]Violation, error) {
	var found []Violation
	err := fs.WalkDir(root, ".", func(name string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case entry.IsDir():
			if skipped(name) {
				return fs.SkipDir
			}
		case path.Ext(name) == ".go":
			violations, err := checkFile(root, name, layers)
			if err != nil {
				return err
			}
			found = append(found, violations...)
		}
		return nil
	})
	return found, err
}

// skipped folders are those that the go command skips, and what other languages' tools leave in the tree.
func skipped(dir string) bool {
	base := path.Base(dir)
	return dir != "." && (strings.HasPrefix(base, ".") || strings.HasPrefix(base, "_") ||
		slices.Contains([]string{"testdata", "vendor", "node_modules", "bin"}, base))
}

func checkFile(root fs.FS, name string, layers []Layer) ([]Violation, error) {
	var found []Violation
	report := func(format string, args ...any) {
		found = append(found, Violation{File: name, Text: fmt.Sprintf(format, args...)})
	}
	for element := range strings.SplitSeq(strings.TrimSuffix(strings.TrimSuffix(name, ".go"), "_test"), "/") {
		if slices.Contains(BannedNames(), element) {
			report("%q says nothing of what is in it: name it after its subject", element)
		}
	}

	from := path.Dir(name)
	if from == "." {
		report("the module's root holds no Go package")
		return found, nil
	}
	place, ok := find(layers, from)
	if !ok {
		report("package %s has no place in internal/arch/layers.go: give it a layer and a reason", from)
		return found, nil
	}
	imports, err := ownImports(root, name)
	if err != nil {
		return nil, err
	}
	for _, to := range imports {
		if why := place.refuses(layers, from, to, strings.HasSuffix(name, "_test.go")); why != "" {
			report("%s must not import %s: %s", from, to, why)
		}
	}
	return found, nil
}

// ownImports lists what a file imports of our own, relative to the module's root.
func ownImports(root fs.FS, name string) ([]string, error) {
	source, err := fs.ReadFile(root, name)
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", name, err)
	}
	file, err := parser.ParseFile(token.NewFileSet(), name, source, parser.ImportsOnly)
	if err != nil {
		return nil, fmt.Errorf("parse imports: %w", err)
	}
	var own []string
	for _, spec := range file.Imports {
		imported, err := strconv.Unquote(spec.Path.Value)
		if err != nil {
			return nil, fmt.Errorf("parse imports of %s: %w", name, err)
		}
		if rest, ok := strings.CutPrefix(imported, Module+"/"); ok {
			own = append(own, rest)
		}
	}
	return own, nil
}

// place is where a package stands in the table.
type place struct {
	level int
	row   Package
}

func find(layers []Layer, pkg string) (place, bool) {
	for level, layer := range layers {
		for _, row := range layer.Packages {
			if matches(row.Path, pkg) {
				return place{level: level, row: row}, true
			}
		}
	}
	return place{}, false
}

// refuses says why a file of package from, which stands at p, may not import package to; empty: it may.
func (p place) refuses(layers []Layer, from, to string, isTest bool) string {
	target, ok := find(layers, to)
	// A target without a place is reported where it lies. Tests lie outside of their package and may use what is above it,
	// to show that both fit: nothing that ships comes to depend on it.
	if from == to || !ok || isTest {
		return ""
	}
	own, other := layers[p.level], layers[target.level]
	switch {
	case other.TestsOnly && !own.TestsOnly:
		return "it is for tests only"
	case target.level > p.level:
		return fmt.Sprintf("layer %q lies above %q", other.Name, own.Name)
	case target.level == p.level && !own.Open:
		return fmt.Sprintf("both are in layer %q, whose packages do not know one another", own.Name)
	case p.row.Only != nil && !slices.Contains(p.row.Only, to):
		return fmt.Sprintf("of our own it may import only %q (%s)", p.row.Only, p.row.Why)
	}
	return ""
}
