package main_test

import (
	"bytes"
	"context"
	"net"
	"os"
	"strings"
	"syscall"
	"testing"

	"github.com/spf13/pflag"
	"github.com/stretchr/testify/require"

	main "github.com/barnabas-webhooks/barnabas/cmd/barnabas"
)

func TestCommands_TeachWhatTheyDo(t *testing.T) {
	t.Parallel()
	for _, c := range commands(main.NewRoot(parts(t))) {
		t.Run(c.CommandPath(), func(t *testing.T) { // one after the other: looking at a command's flags changes its parents
			require.NotEmpty(t, c.Short)
			require.NotEmpty(t, c.Long)
			if !c.HasSubCommands() {
				require.Contains(t, c.Example, c.CommandPath(), "an example shows the command itself")
			}
			for line := range strings.Lines(c.Long + "\n" + c.Example) {
				require.LessOrEqual(t, len(line), 160, line)
			}
			o := world{deps: parts(t)}.run(t, append(path(c), "--help")...)
			requireCode(t, main.ExitOK, o)
			require.Contains(t, o.out, strings.TrimSpace(c.Long))
			c.LocalFlags().VisitAll(func(f *pflag.Flag) {
				require.Contains(t, o.out, "--"+f.Name)
				require.NotEmpty(t, f.Usage, "--%s", f.Name)
			})
			for _, sub := range c.Commands() {
				require.Contains(t, o.out, sub.Name())
			}
		})
	}
}

// C-145: a slip is an error with its own exit code, whatever the command.
func TestCommands_RefuseWhatTheyDoNotKnow(t *testing.T) {
	t.Parallel()
	for _, c := range commands(main.NewRoot(parts(t))) {
		t.Run(c.CommandPath(), func(t *testing.T) {
			t.Parallel()
			o := world{deps: parts(t)}.run(t, append(path(c), "--no-such-flag")...)
			requireCode(t, main.ExitUsage, o)
			require.Contains(t, o.stderr, "--no-such-flag")
			require.Empty(t, o.out)

			o = world{deps: parts(t)}.run(t, append(path(c), "one", "two", "three")...)
			requireCode(t, main.ExitUsage, o)
			require.Contains(t, o.stderr, "error: ")
		})
	}
}

func TestCommands_SuggestTheNearest(t *testing.T) {
	t.Parallel()
	o := world{deps: parts(t)}.run(t, "dlq", "repley")
	requireCode(t, main.ExitUsage, o)
	require.Contains(t, o.stderr, "did you mean replay?")
	requireCode(t, main.ExitOK, world{deps: parts(t)}.run(t))
	requireCode(t, main.ExitOK, world{deps: parts(t)}.run(t, "endpoints"))
}

func TestVersion(t *testing.T) {
	t.Parallel()
	deps := parts(t)
	deps.Version = "v1.2.3"
	o := world{deps: deps}.run(t, "version")
	requireCode(t, main.ExitOK, o)
	require.Contains(t, o.out, "barnabas v1.2.3")
	o = world{deps: deps}.run(t, "version", "--json")
	require.Contains(t, o.out, `"version": "v1.2.3"`)
}

// C-230: the first signal stops in order, the second at once.
func TestStopOn_FirstSignalStopsSecondExits(t *testing.T) {
	t.Parallel()
	signals := make(chan os.Signal)
	exited := make(chan int, 1)
	var stderr bytes.Buffer
	ctx := main.StopOn(t.Context(), signals, func(code int) { exited <- code }, &stderr)
	require.NoError(t, ctx.Err())
	signals <- syscall.SIGTERM
	<-ctx.Done()
	var sig *main.SignalError
	require.ErrorAs(t, context.Cause(ctx), &sig)
	require.Equal(t, syscall.SIGTERM, sig.Signal)
	require.Empty(t, exited)
	signals <- os.Interrupt
	require.Equal(t, main.ExitInterrupted, <-exited)
	require.Contains(t, stderr.String(), "second interrupt")
}

// Each error ends with where its remedy is.
func TestExecute_ErrorsSayWhereTheRemedyIs(t *testing.T) {
	t.Parallel()
	for hint, args := range map[string][]string{
		"`barnabas --help`":           {"frobnicate"},
		"`barnabas dlq list --help`":  {"dlq", "list", "--since", "yesterday"},
		"`barnabas dlq show --help`":  {"dlq", "show"},
		"`barnabas config reference`": {"plan", "--set", "retry.caps=never"},
		"say --brokers":               {"lag", "--brokers", "127.0.0.1:1"},
		"say --api":                   {"endpoints", "list", "--api", "http://127.0.0.1:1"},
		"`barnabas listen --help`":    {"listen", "--addr", inUse(t)},
	} {
		t.Run(hint, func(t *testing.T) {
			t.Parallel()
			o := world{deps: parts(t)}.run(t, args...)
			require.NotEqual(t, main.ExitOK, o.code)
			lines := strings.Split(strings.TrimSpace(o.stderr), "\n")
			require.Contains(t, lines[len(lines)-1], hint, o.stderr)
		})
	}
}

// inUse is an address of this machine at which something listens until the test ends.
func inUse(t *testing.T) string {
	t.Helper()
	l, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	require.NoError(t, err)
	t.Cleanup(func() { _ = l.Close() })
	return l.Addr().String()
}
