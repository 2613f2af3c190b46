// Package interop checks what Barnabas sends with other people's Standard
// Webhooks libraries: the npm and PyPI packages standardwebhooks, each behind a
// small script of its own language, and the specification's Go library.
//
// Its tests carry the build tag interop, for "make interop" installs the
// packages first; "make test" needs nothing but Go.
package interop

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os/exec"
	"path/filepath"
	"strings"

	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"

	"github.com/barnabas-webhooks/barnabas/internal/testkit"
)

// Request is a POST as it arrived at a receiver, and the secret that the receiver holds.
type Request struct {
	Headers map[string]string `json:"headers"` // at least the three webhook-* headers
	Body    []byte            `json:"body_base64"`
	Secret  string            `json:"secret"` // whsec_...
}

// Verifier is one independent library. Its Check returns a line for each request: "ok", or "fail" and why.
type Verifier struct {
	Name  string
	Check func(ctx context.Context, requests []Request) ([]string, error)
}

// Verifiers are the libraries that "make interop" has installed.
func Verifiers() []Verifier {
	return []Verifier{
		{Name: "npm", Check: script("node", "node/verify.js")},
		{Name: "pypi", Check: script("python/.venv/bin/python", "python/verify.py")},
		{Name: "go", Check: reference},
	}
}

// script runs a verifier's script once for all requests. A program given with a folder is one of this package's.
func script(program, file string) func(context.Context, []Request) ([]string, error) {
	return func(ctx context.Context, requests []Request) ([]string, error) {
		root, err := testkit.Root()
		if err != nil {
			return nil, err
		}
		here := filepath.Join(root, "test", "interop")
		if strings.Contains(program, "/") {
			program = filepath.Join(here, program)
		}
		var in, out, complaint bytes.Buffer
		encoder := json.NewEncoder(&in)
		for _, r := range requests {
			if err := encoder.Encode(r); err != nil {
				return nil, fmt.Errorf("encode a request: %w", err)
			}
		}
		cmd := exec.CommandContext(ctx, program, filepath.Join(here, file))
		cmd.Stdin, cmd.Stdout, cmd.Stderr = &in, &out, &complaint
		if err := cmd.Run(); err != nil {
			return nil, fmt.Errorf("%s (make interop installs what it needs): %w\n%s", file, err, complaint.String())
		}
		lines := strings.Split(strings.TrimSuffix(out.String(), "\n"), "\n")
		if len(lines) != len(requests) {
			return nil, fmt.Errorf("%s answered %d of %d requests", file, len(lines), len(requests))
		}
		return lines, nil
	}
}

// reference is the specification's own library for Go.
func reference(_ context.Context, requests []Request) ([]string, error) {
	lines := make([]string, len(requests))
	for i, r := range requests {
		header := http.Header{}
		for k, v := range r.Headers {
			header.Set(k, v)
		}
		lines[i] = "ok"
		verifier, err := standardwebhooks.NewWebhook(r.Secret)
		if err != nil {
			return nil, fmt.Errorf("secret of request %d: %w", i, err)
		}
		if err := verifier.Verify(r.Body, header); err != nil {
			lines[i] = "fail " + err.Error()
		}
	}
	return lines, nil
}

// CheckAll asks every library about every request and returns all refusals, joined; nil when there are none.
func CheckAll(ctx context.Context, requests []Request) error {
	var refused []error
	for _, v := range Verifiers() {
		lines, err := v.Check(ctx, requests)
		if err != nil {
			return err
		}
		for i, line := range lines {
			if line != "ok" {
				refused = append(refused, fmt.Errorf("%s: request %d (%s): %s", v.Name, i, describe(requests[i]), line))
			}
		}
	}
	return errors.Join(refused...)
}

// describe names a request in an error by its id and the start of its body.
func describe(r Request) string {
	const shown = 40
	return fmt.Sprintf("%s %.*q", r.Headers["webhook-id"], shown, r.Body)
}
