package main_test

import (
	"encoding/base64"
	"encoding/hex"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kgo"

	main "github.com/barnabas-webhooks/barnabas/cmd/barnabas"
	"github.com/barnabas-webhooks/barnabas/dlq"
	"github.com/barnabas-webhooks/barnabas/internal/devbroker"
	"github.com/barnabas-webhooks/barnabas/schemas"
)

// onBroker is a world whose configuration names a broker of its own.
func onBroker(t *testing.T) (world, *devbroker.Broker) {
	t.Helper()
	b, err := devbroker.Start(devbroker.Options{Dir: t.TempDir()})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, b.Close()) })
	deps := parts(t)
	deps.Environ = []string{"BARNABAS_KAFKA__BROKERS=" + b.Addr(), "BARNABAS_TOPICS__PARTITIONS=2"}
	return world{deps: deps}, b
}

func TestTopics_PlanApplyVerify(t *testing.T) {
	t.Parallel()
	w, _ := onBroker(t)
	o := w.run(t, "topics", "verify")
	requireCode(t, main.ExitFailure, o)
	require.Contains(t, o.stderr, "barnabas.events")

	o = w.run(t, "topics", "plan")
	requireCode(t, main.ExitOK, o)
	require.Contains(t, o.out, "create  barnabas.events")
	requireCode(t, main.ExitFailure, w.run(t, "topics", "verify"))

	requireCode(t, main.ExitOK, w.run(t, "topics", "apply"))
	o = w.run(t, "topics", "verify")
	requireCode(t, main.ExitOK, o)
	require.Equal(t, "topics are as they must be\n", o.out)
	o = w.run(t, "topics", "plan", "--json")
	requireCode(t, main.ExitOK, o)
	require.NotContains(t, o.out, `"create"`)

	// C-133: another number of partitions is refused, and nothing is done.
	o = w.run(t, "topics", "apply", "--set", "topics.partitions=4")
	requireCode(t, main.ExitFailure, o)
	require.Contains(t, o.stderr, "partitions")
	o = w.run(t, "topics", "plan", "--topic-prefix", "other.", "--config", writeFile(t, "topics: {replication: 1}\n"))
	requireCode(t, main.ExitOK, o)
	require.Contains(t, o.out, "other.events")
}

func TestLag(t *testing.T) {
	t.Parallel()
	w, b := onBroker(t)
	requireCode(t, main.ExitFailure, w.run(t, "lag"))
	requireCode(t, main.ExitOK, w.run(t, "topics", "apply"))
	cl, err := kgo.NewClient(kgo.SeedBrokers(b.Addr()))
	require.NoError(t, err)
	defer cl.Close()
	for range 3 {
		require.NoError(t, cl.ProduceSync(t.Context(), &kgo.Record{Topic: "barnabas.events", Key: []byte("e"), Value: []byte("v")}).FirstErr())
	}
	o := w.run(t, "lag")
	requireCode(t, main.ExitOK, o)
	require.Regexp(t, `barnabas\.events +3 +0`, o.out)
	o = w.run(t, "lag", "--partitions")
	require.Regexp(t, `barnabas\.retry\.6h +1 +-1 +0 +0 +0`, o.out)
	o = w.run(t, "lag", "--json")
	require.Contains(t, o.out, `"Lag": 3`)
}

func TestDLQ_ListShowStatsReplay(t *testing.T) {
	t.Parallel()
	w, b := onBroker(t)
	requireCode(t, main.ExitOK, w.run(t, "topics", "apply"))
	requireCode(t, main.ExitNoMatch, w.run(t, "dlq", "list"))
	requireCode(t, main.ExitOK, w.run(t, "dlq", "stats"))
	o := w.run(t, "dlq", "replay", "--all")
	requireCode(t, main.ExitNoMatch, o)
	require.Contains(t, o.stderr, "no dead letter matches")

	cl, err := kgo.NewClient(kgo.SeedBrokers(b.Addr()), kgo.RecordPartitioner(kgo.ManualPartitioner()))
	require.NoError(t, err)
	defer cl.Close()
	letter := schemas.DeadLetter{
		Delivery: schemas.Delivery{ID: schemas.MintDeliveryID(), EndpointID: "ep_gone", Tenant: "acme", EventType: "order.paid", ContentType: "text/plain", Payload: []byte("hello")},
		Reason:   schemas.ReasonEndpointDeleted,
	}
	rec, err := dlq.Record("barnabas.dlq", dlq.Partition(&letter, 2), &letter)
	require.NoError(t, err)
	require.NoError(t, cl.ProduceSync(t.Context(), rec).FirstErr())

	o = w.run(t, "dlq", "list", "--endpoint", "ep_gone")
	requireCode(t, main.ExitOK, o)
	require.Contains(t, o.out, letter.Delivery.ID)
	o = w.run(t, "dlq", "show", letter.Delivery.ID)
	requireCode(t, main.ExitOK, o)
	require.Contains(t, o.out, "hello")
	requireCode(t, main.ExitNoMatch, w.run(t, "dlq", "show", "dlv_nobody"))
	o = w.run(t, "dlq", "stats", "--json")
	requireCode(t, main.ExitOK, o)
	require.Contains(t, o.out, `"ep_gone"`)

	// C-149: a letter whose endpoint is gone is refused, said so, and the exit code tells.
	o = w.run(t, "dlq", "replay", "--endpoint", "ep_gone", "--json")
	requireCode(t, main.ExitPartial, o)
	require.Contains(t, o.out, `"refused":1`)
	o = w.run(t, "dlq", "replay", "--endpoint", "ep_gone", "--dry-run")
	requireCode(t, main.ExitPartial, o)
}

// C-145: no scope, slips and nonsense are refused before Kafka is asked.
func TestDLQ_RefusesUnsafeCommandLines(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		args []string
		want string
	}{
		"no scope":         {[]string{"replay"}, "no scope"},
		"rate":             {[]string{"replay", "--all", "--rate", "0"}, "rate"},
		"reason":           {[]string{"replay", "--reason", "tiemout"}, "tiemout"},
		"empty value":      {[]string{"replay", "--endpoint", ""}, "endpoint: empty value"},
		"since":            {[]string{"replay", "--since", "yesterday"}, "--since"},
		"until":            {[]string{"list", "--until", "-2h"}, "--until"},
		"empty range":      {[]string{"stats", "--since", "1h", "--until", "2h"}, "since"},
		"negative limit":   {[]string{"list", "--limit", "-1"}, "limit"},
		"misspelt filter":  {[]string{"replay", "--endpont", "e"}, "--endpont"},
		"unknown setting":  {[]string{"list", "--set", "kafka.broker=x:1"}, "kafka.brokers"},
		"positional value": {[]string{"replay", "ep_1"}, "ep_1"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			deps := parts(t)
			deps.Environ = []string{"BARNABAS_KAFKA__BROKERS=127.0.0.1:1"}
			o := world{deps: deps}.run(t, append([]string{"dlq"}, c.args...)...)
			requireCode(t, main.ExitUsage, o)
			require.Contains(t, o.stderr, c.want)
		})
	}
}

func TestKafkaCommands_SayWhenThereIsNoBroker(t *testing.T) {
	t.Parallel()
	deps := parts(t)
	deps.Environ = []string{"BARNABAS_KAFKA__BROKERS=127.0.0.1:1"} // nobody listens there
	for _, args := range [][]string{{"topics", "plan"}, {"lag"}, {"dlq", "list"}, {"dlq", "replay", "--all"}} {
		o := world{deps: deps}.run(t, args...)
		requireCode(t, main.ExitFailure, o)
		require.Contains(t, o.stderr, "reach kafka at 127.0.0.1:1", args)
		require.Contains(t, o.stderr, "connection refused")
	}
}

func TestEncode(t *testing.T) {
	t.Parallel()
	const line = `{"endpoint_id":"ep_1","event_type":"order.paid","idempotency_key":"k","payload":{ "n": 1E400 }}`
	w := world{deps: parts(t), stdin: line + "\n\n"}
	o := w.run(t, "encode")
	requireCode(t, main.ExitOK, o)
	event, err := schemas.DecodeEvent([]byte(o.out))
	require.NoError(t, err)
	require.Equal(t, "ep_1", event.EndpointID)
	require.Equal(t, "k", event.IdempotencyKey)
	require.Equal(t, []byte(`{ "n": 1E400 }`), event.Payload, "C-022: byte for byte")

	raw := o.out
	o = w.run(t, "encode", "--format", "hex", "-")
	require.Equal(t, hex.EncodeToString([]byte(raw))+"\n", o.out)
	w.stdin = line + "\n" + line
	o = w.run(t, "encode", "--format", "base64")
	requireCode(t, main.ExitOK, o)
	require.Equal(t, strings.Repeat(base64.StdEncoding.EncodeToString([]byte(raw))+"\n", 2), o.out)

	requireCode(t, main.ExitUsage, w.run(t, "encode"))
	requireCode(t, main.ExitUsage, w.run(t, "encode", "--format", "xml"))
	requireCode(t, main.ExitFailure, w.run(t, "encode", "/absent"))
	w.stdin = line + "\n{\"endpoint_id\":1}\n"
	o = w.run(t, "encode", "--format", "hex")
	requireCode(t, main.ExitFailure, o)
	require.Contains(t, o.stderr, "line 2")
	w.stdin = "\n"
	requireCode(t, main.ExitNoMatch, w.run(t, "encode"))
}
