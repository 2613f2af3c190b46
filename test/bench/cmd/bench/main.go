// Command bench measures the whole system on an Apache Kafka of its own beside a bare loop of signed POSTs: make bench. The
// tables go to standard output, progress to standard error. Exit code 0: every target that was measured was reached; 1: one
// was missed; 2: the run could not be done.
//
// "bench receiver", "bench bare" and "bench plain" are the processes that a run starts beside it.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"regexp"
	"syscall"

	"github.com/barnabas-webhooks/barnabas/test/bench"
)

const (
	exitMissed  = 1
	exitNotDone = 2
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if len(os.Args) > 1 {
		if child := child(os.Args[1]); child != nil {
			if err := child(ctx, os.Args[2:]); err != nil {
				fmt.Fprintln(os.Stderr, "bench:", err)
				os.Exit(exitNotDone)
			}
			return
		}
	}
	os.Exit(run(ctx))
}

// child is what a process of that name does; nil: none is called so.
func child(name string) func(context.Context, []string) error {
	switch name {
	case "receiver":
		return func(ctx context.Context, args []string) error {
			f := flag.NewFlagSet(name, flag.ContinueOnError)
			listen, control := addresses(f)
			if err := f.Parse(args); err != nil {
				return err
			}
			return bench.RunReceiver(ctx, *listen, *control)
		}
	case "plain":
		return func(ctx context.Context, args []string) error {
			f := flag.NewFlagSet(name, flag.ContinueOnError)
			_, control := addresses(f)
			broker, topic := f.String("broker", "", "address of Kafka"), f.String("topic", "", "topic to read")
			if err := f.Parse(args); err != nil {
				return err
			}
			return bench.RunPlain(ctx, *broker, *topic, *control)
		}
	case "bare":
		return func(ctx context.Context, args []string) error {
			var b bench.Bare
			f := flag.NewFlagSet(name, flag.ContinueOnError)
			b.Flags(f)
			if err := f.Parse(args); err != nil {
				return err
			}
			return bench.RunBare(ctx, b)
		}
	}
	return nil
}

func addresses(f *flag.FlagSet) (listen, control *string) {
	return f.String("listen", "", "address to take requests on"), f.String("control", "", "address to answer questions on")
}

func run(ctx context.Context) int {
	o := bench.DefaultOptions()
	o.Progress = os.Stderr
	flag.StringVar(&o.Binary, "binary", "bin/barnabas", "the barnabas `executable`")
	flag.IntVar(&o.Rounds, "rounds", o.Rounds, "rounds of each scenario")
	flag.Func("scenario", "`expression` that chooses scenarios by their names, the long ones too", func(s string) (err error) {
		o.Scenario, err = regexp.Compile(s)
		return err
	})
	flag.BoolVar(&o.Long, "long", false, "the long scenarios too: waiting (1 million deliveries), keys and keys-on-disk (10 million)")
	flag.Float64Var(&o.Events, "events", o.Events, "`share` of the full number of events and of the full durations")
	flag.IntVar(&o.Size, "size", o.Size, "`bytes` of each payload")
	flag.IntVar(&o.Heap, "heap", o.Heap, "`MiB` of the broker's heap")
	flag.IntVar(&o.Partitions, "partitions", o.Partitions, "partitions of the unit topics")
	flag.IntVar(&o.Connections, "connections", o.Connections, "callers of the API at a time")
	flag.IntVar(&o.Nodes, "nodes", o.Nodes, "API processes")
	flag.StringVar(&o.Profile, "profile", "", "`folder` for profiles of the saturated processor: CPU, allocations, block, mutex")
	flag.Func("set", "one more `KEY=VALUE` of the processes' configuration, {dir} being a folder of the process's own; may be repeated",
		func(s string) error {
			o.Set = append(o.Set, s)
			return nil
		})
	flag.StringVar(&o.Dir, "dir", "", "`folder` to make the run's folder in; empty: where temporary ones are")
	flag.BoolVar(&o.Keep, "keep", false, "keep the processes' logs in any case")
	asJSON := flag.String("json", "", "`file` to write everything to as JSON, each round included")
	page := flag.String("update", "", "`page` to write the tables to, between its marks")
	list := flag.Bool("list", false, "list the scenarios and end")
	flag.Parse()
	if *list {
		bench.List(os.Stdout)
		return 0
	}
	result, err := measure(ctx, o, *page)
	if result != nil {
		err = errors.Join(err, result.WriteTables(os.Stdout))
		if *asJSON != "" {
			err = errors.Join(err, writeJSON(result, *asJSON))
		}
	}
	switch {
	case err != nil:
		fmt.Fprintln(os.Stderr, "bench:", err)
		return exitNotDone
	case !result.Held():
		return exitMissed
	}
	return 0
}

// measure runs, and writes a run that was done whole to its page.
func measure(ctx context.Context, o bench.Options, page string) (*bench.Result, error) {
	var err error
	if o.Self, err = os.Executable(); err != nil {
		return nil, err
	}
	if page != "" {
		if err := bench.CheckPage(page); err != nil {
			return nil, err
		}
	}
	result, err := bench.Run(ctx, o)
	if err == nil && page != "" {
		err = result.UpdatePage(page)
	}
	return result, err
}

func writeJSON(result *bench.Result, file string) error {
	out, err := os.Create(file)
	if err != nil {
		return err
	}
	return errors.Join(result.WriteJSON(out), out.Close())
}
