package topics

import (
	"strconv"
	"strings"
	"time"

	"github.com/barnabas-webhooks/barnabas/schemas"
)

// Names of the topic settings that are wanted, as Kafka has them.
const (
	settingCleanup    = "cleanup.policy"
	settingRetention  = "retention.ms"
	settingBytes      = "retention.bytes"
	settingTimestamp  = "message.timestamp.type"
	settingMaxMessage = "max.message.bytes"
	settingMinInSync  = "min.insync.replicas"
)

// Retention that is wanted, and the margin of what is needed.
const (
	queueRetention = 7 * 24 * time.Hour
	dlqRetention   = 30 * 24 * time.Hour
	// outageMargin is how long nothing may be processed before waiting records age away: a day, in which
	// somebody notices.
	outageMargin = 24 * time.Hour
	// windowMargin keeps a claim beyond its window until its readers are done with it.
	windowMargin = 2 * time.Hour
)

// Options are what the wanted settings depend on beside the catalogue. The
// zero value is usable.
type Options struct {
	// ReplicationFactor of the topics that are created; 0 and -1: the broker's default.
	ReplicationFactor int16
	// EndpointsPartitions is the number of partitions that the endpoints topic is created with; 0: 4.
	EndpointsPartitions int
	// LongestWait is the longest time that a delivery may wait: the retry lifetime. 0: 26 h.
	LongestWait time.Duration
	// Window is how long an idempotency key stays claimed. 0: 24 h.
	Window time.Duration
}

func (o Options) withDefaults() Options {
	if o.ReplicationFactor == 0 {
		o.ReplicationFactor = -1
	}
	if o.EndpointsPartitions == 0 {
		o.EndpointsPartitions = 4
	}
	if o.LongestWait == 0 {
		o.LongestWait = 26 * time.Hour
	}
	if o.Window == 0 {
		o.Window = 24 * time.Hour
	}
	return o
}

// MaxMessageBytes is how large a batch of a topic may be that Barnabas
// writes: what its producers are to be limited to (kgo.ProducerBatchMaxBytesFn), and
// the least that max.message.bytes must be where it is asked for. It never falls along
// the path of an event, see the limits of package schemas.
func (c Catalogue) MaxMessageBytes(topic string) int32 {
	if topic == c.DLQ() {
		return schemas.MaxDeadLetterBytes
	}
	return schemas.MaxBatchBytes
}

// rule is how a setting's value is held against the wanted one.
type rule int

const (
	exactly   rule = iota // as text
	sameSet               // as a comma-separated set
	atLeast               // as a number; more is the operator's business
	unlimited             // as a number that is -1
)

// setting is one wanted setting of a topic.
type setting struct {
	name   string
	wanted string
	rule   rule
	// needed is the value below which a promise breaks, and why says which; empty: none does.
	needed string
	why    string
}

// spec is one wanted topic.
type spec struct {
	topic      string
	unit       bool
	partitions int
	settings   []setting
}

func (s *setting) holds(value string) bool { return s.meets(value, s.wanted) }

func (s *setting) meets(value, bound string) bool {
	switch s.rule {
	case sameSet:
		return normalSet(value) == normalSet(bound)
	case atLeast:
		have, err := strconv.ParseInt(value, 10, 64)
		want, wantErr := strconv.ParseInt(bound, 10, 64)
		if err != nil || wantErr != nil {
			return false
		}
		// Of times and sizes that are kept, -1 is no limit.
		return have >= want || have == -1
	case exactly, unlimited:
		return strings.EqualFold(value, bound)
	}
	return false
}

// normalSet brings the forms of a cleanup policy to one: "delete, compact" is "compact,delete".
func normalSet(s string) string {
	var compact, remove bool
	for item := range strings.SplitSeq(s, ",") {
		compact = compact || strings.TrimSpace(item) == "compact"
		remove = remove || strings.TrimSpace(item) == "delete"
	}
	switch {
	case compact && remove:
		return "compact,delete"
	case compact:
		return "compact"
	case remove:
		return "delete"
	}
	return s
}

func milliseconds(d time.Duration) string { return strconv.FormatInt(d.Milliseconds(), 10) }

// specs lists every wanted topic in the order of an event's path.
func (c Catalogue) specs(o Options) []spec {
	wait := o.LongestWait + outageMargin
	lost := "records that wait longer are lost"
	var specs []spec
	for _, topic := range c.Consumed() {
		specs = append(specs, c.deleted(topic, max(queueRetention, wait), wait, lost))
	}
	window := o.Window + windowMargin
	claims := c.unit(c.Idempotency(),
		policy("compact,delete"),
		setting{settingRetention, milliseconds(window), atLeast, milliseconds(window), "claims go before their window ends: repeats would be delivered again"},
		noByteLimit("claims go before their window ends"),
	)
	breakers := c.unit(c.Breakers(), policy("compact"), keptForEver())
	lines := c.unit(c.Lines(), policy("compact"), keptForEver())
	dead := c.deleted(c.DLQ(), dlqRetention, outageMargin, "dead letters go before anybody can replay them")
	marks := c.deleted(c.DLQState(), dlqRetention, 0, "") // what it needs is what dlq has: see Verify
	attempts := c.deleted(c.Attempts(), queueRetention, 0, "")
	endpoints := spec{topic: c.Endpoints(), partitions: o.EndpointsPartitions, settings: []setting{
		policy("compact"), keptForEver(), c.messageSize(c.Endpoints()),
	}}
	return append(specs, claims, breakers, lines, dead, marks, attempts, endpoints)
}

func (c Catalogue) unit(topic string, settings ...setting) spec {
	settings = append(settings, timestamps(), c.messageSize(topic))
	return spec{topic: topic, unit: true, partitions: c.Partitions, settings: settings}
}

// deleted is a unit topic that is kept for a time. needed is the least of it, for the reason why; 0: none.
func (c Catalogue) deleted(topic string, wanted, needed time.Duration, why string) spec {
	keep := setting{name: settingRetention, wanted: milliseconds(wanted), rule: atLeast}
	size := setting{name: settingBytes, wanted: "-1", rule: unlimited}
	if needed > 0 {
		keep.needed, keep.why = milliseconds(needed), why
		size = noByteLimit(why)
	}
	return c.unit(topic, policy("delete"), keep, size)
}

func policy(p string) setting {
	return setting{settingCleanup, p, sameSet, p, map[string]string{
		"delete":         "compaction keeps one record of each key and drops the others",
		"compact":        "deletion by age drops the state of endpoints that did not change for long",
		"compact,delete": "claims would pile up for ever, or one would push out another",
	}[p]}
}

// keptForEver is retention of a topic that is only compacted. Kafka ignores it there, kfake does not.
func keptForEver() setting {
	return setting{name: settingRetention, wanted: "-1", rule: unlimited}
}

func noByteLimit(why string) setting {
	return setting{settingBytes, "-1", unlimited, "-1", why + ", whatever the time"}
}

func timestamps() setting {
	return setting{settingTimestamp, "LogAppendTime", exactly, "LogAppendTime", "producers' clocks would decide when keys and records expire"}
}

func (c Catalogue) messageSize(topic string) setting {
	size := strconv.Itoa(int(c.MaxMessageBytes(topic)))
	return setting{settingMaxMessage, size, atLeast, size, "an accepted event could not be written here"}
}

// Wanted is what the catalogue asks of one topic.
type Wanted struct {
	Topic      string
	Partitions int
	Cleanup    string        // delete, compact or compact,delete
	Retention  time.Duration // 0: kept for ever
	MaxMessage int           // bytes of the largest batch
}

// Wanted lists what every topic is created with, in the order of an event's path.
func (c Catalogue) Wanted(o Options) []Wanted {
	var all []Wanted
	for _, s := range c.specs(o.withDefaults()) {
		w := Wanted{Topic: s.topic, Partitions: s.partitions}
		for _, set := range s.settings {
			n, _ := strconv.ParseInt(set.wanted, 10, 64) // what is no number is not used as one
			switch set.name {
			case settingCleanup:
				w.Cleanup = set.wanted
			case settingRetention:
				w.Retention = time.Duration(max(n, 0)) * time.Millisecond
			case settingMaxMessage:
				w.MaxMessage = int(n)
			}
		}
		all = append(all, w)
	}
	return all
}
