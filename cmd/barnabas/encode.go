package main

import (
	"bufio"
	"bytes"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/spf13/cobra"

	"github.com/barnabas-webhooks/barnabas/schemas"
)

// Formats of encode.
const (
	formatRaw    = "raw"
	formatBase64 = "base64"
	formatHex    = "hex"
)

func newEncode() *cobra.Command {
	var format string
	c := &cobra.Command{
		Use:   "encode [FILE]",
		Short: "Make Avro records of the events topic from JSON",
		Long: `Reads events as JSON, one per line, from a file or standard input, and writes each as the value of a
record of the events topic: Avro in single-object encoding. The record's key must be the endpoint id.

An event has endpoint_id, event_type and payload (any JSON, kept byte for byte) or payload_base64 with
content_type; and optionally idempotency_key.

Producers need no Avro: a plain record with the header event-type does as well. This is for tests of
producers, and to have an example of the bytes.`,
		Example: `  echo '{"endpoint_id":"ep_1","event_type":"order.paid","payload":{"order":1}}' | barnabas encode > event.avro
  kcat -P -b 127.0.0.1:9092 -t barnabas.events -k ep_1 -X partitioner=murmur2_random event.avro
  barnabas encode --format base64 events.jsonl`,
		Args: cobra.MaximumNArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			if format != formatRaw && format != formatBase64 && format != formatHex {
				return usage("--format: %q is none of raw, base64, hex", format)
			}
			in := c.InOrStdin()
			if len(args) > 0 && args[0] != "-" {
				f, err := os.Open(args[0])
				if err != nil {
					return fmt.Errorf("read events: %w", err)
				}
				defer func() { _ = f.Close() }()
				in = f
			}
			return encode(c.OutOrStdout(), in, format)
		},
	}
	c.Flags().StringVar(&format, "format", formatRaw, "raw (one event only), base64 or hex (one per line)")
	return c
}

// ErrManyRaw refuses several events in one raw output: values have no boundaries of their own.
var ErrManyRaw = errors.New("more than one event: raw output has room for one; use --format base64 or hex")

func encode(out io.Writer, in io.Reader, format string) error {
	lines := bufio.NewScanner(in)
	lines.Buffer(make([]byte, 0, 64<<10), schemas.MaxSendBodyBytes+1)
	number, written := 0, 0
	for lines.Scan() {
		number++
		line := bytes.TrimSpace(lines.Bytes())
		if len(line) == 0 {
			continue
		}
		if format == formatRaw && written > 0 {
			return &UsageError{Err: ErrManyRaw}
		}
		event, err := schemas.EventFromJSON(line)
		if err != nil {
			return fmt.Errorf("line %d: %w", number, err)
		}
		value, err := schemas.EncodeEvent(event)
		if err != nil {
			return fmt.Errorf("line %d: %w", number, err)
		}
		switch format {
		case formatBase64:
			value = append(base64.StdEncoding.AppendEncode(nil, value), '\n')
		case formatHex:
			value = append(hex.AppendEncode(nil, value), '\n')
		}
		if _, err := out.Write(value); err != nil {
			return fmt.Errorf("write event: %w", err)
		}
		written++
	}
	if err := lines.Err(); err != nil {
		return fmt.Errorf("line %d: %w", number+1, err)
	}
	if written == 0 {
		return &codeError{code: ExitNoMatch, err: errors.New("no event in the input")}
	}
	return nil
}
