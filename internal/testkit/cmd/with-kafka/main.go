// Command with-kafka runs a command beside one Apache Kafka:
//
//	go run ./internal/testkit/cmd/with-kafka -- go test ./test/e2e/...
//
// It finds or starts a cluster as package realkafka says (a given address, a
// container, Maven's jars), prints which, sets BARNABAS_TEST_KAFKA for the
// command and ends what it started when the command ends or a signal comes.
// Its exit code is the command's; 125 where no Kafka could be had.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"github.com/barnabas-webhooks/barnabas/internal/testkit/realkafka"
)

const (
	// exitNoKafka is what docker and env use for "the wrapper failed, not your command".
	exitNoKafka = 125
	exitUsage   = 2
	// startTimeout includes a first fetch of the jars.
	startTimeout = 5 * time.Minute
)

func main() {
	args := os.Args[1:]
	if len(args) > 0 && args[0] == "--" {
		args = args[1:]
	}
	if len(args) == 0 || strings.HasPrefix(args[0], "-") {
		fmt.Fprintln(os.Stderr, "usage: with-kafka [--] command [argument...]")
		os.Exit(exitUsage)
	}
	os.Exit(run(args))
}

func run(args []string) int {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	defer stop()

	began := time.Now()
	startCtx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	cluster, err := realkafka.Open(startCtx)
	if err != nil {
		say("no Kafka: %v", err)
		return exitNoKafka
	}
	say("%v, ready after %.1f s", cluster, time.Since(began).Seconds())
	defer func() {
		if err := cluster.Close(); err != nil {
			say("close: %v", err)
		}
	}()
	return runCommand(ctx, args, cluster.Bootstrap())
}

// runCommand runs the command to its end. When ctx ends first, the command is asked to stop and given time to.
func runCommand(ctx context.Context, args, addrs []string) int {
	cmd := exec.CommandContext(ctx, args[0], args[1:]...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	cmd.Env = append(os.Environ(), realkafka.EnvAddress+"="+strings.Join(addrs, ","), realkafka.EnvWay+"=")
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	cmd.WaitDelay = 10 * time.Second
	err := cmd.Run()
	if err == nil {
		return 0
	}
	var exit *exec.ExitError
	if errors.As(err, &exit) && exit.ExitCode() > 0 {
		return exit.ExitCode()
	}
	say("%s: %v", args[0], err)
	return 1
}

func say(format string, args ...any) {
	fmt.Fprintf(os.Stderr, "with-kafka: "+format+"\n", args...)
}
