package config_test

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/spf13/pflag"
	"github.com/stretchr/testify/require"

	"github.com/barnabas-webhooks/barnabas/internal/config"
)

// needed is what a deployment must set itself.
const needed = "endpoints: {secret_key: planted-secret}\napi: {keys: [entry]}\n"

func write(t *testing.T, content string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "barnabas.yaml")
	require.NoError(t, os.WriteFile(path, []byte(content), 0o600))
	return path
}

func flags(t *testing.T, dev bool, args ...string) *pflag.FlagSet {
	t.Helper()
	fs := pflag.NewFlagSet("test", pflag.ContinueOnError)
	config.BindFlags(fs, dev)
	require.NoError(t, fs.Parse(args))
	return fs
}

func TestDefault_IsValid(t *testing.T) {
	t.Parallel()
	def, dev := config.Default(), config.DefaultDev()
	require.NoError(t, def.Validate())
	require.NoError(t, dev.Validate())
	_, err := config.Load(config.Source{Dev: true})
	require.NoError(t, err, "dev starts without any setting")
}

func TestLoad_LaterSourcesWin(t *testing.T) {
	t.Parallel()
	file := write(t, needed+`
kafka:
  brokers: [file:1, file:2]
  client_id: file
topics:
  prefix: file.
limits:
  memory: 1GiB
  rate: 12.5
lanes:
  max_age: 7s
`)
	conf, err := config.Load(config.Source{
		File: file,
		Environ: []string{
			"PATH=/bin", "BARNABAS_KAFKA__CLIENT_ID=env", "BARNABAS_TOPICS__PREFIX=env.",
			"BARNABAS_KAFKA__BROKERS=env:1, env:2", "BARNABAS_LIMITS__IN_FLIGHT=77", "BARNABAS_METRICS__PPROF=true",
			"BARNABAS_CONFIG=ignored-here", "BARNABAS_URL=http://x", "BARNABAS_API_KEY=x", "BARNABAS_TEST_KAFKA=x",
		},
		Flags: flags(t, false, "--topic-prefix=flag.", "--set", "log.level=debug", "--set", "retry.caps=1s, 2s",
			"--set", "log.level=warn"),
	})
	require.NoError(t, err)
	require.Equal(t, []string{"env:1", "env:2"}, conf.Kafka.Brokers, "a list replaces the list of an earlier source")
	require.Equal(t, "env", conf.Kafka.ClientID)
	require.Equal(t, "flag.", conf.Topics.Prefix)
	require.Equal(t, config.GiB, conf.Limits.Memory)
	require.InDelta(t, 12.5, conf.Limits.Rate, 0)
	require.Equal(t, 77, conf.Limits.InFlight)
	require.True(t, conf.Metrics.Pprof)
	require.Equal(t, 7*time.Second, conf.Lanes.MaxAge)
	require.Equal(t, "warn", conf.Log.Level, "of a flag given twice the last counts")
	require.Equal(t, []time.Duration{time.Second, 2 * time.Second}, conf.Retry.Caps)
	require.Equal(t, 64, conf.Topics.Partitions, "what nobody gives is the default")
	require.Equal(t, "planted-secret", conf.Endpoints.SecretKey.Reveal())
}

func TestLoad_DevHasItsOwnDefaultsAndFlags(t *testing.T) {
	t.Parallel()
	conf, err := config.Load(config.Source{Dev: true, Flags: flags(t, true, "--data-dir=/tmp/x", "--broker-port", "0", "--listen=localhost:1")})
	require.NoError(t, err)
	require.Equal(t, 8, conf.Topics.Partitions)
	require.Equal(t, "/tmp/x", conf.Dev.DataDir)
	require.Equal(t, 0, conf.Dev.BrokerPort)
	require.Equal(t, "localhost:1", conf.API.Listen)
	require.True(t, conf.Egress.AllowLoopback)
}

// C-203 and its kind: every edge of a source is refused with the key, the place
// and the reason, or taken literally.
func TestLoad_RefusesWhatItDoesNotUnderstand(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		file    string
		environ []string
		flags   []string
		want    []string
	}{
		"unknown key":               {file: "kafka:\n  borkers: [a:1]\n", want: []string{"kafka.borkers (barnabas.yaml:2): unknown key; did you mean kafka.brokers?"}},
		"unknown section":           {file: "kafak:\n  brokers: [a:1]\n", want: []string{"kafak (barnabas.yaml:1): unknown key; did you mean kafka?"}},
		"unknown and far away":      {file: "zzzzzzzzzzzzzzzzzzzzzz: 1\n", want: []string{"config reference"}},
		"key with dots":             {file: "\"retry.lifetime.x\": 1h\n", want: []string{"retry.lifetime.x (barnabas.yaml:1): unknown key; did you mean retry.lifetime?"}},
		"key twice":                 {file: "roles: [api]\nroles: [api]\n", want: []string{"roles (barnabas.yaml:2): is given twice: first on line 1"}},
		"section twice":             {file: "kafka: {client_id: a}\nkafka: {client_id: b}\n", want: []string{"kafka (barnabas.yaml:2): is given twice"}},
		"dotted and nested":         {file: "log.level: info\nlog: {level: warn}\n", want: []string{"log.level (barnabas.yaml:2): is given twice"}},
		"key without value":         {file: "api:\n  listen:\n", want: []string{"api.listen (barnabas.yaml:2): has no value"}},
		"section is a value":        {file: "kafka: localhost\n", want: []string{"kafka (barnabas.yaml:1): is a section"}},
		"value is a section":        {file: "roles: {api: true}\n", want: []string{"roles (barnabas.yaml:1): is of the wrong type"}},
		"scalar for list":           {file: "retry: {caps: 5}\n", want: []string{"retry.caps", "a list is wanted"}},
		"list for scalar":           {file: "log: {level: [info]}\n", want: []string{"log.level", "one value is wanted"}},
		"number for text":           {file: "topics: {prefix: 12}\n", want: []string{"topics.prefix", "put it in quotes"}},
		"text for number":           {file: "topics: {partitions: many}\n", want: []string{"topics.partitions", "whole number"}},
		"fraction for number":       {file: "topics: {partitions: 1.5}\n", want: []string{"topics.partitions", "whole number"}},
		"yes for bool":              {file: "egress: {allow_http: \"yes\"}\n", want: []string{"egress.allow_http", "true or false"}},
		"duration without unit":     {file: "retry: {lifetime: 30}\n", want: []string{`retry.lifetime (barnabas.yaml:1): "30": a duration needs a unit`}},
		"quoted, without unit":      {file: "retry: {lifetime: \"30\"}\n", want: []string{"needs a unit"}},
		"in a list, without unit":   {file: "retry: {caps: [5s, 60]}\n", want: []string{"retry.caps", "item 2", "needs a unit"}},
		"duration in words":         {file: "retry: {lifetime: one day}\n", want: []string{"not a duration"}},
		"size":                      {file: "limits: {memory: lots}\n", want: []string{"limits.memory", "not a size"}},
		"negative size":             {file: "limits: {memory: -5MiB}\n", want: []string{"limits.memory", "negative"}},
		"not a number":              {file: "limits: {rate: .nan}\n", want: []string{"limits.rate", "a number is wanted"}},
		"infinite":                  {file: "limits: {rate: .inf}\n", want: []string{"limits.rate", "a number is wanted"}},
		"empty item in the file":    {file: "kafka: {brokers: [a:1, \"\"]}\n", want: []string{"kafka.brokers", "item 2 is an empty item"}},
		"null item":                 {file: "kafka:\n  brokers:\n    - a:1\n    -\n", want: []string{"item 2 is an empty item"}},
		"two documents":             {file: "roles: [api]\n---\nroles: [processor]\n", want: []string{"more than one YAML document"}},
		"a list at the top":         {file: "- a\n", want: []string{"not a mapping"}},
		"a text at the top":         {file: "hello\n", want: []string{"not a mapping"}},
		"not YAML":                  {file: "a: [\n", want: []string{"read configuration", "line"}},
		"too large":                 {file: strings.Repeat("# x\n", 1<<18+1), want: []string{"larger than 1 MiB"}},
		"secret is a number":        {file: "endpoints: {secret_key: 123456}\n", want: []string{"endpoints.secret_key", "put it in quotes"}},
		"unknown variable":          {environ: []string{"BARNABAS_KAFKA__BROKER=a:1"}, want: []string{"BARNABAS_KAFKA__BROKER (environment): unknown key; did you mean BARNABAS_KAFKA__BROKERS?"}},
		"single underscore":         {environ: []string{"BARNABAS_LOG_LEVEL=info"}, want: []string{"did you mean BARNABAS_LOG__LEVEL?"}},
		"misspelt, like a link":     {environ: []string{"BARNABAS_DEV__BROKR_PORT=1"}, want: []string{"did you mean BARNABAS_DEV__BROKER_PORT?"}},
		"variable without unit":     {environ: []string{"BARNABAS_LANES__MAX_AGE=5"}, want: []string{"lanes.max_age (environment)", "needs a unit"}},
		"trailing comma":            {environ: []string{"BARNABAS_KAFKA__BROKERS=a:1,"}, want: []string{"item 2 is an empty item"}},
		"empty variable":            {environ: []string{"BARNABAS_LANES__MAX_AGE="}, want: []string{"lanes.max_age (environment)"}},
		"empty list by variable":    {environ: []string{"BARNABAS_KAFKA__BROKERS="}, want: []string{"kafka.brokers (environment): at least one address"}},
		"empty list in the file":    {file: "roles: []\n", want: []string{"roles (barnabas.yaml:1): at least one is needed"}},
		"set without value":         {flags: []string{"--set", "log.level"}, want: []string{"log.level (--set): is not key=value"}},
		"set an unknown key":        {flags: []string{"--set", "log.lvel=info"}, want: []string{"did you mean log.level?"}},
		"set a section":             {flags: []string{"--set", "log=info"}, want: []string{"log (--set): is a section"}},
		"set a secret":              {flags: []string{"--set", "kafka.sasl.password=planted-secret"}, want: []string{"is a secret"}},
		"short flag":                {flags: []string{"--log-level=loud"}, want: []string{"log.level (--log-level)"}},
		"all problems at once":      {file: "a: 1\nretry: {lifetime: 30}\n", environ: []string{"BARNABAS_B=1"}, flags: []string{"--set", "c=1"}, want: []string{"a (barn", "retry.lifetime", "BARNABAS_B", "c (--set)"}},
		"invalid values with place": {file: "\nlog:\n  level: loud\n", want: []string{"log.level (barnabas.yaml:3): log level must be"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			src := config.Source{Environ: append(c.environ, "BARNABAS_ENDPOINTS__SECRET_KEY=planted-secret", "BARNABAS_API__KEYS=entry")}
			if strings.Contains(c.file, "secret_key") {
				src.Environ = c.environ
			}
			if c.file != "" {
				src.File = write(t, c.file)
			}
			src.Flags = flags(t, false, c.flags...)
			conf, err := config.Load(src)
			require.Error(t, err)
			require.Nil(t, conf)
			for _, want := range c.want {
				require.ErrorContains(t, err, want)
			}
			require.NotContains(t, err.Error(), "planted-secret")
		})
	}
}

func TestLoad_TakesLiterally(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		file    string
		environ []string
		check   func(*testing.T, *config.Config)
	}{
		"an empty file":          {file: "", check: func(*testing.T, *config.Config) {}},
		"nothing but comments":   {file: "# nothing\n", check: func(*testing.T, *config.Config) {}},
		"an empty section":       {file: "kafka:\n  # brokers: [a:1]\n", check: func(*testing.T, *config.Config) {}},
		"explicit null document": {file: "~\n", check: func(*testing.T, *config.Config) {}},
		"zero without a unit": {file: "api: {verdict_wait: 0}\n", check: func(t *testing.T, c *config.Config) {
			t.Helper()
			require.Zero(t, c.API.VerdictWait)
		}},
		"dotted keys": {file: "log.level: warn\n", check: func(t *testing.T, c *config.Config) {
			t.Helper()
			require.Equal(t, "warn", c.Log.Level)
		}},
		"anchors": {file: "retry:\n  caps: &c [1m]\n  tiers: *c\n", check: func(t *testing.T, c *config.Config) {
			t.Helper()
			require.Equal(t, []time.Duration{time.Minute}, c.Retry.Tiers)
		}},
		"empty text": {environ: []string{"BARNABAS_TOPICS__PREFIX="}, check: func(t *testing.T, c *config.Config) {
			t.Helper()
			require.Empty(t, c.Topics.Prefix)
		}},
		"spaces around list items": {environ: []string{"BARNABAS_EGRESS__ALLOW= 10.1.2.0/24 , fd00::/8,192.168.7.1"}, check: func(t *testing.T, c *config.Config) {
			t.Helper()
			require.Equal(t, []string{"10.1.2.0/24", "fd00::/8", "192.168.7.1"}, c.Egress.Allow) // C-177
		}},
		"an empty list": {environ: []string{"BARNABAS_EGRESS__ALLOW="}, check: func(t *testing.T, c *config.Config) {
			t.Helper()
			require.Empty(t, c.Egress.Allow)
		}},
		"a value with =": {environ: []string{"BARNABAS_KAFKA__CLIENT_ID=a=b"}, check: func(t *testing.T, c *config.Config) {
			t.Helper()
			require.Equal(t, "a=b", c.Kafka.ClientID)
		}},
		"what Kubernetes sets for a Service": {environ: []string{
			"BARNABAS_SERVICE_HOST=10.0.0.1", "BARNABAS_SERVICE_PORT=80", "BARNABAS_SERVICE_PORT_HTTP=80", "BARNABAS_PORT=tcp://10.0.0.1:80",
			"BARNABAS_PORT_80_TCP=tcp://10.0.0.1:80", "BARNABAS_PORT_80_TCP_PROTO=tcp", "BARNABAS_PORT_80_TCP_PORT=80",
			"BARNABAS_PORT_80_TCP_ADDR=10.0.0.1", "BARNABAS_METRICS_SERVICE_HOST=10.0.0.2", "BARNABAS_METRICS_PORT_9464_TCP=tcp://10.0.0.2:9464",
		}, check: func(*testing.T, *config.Config) {}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			conf, err := config.Load(config.Source{Dev: true, File: write(t, c.file), Environ: c.environ})
			require.NoError(t, err)
			c.check(t, conf)
		})
	}
}

func TestLoad_ServeAsksForItsKeys(t *testing.T) {
	t.Parallel()
	_, err := config.Load(config.Source{})
	require.ErrorContains(t, err, "endpoints.secret_key")
	require.ErrorContains(t, err, "api.keys")
	_, err = config.Load(config.Source{Environ: []string{"BARNABAS_ROLES=processor", "BARNABAS_ENDPOINTS__SECRET_KEY_FILE=/f"}})
	require.NoError(t, err, "a processor has no API keys")
	_, err = config.Load(config.Source{File: filepath.Join(t.TempDir(), "absent.yaml")})
	require.ErrorIs(t, err, os.ErrNotExist)
}

func TestLoad_DevStaysOnThisMachine(t *testing.T) {
	t.Parallel()
	for _, listen := range []string{":8080", "0.0.0.0:8080", "10.0.0.1:8080", "example.com:80", "[::]:80"} {
		_, err := config.Load(config.Source{Dev: true, Environ: []string{"BARNABAS_API__LISTEN=" + listen}})
		require.ErrorContains(t, err, "not loopback", listen)
	}
	for _, listen := range []string{"127.0.0.1:8080", "localhost:8080", "[::1]:80", "127.0.0.2:0"} {
		_, err := config.Load(config.Source{Dev: true, Environ: []string{"BARNABAS_API__LISTEN=" + listen}})
		require.NoError(t, err, listen)
	}
}

// Every key can be given by file, variable and flag, and has a meaning.
func TestKeys_AreCompleteAndReachable(t *testing.T) {
	t.Parallel()
	seen := map[string]bool{}
	for _, k := range config.Keys() {
		require.NotEmpty(t, k.Doc, k.Path)
		require.Regexp(t, `^[a-z_]+(\.[a-z_]+)*$`, k.Path)
		require.False(t, seen[k.Env()], "two keys share %s", k.Env())
		seen[k.Env()] = true
	}
	require.Contains(t, seen, "BARNABAS_KAFKA__TLS__CA_FILE")
	require.Greater(t, len(seen), 60)
}

// The reference says for every key what the loader really takes.
func TestReference_ListsEveryKey(t *testing.T) {
	t.Parallel()
	var b bytes.Buffer
	require.NoError(t, config.Reference(&b))
	for _, k := range config.Keys() {
		require.Contains(t, b.String(), "| `"+k.Path+"` | `"+k.Env()+"` |")
	}
	require.Contains(t, b.String(), "| duration | `26h` |")
	require.Contains(t, b.String(), "| size | `256MiB` |")
	require.Contains(t, b.String(), "| number | `64`, in dev `8` |")
	require.Contains(t, b.String(), "`5s, 1m, 10m, 1h, 6h, 6h, 6h, 6h`")
	require.NotContains(t, b.String(), "%!")
}

func TestConfig_FilesAreReadAndChecked(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	key, keys := filepath.Join(dir, "key"), filepath.Join(dir, "keys")
	require.NoError(t, os.WriteFile(key, []byte("planted-secret\n"), 0o600))
	require.NoError(t, os.WriteFile(keys, []byte("# people\n\n  one \ntwo\n"), 0o600))

	conf := config.Default()
	conf.Endpoints.SecretKeyFile, conf.API.KeysFile, conf.API.Keys = key, keys, []string{"zero"}
	require.NoError(t, conf.CheckFiles())
	secret, err := conf.Endpoints.Key()
	require.NoError(t, err)
	require.Equal(t, "planted-secret", secret.Reveal())
	entries, err := conf.API.Entries()
	require.NoError(t, err)
	require.Equal(t, []string{"zero", "one", "two"}, entries)

	require.NoError(t, os.WriteFile(key, []byte("\n"), 0o600))
	conf.Kafka.TLS.CAFile, conf.API.KeysFile, conf.Egress.CAFile = filepath.Join(dir, "absent"), dir, filepath.Join(dir, "absent2")
	err = conf.CheckFiles()
	for _, want := range []string{"kafka.tls.ca_file", "egress.ca_file", "api.keys_file", "is a directory", "secret file is empty"} {
		require.ErrorContains(t, err, want)
	}
}

func TestParseSize_RoundTrips(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]config.Size{
		"256MiB": 256 * config.MiB, "1 GiB": config.GiB, "900kib": 900 * config.KiB, "1.5KiB": 1536, "10MB": 10_000_000, "17": 17, "0": 0,
	} {
		got, err := config.ParseSize(text)
		require.NoError(t, err, text)
		require.Equal(t, want, got, text)
		back, err := config.ParseSize(got.String())
		require.NoError(t, err, text)
		require.Equal(t, got, back, "%s is shown as %s", text, got)
	}
	for _, text := range []string{"", "x", "-1", "1 potato", "99999999999EiB", "0x10"} {
		_, err := config.ParseSize(text)
		require.ErrorIs(t, err, config.ErrSize, text)
	}
}

func TestFilePath_FlagThenEnvironment(t *testing.T) {
	t.Parallel()
	env := []string{"A=1", "BARNABAS_CONFIG=/env"}
	require.Equal(t, "/flag", config.FilePath("/flag", env))
	require.Equal(t, "/env", config.FilePath("", env))
	require.Empty(t, config.FilePath("", nil))
}
