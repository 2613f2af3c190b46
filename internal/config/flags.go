package config

import (
	"errors"
	"reflect"
	"slices"
	"strings"

	"github.com/spf13/pflag"

	"github.com/barnabas-webhooks/barnabas/internal/secret"
)

// FlagSet is the name of the flag that gives any setting.
const FlagSet = "set"

// Errors of flags, always inside a *KeyError.
var (
	ErrNotAssignment = errors.New("is not key=value")
	ErrSecretFlag    = errors.New("is a secret: other users of the machine can read flags; give it by file or environment")
)

// Short is a flag for a setting that is given often.
type Short struct{ Flag, Path, Usage string }

// shorts are the flags beside --set: those of both commands, then those of dev only.
func shorts(dev bool) []Short {
	common := []Short{
		{"listen", "api.listen", "address of the API"},
		{"metrics-listen", "metrics.listen", "address of /metrics, /healthz and /readyz"},
		{"topic-prefix", "topics.prefix", "start of every topic name"},
		{"log-level", "log.level", "debug, info, warn or error"},
		{"log-format", "log.format", "text or json"},
	}
	if dev {
		return append(common,
			Short{"data-dir", "dev.data_dir", "directory of the embedded broker's data"},
			Short{"broker-port", "dev.broker_port", "port of the embedded broker; 0: any free one"})
	}
	return append(common,
		Short{"brokers", "kafka.brokers", "bootstrap addresses, host:port, with commas"},
		Short{"roles", "roles", "what this process does: api, processor, or both with a comma"})
}

// BindFlags adds --set and the short flags to a command. Their defaults are not
// shown: what counts where a flag is not given may come from file or environment.
func BindFlags(fs *pflag.FlagSet, dev bool) {
	fs.StringArray(FlagSet, nil, "any setting, as `key=value`; may be repeated")
	for _, s := range shorts(dev) {
		fs.String(s.Flag, "", s.Usage+" (setting "+s.Path+")")
	}
}

// BindClientFlags adds --set and the flags that say where Kafka is and how topics
// are called: for commands that only call Kafka.
func BindClientFlags(fs *pflag.FlagSet) {
	fs.StringArray(FlagSet, nil, "any setting, as `key=value`; may be repeated")
	for _, s := range shorts(false) {
		if s.Path == "kafka.brokers" || s.Path == "topics.prefix" {
			fs.String(s.Flag, "", s.Usage+" (setting "+s.Path+")")
		}
	}
}

// flags reads what was given on the command line.
func (l *loader) flags(fs *pflag.FlagSet) {
	found := make(values)
	origin := make(map[string]string)
	for _, s := range slices.Concat(shorts(false), shorts(true)) {
		if f := fs.Lookup(s.Flag); f != nil && f.Changed {
			found[s.Path], origin[s.Path] = f.Value.String(), "--"+s.Flag
		}
	}
	if fs.Lookup(FlagSet) != nil {
		assignments, err := fs.GetStringArray(FlagSet)
		if err != nil {
			l.errs = append(l.errs, err)
		}
		for _, a := range assignments {
			l.assign(a, found, origin)
		}
	}
	l.merge(found, func(path string) string { return origin[path] })
}

func (l *loader) assign(assignment string, found values, origin map[string]string) {
	const source = "--" + FlagSet
	path, value, ok := strings.Cut(assignment, "=")
	path = strings.TrimSpace(path)
	k, known := findKey(l.keys, path)
	switch {
	case !ok:
		l.fail(path, source, ErrNotAssignment)
	case isSection(l.keys, path):
		l.fail(path, source, ErrSection)
	case !known:
		l.fail(path, source, unknown("key", path, l.paths()))
	case k.Type == reflect.TypeFor[secret.String]():
		l.fail(path, source, ErrSecretFlag)
	default:
		found[path], origin[path] = value, source
	}
}
