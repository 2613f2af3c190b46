package docs_test

import (
	"encoding/json"
	"maps"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

const (
	alertsFile    = "deploy/prometheus/alerts.yml"
	dashboardFile = "deploy/grafana/barnabas.json"
)

var (
	metricName = regexp.MustCompile(`\bbarnabas_[a-z0-9_]+\b`)
	selector   = regexp.MustCompile(`\b(barnabas_[a-z0-9_]+)\{([^}]*)\}`)
	matcher    = regexp.MustCompile(`(\w+)\s*(=~|!~|!=|=)\s*"([^"]*)"`)
)

// checkMetrics holds every metric that a text names, and every label of its selectors, to what a process shows.
func checkMetrics(t *testing.T, where, text string) (found int) {
	t.Helper()
	all := metricFamilies(t)
	for _, name := range metricName.FindAllString(text, -1) {
		found++
		if _, ok := all[familyOf(name, all)]; !ok {
			t.Errorf("%s: there is no metric %s", where, name)
		}
	}
	for _, s := range selector.FindAllStringSubmatch(text, -1) {
		f := all[familyOf(s[1], all)]
		for _, m := range matcher.FindAllStringSubmatch(s[2], -1) {
			label, operator, value := m[1], m[2], m[3]
			values, ok := f.Labels[label]
			switch {
			case slices.Contains([]string{"job", "instance", "le"}, label):
				continue // Prometheus's own, and a histogram's
			case !ok:
				t.Errorf("%s: %s has no label %s", where, s[1], label)
			case strings.HasPrefix(value, "$"):
				continue // a dashboard's variable
			case operator == "=~" || operator == "!~":
				// Each alternative must choose something, or it is a value that is not there.
				alternatives := []string{value}
				if !strings.Contains(value, "(") {
					alternatives = strings.Split(value, "|")
				}
				for _, alternative := range alternatives {
					re, err := regexp.Compile("^(?:" + strings.ReplaceAll(alternative, `\\`, `\`) + ")$")
					require.NoError(t, err, where)
					if !slices.ContainsFunc(values, re.MatchString) {
						t.Errorf("%s: no %s of %s matches %q", where, label, s[1], alternative)
					}
				}
			case !slices.Contains(values, value):
				t.Errorf("%s: %s has no %s %q", where, s[1], label, value)
			}
		}
	}
	return found
}

func TestPages_NameMetricsThatExist(t *testing.T) {
	t.Parallel()
	for _, p := range pages(t) {
		text := p.Prose
		for _, b := range p.Code {
			text += b.Text
		}
		checkMetrics(t, p.Name, text)
	}
}

func TestAlerts_UseMetricsThatExist(t *testing.T) {
	t.Parallel()
	text := read(t, alertsFile)
	require.Greater(t, checkMetrics(t, alertsFile, text), 10)
	// Each alert leads to a part of the runbook; that the anchor exists is checked here, as it is no Markdown link.
	var runbook page
	for _, p := range pages(t) {
		if p.Name == "docs/runbook.md" {
			runbook = p
		}
	}
	alerts := regexp.MustCompile(`(?m)^\s*- alert: (\w+)$`).FindAllStringSubmatch(text, -1)
	links := regexp.MustCompile(`(?m)^\s*runbook_url: \S+docs/runbook\.md#(\S+?)"?$`).FindAllStringSubmatch(text, -1)
	require.NotEmpty(t, alerts)
	require.Len(t, links, len(alerts), "an alert without a way to its remedy")
	for _, l := range links {
		require.Contains(t, runbook.slugs(), l[1])
	}
	for _, a := range alerts {
		require.Contains(t, runbook.Prose, "`"+a[1]+"`", "the runbook says nothing of the alert")
	}
}

func TestDashboard_UsesMetricsThatExist(t *testing.T) {
	t.Parallel()
	var dashboard struct {
		UID    string
		Panels []struct {
			ID      int
			Type    string
			Title   string
			GridPos struct{ X, Y, W, H int }
			Targets []struct{ Expr, RefID string }
		}
	}
	require.NoError(t, json.Unmarshal([]byte(read(t, dashboardFile)), &dashboard))
	require.NotEmpty(t, dashboard.UID)
	found, ids := 0, map[int]bool{}
	for _, p := range dashboard.Panels {
		require.NotEmpty(t, p.Title)
		require.False(t, ids[p.ID], "panel id %d is there twice", p.ID)
		ids[p.ID] = true
		require.LessOrEqual(t, p.GridPos.X+p.GridPos.W, 24, p.Title)
		if p.Type != "row" {
			require.NotEmpty(t, p.Targets, p.Title)
		}
		for _, target := range p.Targets {
			found += checkMetrics(t, p.Title, target.Expr)
		}
	}
	require.Greater(t, found, 20)
}

// The runbook says what each metric means for an operator; the contract, what each answer and ending is.
func TestPages_LeaveNothingOut(t *testing.T) {
	t.Parallel()
	all := metricFamilies(t)
	explains := func(page string, names ...string) {
		text := read(t, page)
		for _, name := range names {
			if !strings.Contains(text, "`"+name+"`") {
				t.Errorf("%s says nothing of %s", page, name)
			}
		}
	}
	explains("docs/runbook.md", slices.Collect(maps.Keys(all))...)
	explains("docs/runbook.md", all["barnabas_dead_letters_total"].Labels["reason"]...)
	explains("docs/runbook.md", all["barnabas_holds_total"].Labels["reason"]...)
	explains("docs/contract.md", all["barnabas_attempts_total"].Labels["class"]...)
	explains("docs/contract.md", all["barnabas_api_problems_total"].Labels["reason"]...)
}
