// Barnabas is an outbound webhook dispatcher on Kafka: services hand it events,
// it gets signed POSTs to receivers. This is its one binary; see NewRoot for the
// commands and exit.go for the exit codes.
package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"

	"github.com/barnabas-webhooks/barnabas/internal/app"
	"github.com/barnabas-webhooks/barnabas/internal/demo"
)

// version is stamped by release builds: -ldflags "-X main.version=v1.2.3".
var version string

func main() {
	// As PID 1 of a container a signal without a handler is ignored, so there must be one (C-230).
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	code := Execute(StopOn(context.Background(), signals, os.Exit, os.Stderr), Deps{
		Serve: app.Serve, Dev: app.Dev, Check: app.Check, Demo: demo.Run,
		Version: version, Environ: os.Environ(),
		In: os.Stdin, Out: os.Stdout, Err: os.Stderr,
	}, os.Args[1:])
	os.Exit(code)
}

// StopOn gives a context that ends with the first signal, a *SignalError being
// its cause: what works under it then stops in order. A second signal is of
// somebody who does not want to wait: exit is called at once.
func StopOn(parent context.Context, signals <-chan os.Signal, exit func(code int), stderr io.Writer) context.Context {
	ctx, cancel := context.WithCancelCause(parent)
	go func() {
		cancel(&SignalError{Signal: <-signals})
		fmt.Fprintf(stderr, "second %s: exit at once\n", <-signals)
		exit(ExitInterrupted)
	}()
	return ctx
}
