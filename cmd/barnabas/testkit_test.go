package main_test

import (
	"bytes"
	"context"
	"io"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/stretchr/testify/require"

	main "github.com/barnabas-webhooks/barnabas/cmd/barnabas"
	"github.com/barnabas-webhooks/barnabas/internal/config"
	"github.com/barnabas-webhooks/barnabas/internal/demo"
)

// outcome is what one command line came to.
type outcome struct {
	code        int
	out, stderr string
}

// world is what commands are run in.
type world struct {
	deps  main.Deps
	stdin string
}

// run executes a command line in-process.
func (w world) run(t *testing.T, args ...string) outcome {
	t.Helper()
	var out, stderr bytes.Buffer
	w.deps.In, w.deps.Out, w.deps.Err = strings.NewReader(w.stdin), &out, &stderr
	code := main.Execute(t.Context(), w.deps, args)
	return outcome{code: code, out: out.String(), stderr: stderr.String()}
}

// parts are stand-ins that fail the test when they are called unasked.
func parts(t *testing.T) main.Deps {
	t.Helper()
	return main.Deps{
		Serve: func(context.Context, *config.Config, string, io.Writer) error {
			t.Error("serve was started")
			return nil
		},
		Dev: func(context.Context, *config.Config, string, io.Writer, io.Writer) error {
			t.Error("dev was started")
			return nil
		},
		Check: func(*config.Config) error { t.Error("check was called"); return nil },
		Demo:  func(context.Context, demo.Options) error { t.Error("demo was started"); return nil },
	}
}

// commands lists the whole tree.
func commands(c *cobra.Command) []*cobra.Command {
	all := []*cobra.Command{c}
	for _, sub := range c.Commands() {
		all = append(all, commands(sub)...)
	}
	return all
}

// path is a command's words without the program's name.
func path(c *cobra.Command) []string { return strings.Fields(c.CommandPath())[1:] }

func requireCode(t *testing.T, want int, o outcome) {
	t.Helper()
	require.Equal(t, want, o.code, "stdout:\n%s\nstderr:\n%s", o.out, o.stderr)
}
