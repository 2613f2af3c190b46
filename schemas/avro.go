package schemas

import (
	"embed"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/linkedin/goavro/v2"
)

//go:embed *.avsc
var schemaFiles embed.FS

// Bounds on a schema text that a registry hands in.
const (
	maxSchemaBytes = 256 << 10
	maxSchemaDepth = 64 // types within types
)

// schema is one version of one record's schema.
type schema struct {
	name        string // of its file, without .avsc: event.v1
	layout      []string
	fingerprint uint64
	// alias is the fingerprint that goavro computes of the schema as it stands in its
	// file, logical types and all: records that a Go producer writes with it carry that
	// one. Nothing is written with it here.
	alias uint64
}

// loadSchema compiles an embedded schema.
func loadSchema(name string) (*schema, error) {
	text, err := schemaFiles.ReadFile(name + ".avsc")
	if err != nil {
		return nil, fmt.Errorf("read schema: %w", err)
	}
	plain, codec, err := compile(string(text))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	asItStands, err := goavro.NewCodec(string(text))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	lines, err := layout("", plain, map[string]any{})
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	return &schema{name: name, layout: lines, fingerprint: codec.Rabin, alias: asItStands.Rabin}, nil
}

// compile builds a goavro codec from a schema text after bringing it to plain
// form, which it returns too. It survives texts that are not ours.
//
// The plain form is what Avro's fingerprint is defined on (Parsing Canonical
// Form: primitives in their simple form, full names, no other attributes).
// goavro's own leaves {"type":"long"} of a logical type standing, which gives
// another fingerprint than Avro's other implementations compute.
func compile(text string) (plain any, codec *goavro.Codec, err error) {
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("schema not understood: %v", r)
		}
	}()
	if len(text) > maxSchemaBytes {
		return nil, nil, tooLarge("schema text", len(text), maxSchemaBytes)
	}
	var parsed any
	if err := json.Unmarshal([]byte(text), &parsed); err != nil {
		return nil, nil, fmt.Errorf("schema is not JSON: %w", err)
	}
	if plain, err = plainForm(parsed, "", maxSchemaDepth); err != nil {
		return nil, nil, err
	}
	b, err := json.Marshal(plain)
	if err != nil {
		return nil, nil, fmt.Errorf("write plain schema: %w", err)
	}
	if codec, err = goavro.NewCodec(string(b)); err != nil {
		return nil, nil, fmt.Errorf("compile schema: %w", err)
	}
	return plain, codec, nil
}

func isPrimitive(name string) bool {
	switch name {
	case "null", "boolean", "int", "long", "float", "double", "bytes", "string":
		return true
	}
	return false
}

func fullName(name, namespace string) string {
	if namespace == "" || strings.Contains(name, ".") {
		return name
	}
	return namespace + "." + name
}

// plainForm brings a type to plain form; depth is how many types may be within it.
func plainForm(x any, namespace string, depth int) (any, error) {
	if depth == 0 {
		return nil, fmt.Errorf("schema is nested deeper than %d types", maxSchemaDepth)
	}
	switch s := x.(type) {
	case string:
		if isPrimitive(s) {
			return s, nil
		}
		return fullName(s, namespace), nil
	case []any:
		branches := make([]any, len(s))
		for i, b := range s {
			var err error
			if branches[i], err = plainForm(b, namespace, depth-1); err != nil {
				return nil, err
			}
		}
		return branches, nil
	case map[string]any:
		return plainObject(s, namespace, depth)
	}
	return nil, fmt.Errorf("schema holds a %T where a type is wanted", x)
}

func plainObject(s map[string]any, namespace string, depth int) (any, error) {
	kind, ok := s["type"].(string)
	if !ok { // {"type": {"type": ...}}
		return plainForm(s["type"], namespace, depth-1)
	}
	if isPrimitive(kind) {
		return kind, nil
	}
	name, _ := s["name"].(string)
	if ns, ok := s["namespace"].(string); ok {
		namespace = ns
	}
	name = fullName(name, namespace)
	if i := strings.LastIndexByte(name, '.'); i >= 0 {
		namespace = name[:i]
	}
	var err error
	switch kind {
	case "array", "map":
		key := map[string]string{"array": "items", "map": "values"}[kind]
		out := map[string]any{"type": kind}
		out[key], err = plainForm(s[key], namespace, depth-1)
		return out, err
	case "enum":
		return map[string]any{"type": kind, "name": name, "symbols": s["symbols"]}, nil
	case "fixed":
		return map[string]any{"type": kind, "name": name, "size": s["size"]}, nil
	case "record":
		list, ok := s["fields"].([]any)
		if !ok {
			return nil, errors.New("record without fields")
		}
		fields := make([]any, len(list))
		for i, f := range list {
			field, ok := f.(map[string]any)
			if !ok {
				return nil, errors.New("record field is not an object")
			}
			t, err := plainForm(field["type"], namespace, depth-1)
			if err != nil {
				return nil, err
			}
			fields[i] = map[string]any{"name": field["name"], "type": t}
		}
		return map[string]any{"type": kind, "name": name, "fields": fields}, nil
	}
	return fullName(kind, namespace), nil // {"type": "SomeNamedType"}
}
