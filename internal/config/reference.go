package config

import (
	"fmt"
	"io"
	"reflect"
	"strings"
	"time"

	"github.com/barnabas-webhooks/barnabas/internal/secret"
)

// Reference writes docs/configuration.md: every key with its variable, default
// and meaning, from the tree itself.
func Reference(w io.Writer) error {
	var b strings.Builder
	b.WriteString(referenceHead)
	def, dev := Default(), DefaultDev()
	section := "\x00"
	for _, k := range Keys() {
		if s := sectionOf(k.Path); s != section {
			section = s
			title := s
			if s == "" {
				title = "Top level"
			}
			fmt.Fprintf(&b, "\n## %s\n\n| key | variable | type | default | meaning |\n|---|---|---|---|---|\n", title)
		}
		value := show(k.field(&def))
		if d := show(k.field(&dev)); d != value {
			value += ", in dev " + d
		}
		fmt.Fprintf(&b, "| `%s` | `%s` | %s | %s | %s |\n", k.Path, k.Env(), k.typeName(), value, strings.ReplaceAll(k.Doc, "|", `\|`))
	}
	_, err := io.WriteString(w, b.String())
	return err
}

const referenceHead = `# Configuration

<!-- Made by "barnabas config reference" from the field tags of internal/config. Do not edit. -->

A value is taken from the last of these that gives it: defaults, the YAML file (` + "`--config`" + ` or
` + "`BARNABAS_CONFIG`" + `), the environment, flags (` + "`--set key=value`" + `).

Unknown keys and unknown ` + "`BARNABAS_`" + ` variables are refused. Durations need a unit (` + "`500ms`, `30s`, `10m`, `26h`" + `);
sizes are like ` + "`256MiB`" + ` (or ` + "`10MB`" + `, powers of 1000; a bare number is bytes). In the environment and in flags, lists
are written with commas; an empty text is the empty list. Secrets cannot be given by flag.

` + "`barnabas serve --check-config`" + ` says what is wrong with a configuration without starting anything.
`

func sectionOf(path string) string {
	i := strings.LastIndexByte(path, '.')
	if i < 0 {
		return ""
	}
	return path[:i]
}

// show is a default as it would be written in the file.
func show(v reflect.Value) string {
	text := ""
	switch x := v.Interface().(type) {
	case secret.String:
		text = x.String()
	case time.Duration:
		text = short(x)
	case []time.Duration:
		items := make([]string, len(x))
		for i, d := range x {
			items[i] = short(d)
		}
		text = strings.Join(items, ", ")
	case []string:
		text = strings.Join(x, ", ")
	default:
		text = fmt.Sprint(x)
	}
	if text == "" {
		return "(empty)"
	}
	return "`" + text + "`"
}

// short drops the zero parts of a duration's text: 1h0m0s is 1h.
func short(d time.Duration) string {
	s := d.String()
	if strings.HasSuffix(s, "m0s") {
		s = strings.TrimSuffix(s, "0s")
	}
	if strings.HasSuffix(s, "h0m") {
		s = strings.TrimSuffix(s, "0m")
	}
	return s
}
