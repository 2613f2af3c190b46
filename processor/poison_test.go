package processor_test

import (
	"bytes"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/barnabas-webhooks/barnabas/schemas"
	"github.com/barnabas-webhooks/barnabas/topics"
)

// liar is a compressor whose batches are not what they say.
type liar struct {
	codec kgo.CompressionCodecType
	data  []byte // nil: the records themselves, as they are
}

func (l liar) Compress(dst *bytes.Buffer, src []byte, _ ...kgo.CompressFlag) ([]byte, kgo.CompressionCodecType) {
	dst.Reset()
	if l.data != nil {
		src = l.data
	}
	dst.Write(src)
	return dst.Bytes(), l.codec
}

// bomb is a batch that decompresses to far more than any topic takes.
func bomb() []byte {
	var dst bytes.Buffer
	compressor, _ := kgo.DefaultCompressor(kgo.GzipCompression())
	data, _ := compressor.Compress(&dst, make([]byte, 65<<20))
	return slices.Clone(data)
}

// poison writes records of one partition, a batch for each call; the partition is that of "ep-0".
func (w *world) poison(topic string, l *liar, values ...[]byte) {
	w.t.Helper()
	opts := append(w.kafka(), kgo.RecordPartitioner(kgo.ManualPartitioner()), kgo.ProducerLinger(100*time.Millisecond))
	if l != nil {
		opts = append(opts, kgo.WithCompressor(*l))
	}
	client, err := kgo.NewClient(opts...)
	require.NoError(w.t, err)
	defer client.Close()
	var records []*kgo.Record
	for _, v := range values {
		records = append(records, &kgo.Record{
			Topic: topic, Partition: int32(topics.Partition("ep-0", w.catalogue.Partitions)), Key: []byte("ep-0"), Value: v,
		})
	}
	require.NoError(w.t, client.ProduceSync(w.t.Context(), records...).FirstErr())
}

// C-127: whatever cannot be read, in events, in each tier and in replay: a record, a batch that is not compressed as it
// says, a few kilobytes that would decompress to memory's end. Each is one dead letter with its coordinates, the
// counter moves by one, its neighbours go on, the position passes it, and a restart right after finds nothing to do
// again. And nothing of it runs hot (C-236).
func TestProcessor_PoisonIsBuriedOnce(t *testing.T) {
	long := bytes.Repeat([]byte("0123456789abcdef"), 200) // worth compressing
	explosive := bomb()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.createTopics()
		fetches := w.requests(kmsg.Fetch)
		number := int32(topics.Partition("ep-0", w.catalogue.Partitions))
		claim, err := schemas.EncodeClaim(&schemas.Claim{EndpointID: "ep-0", Key: "k", DeliveryID: "dlv_1", Verdict: schemas.VerdictFirst})
		require.NoError(t, err)
		want := map[schemas.Coordinates]bool{}
		for _, topic := range w.catalogue.Consumed() {
			var at int64
			expect := func(records int64) {
				want[schemas.Coordinates{Topic: topic, Partition: number, Offset: at}] = true
				at += records
			}
			for _, value := range [][]byte{
				[]byte("\x8f\x00\xfe random"),        // random bytes
				[]byte(`{"endpoint_id":"ep-0","pay`), // truncated JSON
				[]byte(`{"order":17}`),               // valid JSON of another type
				{0xC3, 0x01, 9, 9, 9, 9, 9, 9, 9, 9}, // a schema of the future
				claim,                                // another record of ours
				nil,
			} {
				w.poison(topic, nil, value)
				expect(1)
			}
			for _, codec := range []kgo.CompressionCodecType{kgo.CodecGzip, kgo.CodecSnappy, kgo.CodecLz4} {
				w.poison(topic, &liar{codec: codec, data: []byte("nothing of the kind")}, long)
				expect(1)
			}
			w.poison(topic, &liar{codec: kgo.CodecLz4, data: []byte("nothing of the kind")}, long, long, long)
			expect(3)
			w.poison(topic, &liar{codec: kgo.CodecGzip, data: explosive}, long)
			expect(1)
			if topic == w.catalogue.Events() {
				w.send(20)
			}
		}
		before := fetches.Load()
		_, stop := w.process("a")
		time.Sleep(10 * time.Minute)
		n, again := w.delivered()
		require.Equal(t, 20, n, "the neighbours")
		require.Zero(t, again)
		require.NoError(t, stop())
		require.Less(t, fetches.Load()-before, int64(10*60*4), "an idle process asks twice a second")

		found := map[schemas.Coordinates]bool{}
		for _, l := range w.letters() {
			require.Equal(t, schemas.ReasonUndecodable, l.Reason, l.Detail)
			require.NotEmpty(t, l.Detail)
			require.False(t, found[l.Source], "twice: %v", l.Source)
			found[l.Source] = true
		}
		require.Equal(t, want, found)
		require.InDelta(t, len(want), w.counted("barnabas_dead_letters_total", schemas.ReasonUndecodable), 0)
		w.requireNoLag()

		_, stop = w.process("b")
		time.Sleep(time.Minute)
		require.NoError(t, stop())
		require.Len(t, w.letters(), len(want), "nothing is handled again")
		_, again = w.delivered()
		require.Zero(t, again)
	})
}

// C-127: a crash right before a damaged batch is settled finds it again, and what was good beside it is not repeated.
func TestProcessor_DamagedBatchesAmongGoodOnes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.createTopics()
		long := bytes.Repeat([]byte("x"), 5000)
		const damaged = 5
		_, stop := w.process("a")
		for i := range damaged {
			w.send(10)
			w.poison(w.catalogue.Events(), &liar{codec: kgo.CodecLz4, data: []byte("no")}, long, long)
			if i == 2 {
				require.NoError(t, stop())
				_, stop = w.process("b")
			}
		}
		w.send(10)
		time.Sleep(5 * time.Minute)
		require.NoError(t, stop())
		n, again := w.delivered()
		require.Equal(t, 10*(damaged+1), n)
		require.Zero(t, again)
		letters := w.letters()
		require.Len(t, letters, damaged)
		for _, l := range letters {
			require.Contains(t, l.Detail, "cannot be read")
			require.True(t, bytes.Contains(l.Raw, []byte("no")), "the batch as it is")
		}
		w.requireNoLag()
	})
}

// C-236: Kafka refuses what it is asked for, for five minutes. It is asked again after waits, and when it is well all
// is as before, each time.
func TestProcessor_RefusalsDoNotRunHot(t *testing.T) {
	for name, fault := range map[string]struct {
		key kmsg.Key
		err *kerr.Error
	}{
		"fetch: authorisation revoked": {kmsg.Fetch, kerr.TopicAuthorizationFailed},
		"fetch: server error":          {kmsg.Fetch, kerr.UnknownServerError},
		"fetch: no leader":             {kmsg.Fetch, kerr.NotLeaderForPartition},
		"fetch: corrupt on the disk":   {kmsg.Fetch, kerr.CorruptMessage},
		"fetch: disk broken":           {kmsg.Fetch, kerr.KafkaStorageError},
		"group: authorisation revoked": {kmsg.Heartbeat, kerr.GroupAuthorizationFailed},
		"group: no coordinator":        {kmsg.Heartbeat, kerr.CoordinatorNotAvailable},
		"offsets: authorisation":       {kmsg.TxnOffsetCommit, kerr.GroupAuthorizationFailed},
		"produce: authorisation":       {kmsg.Produce, kerr.TopicAuthorizationFailed},
		"transaction: authorisation":   {kmsg.AddOffsetsToTxn, kerr.TransactionalIDAuthorizationFailed},
		"transaction: no coordinator":  {kmsg.EndTxn, kerr.CoordinatorNotAvailable},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t)
				w.createTopics()
				log := &counter{lines: map[string]int{}}
				w.log = log
				requests := w.requests(fault.key)
				p, stop := w.process("a")
				w.send(20)
				time.Sleep(20 * time.Second)
				for round, lasts := range []time.Duration{5 * time.Minute, 40 * time.Second} {
					h := w.cluster.Fault(kfake.Fault{
						Keys: []kmsg.Key{fault.key}, Err: fault.err, Count: 1 << 30,
						When: func(req kmsg.Request) bool {
							produce, ok := req.(*kmsg.ProduceRequest)
							return !ok || produce.TransactionID != nil // not the test's own
						},
					})
					before := requests.Load()
					log.reset()
					w.send(20)
					time.Sleep(lasts)
					require.Positive(t, h.Hits())
					require.LessOrEqual(t, requests.Load()-before, int64(5*60*10), "ten requests a second at most")
					for line, n := range log.counts() {
						require.LessOrEqual(t, n, 5*8, "a few lines a minute: %s", line)
					}
					h.Remove()
					w.send(20)
					time.Sleep(40 * time.Second)
					require.NoError(t, p.Ready())
					n, again := w.delivered()
					require.Equal(t, 20+(round+1)*40, n, "it goes on by itself")
					require.LessOrEqual(t, again, (round+1)*40)
					w.requireNoLag()
				}
				require.NoError(t, stop())
			})
		})
	}
}

// requests counts what the cluster is asked for.
func (w *world) requests(key kmsg.Key) *atomic.Int64 {
	n := &atomic.Int64{}
	w.cluster.ControlKey(int16(key), func(kmsg.Request) (kmsg.Response, error, bool) {
		w.cluster.KeepControl()
		n.Add(1)
		return nil, nil, false
	})
	return n
}
