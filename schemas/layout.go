package schemas

import (
	"fmt"
	"strings"
)

// layout lists the fields of a schema in plain form as [datum] lists those it is told of: one line each,
// path and type, in the order of their bytes. path is where plain stands; named are the records seen so far.
func layout(path string, plain any, named map[string]any) ([]string, error) {
	switch s := plain.(type) {
	case string:
		if record, ok := named[s]; ok {
			return layout(path, record, named)
		}
		if isPrimitive(s) {
			return []string{path + " " + s}, nil
		}
	case []any:
		branches := make([]string, len(s))
		for i, b := range s {
			name, ok := b.(string)
			if !ok || !isPrimitive(name) {
				return nil, fmt.Errorf("%s is a union of more than primitives", path)
			}
			branches[i] = name
		}
		return []string{path + " " + strings.Join(branches, "|")}, nil
	case map[string]any:
		switch s["type"] {
		case "array":
			of := path
			if name, ok := s["items"].(string); ok && isPrimitive(name) {
				of += "." + item
			}
			lines, err := layout(of, s["items"], named)
			return append([]string{path + " array"}, lines...), err
		case "record":
			return recordLayout(path, s, named)
		}
	}
	return nil, fmt.Errorf("%s has the type %v, which is not used here", path, plain)
}

func recordLayout(path string, record map[string]any, named map[string]any) ([]string, error) {
	var all []string
	list, _ := record["fields"].([]any)
	for _, f := range list {
		field, _ := f.(map[string]any)
		name, _ := field["name"].(string)
		if path != "" {
			name = path + "." + name
		}
		lines, err := layout(name, field["type"], named)
		if err != nil {
			return nil, err
		}
		all = append(all, lines...)
	}
	name, _ := record["name"].(string)
	named[name] = record
	return all, nil
}
