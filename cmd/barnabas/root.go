package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/barnabas-webhooks/barnabas/internal/config"
	"github.com/barnabas-webhooks/barnabas/internal/demo"
	"github.com/barnabas-webhooks/barnabas/internal/kafka"
)

// Deps are what the commands call, and the process's surroundings.
type Deps struct {
	Serve func(ctx context.Context, c *config.Config, version string, stderr io.Writer) error
	Dev   func(ctx context.Context, c *config.Config, version string, out, stderr io.Writer) error
	Check func(c *config.Config) error
	Demo  func(ctx context.Context, o demo.Options) error

	Version string   // empty: not a release
	Environ []string // as of os.Environ
	In      io.Reader
	Out     io.Writer
	Err     io.Writer
}

func (d *Deps) env(name string) string {
	for _, entry := range d.Environ {
		if value, ok := strings.CutPrefix(entry, name+"="); ok {
			return value
		}
	}
	return ""
}

// Execute runs one command line and gives the exit code.
func Execute(ctx context.Context, d Deps, args []string) int {
	root := NewRoot(d) //nolint:contextcheck // the commands take the context of ExecuteContext
	root.SetArgs(args)
	root.SetIn(d.In)
	root.SetOut(d.Out)
	root.SetErr(d.Err)
	began := false
	noteStart(root, &began)
	c, err := root.ExecuteContextC(ctx)
	if err != nil && !began { // cobra's own: unknown command, wrong number of arguments, missing flag
		err = &UsageError{Err: err}
	}
	if text := errorText(err); text != "" {
		fmt.Fprintln(d.Err, "error: "+text)
	}
	if text := hint(c, err); text != "" {
		fmt.Fprintln(d.Err, "\n"+text)
	}
	return exitCode(err)
}

// hint is where the remedy of an error is to be found; empty where the error says it.
func hint(c *cobra.Command, err error) string {
	var bad *UsageError
	var key *config.KeyError
	var ping *kafka.PingError
	var dial *net.OpError
	switch {
	case errors.As(err, &key):
		return fmt.Sprintf("`%s --help` tells more, `barnabas config reference` lists every setting.", c.CommandPath())
	case errors.As(err, &bad):
		return fmt.Sprintf("`%s --help` tells more.", c.CommandPath())
	case errors.As(err, &ping):
		return "Where Kafka is, say --brokers or kafka.brokers of --config; `barnabas dev` starts one on this machine."
	case errors.As(err, &dial) && dial.Op == "dial" && c.Flags().Lookup(flagAPI) != nil:
		return "Where the API is, say --" + flagAPI + " or " + config.EnvURL + "; `barnabas dev` starts one on this machine."
	case errors.Is(err, syscall.EADDRINUSE):
		return fmt.Sprintf("Another process listens there; `%s --help` lists the flags that choose other addresses.", c.CommandPath())
	default:
		return ""
	}
}

// oneID is for commands of one thing: cobra's own words for this say neither what nor how.
func oneID(_ *cobra.Command, args []string) error {
	if len(args) != 1 {
		return usage("it takes one ID, not %d arguments", len(args))
	}
	return nil
}

func errorText(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

// noteStart makes every command below note that its work began, which tells its
// errors from those of the command line.
func noteStart(c *cobra.Command, began *bool) {
	if run := c.RunE; run != nil {
		c.RunE = func(c *cobra.Command, args []string) error {
			*began = true
			return run(c, args)
		}
	}
	for _, sub := range c.Commands() {
		noteStart(sub, began)
	}
}

// NewRoot makes the command tree.
func NewRoot(d Deps) *cobra.Command {
	root := &cobra.Command{
		Use:   "barnabas",
		Short: "Gets signed webhooks to receivers, over Kafka",
		Long: `Barnabas delivers webhooks. Services hand it events, through Kafka or HTTP, and are done; it gets a
signed POST to each receiver, at least once, politely, and with every amount of work bounded. What
fails is tried again for a day; what still fails becomes a dead letter, from where it can be replayed.

To see it work, in three terminals:

  barnabas dev                               everything in one process, nothing to install
  barnabas listen                            a receiver that prints what it gets
  barnabas send --url http://127.0.0.1:9000/hook --type order.paid --data '{"order":1}'

` + exitHelp,
		SilenceUsage:  true,
		SilenceErrors: true,
	}
	root.SetFlagErrorFunc(func(_ *cobra.Command, err error) error { return &UsageError{Err: err} })
	root.CompletionOptions.HiddenDefaultCmd = true
	root.AddGroup(
		&cobra.Group{ID: groupRun, Title: "Run:"},
		&cobra.Group{ID: groupUse, Title: "Use:"},
		&cobra.Group{ID: groupOperate, Title: "Operate:"},
	)
	for _, g := range []struct {
		id       string
		commands []*cobra.Command
	}{
		{groupRun, []*cobra.Command{newDev(&d), newServe(&d), newDemo(&d)}},
		{groupUse, []*cobra.Command{newSend(&d), newEndpoints(&d), newListen(), newEncode()}},
		{groupOperate, []*cobra.Command{newTopics(&d), newDLQ(&d), newLag(&d), newPlan(&d), newConfig(), newVersion(&d)}},
	} {
		for _, c := range g.commands {
			c.GroupID = g.id
			root.AddCommand(c)
		}
	}
	return root
}

const (
	groupRun     = "run"
	groupUse     = "use"
	groupOperate = "operate"
)

// parent makes a command that only holds others: alone it shows its help, with
// anything else it fails, where cobra would show the help and call it a success.
func parent(c *cobra.Command, children ...*cobra.Command) *cobra.Command {
	c.RunE = func(c *cobra.Command, args []string) error {
		if len(args) == 0 {
			return c.Help()
		}
		near := c.SuggestionsFor(args[0])
		if len(near) > 0 {
			return usage("unknown command %q for %q; did you mean %s?", args[0], c.CommandPath(), strings.Join(near, ", "))
		}
		return usage("unknown command %q for %q", args[0], c.CommandPath())
	}
	c.SuggestionsMinimumDistance = 2
	c.AddCommand(children...)
	return c
}
