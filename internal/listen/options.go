package listen

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"

	"github.com/barnabas-webhooks/barnabas/processor/sign"
)

// Limits that keep a receiver left running from growing.
const (
	maxBody    = 16 << 20 // bytes of a request body; more is answered 413
	maxTracked = 200_000  // delivery ids remembered; the oldest are forgotten first
)

// Options say how a Receiver behaves. The zero value answers 200 to everything and prints nothing.
type Options struct {
	// Addr is where Run listens, host:port. Empty: 127.0.0.1:9000. Port 0: a free one.
	Addr string
	// Secrets are the signing secrets of which one must match (whsec_...). Empty: signatures are not checked.
	Secrets []string
	// Tolerance is how far a timestamp may be off. 0: five minutes.
	Tolerance time.Duration

	// Status is what is answered, 200..599. 0: 200. A request whose signature does not verify gets 401 instead.
	Status int
	// Delay is waited before each answer, for at most a minute. 0: none.
	Delay time.Duration
	// FailFirst is how many requests of each delivery id are answered 500 before Status counts.
	FailFirst int

	// Out takes one line for each request. nil: nothing is printed.
	Out io.Writer
	// JSON prints lines as JSON objects.
	JSON bool
	// Body prints the request's body too.
	Body bool

	// OnRequest is called with each request after it was counted and before it is answered. nil: nobody is told.
	OnRequest func(Request)
	// Ready is told the address that Run listens on. nil: nobody is told.
	Ready func(addr string)
}

// defaultAddr is loopback only: this is for development.
const defaultAddr = "127.0.0.1:9000"

// parse checks the options, all problems at once, and gives the keys.
func (o *Options) parse() ([][]byte, error) {
	var errs []error
	var keys [][]byte
	for i, s := range o.Secrets {
		key, err := sign.ParseSecret(s)
		if err != nil {
			errs = append(errs, fmt.Errorf("secret %d: %w", i+1, err))
			continue
		}
		keys = append(keys, key)
	}
	if len(o.Secrets) > sign.MaxKeys {
		errs = append(errs, fmt.Errorf("%d secrets are too many; at most %d", len(o.Secrets), sign.MaxKeys))
	}
	if !validStatus(o.Status) && o.Status != 0 {
		errs = append(errs, fmt.Errorf("status %d is not in 200..599", o.Status))
	}
	if o.Delay < 0 || o.Delay > time.Minute {
		errs = append(errs, fmt.Errorf("delay %v is not in 0..1m", o.Delay))
	}
	if o.FailFirst < 0 {
		errs = append(errs, fmt.Errorf("fail-first %d is negative", o.FailFirst))
	}
	if o.Tolerance < 0 {
		errs = append(errs, fmt.Errorf("tolerance %v is negative", o.Tolerance))
	}
	if len(errs) > 0 {
		return nil, fmt.Errorf("listen: %w", errors.Join(errs...))
	}
	if o.Status == 0 {
		o.Status = http.StatusOK
	}
	if o.Addr == "" {
		o.Addr = defaultAddr
	}
	if o.Out == nil {
		o.Out = io.Discard
	}
	return keys, nil
}

// validStatus leaves 1xx out: they are no final answers.
func validStatus(status int) bool { return status >= 200 && status <= 599 }
