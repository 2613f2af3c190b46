// Command memory lets one process work on far more than it may hold, with every endpoint dead, on an Apache Kafka of its
// own, and measures its memory: make memory. The table goes to standard output, progress to standard error. Exit code 0:
// all held; 1: something was violated; 2: the run could not be done.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/barnabas-webhooks/barnabas/test/memory"
)

const (
	exitViolated = 1
	exitNotDone  = 2
)

func main() { os.Exit(run()) }

func run() int {
	o := memory.DefaultOptions()
	o.Progress = os.Stderr
	flag.StringVar(&o.Binary, "binary", "bin/barnabas", "the barnabas `executable`")
	flag.IntVar(&o.Events, "events", o.Events, "events that wait at the start")
	flag.IntVar(&o.Size, "size", o.Size, "`bytes` of each payload")
	flag.IntVar(&o.Endpoints, "endpoints", o.Endpoints, "dead endpoints")
	flag.IntVar(&o.Healthy, "healthy", o.Healthy, "healthy endpoints in the dead ones' partitions, and as many in partitions of their own")
	flag.IntVar(&o.Rate, "rate", o.Rate, "live events to healthy endpoints per second")
	flag.BoolVar(&o.Keys, "keys", false, "give every event an idempotency key: memory then grows by what the keys need")
	flag.IntVar(&o.Partitions, "partitions", o.Partitions, "partitions of the unit topics")
	flag.IntVar(&o.Limit, "limit", o.Limit, "`MiB` of resident memory that are allowed")
	flag.DurationVar(&o.After, "after", o.After, "how long the run goes on when everything has been taken in once")
	flag.DurationVar(&o.Patience, "patience", o.Patience, "ends the run, whatever has been taken in")
	flag.Func("set", "one more `KEY=VALUE` of the process's configuration; may be repeated", func(s string) error {
		o.Set = append(o.Set, s)
		return nil
	})
	flag.StringVar(&o.Dir, "dir", "", "`folder` to make the run's folder in; empty: where temporary ones are")
	flag.BoolVar(&o.Keep, "keep", false, "keep the process's log and heap profiles in any case")
	asJSON := flag.Bool("json", false, "the result as JSON, with every sample")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	result, err := memory.Run(ctx, o)
	if result != nil {
		write := result.WriteTable
		if *asJSON {
			write = result.WriteJSON
		}
		err = errors.Join(err, write(os.Stdout))
	}
	switch {
	case err != nil:
		fmt.Fprintln(os.Stderr, "memory:", err)
		return exitNotDone
	case !result.Held():
		return exitViolated
	}
	return 0
}
