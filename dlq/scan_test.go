package dlq_test

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/barnabas-webhooks/barnabas/dlq"
	"github.com/barnabas-webhooks/barnabas/schemas"
	"github.com/barnabas-webhooks/barnabas/topics"
)

func ids(ls []*dlq.Letter) []string {
	var out []string
	for _, l := range ls {
		out = append(out, l.Delivery.ID)
	}
	return out
}

func TestLetters_Filters(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	now := time.Now().UTC().Truncate(time.Millisecond)
	letter := func(id, endpoint, tenant, reason, event string, age time.Duration) *schemas.DeadLetter {
		l := letter(endpoint, 0)
		l.Delivery.ID, l.Delivery.Tenant, l.Delivery.EventType, l.Reason, l.DeadAt = id, tenant, event, reason, now.Add(-age)
		return l
	}
	refs := r.put(
		letter("d1", "ep1", "acme", "http_5xx", "invoice.paid", 3*time.Hour),
		letter("d2", "ep1", "acme", "timeout", "invoice.sent", 2*time.Hour),
		letter("d3", "ep2", "acme", "dns", "invoice.paid", 5*24*time.Hour),
		letter("d4", "ep3", "beta", "http_5xx", "user.made", time.Minute),
	)
	for name, tc := range map[string]struct {
		f    dlq.Filter
		want []string
	}{
		"all":               {dlq.Filter{}, []string{"d1", "d2", "d3", "d4"}},
		"endpoint":          {dlq.Filter{Endpoints: []string{"ep1"}}, []string{"d1", "d2"}},
		"two endpoints":     {dlq.Filter{Endpoints: []string{"ep1", "ep3"}}, []string{"d1", "d2", "d4"}},
		"tenant":            {dlq.Filter{Tenants: []string{"beta"}}, []string{"d4"}},
		"reason":            {dlq.Filter{Reasons: []string{"http_5xx"}}, []string{"d1", "d4"}},
		"event type":        {dlq.Filter{EventTypes: []string{"invoice.paid"}}, []string{"d1", "d3"}},
		"no prefix match":   {dlq.Filter{EventTypes: []string{"invoice"}}, nil},
		"id":                {dlq.Filter{IDs: []string{"d2"}}, []string{"d2"}},
		"reference":         {dlq.Filter{IDs: []string{refs[2]}}, []string{"d3"}},
		"id and reference":  {dlq.Filter{IDs: []string{"d4", refs[0]}}, []string{"d1", "d4"}},
		"since":             {dlq.Filter{Since: now.Add(-150 * time.Minute)}, []string{"d2", "d4"}},
		"since, inclusive":  {dlq.Filter{Since: now.Add(-2 * time.Hour)}, []string{"d2", "d4"}},
		"until, exclusive":  {dlq.Filter{Until: now.Add(-3 * time.Hour)}, []string{"d3"}},
		"between":           {dlq.Filter{Since: now.Add(-4 * time.Hour), Until: now.Add(-time.Hour)}, []string{"d1", "d2"}},
		"fields narrow":     {dlq.Filter{Tenants: []string{"acme"}, Reasons: []string{"http_5xx"}}, []string{"d1"}},
		"fields contradict": {dlq.Filter{Endpoints: []string{"ep2"}, Reasons: []string{"timeout"}}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			require.ElementsMatch(t, tc.want, ids(r.collect(tc.f)))
		})
	}
	require.Len(t, r.collect(dlq.Filter{Limit: 3}), 3)
}

func TestLetters_PartitionOrder(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	for e := range 8 {
		r.put(letters(fmt.Sprintf("ep%d", e), 25)...)
	}
	var last schemas.Coordinates
	n := 0
	for _, l := range r.collect(dlq.Filter{}) {
		if l.At.Partition == last.Partition && n > 0 {
			require.Greater(t, l.At.Offset, last.Offset)
		} else {
			require.GreaterOrEqual(t, l.At.Partition, last.Partition)
		}
		last = l.At
		n++
	}
	require.Equal(t, 200, n)
}

// Records that do not decode are reported where they lie, and the scan goes on.
func TestLetters_UnreadableRecords(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	p := topics.Partition("ep1", partitions)
	good, err := dlq.Record(r.cat.DLQ(), p, letter("ep1", 1))
	require.NoError(t, err)
	r.produce(good)
	bad := r.produce(
		&kgo.Record{Topic: r.cat.DLQ(), Partition: p, Key: []byte("ep1"), Value: []byte("garbage"), Headers: []kgo.RecordHeader{{Key: topics.HeaderDeliveryID, Value: []byte("dlv_x")}}},
		&kgo.Record{Topic: r.cat.DLQ(), Partition: p, Value: nil},
		&kgo.Record{Topic: r.cat.DLQ(), Partition: p, Key: []byte("ep1"), Value: good.Value[:len(good.Value)-3]},
	)
	after, err := dlq.Record(r.cat.DLQ(), p, letter("ep1", 2))
	require.NoError(t, err)
	r.produce(after)

	all := r.collect(dlq.Filter{})
	require.Len(t, all, 5)
	for i, l := range all[1:4] {
		var unreadable *dlq.UnreadableError
		require.ErrorAs(t, l.Err, &unreadable)
		require.Equal(t, bad[i], fmt.Sprintf("%d/%d", unreadable.At.Partition, unreadable.At.Offset))
		require.Equal(t, bad[i], l.Ref())
		var decode *schemas.DecodeError
		require.ErrorAs(t, l.Err, &decode)
	}
	require.Equal(t, "dlv_x", all[1].Delivery.ID)
	require.Len(t, r.collect(dlq.Filter{Endpoints: []string{"ep1"}}), 4)
	require.Empty(t, r.collect(dlq.Filter{Tenants: []string{"none"}}), "a tenant that cannot be read is never shown to another")

	var table bytes.Buffer
	listed, err := r.queue.List(t.Context(), &table, dlq.Filter{}, dlq.OutputOptions{})
	require.NoError(t, err)
	require.Equal(t, dlq.Listed{Letters: 5, Unreadable: 3}, listed)
	require.Contains(t, table.String(), bad[1])
	require.NoError(t, r.queue.Show(t.Context(), &table, bad[1], dlq.OutputOptions{}))
}

// A scan ends where the topic ended when it began, whatever lies there: the end
// of an aborted transaction, an open one, or nothing at all.
func TestLetters_EndsAtTheStableEnd(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	p := topics.Partition("ep1", partitions)
	record := func(n int) *kgo.Record {
		rec, err := dlq.Record(r.cat.DLQ(), p, letter("ep1", n))
		require.NoError(t, err)
		return rec
	}
	txn := func(name string) *kgo.Client {
		cl, err := kgo.NewClient(append(r.kafka, kgo.TransactionalID(r.cat.Prefix+name), kgo.RecordPartitioner(kgo.ManualPartitioner()))...)
		require.NoError(t, err)
		t.Cleanup(cl.Close)
		require.NoError(t, cl.BeginTransaction())
		return cl
	}
	require.Empty(t, r.collect(dlq.Filter{}))

	r.produce(record(0))
	aborted := txn("aborted")
	require.NoError(t, aborted.ProduceSync(t.Context(), record(1)).FirstErr())
	require.NoError(t, aborted.EndTransaction(t.Context(), kgo.TryAbort))
	r.committed(r.cat.DLQ())
	require.Equal(t, []string{"dlv_ep1_0"}, ids(r.collect(dlq.Filter{})), "the topic ends in an abort marker")

	open := txn("open")
	require.NoError(t, open.ProduceSync(t.Context(), record(2)).FirstErr())
	r.produce(record(3))
	require.Equal(t, []string{"dlv_ep1_0"}, ids(r.collect(dlq.Filter{})), "what is behind an open transaction is not stable")
	require.NoError(t, open.EndTransaction(t.Context(), kgo.TryCommit))
	r.committed(r.cat.DLQ()) // a broker answers before the marker is written
	require.Equal(t, []string{"dlv_ep1_0", "dlv_ep1_2", "dlv_ep1_3"}, ids(r.collect(dlq.Filter{})))

	// A transaction that was aborted after another one had begun: its marker lies
	// behind the stable end, its data before it.
	early, late := txn("early"), txn("late")
	require.NoError(t, early.ProduceSync(t.Context(), record(4)).FirstErr())
	require.NoError(t, late.ProduceSync(t.Context(), record(5)).FirstErr())
	require.NoError(t, early.EndTransaction(t.Context(), kgo.TryAbort))
	require.Len(t, r.collect(dlq.Filter{}), 3)
	require.NoError(t, late.EndTransaction(t.Context(), kgo.TryAbort))
	require.Len(t, r.collect(dlq.Filter{}), 3)
}

// Retention takes what a scan is about to read: it ends, and is not in error.
func TestLetters_RetentionTookThem(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	p := topics.Partition("ep1", partitions)
	r.put(letters("ep1", 50)...)
	n := 0
	for l, err := range r.queue.Letters(t.Context(), dlq.Filter{}, dlq.ScanOptions{}) {
		require.NoError(t, err)
		require.Equal(t, p, l.At.Partition)
		n++
	}
	require.Equal(t, 50, n)
	offsets := kadmOffsets(r.cat.DLQ(), p, 50)
	_, err := r.adm.DeleteRecords(t.Context(), offsets)
	require.NoError(t, err)
	require.Empty(t, r.collect(dlq.Filter{}))
	r.put(letter("ep1", 60))
	require.Equal(t, []string{"dlv_ep1_60"}, ids(r.collect(dlq.Filter{})))
}

func TestLetters_StopsWhenToldTo(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.put(letters("ep1", 50)...)
	for range r.queue.Letters(t.Context(), dlq.Filter{}, dlq.ScanOptions{}) { //nolint:errcheck // what it stops at
		break
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	for _, err := range r.queue.Letters(ctx, dlq.Filter{}, dlq.ScanOptions{}) {
		require.ErrorIs(t, err, context.Canceled)
		require.Equal(t, dlq.ExitInterrupted, dlq.ExitCode(nil, err))
	}
	var last dlq.Scanned
	for _, err := range r.queue.Letters(t.Context(), dlq.Filter{}, dlq.ScanOptions{Progress: func(s dlq.Scanned) { last = s }}) {
		require.NoError(t, err)
	}
	require.Equal(t, dlq.Scanned{Records: 50, Span: 50, Done: 50}, last)
}

func TestList_TableAndJSONLines(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.endpoints.enable("ep1")
	r.put(letters("ep1", 3)...)
	evil := letter("ep2", 1)
	evil.Delivery.EventType = "a\x1b[2Jb"
	evil.Detail = "line\nbreak\ttab \u202e"
	r.put(evil)
	_, err := r.replay(dlq.Filter{IDs: []string{"dlv_ep1_1"}})
	require.NoError(t, err)

	var out bytes.Buffer
	listed, err := r.queue.List(t.Context(), &out, dlq.Filter{}, dlq.OutputOptions{})
	require.NoError(t, err)
	require.Equal(t, 3, listed.Letters)
	require.Equal(t, 4, strings.Count(out.String(), "\n"), "foreign text must not break lines")
	require.NotContains(t, out.String(), "\x1b")
	require.NotContains(t, out.String(), "dlv_ep1_1")

	out.Reset()
	_, err = r.queue.List(t.Context(), &out, dlq.Filter{IncludeReplayed: true}, dlq.OutputOptions{JSON: true})
	require.NoError(t, err)
	replayed := 0
	for line := range strings.Lines(out.String()) {
		var v struct {
			Ref        string    `json:"ref"`
			DeliveryID string    `json:"delivery_id"`
			Reason     string    `json:"reason"`
			Replayed   *dlq.Mark `json:"replayed"`
			Payload    int       `json:"payload_bytes"`
		}
		require.NoError(t, json.Unmarshal([]byte(line), &v))
		require.Positive(t, v.Payload)
		if v.Replayed != nil {
			replayed++
			require.Equal(t, "dlv_ep1_1", v.DeliveryID)
			require.Equal(t, "tester", v.Replayed.Operator)
		}
	}
	require.Equal(t, 1, replayed)
	require.NotContains(t, out.String(), `"content"`)

	_, err = r.queue.List(t.Context(), &out, dlq.Filter{Tenants: []string{"nobody"}}, dlq.OutputOptions{})
	require.ErrorIs(t, err, dlq.ErrNoMatch)
}

// C-148: show has everything.
func TestShow(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.endpoints.enable("ep1")
	text := letter("ep1", 1)
	text.Delivery.Payload = []byte("{\n  \"größe\": 1\n}")
	binary := letter("ep1", 2)
	binary.Delivery.Payload = []byte("\x1b]0;owned\x07")
	raw := dlq.FromRaw("ep1", []byte("ep1"), []byte("\x00raw"), []schemas.Header{{Key: "x-own", Value: []byte("\xff")}}, schemas.ReasonUndecodable, "no Avro",
		schemas.Coordinates{Topic: "barnabas.events", Partition: 1, Offset: 77}, time.Now())
	refs := r.put(text, binary, raw)
	_, err := r.replay(dlq.Filter{IDs: []string{text.Delivery.ID}})
	require.NoError(t, err)

	show := func(id string, asJSON bool) string {
		var out bytes.Buffer
		require.NoError(t, r.queue.Show(t.Context(), &out, id, dlq.OutputOptions{JSON: asJSON}))
		return out.String()
	}
	got := show(text.Delivery.ID, false)
	for _, want := range []string{
		text.Delivery.ID, refs[0], "ep1", "acme", "invoice.paid", "http_5xx", "ninth attempt failed", "503", "503 Service Unavailable",
		"9 in all", "down for repairs", "barnabas.retry.6h/1/1", "barnabas.events/", text.Delivery.TraceParent, "vendor=1", "key-" + text.Delivery.ID,
		string(text.Delivery.Payload), `by "tester"`,
	} {
		require.Contains(t, got, want)
	}
	got = show(binary.Delivery.ID, false)
	require.NotContains(t, got, "\x1b")
	require.Contains(t, got, "base64:"+base64.StdEncoding.EncodeToString(binary.Delivery.Payload))
	got = show(refs[2], false)
	require.Contains(t, got, "barnabas.events/1/77")
	require.Contains(t, got, "x-own")
	require.Contains(t, got, "base64:"+base64.StdEncoding.EncodeToString([]byte("\x00raw")))
	require.NotContains(t, got, "payload (")

	var v struct {
		Content struct {
			Payload struct{ Text, Base64 string } `json:"payload"`
		} `json:"content"`
	}
	require.NoError(t, json.Unmarshal([]byte(show(binary.Delivery.ID, true)), &v))
	require.Equal(t, base64.StdEncoding.EncodeToString(binary.Delivery.Payload), v.Content.Payload.Base64)
	require.NoError(t, json.Unmarshal([]byte(show(text.Delivery.ID, true)), &v))
	require.Equal(t, string(text.Delivery.Payload), v.Content.Payload.Text)

	require.ErrorIs(t, r.queue.Show(t.Context(), &bytes.Buffer{}, "dlv_none", dlq.OutputOptions{}), dlq.ErrNoMatch)
}

func TestStats(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.endpoints.enable("ep1")
	now := time.Now()
	for i, age := range []time.Duration{time.Minute, 2 * time.Hour, 3 * 24 * time.Hour, 20 * 24 * time.Hour} {
		l := letter("ep1", i)
		l.DeadAt = now.Add(-age)
		r.put(l)
	}
	dns := letter("ep2", 1)
	dns.Reason, dns.DeadAt = "dns", now.Add(-time.Minute)
	r.put(dns)
	r.produce(&kgo.Record{Topic: r.cat.DLQ(), Partition: 0, Value: []byte("?")})
	_, err := r.replay(dlq.Filter{IDs: []string{"dlv_ep1_0", "dlv_ep1_3"}})
	require.NoError(t, err)

	s, err := r.queue.Stats(t.Context(), dlq.Filter{}, now, dlq.ScanOptions{})
	require.NoError(t, err)
	require.Equal(t, dlq.Tally{Letters: 6, Waiting: 4, Replayed: 2}, s.Tally)
	require.Equal(t, 1, s.Unreadable)
	require.Equal(t, dlq.Tally{Letters: 4, Waiting: 2, Replayed: 2}, *s.Endpoints["ep1"])
	require.Equal(t, dlq.Tally{Letters: 1, Waiting: 1}, *s.Reasons["dns"])
	require.Equal(t, 1, s.Reasons[dlq.RefusedUnreadable].Letters)
	require.Equal(t, 1, s.Endpoints[dlq.NoEndpoint].Letters)
	var perAge []int
	for _, a := range s.Ages {
		perAge = append(perAge, a.Letters)
	}
	require.Equal(t, []int{3, 1, 1, 1}, perAge)
	var table, js bytes.Buffer
	require.NoError(t, s.WriteTable(&table, now))
	require.Contains(t, table.String(), "6 dead letters, 4 waiting, 2 replayed")
	require.NoError(t, s.WriteJSON(&js))
	require.True(t, json.Valid(js.Bytes()))
}
