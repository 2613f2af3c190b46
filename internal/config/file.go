package config

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"go.yaml.in/yaml/v3"
)

// maxFile bounds the configuration file, in bytes.
const maxFile = 1 << 20

// Errors of the configuration file as a whole.
var (
	ErrFileTooLarge  = errors.New("configuration file is larger than 1 MiB")
	ErrNotMapping    = errors.New("configuration file is not a mapping of keys to values")
	ErrManyDocuments = errors.New("configuration file holds more than one YAML document")
)

// file reads a YAML file. The tree is walked here and not by a generic decoder,
// so that every complaint names its line and nothing is dropped in silence: not
// a second document, not a key given twice, not a key without a value.
func (l *loader) file(path string) {
	root, err := readYAML(path)
	if err != nil {
		l.errs = append(l.errs, fmt.Errorf("read configuration %s: %w", path, err))
		return
	}
	if root == nil {
		return // empty, or nothing but comments
	}
	w := yamlWalk{loader: l, name: filepath.Base(path), values: make(values), lines: make(map[string]int)}
	w.mapping(root, "")
	l.merge(w.values, func(p string) string { return w.source(w.lines[p]) })
}

// readYAML returns the file's top mapping; nil when there is nothing in it.
func readYAML(path string) (*yaml.Node, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }()
	b, err := io.ReadAll(io.LimitReader(f, maxFile+1))
	if err != nil {
		return nil, err
	}
	if len(b) > maxFile {
		return nil, ErrFileTooLarge
	}
	return parseYAML(b)
}

func parseYAML(b []byte) (*yaml.Node, error) {
	dec := yaml.NewDecoder(bytes.NewReader(b))
	var doc yaml.Node
	switch err := dec.Decode(&doc); {
	case errors.Is(err, io.EOF):
		return nil, nil //nolint:nilnil // an empty file is a normal configuration
	case err != nil:
		return nil, err
	}
	if err := dec.Decode(new(yaml.Node)); !errors.Is(err, io.EOF) {
		if err != nil {
			return nil, err
		}
		return nil, ErrManyDocuments
	}
	root := doc.Content[0]
	if isNull(root) {
		return nil, nil //nolint:nilnil // as above
	}
	if root.Kind != yaml.MappingNode {
		return nil, ErrNotMapping
	}
	return root, nil
}

type yamlWalk struct {
	loader *loader
	name   string // of the file
	values values
	lines  map[string]int
}

func (w *yamlWalk) source(line int) string { return fmt.Sprintf("%s:%d", w.name, line) }

// mapping visits the keys of one section; prefix is empty or ends in a dot.
func (w *yamlWalk) mapping(node *yaml.Node, prefix string) {
	for i := 0; i+1 < len(node.Content); i += 2 {
		name, value := node.Content[i], node.Content[i+1]
		for value.Kind == yaml.AliasNode {
			value = value.Alias
		}
		w.entry(prefix+name.Value, name.Line, value)
	}
}

func (w *yamlWalk) entry(path string, line int, value *yaml.Node) {
	l := w.loader
	if first, ok := w.lines[path]; ok {
		l.fail(path, w.source(line), fmt.Errorf("%w: first on line %d", ErrDuplicate, first))
		return
	}
	w.lines[path] = line
	_, leaf := findKey(l.keys, path)
	switch {
	case leaf:
		var raw any
		if err := value.Decode(&raw); err != nil {
			l.fail(path, w.source(line), ErrWrongType) // yaml's own text would show the value
			return
		}
		if raw == nil {
			l.fail(path, w.source(line), ErrNoValue)
			return
		}
		w.values[path] = raw
	case !isSection(l.keys, path):
		l.fail(path, w.source(line), unknown("key", path, l.paths()))
	case value.Kind == yaml.MappingNode:
		w.mapping(value, path+".")
	case !isNull(value): // a section with nothing in it is one whose lines are all comments
		l.fail(path, w.source(line), fmt.Errorf("%w: settings go below it", ErrSection))
	}
}

func isNull(n *yaml.Node) bool { return n.Kind == yaml.ScalarNode && n.Tag == "!!null" }
