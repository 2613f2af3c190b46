package e2e_test

import (
	"bytes"
	"fmt"
	"net"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/barnabas-webhooks/barnabas/internal/api"
	"github.com/barnabas-webhooks/barnabas/internal/listen"
	"github.com/barnabas-webhooks/barnabas/schemas"
	"github.com/barnabas-webhooks/barnabas/topics"
)

// Garbage in events and in a tier is a dead letter with its bytes and its
// coordinates; its neighbours are delivered, and it is not handled again after a
// restart (C-127).
func TestBadInput_GarbageRecords(t *testing.T) {
	t.Parallel()
	s := newSite(t, openBroker(t), "")
	p := s.serve()
	r, url := s.receiver(listen.Options{})
	s.endpoint("ep_ok", url)
	producer := s.kafka(kgo.RecordPartitioner(kgo.ManualPartitioner()))
	at := int32(topics.Partition("ep_ok", 4))
	event := func(v string) *kgo.Record {
		return &kgo.Record{Topic: s.catalogue().Events(), Partition: at, Key: []byte("ep_ok"), Value: []byte(v), Headers: []kgo.RecordHeader{
			{Key: "event-type", Value: []byte("t")},
		}}
	}
	garbage := []*kgo.Record{
		{Topic: s.catalogue().Events(), Partition: at, Key: []byte("ep_ok"), Value: []byte("\xc3\x01garbage")},
		{Topic: s.catalogue().Events(), Partition: at, Value: []byte(`{"json":"of another kind"}`)},
		{Topic: s.catalogue().Events(), Partition: at},
		{Topic: s.catalogue().Events(), Partition: at, Key: []byte("ep_ok"), Value: []byte(`{"endpoint_id":"ep_ok","pay`)},
	}
	for _, topic := range append(s.catalogue().TierTopics(), s.catalogue().Replay()) {
		for _, value := range [][]byte{
			[]byte("not a delivery"), bytes.Repeat([]byte{0xff}, 1000), []byte("\xc3\x01of the future"), []byte(`{"json":"of another kind"}`), nil,
		} {
			garbage = append(garbage, &kgo.Record{Topic: topic, Partition: at, Key: []byte("ep_ok"), Value: value})
		}
	}
	require.NoError(t, producer.ProduceSync(t.Context(), append(append([]*kgo.Record{event("1")}, garbage...), event("2"))...).FirstErr())

	letters := s.deadLetters()
	await(t, "a dead letter for each", func() bool { return len(letters()) >= len(garbage) })
	await(t, "the neighbours", func() bool { return r.Stats().Delivered == 2 })
	require.Zero(t, p.terminate())
	s.serve()
	require.NoError(t, producer.ProduceSync(t.Context(), event("3")).FirstErr())
	await(t, "what comes after a restart", func() bool { return r.Stats().Delivered == 3 })

	require.Len(t, letters(), len(garbage))
	found := map[string]bool{}
	for _, l := range letters() {
		require.Equal(t, schemas.ReasonUndecodable, l.Reason)
		require.NotEmpty(t, l.Detail)
		found[fmt.Sprintf("%s/%d/%d=%q", l.Source.Topic, l.Source.Partition, l.Source.Offset, l.Raw)] = true
	}
	for _, g := range garbage {
		require.True(t, found[fmt.Sprintf("%s/%d/%d=%q", g.Topic, g.Partition, g.Offset, g.Value)], "%s %q", g.Topic, g.Value)
	}
}

// C-127: a batch that is not compressed as it says. Apache Kafka refuses it; where a broker takes it, it is one
// dead letter, and what comes behind it in its partition is delivered.
func TestBadInput_BatchThatCannotBeRead(t *testing.T) {
	t.Parallel()
	s := newSite(t, openBroker(t), "")
	s.serve()
	r, url := s.receiver(listen.Options{})
	s.endpoint("ep_ok", url)
	event := func() *kgo.Record {
		return &kgo.Record{Topic: s.catalogue().Events(), Key: []byte("ep_ok"), Value: bytes.Repeat([]byte("x"), 5000), Headers: []kgo.RecordHeader{
			{Key: "event-type", Value: []byte("t")},
		}}
	}
	liar := s.kafka(kgo.WithCompressor(notGzip{}))
	err := liar.ProduceSync(t.Context(), event()).FirstErr()
	letters := s.deadLetters()
	if onKafka {
		require.Error(t, err)
	} else {
		require.NoError(t, err)
	}
	require.NoError(t, s.kafka().ProduceSync(t.Context(), event()).FirstErr())
	await(t, "what comes behind it", func() bool { return r.Stats().Delivered == 1 })
	if onKafka {
		require.Empty(t, letters())
		return
	}
	await(t, "its dead letter", func() bool { return len(letters()) == 1 })
	require.Equal(t, schemas.ReasonUndecodable, letters()[0].Reason)
	require.Contains(t, letters()[0].Detail, "cannot be read")
}

// notGzip is a compressor whose batches are not what they say.
type notGzip struct{}

func (notGzip) Compress(dst *bytes.Buffer, _ []byte, _ ...kgo.CompressFlag) ([]byte, kgo.CompressionCodecType) {
	dst.Reset()
	dst.WriteString("nothing of the kind")
	return dst.Bytes(), kgo.CodecGzip
}

// What a caller gets wrong is answered, and nothing of it is in events.
func TestBadInput_API(t *testing.T) {
	t.Parallel()
	s := newSite(t, openBroker(t), "")
	s.serve()
	_, err := s.send("ep_nowhere", "k", `{}`)
	require.ErrorContains(t, err, "404")
	for _, url := range []string{"ftp://x.example/", "http://169.254.169.254/latest", "http://user:pw@x.example/", "not a url"} {
		_, err := s.client.PutEndpoint(t.Context(), api.EndpointSpec{ID: "ep_bad", URL: url})
		require.Error(t, err, url)
		require.NotContains(t, err.Error(), "pw@")
	}
	s.endpoint("ep_ok", "http://127.0.0.1:1/hook")
	_, err = s.send("ep_ok", "", `{}`)
	require.Error(t, err, "the key is required")
	_, err = s.send("ep_ok", "big", `"`+strings.Repeat("x", 1<<21)+`"`)
	require.ErrorContains(t, err, "413")
	out, code := s.run("", "send", "--endpoint", "ep_nowhere", "--type", "t", "--data", "{}")
	require.Equal(t, 1, code, out)
	require.Contains(t, out, "ep_nowhere")
}

// An event for an endpoint that does not exist is held for a while, since it may
// only not be known yet, and then is a dead letter.
func TestBadInput_UnknownEndpointOnKafka(t *testing.T) {
	t.Parallel()
	s := newSite(t, openBroker(t), "")
	s.serve()
	r, url := s.receiver(listen.Options{})
	producer := s.kafka(kgo.DefaultProduceTopic(s.catalogue().Events()))
	require.NoError(t, producer.ProduceSync(t.Context(), &kgo.Record{
		Key: []byte("ep_late"), Value: []byte("{}"), Headers: []kgo.RecordHeader{{Key: "event-type", Value: []byte("t")}},
	}).FirstErr())
	// The event is there before its endpoint is.
	s.endpoint("ep_late", url)
	await(t, "the event that was there before its endpoint", func() bool { return r.Stats().Delivered == 1 })
}

// A broker that is away at the start is waited for; one that goes away later
// costs a 503 and nothing else: what was refused may be sent again at once
// (C-005, C-008, C-131, C-234).
func TestBadInput_BrokerAway(t *testing.T) {
	t.Parallel()
	o := newOutage(t)
	s := newSite(t, fmt.Sprintf("127.0.0.1:%d", o.port), "")
	p := s.start("serve", "--config", s.config, "--set", "retry.lifetime=10m") // an outage must not outlast it
	await(t, "an answer of the listener", func() bool { return status(t, s.ready) == http.StatusServiceUnavailable })
	o.up()
	s.awaitReady(p)
	r, url := s.receiver(listen.Options{})
	s.endpoint("ep_ok", url)
	_, err := s.send("ep_ok", "before", `{}`)
	require.NoError(t, err)
	attempts := s.attempts()
	await(t, "a first delivery, settled", func() bool { return len(attempts()) == 1 })

	o.down()
	_, err = s.send("ep_ok", "during", `{}`)
	require.ErrorContains(t, err, "503")
	require.True(t, p.running())
	o.up()
	await(t, "the same key to be accepted", func() bool { _, err := s.send("ep_ok", "during", `{}`); return err == nil })
	await(t, "a delivery after the outage", func() bool { return r.Stats().Delivered == 2 })
	require.Zero(t, r.Stats().Repeats)
}

// A process that is told to stop while it waits for a broker that takes connections and answers
// nothing has not failed (C-230, C-234).
func TestBadInput_StoppedBeforeTheBrokerAnswers(t *testing.T) {
	t.Parallel()
	silent, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, silent.Close()) })
	s := newSite(t, silent.Addr().String(), "")
	p := s.start("serve", "--config", s.config, "--set", "retry.lifetime=10m") // an outage must not outlast it
	await(t, "an answer of the listener", func() bool { return status(t, s.ready) == http.StatusServiceUnavailable })
	require.Zero(t, p.terminate(), p.text())
}

// C-234, C-095: a topic is missing and must not be made: it ends at once and says which. With all of them, without one
// endpoint and without one tenant's key but the operator's, it is ready.
func TestBadInput_StartsWithNothingThere(t *testing.T) {
	t.Parallel()
	s := newSite(t, openBroker(t), "")
	p := s.start("serve", "--config", s.config, "--set", "topics.create=false")
	require.Equal(t, 1, p.exitCode())
	for _, topic := range append(s.catalogue().TierTopics(), s.catalogue().Events()) {
		require.Contains(t, p.text(), topic+": existence is missing")
	}
	p = s.serve()
	require.Contains(t, get(t, s.ready), "ok")
	_, err := s.send("ep_nowhere", "k", `{}`)
	require.ErrorContains(t, err, "404")
	require.Zero(t, p.terminate())
}

// Start-up refuses a cluster that cannot hold the promises, and says what to do.
func TestBadInput_TopicsThatCannotHold(t *testing.T) {
	t.Parallel()
	broker := openBroker(t)
	s := newSite(t, broker, "")
	out, code := s.run("", "topics", "apply")
	require.Zero(t, code, out)
	out, code = s.run("", "topics", "verify")
	require.Zero(t, code, out)
	p := s.start("serve", "--config", s.config, "--set", "topics.partitions=8")
	<-p.done
	require.NotZero(t, p.cmd.ProcessState.ExitCode())
	require.Contains(t, p.text(), s.prefix+"events")
	require.Contains(t, p.text(), "partitions")
}

// A tier that is taken out of the configuration while deliveries wait in it: they would lie there unread until the broker
// deletes them. The start is refused and says what to do; when that is done it starts, and they come.
func TestBadInput_ATierIsGoneWithDeliveriesInIt(t *testing.T) {
	t.Parallel()
	s := newSite(t, openBroker(t), "")
	with := func(tier string) []string {
		return []string{"--set", "retry.tiers=1s,2s," + tier, "--set", "retry.caps=10s,10s,10s", "--set", "retry.lifetime=10m"}
	}
	p := s.serve(with("20s")...)
	const sends = 8 // some of their first waits are longer than 2 s
	r, url := s.receiver(listen.Options{FailFirst: 1})
	s.endpoint("ep_tier", url)
	for i := range sends {
		_, err := s.send("ep_tier", fmt.Sprintf("key-%d", i), `{}`)
		require.NoError(t, err)
	}
	attempts := s.attempts()
	await(t, "all first attempts", func() bool { return len(attempts()) >= sends })
	require.Zero(t, p.terminate())

	for range 2 {
		p = s.start(append([]string{"serve", "--config", s.config}, with("30s")...)...)
		<-p.done
		require.NotZero(t, p.cmd.ProcessState.ExitCode())
		require.Contains(t, p.text(), s.prefix+"retry.20s")
		require.Contains(t, p.text(), "put 20s back into retry.tiers")
	}
	p = s.serve(with("20s")...)
	await(t, "the deliveries", func() bool { return r.Stats().Delivered == sends })
	await(t, "their outcomes", func() bool { return len(attempts()) >= 2*sends })
	require.Zero(t, p.terminate())
	p = s.serve(with("30s")...) // nothing but markers of transactions is left there
	require.Zero(t, p.terminate())
}
