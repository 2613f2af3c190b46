package docs_test

import (
	"bytes"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/barnabas-webhooks/barnabas/internal/config"
	"github.com/barnabas-webhooks/barnabas/internal/testkit/golden"
)

// docs/configuration.md is the tree of settings, key by key.
func TestDocs_Configuration(t *testing.T) {
	t.Parallel()
	var b bytes.Buffer
	require.NoError(t, config.Reference(&b))
	golden.Check(t, filepath.Join(root(t), "docs", "configuration.md"), b.Bytes())
}

// docs/metrics.md is what a process shows at /metrics, in words of the metrics themselves.
func TestDocs_Metrics(t *testing.T) {
	t.Parallel()
	golden.Check(t, filepath.Join(root(t), "docs", "metrics.md"), []byte(metricsPage(metricFamilies(t))))
}

const metricsHead = `# Metrics

<!-- Made by "make docs" from what a running process shows. Do not edit. -->

A process serves these at ` + "`/metrics`" + ` on ` + "`metrics.listen`" + ` (see [configuration](configuration.md#metrics)),
beside the Go runtime's (` + "`go_*`" + `) and the process's own (` + "`process_*`" + `). What to make of them, and which to alert on,
is in the [runbook](runbook.md#metrics-what-each-means); ready-made rules and a dashboard are in
[deploy/prometheus](../deploy/prometheus/alerts.yml) and [deploy/grafana](../deploy/grafana/barnabas.json).

Label values come from closed sets, and every series is there at zero from the start: ` + "`rate()`" + ` and alerts work on the first
event. No endpoint id, tenant or URL is ever a label; the log has them.
`

// metricsPage writes the table.
func metricsPage(all map[string]family) string {
	var b strings.Builder
	b.WriteString(metricsHead)
	for _, part := range []struct {
		title, prefix string
	}{
		{"The processor, and the process", "barnabas_"},
		{"The API", "barnabas_api_"},
	} {
		fmt.Fprintf(&b, "\n## %s\n\n| metric | type | labels | meaning |\n|---|---|---|---|\n", part.title)
		for _, name := range slices.Sorted(maps.Keys(all)) {
			if strings.HasPrefix(name, "barnabas_api_") != (part.prefix == "barnabas_api_") {
				continue
			}
			f := all[name]
			fmt.Fprintf(&b, "| `%s` | %s | %s | %s |\n", name, f.Type, labels(f), strings.ReplaceAll(f.Help, "|", `\|`))
		}
	}
	return b.String()
}

// open are the labels whose values depend on the installation.
func open(label string) bool {
	return slices.Contains([]string{"topic", "version", "commit", "goversion"}, label)
}

func labels(f family) string {
	var parts []string
	for _, label := range slices.Sorted(maps.Keys(f.Labels)) {
		if open(label) {
			parts = append(parts, "`"+label+"`")
			continue
		}
		parts = append(parts, "`"+label+"`: "+strings.Join(f.Labels[label], ", "))
	}
	return strings.Join(parts, "; ")
}
