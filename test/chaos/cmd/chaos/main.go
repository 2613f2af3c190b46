// Command chaos kills workers and brokers under load on an Apache Kafka of its own, and counts what became of every
// event: make chaos. The table goes to standard output, progress to standard error. Exit code 0: all held; 1: something
// was violated; 2: the run could not be done.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"os/signal"
	"syscall"

	"github.com/barnabas-webhooks/barnabas/test/chaos"
)

const (
	exitViolated = 1
	exitNotDone  = 2
)

func main() { os.Exit(run()) }

func run() int {
	o := chaos.DefaultOptions()
	o.Progress = os.Stderr
	flag.StringVar(&o.Binary, "binary", "bin/barnabas", "the barnabas `executable`")
	flag.IntVar(&o.Kills, "kills", o.Kills, "kill -9 of a worker so often; other faults in proportion")
	flag.Uint64Var(&o.Seed, "seed", 0, "draws load and faults; 0: by chance")
	flag.IntVar(&o.Rate, "rate", o.Rate, "events per second")
	flag.IntVar(&o.Endpoints, "endpoints", o.Endpoints, "endpoints")
	flag.IntVar(&o.Partitions, "partitions", o.Partitions, "partitions of the unit topics")
	flag.DurationVar(&o.Session, "session", o.Session, "session timeout of the workers")
	flag.DurationVar(&o.Limit, "limit", o.Limit, "ends the faults, done or not")
	flag.StringVar(&o.Dir, "dir", "", "`folder` for data and logs, kept; empty: a temporary one")
	flag.BoolVar(&o.Keep, "keep", false, "keep the temporary folder in any case")
	again := flag.String("judge", "", "judge the evidence of an earlier run again: its evidence `file`")
	asJSON := flag.Bool("json", false, "the result as JSON")
	flag.Parse()
	if *again != "" {
		evidence, err := chaos.Load(*again)
		if err != nil {
			return end(nil, err, *asJSON)
		}
		return end(chaos.NewResult(evidence), nil, *asJSON)
	}
	if o.Seed == 0 {
		o.Seed = rand.Uint64N(1_000_000) + 1
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	result, err := chaos.Run(ctx, o)
	return end(result, err, *asJSON)
}

// end prints what a run came to and says its exit code.
func end(result *chaos.Result, err error, asJSON bool) int {
	if result != nil {
		write := result.WriteTable
		if asJSON {
			write = result.WriteJSON
		}
		err = errors.Join(err, write(os.Stdout))
	}
	switch {
	case err != nil:
		fmt.Fprintln(os.Stderr, "chaos:", err)
		return exitNotDone
	case !result.Held():
		return exitViolated
	}
	return 0
}
