package process

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"
)

const (
	// askPatience bounds one question to a process's operators' listener.
	askPatience = 5 * time.Second
	// askEvery is how often it is asked whether it is ready.
	askEvery = 10 * time.Millisecond
)

// ErrEnded is a process that ended by itself.
var ErrEnded = errors.New("ended by itself")

// AwaitReady waits until the process says at /readyz of addr, its operators' listener, that it is ready.
func (p *Process) AwaitReady(ctx context.Context, addr string) error {
	for {
		if IsReady(ctx, addr) {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("%s is not ready, see %s: %w", p.Name, p.Log, ctx.Err())
		case <-p.Done:
			return fmt.Errorf("%s %w with exit code %d, see %s", p.Name, ErrEnded, p.Code, p.Log)
		case <-time.After(askEvery):
		}
	}
}

// IsReady says whether the process whose operators' listener has this address says that it is ready.
func IsReady(ctx context.Context, addr string) bool {
	ctx, cancel := context.WithTimeout(ctx, askPatience)
	defer cancel()
	return Fetch(ctx, "http://"+addr+"/readyz", io.Discard) == nil
}

// Fetch writes what a URL answers to w. Another status than 200 is an error.
func Fetch(ctx context.Context, url string, w io.Writer) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, http.NoBody)
	if err != nil {
		return fmt.Errorf("ask %s: %w", url, err)
	}
	resp, err := (&http.Client{}).Do(req)
	if err != nil {
		return fmt.Errorf("ask %s: %w", url, err)
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("ask %s: %s", url, resp.Status)
	}
	if _, err := io.Copy(w, resp.Body); err != nil {
		return fmt.Errorf("ask %s: %w", url, err)
	}
	return nil
}

// Scrape reads the metrics of addr, a process's operators' listener: each series under its name with its labels, and
// under the name alone the sum over the labels.
func Scrape(ctx context.Context, addr string) (map[string]float64, error) {
	ctx, cancel := context.WithTimeout(ctx, askPatience)
	defer cancel()
	read, write := io.Pipe()
	go func() { write.CloseWithError(Fetch(ctx, "http://"+addr+"/metrics", write)) }()
	defer read.Close() //nolint:errcheck // a pipe in memory
	return ParseMetrics(read)
}

// ParseMetrics reads Prometheus's text form.
func ParseMetrics(r io.Reader) (map[string]float64, error) {
	values := map[string]float64{}
	lines := bufio.NewScanner(r)
	for lines.Scan() {
		line := lines.Text()
		space := strings.LastIndexByte(line, ' ')
		if space < 0 || line[0] == '#' {
			continue
		}
		v, err := strconv.ParseFloat(line[space+1:], 64)
		if err != nil {
			continue
		}
		name, labels, _ := strings.Cut(line[:space], "{")
		values[name] += v
		if labels != "" {
			values[line[:space]] = v
		}
	}
	if err := lines.Err(); err != nil {
		return nil, fmt.Errorf("read metrics: %w", err)
	}
	return values, nil
}
