package main

import (
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/barnabas-webhooks/barnabas/internal/listen"
	"github.com/barnabas-webhooks/barnabas/internal/secret"
)

func newListen() *cobra.Command {
	var o listen.Options
	var secretFile string
	c := &cobra.Command{
		Use:   "listen",
		Short: "Receive webhooks, check their signatures and print them",
		Long: `A receiver for development. It answers every POST, checks the signature when it is told a secret
(` + "`barnabas endpoints put`" + ` and ` + "`rotate-secret`" + ` print it once), prints a line per request, and can be told to
misbehave. It counts what it got per webhook-id, so repeats are seen.`,
		Example: `  barnabas listen
  barnabas listen --addr 127.0.0.1:9001 --secret-file hook.secret --body
  barnabas listen --fail-first 2        # every delivery is answered 500 twice, then 200
  barnabas listen --status 503 --delay 3s`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			if secretFile != "" {
				text, err := secret.ReadFile(secretFile)
				if err != nil {
					return usage("--secret-file: %w", err)
				}
				o.Secrets = append(o.Secrets, strings.Fields(text.Reveal())...)
			}
			o.Out = c.OutOrStdout()
			o.Ready = func(addr string) {
				fmt.Fprintf(c.ErrOrStderr(), "listening on http://%s, Ctrl-C ends\n", addr)
			}
			receiver, err := listen.New(o)
			if err != nil {
				return &UsageError{Err: err}
			}
			return receiver.Run(c.Context())
		},
	}
	f := c.Flags()
	f.StringVar(&o.Addr, "addr", "127.0.0.1:9000", "address to listen on, host:port")
	f.StringArrayVar(&o.Secrets, "secret", nil, "signing `secret` of which one must match (whsec_...); may be repeated. Without, signatures are not checked")
	f.StringVar(&secretFile, "secret-file", "", "`file` with signing secrets, separated by white space")
	f.DurationVar(&o.Tolerance, "tolerance", 5*time.Minute, "how far a timestamp may be off")
	f.IntVar(&o.Status, "status", 200, "what to answer, 200 to 599")
	f.DurationVar(&o.Delay, "delay", 0, "wait before each answer, at most 1m")
	f.IntVar(&o.FailFirst, "fail-first", 0, "answer so many requests of each delivery 500 before --status counts")
	f.BoolVar(&o.JSON, "json", false, "a JSON object per line")
	f.BoolVar(&o.Body, "body", false, "print bodies too")
	return c
}
