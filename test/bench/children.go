package bench

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"path/filepath"
	"time"

	"github.com/barnabas-webhooks/barnabas/test/process"
)

// child is a process of this benchmark's own.
type child struct {
	*process.Process
	listen  string // address
	control string // address
}

// startChild runs one and returns when it answers.
func (m *run) startChild(ctx context.Context, name string, args ...string) (*child, error) {
	c := &child{}
	for _, addr := range []*string{&c.listen, &c.control} {
		var err error
		if *addr, err = process.FreeAddr(m.taken); err != nil {
			return nil, err
		}
	}
	args = append([]string{name, "-listen", c.listen, "-control", c.control}, args...)
	var err error
	if c.Process, err = process.Start(name, m.Self, filepath.Join(m.dir, name+".log"), args...); err != nil {
		return nil, err
	}
	for until := time.Now().Add(answerPatience); ; {
		if err = c.reset(ctx); err == nil {
			return c, nil
		}
		if !c.Running() || time.Now().After(until) || !process.Pause(ctx, pollEvery) {
			return nil, fmt.Errorf("%s does not answer, see %s: %w", name, c.Log, err)
		}
	}
}

// answerPatience bounds the start of a child.
const answerPatience = 20 * time.Second

// url is where endpoints are that answer after a while; their names come after it.
func (c *child) url(wait time.Duration) string {
	return fmt.Sprintf("http://%s/%d/", c.listen, wait.Milliseconds())
}

// hangURL is where endpoints are that never answer.
func (c *child) hangURL() string { return "http://" + c.listen + "/" + hangPath + "/" }

func (c *child) ask(ctx context.Context, question string, answer any) error {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	var text bytes.Buffer
	if err := process.Fetch(ctx, "http://"+c.control+"/"+question, &text); err != nil {
		return err
	}
	if err := json.Unmarshal(text.Bytes(), answer); err != nil {
		return fmt.Errorf("%s of %s: %w", question, c.Name, err)
	}
	return nil
}

func (c *child) reset(ctx context.Context) error { return c.ask(ctx, "reset", &struct{}{}) }

func (c *child) count(ctx context.Context) (n Count, err error) {
	err = c.ask(ctx, "count", &n)
	return n, err
}

func (c *child) report(ctx context.Context) (r *Report, err error) {
	r = &Report{}
	err = c.ask(ctx, "report", r)
	return r, err
}
