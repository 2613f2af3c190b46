package topics

import (
	"context"
	"errors"
	"fmt"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
)

// state is one topic as the cluster has it.
type state struct {
	partitions  int
	replication int
	settings    map[string]string
}

// read asks the cluster for the topics of the catalogue; those that do not
// exist are not in the answer.
func (c Catalogue) read(ctx context.Context, adm *kadm.Client) (map[string]state, error) {
	// Asked for authorised operations, kadm goes to the cluster; else it answers from a cache of up to 5 s.
	details, err := adm.ListTopics(kadm.WithAuthorizedOps(ctx), c.All()...)
	if err != nil {
		return nil, fmt.Errorf("list topics: %w", err)
	}
	states := map[string]state{}
	var present []string
	var errs []error
	for _, topic := range c.All() {
		d, ok := details[topic]
		switch {
		case !ok || errors.Is(d.Err, kerr.UnknownTopicOrPartition):
			continue
		case d.Err != nil:
			errs = append(errs, fmt.Errorf("read topic %s: %w", topic, d.Err))
			continue
		}
		present = append(present, topic)
		states[topic] = state{
			partitions:  len(d.Partitions),
			replication: d.Partitions.NumReplicas(),
			settings:    map[string]string{},
		}
	}
	configs, err := adm.DescribeTopicConfigs(ctx, present...)
	if err != nil {
		return nil, fmt.Errorf("read topic settings: %w", err)
	}
	for _, config := range configs {
		if config.Err != nil {
			errs = append(errs, fmt.Errorf("read settings of topic %s: %w", config.Name, config.Err))
			continue
		}
		for _, kv := range config.Configs {
			states[config.Name].settings[kv.Key] = kv.MaybeValue()
		}
	}
	return states, errors.Join(errs...)
}
