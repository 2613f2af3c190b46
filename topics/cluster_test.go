package topics_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/barnabas-webhooks/barnabas/topics"
)

// cluster starts an in-process broker and returns clients for it.
func cluster(t *testing.T, opts ...kfake.Opt) (*kgo.Client, *kadm.Client) {
	t.Helper()
	fake, err := kfake.NewCluster(append([]kfake.Opt{kfake.NumBrokers(1)}, opts...)...)
	require.NoError(t, err)
	t.Cleanup(fake.Close)
	client, err := kgo.NewClient(kgo.SeedBrokers(fake.ListenAddrs()...), kgo.RecordPartitioner(kgo.ManualPartitioner()))
	require.NoError(t, err)
	t.Cleanup(client.Close)
	return client, kadm.NewClient(client)
}

func small() topics.Catalogue {
	return topics.Catalogue{Prefix: "b.", Partitions: 3, Tiers: []time.Duration{200 * time.Millisecond, time.Minute}}
}

func set(t *testing.T, adm *kadm.Client, topic string, pairs ...string) {
	t.Helper()
	var configs []kadm.AlterConfig
	for i := 0; i < len(pairs); i += 2 {
		configs = append(configs, kadm.AlterConfig{Op: kadm.SetConfig, Name: pairs[i], Value: &pairs[i+1]})
	}
	responses, err := adm.AlterTopicConfigs(t.Context(), configs, topic)
	require.NoError(t, err)
	for _, r := range responses {
		require.NoError(t, r.Err)
	}
}

// problems of Verify, as "topic setting value".
func problems(t *testing.T, adm *kadm.Client, c topics.Catalogue, o topics.Options) []string {
	t.Helper()
	err := topics.Verify(t.Context(), adm, c, o)
	if err == nil {
		return nil
	}
	var bad *topics.VerifyError
	require.ErrorAs(t, err, &bad)
	var short []string
	for _, p := range bad.Problems {
		short = append(short, fmt.Sprintf("%s %s %s", p.Topic, p.Setting, p.Value))
		require.NotEmpty(t, p.Needed)
		require.NotEmpty(t, p.Why)
		require.NotEmpty(t, p.Remedy)
		require.Contains(t, err.Error(), p.String())
	}
	return short
}

func TestApply_MakesWhatVerifyWants(t *testing.T) {
	t.Parallel()
	_, adm := cluster(t)
	c := small()
	require.Len(t, problems(t, adm, c, topics.Options{}), len(c.All()), "every topic is missing")

	d, err := topics.Apply(t.Context(), adm, c, topics.Options{})
	require.NoError(t, err)
	require.Len(t, d.Topics, len(c.All()))
	require.NoError(t, topics.Verify(t.Context(), adm, c, topics.Options{}))

	again, err := topics.Apply(t.Context(), adm, c, topics.Options{})
	require.NoError(t, err)
	require.True(t, again.Empty(), "%+v", again)

	details, err := adm.ListTopics(t.Context(), c.All()...)
	require.NoError(t, err)
	for _, topic := range c.Units() {
		require.Len(t, details[topic].Partitions, 3, topic)
	}
	require.Len(t, details[c.Endpoints()].Partitions, 4)
}

func TestApply_SettingsOfTheDesign(t *testing.T) {
	t.Parallel()
	_, adm := cluster(t)
	c := small()
	_, err := topics.Apply(t.Context(), adm, c, topics.Options{})
	require.NoError(t, err)
	week, month := "604800000", "2592000000"
	want := map[string][3]string{ // cleanup, retention, timestamps
		c.Events(): {"delete", week, "LogAppendTime"}, c.Tier(0): {"delete", week, "LogAppendTime"},
		c.Tier(1): {"delete", week, "LogAppendTime"}, c.Replay(): {"delete", week, "LogAppendTime"},
		c.Idempotency(): {"compact,delete", "93600000", "LogAppendTime"}, c.Breakers(): {"compact", "-1", "LogAppendTime"}, c.Lines(): {"compact", "-1", "LogAppendTime"},
		c.DLQ(): {"delete", month, "LogAppendTime"}, c.DLQState(): {"delete", month, "LogAppendTime"},
		c.Attempts(): {"delete", week, "LogAppendTime"}, c.Endpoints(): {"compact", "-1", "CreateTime"},
	}
	require.Len(t, want, len(c.All()))
	configs, err := adm.DescribeTopicConfigs(t.Context(), c.All()...)
	require.NoError(t, err)
	for _, config := range configs {
		have := map[string]string{}
		for _, kv := range config.Configs {
			have[kv.Key] = kv.MaybeValue()
		}
		require.Equal(t, [3]string{have["cleanup.policy"], have["retention.ms"], have["message.timestamp.type"]}, want[config.Name], config.Name)
		require.Equal(t, fmt.Sprint(c.MaxMessageBytes(config.Name)), have["max.message.bytes"], config.Name)
		require.Equal(t, "1", have["min.insync.replicas"])
	}
}

// Two of three replicas must have a record, also where only the broker's default says that there are three.
func TestApply_ThreeReplicas(t *testing.T) {
	t.Parallel()
	for _, factor := range []int16{3, -1, 0} {
		_, adm := cluster(t, kfake.NumBrokers(3))
		o := topics.Options{ReplicationFactor: factor}
		_, err := topics.Apply(t.Context(), adm, small(), o)
		require.NoError(t, err)
		configs, err := adm.DescribeTopicConfigs(t.Context(), small().All()...)
		require.NoError(t, err)
		for _, config := range configs {
			for _, kv := range config.Configs {
				if kv.Key == "min.insync.replicas" {
					require.Equal(t, "2", kv.MaybeValue(), config.Name)
				}
			}
		}
		d, err := topics.Plan(t.Context(), adm, small(), o)
		require.NoError(t, err)
		require.True(t, d.Empty())
	}
}

func TestApply_LeavesLargerSettingsAlone(t *testing.T) {
	t.Parallel()
	_, adm := cluster(t)
	c := small()
	_, err := topics.Apply(t.Context(), adm, c, topics.Options{})
	require.NoError(t, err)
	set(t, adm, c.Events(), "retention.ms", "-1")
	set(t, adm, c.Attempts(), "retention.ms", "999999999999", "min.insync.replicas", "2")
	set(t, adm, c.DLQ(), "max.message.bytes", "5000000")
	set(t, adm, c.Idempotency(), "cleanup.policy", "delete, compact")
	d, err := topics.Plan(t.Context(), adm, c, topics.Options{})
	require.NoError(t, err)
	require.True(t, d.Empty(), "%+v", d)
	require.NoError(t, topics.Verify(t.Context(), adm, c, topics.Options{}))
}

// C-133, C-095: everything that breaks a promise is named at once, and apply mends it.
func TestVerify_NamesEverythingAtOnce(t *testing.T) {
	t.Parallel()
	_, adm := cluster(t)
	c := small()
	_, err := topics.Apply(t.Context(), adm, c, topics.Options{})
	require.NoError(t, err)
	set(t, adm, c.Tier(1), "retention.ms", "3600000")
	set(t, adm, c.Events(), "cleanup.policy", "compact", "message.timestamp.type", "CreateTime")
	set(t, adm, c.Replay(), "retention.bytes", "1000000")
	set(t, adm, c.Endpoints(), "cleanup.policy", "compact,delete")
	set(t, adm, c.Idempotency(), "retention.ms", "86400000", "cleanup.policy", "compact")
	set(t, adm, c.DLQ(), "max.message.bytes", "1000")
	set(t, adm, c.DLQState(), "retention.ms", "86400000")
	_, err = adm.DeleteTopics(t.Context(), c.Breakers())
	require.NoError(t, err)

	require.Equal(t, []string{
		"b.events cleanup.policy compact",
		"b.events message.timestamp.type CreateTime",
		"b.retry.1m retention.ms 3600000 (1h)",
		"b.replay retention.bytes 1000000",
		"b.idempotency cleanup.policy compact",
		"b.idempotency retention.ms 86400000 (24h)",
		"b.breakers existence missing",
		"b.dlq max.message.bytes 1000",
		"b.endpoints cleanup.policy compact,delete",
		"b.dlq.state retention.ms 86400000 (24h)",
	}, problems(t, adm, c, topics.Options{}))

	_, err = topics.Apply(t.Context(), adm, c, topics.Options{})
	require.NoError(t, err)
	require.NoError(t, topics.Verify(t.Context(), adm, c, topics.Options{}))
}

func TestVerify_TopicsMadeByHand(t *testing.T) {
	t.Parallel()
	_, adm := cluster(t)
	c := small()
	_, err := adm.CreateTopics(t.Context(), 3, 1, nil, c.All()...)
	require.NoError(t, err)
	got := problems(t, adm, c, topics.Options{})
	require.Contains(t, got, "b.events message.timestamp.type CreateTime")
	require.Contains(t, got, "b.endpoints cleanup.policy delete")
	require.Contains(t, got, "b.idempotency cleanup.policy delete")
	for _, p := range got {
		require.NotContains(t, p, "retention", "a broker's default week is enough where it is enough")
		if p != "b.dlq max.message.bytes 1048588" { // it holds more than a record: why it is there
			require.NotContains(t, p, "max.message.bytes", "so is its default size")
		}
	}
}

func TestVerify_RetentionFollowsTheLongestWait(t *testing.T) {
	t.Parallel()
	_, adm := cluster(t)
	c := small()
	_, err := topics.Apply(t.Context(), adm, c, topics.Options{})
	require.NoError(t, err)
	long := topics.Options{LongestWait: 10 * 24 * time.Hour, Window: 72 * time.Hour}
	require.Equal(t, []string{
		"b.events retention.ms 604800000 (7d)", "b.retry.200ms retention.ms 604800000 (7d)", "b.retry.1m retention.ms 604800000 (7d)",
		"b.replay retention.ms 604800000 (7d)", "b.idempotency retention.ms 93600000 (26h)",
	}, problems(t, adm, c, long))
	_, err = topics.Apply(t.Context(), adm, c, long)
	require.NoError(t, err)
	require.NoError(t, topics.Verify(t.Context(), adm, c, long))
	require.NoError(t, topics.Verify(t.Context(), adm, c, topics.Options{}))
}

func TestVerify_LaterTopicsTakeWhatEarlierOnesTake(t *testing.T) {
	t.Parallel()
	_, adm := cluster(t)
	c := small()
	_, err := topics.Apply(t.Context(), adm, c, topics.Options{})
	require.NoError(t, err)
	set(t, adm, c.Tier(0), "max.message.bytes", "2000000")
	require.Equal(t, []string{
		"b.retry.1m max.message.bytes 1048588", "b.replay max.message.bytes 1048588", "b.dlq max.message.bytes 1114124",
	}, problems(t, adm, c, topics.Options{}))
}

func TestVerify_MarksOutliveDeadLetters(t *testing.T) {
	t.Parallel()
	_, adm := cluster(t)
	c := small()
	_, err := topics.Apply(t.Context(), adm, c, topics.Options{})
	require.NoError(t, err)
	set(t, adm, c.DLQ(), "retention.ms", "-1")
	require.Equal(t, []string{"b.dlq.state retention.ms 2592000000 (30d)"}, problems(t, adm, c, topics.Options{}))
	set(t, adm, c.DLQState(), "retention.ms", "-1")
	require.Empty(t, problems(t, adm, c, topics.Options{}))
}

// C-133: every topic that deliveries wait in, each by itself: kept for an hour, compacted, or made by the broker when
// somebody asked for it.
func TestVerify_EveryTopicThatDeliveriesWaitIn(t *testing.T) {
	t.Parallel()
	_, adm := cluster(t)
	c := small()
	_, err := topics.Apply(t.Context(), adm, c, topics.Options{})
	require.NoError(t, err)
	for _, topic := range c.Consumed() {
		set(t, adm, topic, "retention.ms", "3600000")
		require.Equal(t, []string{topic + " retention.ms 3600000 (1h)"}, problems(t, adm, c, topics.Options{}))
		set(t, adm, topic, "retention.ms", "604800000", "cleanup.policy", "compact")
		require.Equal(t, []string{topic + " cleanup.policy compact"}, problems(t, adm, c, topics.Options{}))
		set(t, adm, topic, "cleanup.policy", "compact,delete")
		require.Equal(t, []string{topic + " cleanup.policy compact,delete"}, problems(t, adm, c, topics.Options{}))

		_, err = adm.DeleteTopics(t.Context(), topic)
		require.NoError(t, err)
		require.Equal(t, []string{topic + " existence missing"}, problems(t, adm, c, topics.Options{}))
		_, err = adm.CreateTopics(t.Context(), 1, 1, nil, topic) // what auto.create.topics.enable makes
		require.NoError(t, err)
		require.Contains(t, problems(t, adm, c, topics.Options{}), topic+" partitions 1")
		_, err = adm.DeleteTopics(t.Context(), topic)
		require.NoError(t, err)
		_, err = topics.Apply(t.Context(), adm, c, topics.Options{})
		require.NoError(t, err)
		require.Empty(t, problems(t, adm, c, topics.Options{}))
	}
}

// C-133: partition counts are never changed, and nothing else is done in their stead.
func TestApply_RefusesOtherPartitionCounts(t *testing.T) {
	t.Parallel()
	_, adm := cluster(t)
	c := small()
	_, err := adm.CreateTopics(t.Context(), 1, 1, nil, c.Events(), c.DLQ())
	require.NoError(t, err)
	_, err = adm.CreateTopics(t.Context(), 7, 1, nil, c.Endpoints())
	require.NoError(t, err)

	d, err := topics.Apply(t.Context(), adm, c, topics.Options{})
	var bad *topics.VerifyError
	require.ErrorAs(t, err, &bad)
	require.Len(t, bad.Problems, 2)
	require.ErrorContains(t, err, "topic b.events: partitions is 1, needed: 3")
	require.ErrorContains(t, err, "set partitions to 1 in the configuration if all unit topics have that many")
	require.Equal(t, topics.ActionRefuse, d.Topics[0].Action)

	details, err := adm.ListTopics(t.Context())
	require.NoError(t, err)
	require.Len(t, details.Names(), 3, "nothing was created")
	require.Contains(t, problems(t, adm, c, topics.Options{}), "b.events partitions 1")
	var table strings.Builder
	require.NoError(t, topics.WritePlan(&table, d))
	require.Contains(t, table.String(), "partitions: 1, needed 3: set partitions to 1")
}

func TestApply_TwoAtOnce(t *testing.T) {
	t.Parallel()
	_, adm := cluster(t)
	c := small()
	errs := make(chan error, 4)
	for range cap(errs) {
		go func() {
			_, err := topics.Apply(t.Context(), adm, c, topics.Options{})
			errs <- err
		}()
	}
	for range cap(errs) {
		require.NoError(t, <-errs)
	}
	require.NoError(t, topics.Verify(t.Context(), adm, c, topics.Options{}))
}

// A cluster that cannot be asked has not failed the check.
func TestVerify_UnreachableClusterIsNoVerifyError(t *testing.T) {
	t.Parallel()
	client, err := kgo.NewClient(kgo.SeedBrokers("127.0.0.1:1"))
	require.NoError(t, err)
	t.Cleanup(client.Close)
	ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	err = topics.Verify(ctx, kadm.NewClient(client), small(), topics.Options{})
	require.Error(t, err)
	var bad *topics.VerifyError
	require.NotErrorAs(t, err, &bad)

	_, err = topics.Plan(ctx, kadm.NewClient(client), topics.Catalogue{}, topics.Options{})
	require.ErrorContains(t, err, "topic catalogue: partitions 0")
}

func produce(t *testing.T, client *kgo.Client, topic string, partition int32, n int) {
	t.Helper()
	for range n {
		r := &kgo.Record{Topic: topic, Partition: partition, Value: []byte("x")}
		require.NoError(t, client.ProduceSync(t.Context(), r).FirstErr())
	}
}

func TestLag_MissingTopic(t *testing.T) {
	t.Parallel()
	_, adm := cluster(t)
	_, err := topics.Lag(t.Context(), adm, "g", small())
	require.ErrorContains(t, err, "list offsets of topic b.events: UNKNOWN_TOPIC_OR_PARTITION")
}

func TestLag(t *testing.T) {
	t.Parallel()
	client, adm := cluster(t)
	c := small()
	_, err := topics.Apply(t.Context(), adm, c, topics.Options{})
	require.NoError(t, err)

	produce(t, client, c.Events(), 0, 10)
	produce(t, client, c.Events(), 1, 10)
	produce(t, client, c.Events(), 2, 4)
	produce(t, client, c.Tier(1), 2, 5)

	lags, err := topics.Lag(t.Context(), adm, "g", c)
	require.NoError(t, err)
	require.Len(t, lags, 4*3)
	require.Equal(t, topics.PartitionLag{Topic: c.Events(), Partition: 0, End: 10, Committed: -1, Lag: 10}, lags[0])

	var offsets kadm.Offsets
	offsets.AddOffset(c.Events(), 0, 7, -1)
	offsets.AddOffset(c.Events(), 1, 3, -1)
	offsets.AddOffset(c.Events(), 2, 9, -1) // C-129: ahead of the log's end
	require.NoError(t, adm.CommitAllOffsets(t.Context(), "g", offsets))
	var gone kadm.Offsets // C-129: committed offsets that are gone
	gone.AddOffset(c.Events(), 1, 6, -1)
	_, err = adm.DeleteRecords(t.Context(), gone)
	require.NoError(t, err)

	events, err := topics.EventsLag(t.Context(), adm, "g", c)
	require.NoError(t, err)
	require.Equal(t, map[int32]int64{0: 3, 1: 4, 2: 4}, events)
	lags, err = topics.Lag(t.Context(), adm, "g", c)
	require.NoError(t, err)
	require.Equal(t, []topics.PartitionLag{
		{Topic: c.Events(), Partition: 0, End: 10, Committed: 7, Lag: 3},
		{Topic: c.Events(), Partition: 1, Start: 6, End: 10, Committed: 3, Lag: 4, Gap: 3},
		{Topic: c.Events(), Partition: 2, End: 4, Committed: 9, Lag: 4, Gap: -5},
	}, lags[:3])
	require.Equal(t, []topics.TopicLag{
		{Topic: c.Events(), Lag: 11, Gap: 3}, {Topic: c.Tier(0)}, {Topic: c.Tier(1), Lag: 5}, {Topic: c.Replay()},
	}, topics.Sum(lags))
}
