package bench

import (
	"bytes"
	"context"
	crand "crypto/rand"
	"errors"
	"flag"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/barnabas-webhooks/barnabas/processor/sign"
)

// Bare is the loop that the system is measured against: what a program does that has nothing but the sending to do.
type Bare struct {
	URL       string // of the receiver with its wait, without the endpoint
	Endpoints int
	Workers   int // each has its share of the endpoints, and goes round them
	Events    int
	Size      int // of a payload
}

// bareTimeout bounds one request, as the system's own does.
const bareTimeout = 15 * time.Second

// RunBare sends all events and then waits for ctx to end, so that what the process needed can still be read.
func RunBare(ctx context.Context, b Bare) error {
	transport := &http.Transport{MaxIdleConns: b.Workers, MaxIdleConnsPerHost: b.Workers}
	client := &http.Client{Transport: transport, Timeout: bareTimeout}
	payloads := NewPayloads(b.Size)
	key := make([]byte, 32)
	_, _ = crand.Read(key) // never fails: crypto/rand
	var workers errgroup.Group
	for w := range b.Workers {
		workers.Go(func() error {
			for n := w; n < b.Events && ctx.Err() == nil; n += b.Workers {
				url := b.URL + strconv.Itoa(n%b.Endpoints)
				if err := post(ctx, client, url, payloads.Make(Measured, uint64(n), time.Now()), key, n); err != nil {
					return err
				}
			}
			return nil
		})
	}
	if err := workers.Wait(); err != nil && ctx.Err() == nil {
		return err
	}
	<-ctx.Done()
	return nil
}

// errRefused is an answer that a healthy receiver does not give.
var errRefused = errors.New("the receiver did not answer with 2xx")

// post sends one payload, signed by Standard Webhooks.
func post(ctx context.Context, client *http.Client, url string, payload, key []byte, n int) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, url, bytes.NewReader(payload))
	if err != nil {
		return fmt.Errorf("bare loop: %w", err)
	}
	id, now := "msg_"+strconv.Itoa(n), time.Now()
	req.Header.Set("Content-Type", contentType)
	req.Header.Set(sign.HeaderID, id)
	req.Header.Set(sign.HeaderTimestamp, sign.Timestamp(now))
	req.Header.Set(sign.HeaderSignature, sign.Sign(id, now, payload, [][]byte{key}))
	resp, err := client.Do(req)
	if err != nil {
		return fmt.Errorf("bare loop: %w", err)
	}
	_, err = io.Copy(io.Discard, resp.Body)
	if err = errors.Join(err, resp.Body.Close()); err != nil {
		return fmt.Errorf("bare loop: %w", err)
	}
	if resp.StatusCode/100 != 2 {
		return fmt.Errorf("bare loop: %w: %s", errRefused, resp.Status)
	}
	return nil
}

// Flags are what the process that runs it is told.
func (b *Bare) Flags(f *flag.FlagSet) {
	f.StringVar(&b.URL, "url", "", "where to, without the endpoint")
	f.IntVar(&b.Endpoints, "endpoints", 1, "endpoints")
	f.IntVar(&b.Workers, "workers", 1, "workers")
	f.IntVar(&b.Events, "events", 1, "events")
	f.IntVar(&b.Size, "size", MinPayload, "bytes of a payload")
}

// args are the same, as the process is started.
func (b *Bare) args() []string {
	return []string{
		"-url", b.URL, "-endpoints", strconv.Itoa(b.Endpoints), "-workers", strconv.Itoa(b.Workers),
		"-events", strconv.Itoa(b.Events), "-size", strconv.Itoa(b.Size),
	}
}
