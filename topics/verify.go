package topics

import (
	"context"
	"fmt"
	"strconv"
	"strings"

	"github.com/twmb/franz-go/pkg/kadm"
)

// Problem is one thing about a topic that breaks a promise.
type Problem struct {
	Topic   string
	Setting string // a topic setting as Kafka names it, "partitions" or "existence"
	Value   string // as the cluster has it
	Needed  string // what it must be at least
	Why     string // what goes wrong otherwise
	Remedy  string // what to do about it
}

func (p Problem) String() string {
	return fmt.Sprintf("topic %s: %s is %s, needed: %s (%s); %s", p.Topic, p.Setting, p.Value, p.Needed, p.Why, p.Remedy)
}

// VerifyError is a cluster whose topics cannot hold the promises. It lists
// everything at once.
type VerifyError struct {
	Problems []Problem
}

func (e *VerifyError) Error() string {
	lines := make([]string, len(e.Problems))
	for i, p := range e.Problems {
		lines[i] = p.String()
	}
	return fmt.Sprintf("topics cannot hold what Barnabas promises, %d problem(s):\n  %s", len(lines), strings.Join(lines, "\n  "))
}

const applyRemedy = "run: barnabas topics apply"

// Verify holds the cluster's topics to what the promises rest on, and to
// nothing else. A *[VerifyError] says that they are not kept; any other error that
// the cluster could not be asked.
func Verify(ctx context.Context, adm *kadm.Client, c Catalogue, o Options) error {
	if err := c.Validate(); err != nil {
		return fmt.Errorf("topic catalogue: %w", err)
	}
	states, err := c.read(ctx, adm)
	if err != nil {
		return err
	}
	var problems []Problem
	specs := c.specs(o.withDefaults())
	for _, s := range specs {
		problems = append(problems, s.problems(states)...)
	}
	problems = append(problems, c.sizeProblems(states)...)
	problems = append(problems, c.markProblems(states)...)
	if len(problems) > 0 {
		return &VerifyError{Problems: problems}
	}
	return nil
}

// problems is what can be said of a topic by itself.
func (s *spec) problems(states map[string]state) []Problem {
	have, exists := states[s.topic]
	if !exists {
		return []Problem{{
			Topic: s.topic, Setting: "existence", Value: "missing", Needed: s.shape(),
			Why: "what belongs there could not be written", Remedy: applyRemedy,
		}}
	}
	var problems []Problem
	if s.unit && have.partitions != s.partitions {
		problems = append(problems, partitionProblem(s.topic, have.partitions, s.partitions))
	}
	for _, want := range s.settings {
		if want.needed == "" {
			continue
		}
		if value := have.settings[want.name]; !want.meets(value, want.needed) {
			problems = append(problems, want.problem(s.topic, value, want.needed))
		}
	}
	return problems
}

func (s *spec) shape() string {
	if s.unit {
		return fmt.Sprintf("%d partitions", s.partitions)
	}
	return "any number of partitions"
}

func (s *setting) problem(topic, value, needed string) Problem {
	bound := readable(s.name, needed)
	if s.rule == atLeast {
		bound = "at least " + bound
	}
	return Problem{Topic: topic, Setting: s.name, Value: readable(s.name, value), Needed: bound, Why: s.why, Remedy: applyRemedy}
}

// partitionProblem is never mended by apply: with another number of partitions
// keys land elsewhere, and the order and uniqueness of what waits are gone.
func partitionProblem(topic string, have, want int) Problem {
	return Problem{
		Topic: topic, Setting: "partitions", Value: strconv.Itoa(have), Needed: strconv.Itoa(want),
		Why: "partition p of all unit topics together is one unit",
		Remedy: fmt.Sprintf("set partitions to %d in the configuration if all unit topics have that many; "+
			"else let what waits be delivered, delete the topic and run: barnabas topics apply; or start with a new prefix", have),
	}
}

// sizeProblems holds max.message.bytes to rising along the path of an event:
// an operator who allows larger events must allow larger deliveries too.
func (c Catalogue) sizeProblems(states map[string]state) []Problem {
	var problems []Problem
	before, beforeSize := "", int64(0)
	for _, topic := range append(c.Consumed(), c.DLQ()) {
		value := states[topic].settings[settingMaxMessage]
		size, err := strconv.ParseInt(value, 10, 64)
		if err != nil {
			continue // missing, or already said
		}
		// What is below the fixed minimum is already said too.
		if size < beforeSize && size >= int64(c.MaxMessageBytes(topic)) {
			problems = append(problems, Problem{
				Topic: topic, Setting: settingMaxMessage, Value: value, Needed: fmt.Sprintf("at least %d", beforeSize),
				Why:    fmt.Sprintf("%s, an earlier topic, takes larger records", before),
				Remedy: "raise it, or lower that of the earlier topic",
			})
		}
		if size > beforeSize {
			before, beforeSize = topic, size
		}
	}
	return problems
}

// markProblems holds dlq.state to being kept as long as dlq: a dead letter
// whose mark is gone would be replayed again.
func (c Catalogue) markProblems(states map[string]state) []Problem {
	needed, marks := states[c.DLQ()].settings[settingRetention], states[c.DLQState()].settings[settingRetention]
	if needed == "" || marks == "" {
		return nil // missing, which is already said
	}
	keep := setting{
		name: settingRetention, rule: atLeast,
		why: "dead letters that outlive their marks would be replayed twice",
	}
	if needed == "-1" {
		keep.rule = unlimited
	}
	if keep.meets(marks, needed) {
		return nil
	}
	p := keep.problem(c.DLQState(), marks, needed)
	p.Remedy = "keep it as long as " + c.DLQ()
	return []Problem{p}
}
