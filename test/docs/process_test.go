package docs_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/barnabas-webhooks/barnabas/internal/app"
	"github.com/barnabas-webhooks/barnabas/internal/config"
	"github.com/barnabas-webhooks/barnabas/internal/devbroker"
	"github.com/barnabas-webhooks/barnabas/internal/secret"
)

// family is one metric as a scrape shows it.
type family struct {
	Name, Type, Help string
	Labels           map[string][]string // values that were there at the start, sorted
}

// families scrapes a process that has just started: every series of a closed set
// is there at zero by then (C-211).
var families = sync.OnceValues(func() (map[string]family, error) { return scrapeOnce() })

// metricFamilies are those of Barnabas itself.
func metricFamilies(t *testing.T) map[string]family {
	t.Helper()
	all, err := families()
	require.NoError(t, err)
	return all
}

// addresses takes the listeners' addresses out of the log.
type addresses struct{ found chan string }

// Write implements io.Writer for a JSON log.
func (a addresses) Write(line []byte) (int, error) {
	var entry struct{ Msg, Addr string }
	if json.Unmarshal(line, &entry) == nil && entry.Msg == "metrics listen" {
		a.found <- entry.Addr
	}
	return len(line), nil
}

// scrapeOnce runs a process with both roles on the embedded broker until it is ready
// and shows the last metric that it registers.
func scrapeOnce() (all map[string]family, err error) {
	dir, remove, err := tempDir()
	if err != nil {
		return nil, err
	}
	defer remove()
	broker, err := devbroker.Start(devbroker.Options{Dir: dir})
	if err != nil {
		return nil, err
	}
	defer func() { _ = broker.Close() }()
	cfg := config.DefaultDev()
	cfg.Kafka.Brokers = []string{broker.Addr()}
	cfg.API.Listen, cfg.Metrics.Listen = "127.0.0.1:0", "127.0.0.1:0"
	cfg.Endpoints.SecretKey = secret.String("MDEyMzQ1Njc4OTAxMjM0NTY3ODkwMTIzNDU2Nzg5MDE=")
	listens := addresses{make(chan string, 1)}
	a, err := app.New(&cfg, app.Options{Log: slog.New(slog.NewJSONHandler(listens, nil)), Version: "docs"})
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	ended := make(chan error, 1)
	go func() { ended <- a.Run(ctx); close(ended) }()
	defer func() {
		cancel()
		err = errors.Join(err, <-ended)
	}()

	select {
	case addr := <-listens.found:
		// Ready, so that it stops as a process does that has started.
		if _, err := await(ctx, "http://"+addr+"/readyz", func([]byte) bool { return true }); err != nil {
			return nil, err
		}
		text, err := await(ctx, "http://"+addr+"/metrics", func(text []byte) bool {
			return bytes.Contains(text, []byte("barnabas_group_lag_failures_total")) // registered last: see watchLag of internal/app
		})
		return parse(text), err
	case err := <-ended:
		return nil, fmt.Errorf("it ended by itself: %w", err)
	}
}

// await asks until the answer is 200 and as it is wanted.
func await(ctx context.Context, url string, wanted func(body []byte) bool) ([]byte, error) {
	client := &http.Client{Timeout: 10 * time.Second}
	defer client.CloseIdleConnections()
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for {
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, http.NoBody)
		if err != nil {
			return nil, err
		}
		resp, err := client.Do(req)
		if err != nil {
			return nil, err
		}
		body, err := io.ReadAll(resp.Body)
		_ = resp.Body.Close()
		if err != nil || resp.StatusCode == http.StatusOK && wanted(body) {
			return body, err
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

var (
	headLine   = regexp.MustCompile(`^# (HELP|TYPE) (barnabas_\w+) (.*)$`)
	seriesLine = regexp.MustCompile(`^(barnabas_\w+)\{(.*)\} `)
	labelPair  = regexp.MustCompile(`(\w+)="((?:[^"\\]|\\.)*)"`)
)

// parse reads the text format as far as it is needed here.
func parse(text []byte) map[string]family {
	all := map[string]family{}
	lines := bufio.NewScanner(bytes.NewReader(text))
	for lines.Scan() {
		if m := headLine.FindStringSubmatch(lines.Text()); m != nil {
			f := all[m[2]]
			f.Name = m[2]
			if m[1] == "HELP" {
				f.Help = m[3]
			} else {
				f.Type = m[3]
			}
			all[m[2]] = f
			continue
		}
		m := seriesLine.FindStringSubmatch(lines.Text())
		if m == nil {
			continue
		}
		f, ok := all[familyOf(m[1], all)]
		if !ok {
			continue
		}
		for _, pair := range labelPair.FindAllStringSubmatch(m[2], -1) {
			if pair[1] == "le" {
				continue
			}
			if f.Labels == nil {
				f.Labels = map[string][]string{}
			}
			if !slices.Contains(f.Labels[pair[1]], pair[2]) {
				f.Labels[pair[1]] = append(f.Labels[pair[1]], pair[2])
				slices.Sort(f.Labels[pair[1]])
			}
		}
		all[f.Name] = f
	}
	return all
}

// familyOf is the metric that a series belongs to: a histogram has three of them.
func familyOf(series string, all map[string]family) string {
	if _, ok := all[series]; ok {
		return series
	}
	for _, suffix := range []string{"_bucket", "_sum", "_count"} {
		if name, cut := strings.CutSuffix(series, suffix); cut && all[name].Type == "histogram" {
			return name
		}
	}
	return series
}
