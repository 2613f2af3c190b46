package config

import (
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/barnabas-webhooks/barnabas/internal/secret"
)

// EnvPrefix starts the name of every environment variable of Barnabas.
const EnvPrefix = "BARNABAS_"

// Key is one setting, as the loader and the reference see it.
type Key struct {
	Path  string // "kafka.tls.ca_file"
	Doc   string
	Type  reflect.Type
	index []int
}

// Env is the name of the setting's environment variable.
func (k Key) Env() string {
	return EnvPrefix + strings.ToUpper(strings.ReplaceAll(k.Path, ".", "__"))
}

// Keys lists every setting, in the order of the tree.
func Keys() []Key { return keysOf(reflect.TypeFor[Config](), "", nil) }

func keysOf(t reflect.Type, prefix string, index []int) []Key {
	var out []Key
	for f := range t.Fields() {
		name := f.Tag.Get("koanf")
		if name == "-" || name == "" {
			continue
		}
		at := append(slices.Clone(index), f.Index...)
		if f.Type.Kind() == reflect.Struct {
			out = append(out, keysOf(f.Type, prefix+name+".", at)...)
			continue
		}
		out = append(out, Key{Path: prefix + name, Doc: f.Tag.Get("doc"), Type: f.Type, index: at})
	}
	return out
}

// field is the setting's place in c, to be set.
func (k Key) field(c *Config) reflect.Value { return reflect.ValueOf(c).Elem().FieldByIndex(k.index) }

// isList says that the value is a list, which one text gives with commas.
func (k Key) isList() bool { return k.Type.Kind() == reflect.Slice }

// isSection says that path is an inner node of the tree.
func isSection(keys []Key, path string) bool {
	return slices.ContainsFunc(keys, func(k Key) bool { return strings.HasPrefix(k.Path, path+".") })
}

func findKey(keys []Key, path string) (Key, bool) {
	i := slices.IndexFunc(keys, func(k Key) bool { return k.Path == path })
	if i < 0 {
		return Key{}, false
	}
	return keys[i], true
}

// typeName is the kind of value that a setting takes, for people.
func (k Key) typeName() string {
	switch k.Type {
	case reflect.TypeFor[time.Duration]():
		return "duration"
	case reflect.TypeFor[[]time.Duration]():
		return "list of durations"
	case reflect.TypeFor[Size]():
		return "size"
	case reflect.TypeFor[secret.String]():
		return "secret"
	case reflect.TypeFor[[]string]():
		return "list of texts"
	}
	switch k.Type.Kind() {
	case reflect.Bool:
		return "true or false"
	case reflect.Int, reflect.Float64:
		return "number"
	default:
		return "text"
	}
}

// nearest is the candidate that s most likely meant; empty when none is near.
func nearest(s string, candidates []string) string {
	best, bestDistance := "", len(s)/2+1
	for _, c := range candidates {
		if d := distance(s, c); d < bestDistance {
			best, bestDistance = c, d
		}
	}
	return best
}

// distance is Levenshtein's: how many letters to add, drop or change.
func distance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := 1; i <= len(a); i++ {
		diagonal := row[0]
		row[0] = i
		for j := 1; j <= len(b); j++ {
			cost := diagonal
			if a[i-1] != b[j-1] {
				cost++
			}
			diagonal = row[j]
			row[j] = min(cost, row[j]+1, row[j-1]+1)
		}
	}
	return row[len(b)]
}
