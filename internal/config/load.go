package config

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/knadh/koanf/v2"
	"github.com/spf13/pflag"
)

// Errors of keys, always inside a *KeyError.
var (
	ErrUnknownKey = errors.New("unknown key")
	ErrDuplicate  = errors.New("is given twice")
	ErrSection    = errors.New("is a section, not a setting")
)

// KeyError is one setting that cannot be used, with where it came from.
type KeyError struct {
	Key    string // "retry.lifetime"; of an unknown variable, its name
	Source string // "barnabas.yaml:12", "environment", "--set"; empty: the tree as a whole
	Err    error
}

func (e *KeyError) Error() string {
	if e.Source == "" {
		return fmt.Sprintf("%s: %v", e.Key, e.Err)
	}
	return fmt.Sprintf("%s (%s): %v", e.Key, e.Source, e.Err)
}

// Unwrap returns what is wrong with it.
func (e *KeyError) Unwrap() error { return e.Err }

// Source says where settings come from.
type Source struct {
	Dev     bool           // for barnabas dev: its defaults and its rules
	Client  bool           // for a command that only calls Kafka: what a process must have is not asked for
	File    string         // path of a YAML file; empty: none
	Environ []string       // as of os.Environ
	Flags   *pflag.FlagSet // with the flags of BindFlags; nil: none
}

// Load merges the sources and validates the outcome. The error joins every
// problem of every source; most are *KeyError.
func Load(s Source) (*Config, error) {
	l := loader{keys: Keys(), koanf: koanf.New("."), origin: make(map[string]string)}
	if s.File != "" {
		l.file(s.File)
	}
	l.environ(s.Environ)
	if s.Flags != nil {
		l.flags(s.Flags)
	}
	conf := Default()
	if s.Dev {
		conf = DefaultDev()
	}
	l.apply(&conf)
	if len(l.errs) > 0 {
		return nil, errors.Join(l.errs...)
	}
	if err := conf.validate(s, l.origin); err != nil {
		return nil, err
	}
	return &conf, nil
}

// loader gathers raw values by key, and where each came from.
type loader struct {
	keys   []Key
	koanf  *koanf.Koanf
	origin map[string]string // key path -> source of the value that counts
	errs   []error
}

func (l *loader) fail(key, source string, err error) {
	l.errs = append(l.errs, &KeyError{Key: key, Source: source, Err: err})
}

// values is a koanf.Provider of what one source gave, by key path.
type values map[string]any

var _ koanf.Provider = values(nil)

// Read implements koanf.Provider: the paths become a tree.
func (v values) Read() (map[string]any, error) {
	root := make(map[string]any)
	for path, value := range v {
		node, parts := root, strings.Split(path, ".")
		for _, part := range parts[:len(parts)-1] {
			next, ok := node[part].(map[string]any)
			if !ok {
				next = make(map[string]any)
				node[part] = next
			}
			node = next
		}
		node[parts[len(parts)-1]] = value
	}
	return root, nil
}

// ReadBytes implements koanf.Provider.
func (values) ReadBytes() ([]byte, error) { return nil, errors.ErrUnsupported }

// merge puts a source's values over those of the sources before it.
func (l *loader) merge(v values, source func(path string) string) {
	if err := l.koanf.Load(v, nil); err != nil {
		l.errs = append(l.errs, fmt.Errorf("merge configuration: %w", err))
		return
	}
	for path := range v {
		l.origin[path] = source(path)
	}
}

// unknown is the error of a key that is not in the tree.
func unknown(what, name string, known []string) error {
	if near := nearest(name, known); near != "" {
		return fmt.Errorf("%w; did you mean %s?", ErrUnknownKey, near)
	}
	return fmt.Errorf("%w: `barnabas config reference` lists every %s", ErrUnknownKey, what)
}

// paths lists the keys, and the sections that they are in.
func (l *loader) paths() []string {
	var out []string
	for _, k := range l.keys {
		for i, c := range k.Path {
			if section := k.Path[:i]; c == '.' && !slices.Contains(out, section) {
				out = append(out, section)
			}
		}
		out = append(out, k.Path)
	}
	return out
}

// apply sets the fields of the tree that any source gave.
func (l *loader) apply(conf *Config) {
	for _, k := range l.keys {
		if !l.koanf.Exists(k.Path) {
			continue
		}
		if err := set(k.field(conf), k, l.koanf.Get(k.Path)); err != nil {
			l.fail(k.Path, l.origin[k.Path], err)
		}
	}
}
