package sim_test

import (
	"context"
	"io"
	"net/http"
	"strings"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/barnabas-webhooks/barnabas/schemas"
)

// call makes one API request; a refused connection is status 0.
func (w *World) call(method, path, body string, header http.Header) (status int, answer string) {
	w.t.Helper()
	client := &http.Client{Transport: &http.Transport{DialContext: w.network.DialContext, DisableKeepAlives: true}}
	req, err := http.NewRequestWithContext(w.ctx, method, "http://localhost:8080"+path, strings.NewReader(body))
	require.NoError(w.t, err)
	for k, v := range header {
		req.Header[k] = v
	}
	req.Header.Set("Content-Type", "application/json")
	resp, err := client.Do(req)
	if err != nil {
		return 0, err.Error()
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	require.NoError(w.t, err)
	return resp.StatusCode, string(b)
}

// Topic reads a whole topic, committed records only.
func (w *World) Topic(name string) []*kgo.Record {
	w.t.Helper()
	ends, err := kadm.NewClient(w.client).ListEndOffsets(w.ctx, name)
	require.NoError(w.t, err)
	at := map[string]map[int32]kgo.Offset{name: {}}
	ends.Each(func(o kadm.ListedOffset) {
		if o.Offset > 0 {
			at[name][o.Partition] = kgo.NewOffset().At(0)
		}
	})
	if len(at[name]) == 0 {
		return nil
	}
	opts, err := w.cfg.Kafka.Options(w.log())
	require.NoError(w.t, err)
	client, err := kgo.NewClient(append(opts, kgo.ConsumePartitions(at), kgo.FetchIsolationLevel(kgo.ReadCommitted()))...)
	require.NoError(w.t, err)
	defer client.Close()
	var records []*kgo.Record
	for {
		ctx, cancel := context.WithTimeout(w.ctx, 5*time.Second) // virtual: nothing more comes after
		fetches := client.PollFetches(ctx)
		cancel()
		if fetches.NumRecords() == 0 {
			return records
		}
		records = append(records, fetches.Records()...)
	}
}

// DeadLetters reads the DLQ.
func (w *World) DeadLetters() []schemas.DeadLetter {
	w.t.Helper()
	var letters []schemas.DeadLetter
	for _, r := range w.Topic(w.Catalogue().DLQ()) {
		l, err := schemas.DecodeDeadLetter(r.Value)
		require.NoError(w.t, err)
		letters = append(letters, l)
	}
	return letters
}

// Attempts reads the attempts topic.
func (w *World) Attempts() []schemas.Attempt {
	w.t.Helper()
	var attempts []schemas.Attempt
	for _, r := range w.Topic(w.Catalogue().Attempts()) {
		a, err := schemas.DecodeAttempt(r.Value)
		require.NoError(w.t, err)
		attempts = append(attempts, a)
	}
	return attempts
}
