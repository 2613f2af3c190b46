package dlq_test

import (
	"bytes"
	"fmt"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/stretchr/testify/require"

	"github.com/barnabas-webhooks/barnabas/dlq"
	"github.com/barnabas-webhooks/barnabas/retry"
	"github.com/barnabas-webhooks/barnabas/schemas"
	"github.com/barnabas-webhooks/barnabas/topics"
)

// C-148: every class of failure keeps everything that a replay and a trace need.
func TestFromDelivery_KeepsEverything(t *testing.T) {
	t.Parallel()
	for _, class := range retry.Classes() {
		want := letter("ep1", 3).Delivery
		want.Replays = 2
		want.DueAt = time.Now()
		source := schemas.Coordinates{Topic: "barnabas.retry.1h", Partition: 3, Offset: 99}
		now := time.Now().UTC().Truncate(time.Millisecond)
		given := want
		l := dlq.FromDelivery(&given, string(class), "detail", source, now)
		require.Equal(t, want, given, "the delivery given is not touched")
		want.DueAt = time.Time{}
		require.Equal(t, want, l.Delivery)

		rec, err := dlq.Record("barnabas.dlq", 2, l)
		require.NoError(t, err)
		require.Equal(t, "ep1", string(rec.Key))
		require.EqualValues(t, 2, rec.Partition)
		require.Equal(t, now, rec.Timestamp)
		back, err := schemas.DecodeDeadLetter(rec.Value)
		require.NoError(t, err)
		require.Equal(t, string(class), back.Reason)
		require.Equal(t, source, back.Source)
		require.True(t, now.Equal(back.DeadAt))
		requireSameDelivery(t, want, back.Delivery)
	}
}

// Headers are made anew: a letter that dies five times carries three, not fifteen.
func TestRecord_HeadersDoNotGrow(t *testing.T) {
	t.Parallel()
	l := letter("ep1", 1)
	for range 5 {
		rec, err := dlq.Record("d", 0, l)
		require.NoError(t, err)
		got := map[string]string{}
		for _, h := range rec.Headers {
			got[h.Key] = string(h.Value)
		}
		require.Len(t, rec.Headers, 3)
		require.Equal(t, map[string]string{
			topics.HeaderDeliveryID: "dlv_ep1_1", topics.HeaderReason: "http_5xx", topics.HeaderEventType: "invoice.paid",
		}, got)
		back, err := schemas.DecodeDeadLetter(rec.Value)
		require.NoError(t, err)
		l = dlq.FromDelivery(&back.Delivery, "http_5xx", "", back.Source, time.Now())
	}
}

// C-118: what cannot be decoded keeps its bytes, whatever they are.
func TestFromRaw_KeepsTheBytes(t *testing.T) {
	t.Parallel()
	now := time.Now()
	source := schemas.Coordinates{Topic: "barnabas.events", Partition: 3, Offset: 5}
	for name, tc := range map[string]struct {
		endpoint   string
		key, value []byte
		headers    []schemas.Header
		wantID     string
		wantType   string
		wantEP     string
		partition  int32
	}{
		"garbage":         {endpoint: "ep1", key: []byte("ep1"), value: []byte{0, 1, 0xff}, wantEP: "ep1", partition: topics.Partition("ep1", partitions)},
		"no key":          {value: []byte("x"), partition: 3},
		"no value":        {endpoint: "ep1", key: []byte("ep1"), wantEP: "ep1", partition: topics.Partition("ep1", partitions)},
		"key not UTF-8":   {endpoint: "\xff\xfe", key: []byte("\xff\xfe"), value: []byte("x"), partition: 3},
		"key without end": {endpoint: strings.Repeat("k", 5000), key: bytes.Repeat([]byte("k"), 5000), value: []byte("x"), partition: 3},
		"headers tell": {endpoint: "ep1", key: []byte("ep1"), value: []byte("x"), headers: []schemas.Header{
			{Key: topics.HeaderDeliveryID, Value: []byte("old")},
			{Key: topics.HeaderDeliveryID, Value: []byte("dlv_1")},
			{Key: topics.HeaderEventType, Value: []byte("a.b")},
			{Key: "own", Value: nil},
		}, wantEP: "ep1", wantID: "dlv_1", wantType: "a.b", partition: topics.Partition("ep1", partitions)},
		"headers that are no names": {value: []byte("x"), headers: []schemas.Header{
			{Key: topics.HeaderDeliveryID, Value: []byte("\xff")}, {Key: topics.HeaderEventType, Value: bytes.Repeat([]byte("e"), 70000)},
		}, partition: 3},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := dlq.FromRaw(tc.endpoint, tc.key, tc.value, tc.headers, schemas.ReasonUndecodable, "why", source, now)
			require.True(t, dlq.Undecodable(l))
			require.Equal(t, tc.partition, dlq.Partition(l, partitions))
			rec, err := dlq.Record("d", 0, l)
			require.NoError(t, err)
			back, err := schemas.DecodeDeadLetter(rec.Value)
			require.NoError(t, err)
			require.True(t, dlq.Undecodable(&back))
			require.Equal(t, tc.wantEP, back.Delivery.EndpointID)
			require.Equal(t, tc.wantEP, string(rec.Key))
			require.Equal(t, tc.wantID, back.Delivery.ID)
			require.Equal(t, tc.wantType, back.Delivery.EventType)
			require.Equal(t, string(tc.key), string(back.RawKey))
			require.Equal(t, string(tc.value), string(back.Raw))
			require.Len(t, back.RawHeaders, len(tc.headers))
			require.Equal(t, source, back.Source)
		})
	}
}

func TestDetail_IsBoundedText(t *testing.T) {
	t.Parallel()
	for _, detail := range []string{"", "short", strings.Repeat("é", 2000), strings.Repeat("x", dlq.MaxDetail-1) + "€", "\xff\xfe broken", strings.Repeat("\xff", 3000)} {
		l := dlq.FromDelivery(&schemas.Delivery{}, "dns", detail, schemas.Coordinates{}, time.Now())
		require.True(t, utf8.ValidString(l.Detail))
		require.LessOrEqual(t, len(l.Detail), 3*dlq.MaxDetail) // a replaced byte becomes three
		if utf8.ValidString(detail) {
			require.LessOrEqual(t, len(l.Detail), dlq.MaxDetail)
			require.True(t, strings.HasPrefix(detail, l.Detail))
		}
	}
}

// A dead letter that the broker refuses for its size still ends visibly.
func TestTrim(t *testing.T) {
	t.Parallel()
	whole := letter("ep1", 1)
	whole.Delivery.Payload = bytes.Repeat([]byte("p"), 20_000)
	whole.Delivery.History.LastExcerpt = bytes.Repeat([]byte("e"), 4000)
	raw := dlq.FromRaw("ep1", []byte("ep1"), bytes.Repeat([]byte("r"), 20_000),
		[]schemas.Header{{Key: "h", Value: bytes.Repeat([]byte("v"), 9000)}}, schemas.ReasonUndecodable, "no Avro", whole.Source, time.Now())
	over := letter("ep1", 2)
	over.Delivery.Payload = bytes.Repeat([]byte("p"), schemas.MaxPayloadBytes+1)
	for name, tc := range map[string]struct {
		l       *schemas.DeadLetter
		limit   int
		reason  string
		payload int // at least
	}{
		"fits":                 {whole, 30_000, "http_5xx", 20_000},
		"without the excerpt":  {whole, 22_000, "http_5xx", 20_000},
		"half the payload":     {whole, 10_000, schemas.ReasonTooLarge, 8_000},
		"hardly any payload":   {whole, 1_200, schemas.ReasonTooLarge, 1},
		"raw":                  {raw, 10_000, schemas.ReasonTooLarge, 0},
		"over our own limits":  {over, 1_000_000, schemas.ReasonTooLarge, 800_000},
		"over, and small room": {over, 5_000, schemas.ReasonTooLarge, 4_000},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			before := *tc.l
			got, err := dlq.Trim(tc.l, tc.limit)
			require.NoError(t, err)
			require.Equal(t, before, *tc.l, "the letter given is not touched")
			b, err := schemas.EncodeDeadLetter(got)
			require.NoError(t, err)
			require.LessOrEqual(t, len(b), tc.limit)
			require.Equal(t, tc.reason, got.Reason)
			require.GreaterOrEqual(t, len(got.Delivery.Payload), tc.payload)
			require.Equal(t, tc.l.Delivery.ID, got.Delivery.ID)
			require.Equal(t, tc.l.Source, got.Source)
			require.Equal(t, dlq.Undecodable(tc.l), dlq.Undecodable(got))
			if tc.reason == schemas.ReasonTooLarge {
				require.Contains(t, got.Detail, tc.l.Reason)
				require.Contains(t, got.Detail, fmt.Sprint(len(tc.l.Delivery.Payload)))
			}
		})
	}
	_, err := dlq.Trim(whole, 100)
	require.Error(t, err)
}

// Whatever the bytes, a letter can be made of them and read again: one that
// could not be written would hold up its partition for ever.
func FuzzFromRaw(f *testing.F) {
	f.Add("ep1", []byte("ep1"), []byte("{}"), "event-type", []byte("a.b"), "why")
	f.Add("\xff", []byte("\xff"), []byte(nil), "delivery-id", []byte("a.b\n"), "\x00\xc3")
	f.Add("", []byte(nil), []byte("\xc3\x01 not Avro"), "", []byte(nil), "")
	f.Fuzz(func(t *testing.T, endpoint string, key, value []byte, header string, hv []byte, detail string) {
		l := dlq.FromRaw(endpoint, key, value, []schemas.Header{{Key: header, Value: hv}}, schemas.ReasonUndecodable, detail, schemas.Coordinates{Topic: "t"}, time.Now())
		rec, err := dlq.Record("d", dlq.Partition(l, partitions), l)
		require.NoError(t, err)
		back, err := schemas.DecodeDeadLetter(rec.Value)
		require.NoError(t, err)
		require.True(t, dlq.Undecodable(&back))
		if len(key)+len(value)+len(header)+len(hv) < 900_000 {
			require.Equal(t, string(value), string(back.Raw))
			require.Equal(t, string(key), string(back.RawKey))
		}
	})
}
