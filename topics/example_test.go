package topics_test

import (
	"context"
	"fmt"
	"os"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/barnabas-webhooks/barnabas/topics"
)

func ExampleCatalogue() {
	c := topics.DefaultCatalogue()
	c.Tiers = []time.Duration{10 * time.Second, 90 * time.Second}
	fmt.Println(c.Consumed())
	fmt.Println(topics.Partition("ep_42", c.Partitions))
	// Output:
	// [barnabas.events barnabas.retry.10s barnabas.retry.1m30s barnabas.replay]
	// 51
}

func ExampleWritePlan() {
	broker, err := kfake.NewCluster(kfake.NumBrokers(1))
	if err != nil {
		panic(err)
	}
	defer broker.Close()
	adm, err := kadm.NewOptClient(kgo.SeedBrokers(broker.ListenAddrs()...))
	if err != nil {
		panic(err)
	}
	defer adm.Close()

	ctx := context.Background()
	c := topics.Catalogue{Partitions: 8, Tiers: []time.Duration{time.Minute}}
	if _, err := topics.Apply(ctx, adm, c, topics.Options{}); err != nil {
		panic(err)
	}
	day := "86400000"
	if _, err := adm.AlterTopicConfigs(ctx, []kadm.AlterConfig{{Name: "retention.ms", Value: &day}}, "retry.1m"); err != nil {
		panic(err)
	}
	plan, err := topics.Plan(ctx, adm, c, topics.Options{})
	if err != nil {
		panic(err)
	}
	if err := topics.WritePlan(os.Stdout, plan); err != nil {
		panic(err)
	}
	fmt.Println(topics.Verify(ctx, adm, c, topics.Options{}))
	// Output:
	// ACTION  TOPIC        PARTITIONS  REPLICAS  SETTINGS
	// ok      events       8           1         -
	// alter   retry.1m     8           1         retention.ms: 86400000 (24h) -> 604800000 (7d)
	// ok      replay       8           1         -
	// ok      idempotency  8           1         -
	// ok      breakers     8           1         -
	// ok      lines        8           1         -
	// ok      dlq          8           1         -
	// ok      dlq.state    8           1         -
	// ok      attempts     8           1         -
	// ok      endpoints    4           1         -
	// 0 to create, 1 to alter, 0 refused, 9 as wanted
	// topics cannot hold what Barnabas promises, 1 problem(s):
	//   topic retry.1m: retention.ms is 86400000 (24h), needed: at least 180000000 (2d2h) (records that wait longer are lost); run: barnabas topics apply
}
