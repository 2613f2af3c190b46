package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/google/uuid"
	"github.com/spf13/cobra"

	"github.com/barnabas-webhooks/barnabas/internal/api/client"
	"github.com/barnabas-webhooks/barnabas/schemas"
)

func newSend(d *Deps) *cobra.Command {
	a := apiFlags{deps: d}
	var s client.Send
	var data, file string
	var asJSON bool
	var retryFor time.Duration
	c := &cobra.Command{
		Use:   "send",
		Short: "Hand over one event",
		Long: `Hands one event to the API and prints the delivery id. The command returns once the event is durable.

An event has an idempotency key: sending the same again with the same key, after a timeout say, makes no
second delivery, but prints the id of the first. Without --key one is made and printed to standard error.
With --retry-for the command does so itself: after a time-out, a broken connection, a 429 or a 5xx it sends again,
when the API's Retry-After has passed.
The payload is JSON, unless --content-type says what else it is; its bytes are delivered as they are.` + apiHelp,
		Example: `  barnabas send --endpoint ep_1 --type order.paid --key order-17 --data '{"order":17}'
  barnabas send --url http://127.0.0.1:9000/hook --type order.paid --file order.json
  date | barnabas send --endpoint ep_1 --type tick --content-type text/plain --file -`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			var err error
			if s.Payload, err = payload(c, data, file); err != nil {
				return err
			}
			s.JSON = s.ContentType == ""
			if s.JSON && !json.Valid(s.Payload) {
				return usage("the payload is not valid JSON; to send it as it is, say what it is with --content-type")
			}
			cl, err := a.client()
			if err != nil {
				return err
			}
			if s.IdempotencyKey == "" {
				s.IdempotencyKey = uuid.NewString()
				fmt.Fprintf(c.ErrOrStderr(), "idempotency key %s: give it with --key to repeat this send safely\n", s.IdempotencyKey)
			}
			send, ctx := cl.Send, c.Context()
			if retryFor > 0 {
				limited, cancel := context.WithTimeout(ctx, retryFor)
				defer cancel()
				send, ctx = cl.SendUntil, limited
			}
			sent, err := send(ctx, s)
			if err != nil {
				return fmt.Errorf("send: %w", err)
			}
			if asJSON {
				return writeJSON(c.OutOrStdout(), sent)
			}
			_, err = fmt.Fprintf(c.OutOrStdout(), "%s %s\n", sent.DeliveryID, sent.Status)
			return err
		},
	}
	a.bind(c)
	f := c.Flags()
	f.StringVar(&s.EndpointID, "endpoint", "", "`id` of the endpoint")
	f.StringVar(&s.URL, "url", "", "`URL` of the receiver, in place of an endpoint: registers one on first use")
	f.StringVar(&s.EventType, "type", "", "event type, such as order.paid")
	f.StringVar(&s.IdempotencyKey, "key", "", "idempotency key")
	f.StringVar(&data, "data", "", "payload")
	f.StringVar(&file, "file", "", "`file` that holds the payload; - is standard input")
	f.StringVar(&s.ContentType, "content-type", "", "what the payload is, where it is not JSON: text/plain, say")
	f.StringVar(&s.TraceParent, "traceparent", "", "W3C trace context to pass on")
	f.BoolVar(&s.Async, "async", false, "do not wait for the verdict on the key")
	f.DurationVar(&retryFor, "retry-for", 0, "send again, with the same key, for so long until it is taken; 0: once")
	f.BoolVar(&asJSON, "json", false, "as JSON")
	c.MarkFlagsMutuallyExclusive("endpoint", "url")
	c.MarkFlagsOneRequired("endpoint", "url")
	c.MarkFlagsMutuallyExclusive("data", "file")
	c.MarkFlagsOneRequired("data", "file")
	_ = c.MarkFlagRequired("type") // fails only for a flag that is not there
	return c
}

// payload is --data, or the content of --file.
func payload(c *cobra.Command, data, file string) ([]byte, error) {
	if file == "" {
		return []byte(data), nil
	}
	in := c.InOrStdin()
	if file != "-" {
		f, err := os.Open(file)
		if err != nil {
			return nil, usage("--file: %w", err)
		}
		defer func() { _ = f.Close() }()
		in = f
	}
	b, err := io.ReadAll(io.LimitReader(in, schemas.MaxPayloadBytes+1))
	if err != nil {
		return nil, fmt.Errorf("read payload: %w", err)
	}
	if len(b) > schemas.MaxPayloadBytes {
		return nil, usage("the payload is larger than %d bytes", schemas.MaxPayloadBytes)
	}
	return b, nil
}
