package config_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/barnabas-webhooks/barnabas/internal/config"
)

// FuzzLoad: any file and variable is refused with a reason or gives a valid
// configuration, and a secret in it is never in the error.
func FuzzLoad(f *testing.F) {
	f.Add("kafka:\n  brokers: [a:1]\n", "BARNABAS_RETRY__CAPS=1s,2s")
	f.Add("a: &a [*a]\n", "BARNABAS_=")
	f.Add("endpoints:\n  secret_key: [planted-secret]\n", "BARNABAS_KAFKA__SASL__PASSWORD=planted-secret")
	f.Add("? {a: b}\n: c\n", "BARNABAS_LIMITS__MEMORY=1e99GiB")
	f.Add("<<: {log: {level: info}}\n", "BARNABAS_LIMITS__RATE=0x1p-2")
	f.Fuzz(func(t *testing.T, file, variable string) {
		path := filepath.Join(t.TempDir(), "f.yaml")
		require.NoError(t, os.WriteFile(path, []byte(file), 0o600))
		conf, err := config.Load(config.Source{Dev: true, File: path, Environ: []string{variable, "BARNABAS_EGRESS__PROXY=planted-secret"}})
		if err == nil {
			require.NoError(t, conf.Validate())
			return
		}
		require.NotEmpty(t, err.Error())
		if !strings.Contains(file+variable, "planted") {
			require.NotContains(t, err.Error(), "planted")
		}
	})
}
