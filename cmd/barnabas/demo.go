package main

import (
	"fmt"
	"os"

	"github.com/spf13/cobra"

	"github.com/barnabas-webhooks/barnabas/dlq"
	"github.com/barnabas-webhooks/barnabas/internal/demo"
)

func newDemo(d *Deps) *cobra.Command {
	o := demo.Options{Events: demo.DefaultEvents}
	c := &cobra.Command{
		Use:   "demo",
		Short: "Show the whole at work, with a crash and a replay, and judge it",
		Long: `Starts an embedded broker and three receivers (one healthy, one that fails at first, one dead), sends
events with repeats among them, kills and restarts the processor half-way, replays the dead letters
once the dead receiver is back, and ends with a table. It needs no network and no Docker. The exit code
is 0 when the invariants held: nothing lost, nothing delivered twice where the outcome was known.`,
		Example: `  barnabas demo
  barnabas demo --events 10000 --json`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			var err error
			if o.Executable, err = os.Executable(); err != nil {
				return fmt.Errorf("find this program: %w", err)
			}
			o.Out, o.Err = c.OutOrStdout(), c.ErrOrStderr()
			o.TTY = isTerminal(o.Err)
			if err := o.Validate(); err != nil {
				return &UsageError{Err: err}
			}
			return d.Demo(c.Context(), o)
		},
	}
	c.Flags().IntVar(&o.Events, "events", o.Events, fmt.Sprintf("how many to send, repeats not counted: %d to %d", demo.MinEvents, demo.MaxEvents))
	c.Flags().BoolVar(&o.JSON, "json", false, "the result as JSON")
	c.Flags().BoolVar(&o.Keep, "keep", false, "keep the data directory, and say where it is")
	return c
}

// isTerminal says that w is a terminal, so that progress may be drawn over itself.
func isTerminal(w any) bool {
	f, ok := w.(*os.File)
	return ok && dlq.IsTerminal(f)
}
