package topics

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
)

// Action is what applying a plan does to one topic.
type Action string

// Actions.
const (
	ActionNone   Action = "ok"     // it is as wanted
	ActionCreate Action = "create" // it is missing
	ActionAlter  Action = "alter"  // settings differ
	ActionRefuse Action = "refuse" // what differs cannot be changed; see Problem
)

// Change is one setting that a plan sets.
type Change struct {
	Setting string
	Current string // empty where the topic is created
	Wanted  string
}

// TopicDiff is what one topic lacks.
type TopicDiff struct {
	Topic       string
	Action      Action
	Partitions  int      // as the topic has them, or is created with
	Replication int      // likewise; -1: the broker's default
	Changes     []Change // all settings where it is created
	Problem     *Problem // set where Action is ActionRefuse
}

// Diff is the difference between the catalogue and a cluster, in the order of
// an event's path through the topics.
type Diff struct {
	Topics []TopicDiff
}

// Empty says that there is nothing to do.
func (d Diff) Empty() bool {
	for _, t := range d.Topics {
		if t.Action != ActionNone {
			return false
		}
	}
	return true
}

// refused is what keeps the plan from being applied, or nil.
func (d Diff) refused() error {
	var problems []Problem
	for _, t := range d.Topics {
		if t.Problem != nil {
			problems = append(problems, *t.Problem)
		}
	}
	if len(problems) == 0 {
		return nil
	}
	return &VerifyError{Problems: problems}
}

// Plan compares the catalogue with the cluster and changes nothing. Settings
// that only need to be large enough are left alone where they are larger.
func Plan(ctx context.Context, adm *kadm.Client, c Catalogue, o Options) (Diff, error) {
	if err := c.Validate(); err != nil {
		return Diff{}, fmt.Errorf("topic catalogue: %w", err)
	}
	states, err := c.read(ctx, adm)
	if err != nil {
		return Diff{}, err
	}
	o = o.withDefaults()
	var d Diff
	for _, s := range c.specs(o) {
		d.Topics = append(d.Topics, s.diff(states, o))
	}
	return d, nil
}

func (s *spec) diff(states map[string]state, o Options) TopicDiff {
	have, exists := states[s.topic]
	if !exists {
		d := TopicDiff{Topic: s.topic, Action: ActionCreate, Partitions: s.partitions, Replication: int(o.ReplicationFactor)}
		for _, want := range s.wanted(int(o.ReplicationFactor)) {
			d.Changes = append(d.Changes, Change{Setting: want.name, Wanted: want.wanted})
		}
		return d
	}
	d := TopicDiff{Topic: s.topic, Action: ActionNone, Partitions: have.partitions, Replication: have.replication}
	for _, want := range s.wanted(have.replication) {
		if current := have.settings[want.name]; !want.holds(current) {
			d.Changes = append(d.Changes, Change{Setting: want.name, Current: current, Wanted: want.wanted})
			d.Action = ActionAlter
		}
	}
	if s.unit && have.partitions != s.partitions {
		problem := partitionProblem(s.topic, have.partitions, s.partitions)
		d.Action, d.Problem = ActionRefuse, &problem
	}
	return d
}

// wanted is the settings of a topic with that many replicas: of three, two
// must have a record before it is acknowledged.
func (s *spec) wanted(replication int) []setting {
	if replication < 3 {
		return s.settings
	}
	return append(s.settings[:len(s.settings):len(s.settings)], minInSync())
}

func minInSync() setting { return setting{name: settingMinInSync, wanted: "2", rule: atLeast} }

// Apply makes the cluster as the catalogue wants it: it creates what is
// missing and changes settings. It is safe to repeat and to run at the same time as
// another. Partition counts of existing topics are never changed: where one would
// have to be, nothing at all is done and the error is a *[VerifyError] that says why.
// The returned plan is what was to be done; with an error, some of it may be done.
func Apply(ctx context.Context, adm *kadm.Client, c Catalogue, o Options) (Diff, error) {
	d, err := Plan(ctx, adm, c, o)
	if err != nil {
		return Diff{}, err
	}
	if err := d.refused(); err != nil {
		return d, err
	}
	var errs []error
	for _, t := range d.Topics {
		switch t.Action {
		case ActionCreate:
			errs = append(errs, create(ctx, adm, t))
		case ActionAlter:
			errs = append(errs, alter(ctx, adm, t.Topic, t.Changes))
		case ActionNone, ActionRefuse:
		}
	}
	if err := errors.Join(errs...); err != nil {
		return d, err
	}
	return d, c.await(ctx, adm)
}

// CreateMissing creates the topics that are not there and changes none that is:
// what a process may do at start where it is told to. Verify judges the others.
func CreateMissing(ctx context.Context, adm *kadm.Client, c Catalogue, o Options) error {
	d, err := Plan(ctx, adm, c, o)
	if err != nil {
		return err
	}
	var errs []error
	for _, t := range d.Topics {
		if t.Action == ActionCreate {
			errs = append(errs, create(ctx, adm, t))
		}
	}
	if err := errors.Join(errs...); err != nil {
		return err
	}
	return c.await(ctx, adm)
}

// How long, and how often, Apply looks for what it has made.
const (
	awaitFor   = time.Minute
	awaitEvery = 50 * time.Millisecond
)

// await waits until every topic is seen: a broker that has not yet heard of one from the controller would
// tell whoever comes next that it is missing.
func (c Catalogue) await(ctx context.Context, adm *kadm.Client) error {
	ctx, cancel := context.WithTimeoutCause(ctx, awaitFor, errors.New("created topics are not to be seen"))
	defer cancel()
	for {
		states, err := c.read(ctx, adm)
		if err == nil && len(states) == len(c.All()) {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("wait for created topics: %w", errors.Join(context.Cause(ctx), err))
		case <-time.After(awaitEvery): //nolint:forbidigo // asking a cluster is not the pure part
		}
	}
}

func create(ctx context.Context, adm *kadm.Client, t TopicDiff) error {
	configs := map[string]*string{}
	for _, change := range t.Changes {
		configs[change.Setting] = kadm.StringPtr(change.Wanted)
	}
	made, err := adm.CreateTopic(ctx, int32(t.Partitions), int16(t.Replication), configs, t.Topic)
	switch {
	case errors.Is(err, kerr.TopicAlreadyExists):
		return nil // somebody else was quicker, with the same plan
	case err != nil:
		return fmt.Errorf("create topic %s: %w%s", t.Topic, err, because(made.ErrMessage))
	}
	if _, set := configs[settingMinInSync]; set || made.ReplicationFactor < 3 {
		return nil
	}
	// The broker's default turned out to be three or more.
	return alter(ctx, adm, t.Topic, []Change{{Setting: settingMinInSync, Wanted: minInSync().wanted}})
}

func alter(ctx context.Context, adm *kadm.Client, topic string, changes []Change) error {
	var configs []kadm.AlterConfig
	for _, change := range changes {
		configs = append(configs, kadm.AlterConfig{Op: kadm.SetConfig, Name: change.Setting, Value: kadm.StringPtr(change.Wanted)})
	}
	responses, err := adm.AlterTopicConfigs(ctx, configs, topic)
	if err != nil {
		return fmt.Errorf("change settings of topic %s: %w", topic, err)
	}
	for _, r := range responses {
		if r.Err != nil {
			return fmt.Errorf("change settings of topic %s: %w%s", topic, r.Err, because(r.ErrMessage))
		}
	}
	return nil
}

func because(message string) string {
	if message == "" {
		return ""
	}
	return " (" + message + ")"
}

// WritePlan writes a plan as a table for people.
func WritePlan(w io.Writer, d Diff) error {
	var table strings.Builder
	table.WriteString("ACTION\tTOPIC\tPARTITIONS\tREPLICAS\tSETTINGS\n")
	counts := map[Action]int{}
	for _, t := range d.Topics {
		counts[t.Action]++
		replicas := strconv.Itoa(t.Replication)
		if t.Replication < 0 {
			replicas = "default"
		}
		lines := settingLines(t)
		fmt.Fprintf(&table, "%s\t%s\t%d\t%s\t%s\n", t.Action, t.Topic, t.Partitions, replicas, lines[0])
		for _, line := range lines[1:] {
			fmt.Fprintf(&table, "\t\t\t\t%s\n", line)
		}
	}
	tw := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	_, err := io.WriteString(tw, table.String())
	if err == nil {
		err = tw.Flush()
	}
	if err == nil {
		_, err = fmt.Fprintf(w, "%d to create, %d to alter, %d refused, %d as wanted\n",
			counts[ActionCreate], counts[ActionAlter], counts[ActionRefuse], counts[ActionNone])
	}
	if err != nil {
		return fmt.Errorf("write plan: %w", err)
	}
	return nil
}

// settingLines has at least one line.
func settingLines(t TopicDiff) []string {
	var lines []string
	if t.Problem != nil {
		lines = append(lines, fmt.Sprintf("%s: %s, needed %s: %s", t.Problem.Setting, t.Problem.Value, t.Problem.Needed, t.Problem.Remedy))
	}
	for _, c := range t.Changes {
		wanted := readable(c.Setting, c.Wanted)
		if t.Action == ActionCreate {
			lines = append(lines, c.Setting+"="+wanted)
		} else {
			lines = append(lines, fmt.Sprintf("%s: %s -> %s", c.Setting, readable(c.Setting, c.Current), wanted))
		}
	}
	if len(lines) == 0 {
		return []string{"-"}
	}
	return lines
}

// readable adds to a number what it means.
func readable(name, value string) string {
	switch {
	case value == "":
		return "(not reported)"
	case value == "-1" && (name == settingRetention || name == settingBytes):
		return "-1 (no limit)"
	case name == settingRetention:
		if ms, err := strconv.ParseInt(value, 10, 64); err == nil && ms < int64(1<<63-1)/int64(time.Millisecond) {
			return value + " (" + days(time.Duration(ms)*time.Millisecond) + ")"
		}
	}
	return value
}

// days is a duration with days, where it has some: 7d, 26h, 2d2h.
func days(d time.Duration) string {
	const day = 24 * time.Hour
	if d < 2*day {
		return tierName(d)
	}
	rest := ""
	if d%day != 0 {
		rest = tierName(d % day)
	}
	return strings.TrimSpace(strconv.Itoa(int(d/day)) + "d" + rest)
}
