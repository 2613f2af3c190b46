package sim_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/barnabas-webhooks/barnabas/schemas"
	"github.com/barnabas-webhooks/barnabas/topics"
)

// callTimeout is how long somebody waits for an answer of the API.
const callTimeout = 30 * time.Second

// call makes one API request, at any process that runs; no answer is status 0.
func (w *World) call(method, path, body string, header http.Header) (status int, answer string) {
	w.t.Helper()
	alive := w.alive()
	if len(alive) == 0 {
		return 0, "no process runs"
	}
	return w.callAt(alive[w.asked.Add(1)%uint64(len(alive))], method, path, body, header)
}

// callAt makes one API request at a process.
func (w *World) callAt(p *Process, method, path, body string, header http.Header) (status int, answer string) {
	w.t.Helper()
	return w.callWithin(callTimeout, p, method, path, body, header)
}

// callWithin makes one API request at a process, and waits so long for its answer.
func (w *World) callWithin(patience time.Duration, p *Process, method, path, body string, header http.Header) (status int, answer string) {
	w.t.Helper()
	ctx, cancel := context.WithTimeout(w.ctx, patience)
	defer cancel()
	client := &http.Client{Transport: &http.Transport{DialContext: w.outside.DialContext, DisableKeepAlives: true}}
	req, err := http.NewRequestWithContext(ctx, method, fmt.Sprintf("http://localhost:%d%s", p.port, path), strings.NewReader(body))
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
	if err != nil {
		return 0, err.Error()
	}
	return resp.StatusCode, string(b)
}

// Produce hands an event over as a plain Kafka record.
func (w *World) Produce(endpoint, key, payload string) {
	w.t.Helper()
	require.NoError(w.t, w.client.ProduceSync(w.ctx, w.plain(endpoint, key, payload)).FirstErr())
}

// plain is an event as a service without Avro writes it.
func (w *World) plain(endpoint, key, payload string) *kgo.Record {
	r := &kgo.Record{
		Topic: w.Catalogue().Events(), Key: []byte(endpoint), Value: []byte(payload),
		Headers: []kgo.RecordHeader{{Key: topics.HeaderEventType, Value: []byte("test.event")}},
	}
	if key != "" {
		r.Headers = append(r.Headers, kgo.RecordHeader{Key: topics.HeaderIdempotencyKey, Value: []byte(key)})
	}
	return r
}

// Read reads whole topics, committed records only, each partition in its order:
// up to the last stable offset as it is now.
func (w *World) Read(names ...string) map[string][]*kgo.Record {
	w.t.Helper()
	records, err := w.readAll(names...)
	require.NoError(w.t, err)
	for name := range records {
		records[name] = slices.DeleteFunc(records[name], func(r *kgo.Record) bool { return r.Attrs.IsControl() })
	}
	return records
}

// readAll is the same with the markers of transactions.
func (w *World) readAll(names ...string) (map[string][]*kgo.Record, error) {
	records := map[string][]*kgo.Record{}
	starts, err := w.offsets(w.admin.ListStartOffsets, names)
	if err != nil {
		return nil, err
	}
	ends, err := w.offsets(w.admin.ListCommittedOffsets, names)
	if err != nil {
		return nil, err
	}
	at := map[string]map[int32]kgo.Offset{}
	left := map[string]map[int32]int64{}
	open := 0
	ends.Each(func(o kadm.ListedOffset) {
		start, _ := starts.Lookup(o.Topic, o.Partition)
		if o.Offset <= start.Offset {
			return
		}
		if at[o.Topic] == nil {
			at[o.Topic], left[o.Topic] = map[int32]kgo.Offset{}, map[int32]int64{}
		}
		at[o.Topic][o.Partition], left[o.Topic][o.Partition] = kgo.NewOffset().At(start.Offset), o.Offset-1
		open++
	})
	if open == 0 {
		return records, nil
	}
	client, err := kgo.NewClient(append(w.kafka(w.outside, w.log("reader")),
		kgo.ConsumePartitions(at), kgo.FetchIsolationLevel(kgo.ReadCommitted()), kgo.KeepControlRecords())...)
	if err != nil {
		return nil, err
	}
	defer client.Close()
	for open > 0 {
		ctx, cancel := context.WithTimeout(w.ctx, time.Minute)
		fetches := client.PollFetches(ctx)
		cancel()
		if err := fetches.Err0(); err != nil {
			return nil, fmt.Errorf("reading %v: %v left: %w", names, left, err)
		}
		fetches.EachPartition(func(p kgo.FetchTopicPartition) {
			for _, r := range p.Records {
				if r.Offset > left[p.Topic][p.Partition] {
					break
				}
				if r.Offset == left[p.Topic][p.Partition] {
					open--
				}
				records[p.Topic] = append(records[p.Topic], r)
			}
		})
	}
	return records, nil
}

// offsets asks for offsets until it gets them: connections of an outage may linger.
func (w *World) offsets(list func(context.Context, ...string) (kadm.ListedOffsets, error), names []string) (listed kadm.ListedOffsets, err error) {
	for range 20 {
		if listed, err = list(w.ctx, names...); err == nil {
			if err = listed.Error(); err == nil {
				return listed, nil
			}
		}
		time.Sleep(time.Second)
	}
	return nil, err
}

// Topic reads one whole topic.
func (w *World) Topic(name string) []*kgo.Record {
	w.t.Helper()
	return w.Read(name)[name]
}

// DeadLetters reads the DLQ.
func (w *World) DeadLetters() []schemas.DeadLetter {
	w.t.Helper()
	return decodeAll(w, w.Topic(w.Catalogue().DLQ()), schemas.DecodeDeadLetter)
}

// Attempts reads the attempts topic.
func (w *World) Attempts() []schemas.Attempt {
	w.t.Helper()
	return decodeAll(w, w.Topic(w.Catalogue().Attempts()), schemas.DecodeAttempt)
}

func decodeAll[T any](w *World, records []*kgo.Record, decode func([]byte) (T, error)) []T {
	w.t.Helper()
	all := make([]T, 0, len(records))
	for _, r := range records {
		v, err := decode(r.Value)
		require.NoError(w.t, err)
		all = append(all, v)
	}
	return all
}
