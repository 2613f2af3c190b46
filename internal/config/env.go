package config

import (
	"regexp"
	"slices"
	"strings"
)

// Environment variables of Barnabas that are not settings of the tree.
const (
	EnvConfig = "BARNABAS_CONFIG"  // path of the configuration file, where --config is not given
	EnvURL    = "BARNABAS_URL"     // of the API, for the commands that call it
	EnvAPIKey = "BARNABAS_API_KEY" //nolint:gosec // the name of a variable, not a key
)

// envTests starts the variables that steer Barnabas's own tests; a process under
// test inherits them.
const envTests = "BARNABAS_TEST_"

// OtherEnv lists the variables that are not settings.
func OtherEnv() []string { return []string{EnvConfig, EnvURL, EnvAPIKey} }

// environ reads the variables that start with BARNABAS_.
func (l *loader) environ(environ []string) {
	known := OtherEnv()
	byEnv := make(map[string]Key, len(l.keys))
	for _, k := range l.keys {
		byEnv[k.Env()] = k
		known = append(known, k.Env())
	}
	found := make(values)
	for _, entry := range environ {
		name, value, _ := strings.Cut(entry, "=")
		if !strings.HasPrefix(name, EnvPrefix) || isForeign(name) {
			continue
		}
		k, ok := byEnv[name]
		if !ok {
			l.fail(name, "environment", unknown("variable", name, known))
			continue
		}
		found[k.Path] = value
	}
	l.merge(found, func(path string) string { return "environment" })
}

// serviceLink is the name of a variable that Kubernetes puts into every pod for a
// Service called barnabas or barnabas-something. They are nobody's settings, and
// refusing them would keep the process from starting there.
const serviceLink = `^BARNABAS(_[A-Z0-9]+)*_(SERVICE_HOST|SERVICE_PORT(_[A-Z0-9]+)*|PORT|PORT_[0-9]+_(TCP|UDP|SCTP)(_(PROTO|PORT|ADDR))?)$`

// isForeign says that a variable with our prefix is not meant as a setting. The
// names of settings below a section hold "__", which no service link does, so a
// misspelt setting is not taken for one.
func isForeign(name string) bool {
	return slices.Contains(OtherEnv(), name) || strings.HasPrefix(name, envTests) ||
		regexp.MustCompile(serviceLink).MatchString(name)
}

// FilePath is the path of the configuration file: the flag's value, else the environment's.
func FilePath(flag string, environ []string) string {
	if flag != "" {
		return flag
	}
	for _, entry := range environ {
		if value, ok := strings.CutPrefix(entry, EnvConfig+"="); ok {
			return value
		}
	}
	return ""
}
