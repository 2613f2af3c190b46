package plan

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/barnabas-webhooks/barnabas/processor/lane"
	"github.com/barnabas-webhooks/barnabas/schemas"
)

func (v Verdict) markdown(b *strings.Builder) {
	word := "it fits"
	if !v.Fits {
		word = "it does not fit"
	}
	fmt.Fprintf(b, "\n## Verdict: %s\n\n", word)
	t := table{{"", "check", "needed", "there is", "verdict"}}
	for i, c := range v.Checks {
		t = append(t, []string{strconv.Itoa(i + 1), c.Name, c.Needed, c.Has, string(c.Status)})
	}
	t.write(b)
	b.WriteString("\n")
	for _, wanted := range []Status{DoesNot, Note} {
		for i, c := range v.Checks {
			if c.Status == wanted {
				prose(b, "* **%d, %s**: %s. Change: %s.", i+1, c.Status, c.Why, c.Change)
			}
		}
	}
	b.WriteString("\nThe formulas, in the order of the table:\n\n")
	for i, c := range v.Checks {
		fmt.Fprintf(b, "%d. `%s`\n", i+1, c.Formula)
	}
	b.WriteString("\n")
	prose(b, "Means are planned to %s of a limit: what fills it on average overruns it half of the time. \"processes - 1\": while one is "+
		"down, the others carry its load.", percent(headroom))
}

func (v Volume) markdown(b *strings.Builder, l Load) {
	b.WriteString("\n## The volume\n\n")
	limit := "not said"
	if v.Memory > 0 {
		limit = iec(v.Memory)
	}
	table{
		{"what", "flag", "value"},
		{"events, the mean", "`--rate`", rate(v.Rate)},
		{"events at once on top", "`--burst`", count(v.Burst)},
		{"endpoints", "`--endpoints`", count(v.Endpoints)},
		{"payload, the mean", "`--payload`", iec(int64(v.Payload))},
		{"time that receivers take, the mean", "`--latency`", span(v.Latency.Seconds())},
		{"order of the endpoints", "`--order`", string(v.Order)},
		{"share of the events for the busiest endpoint", "`--busiest`", percent(l.BusiestRate / v.Rate)},
		{"share of the endpoints that do nothing but fail", "`--failing`", percent(v.Failing)},
		{"share of the events with an idempotency key", "`--keyed`", percent(v.Keyed)},
		{"processors", "`--processes`", count(l.Processes)},
		{"memory that one of them may use", "`--memory`", limit},
	}.write(b)
}

func (c Contract) markdown(b *strings.Builder) {
	order := "one request at a time for each endpoint, in log order as long as nothing fails; what fails is overtaken"
	switch c.Order {
	case schemas.OrderParallel:
		order = "none: an endpoint gets several requests at a time"
	case schemas.OrderStrict:
		order = "one request at a time for each endpoint, in log order; nothing is attempted before what came before it is delivered or dead"
	case schemas.OrderOrdered:
	}
	b.WriteString("\n## The delivery contract\n\n")
	table{
		{"promise", "value"},
		{"delivery", "at least once: delivered, or one dead letter, or waiting in one place"},
		{"attempts", fmt.Sprintf("%d, the last failure is final", c.Attempts)},
		{"given up on after", span(c.LifetimeSeconds) + " from acceptance, whatever held it"},
		{"one delivery per key", "within " + span(c.WindowSeconds) + ", by the order of the log"},
		{"order", order},
		{"success", "a 2xx within " + span(c.AttemptSeconds) + "; the body does not count, redirects are not followed"},
		{"payload", "the same bytes on every attempt, " + count(c.MaxPayload) + " at most"},
		{"never early", "no attempt before its due time, nor before `Retry-After`"},
		{"a process dies", "its units stand still for " + span(c.TakeoverSeconds) + " (session + transaction timeout) and their restoring; nothing is lost"},
		{"producers may repeat", "any send, with its key; a 2xx means that all in-sync replicas have it"},
		{"nothing processed for long", "events are kept for " + span(c.EventsSeconds)},
	}.write(b)
}

func (p Plan) isolation(b *strings.Builder) {
	l := p.Lane
	b.WriteString("\n## Isolation\n\n")
	prose(b, "Each endpoint has a lane, a breaker and limits of its own, in the one process that owns its partition. Lanes take turns, one "+
		"request each. A lane holds %s of this size. What does not fit, and what waits longer than `lanes.max_age` at its head, goes "+
		"round through a tier, so that neighbours in the partition go on. New deliveries go before replays, and these before retries, by "+
		"shares: %d to %d to %d.", counted(l.Entries, "delivery"), lane.Live.Weight(), lane.Replay.Weight(), lane.Retry.Weight())
	drained := "The endpoint gets more than it bears, and never catches up."
	if l.DrainSeconds > 0 {
		drained = fmt.Sprintf("All are done after %s (burst * busiest / (in flight / latency - busiest * rate)).", span(l.DrainSeconds))
	}
	b.WriteString("\n")
	prose(b, "* A burst of %s brings %s to the busiest endpoint: %s stay in memory, %s go round through a tier. %s",
		count(p.Volume.Burst), count(l.BurstEntries), count(l.BurstEntries-l.Spilled), count(l.Spilled), drained)
	prose(b, "* The breaker opens after %d hard failures in a row or %d of any kind; then **one** probe at a time, and none while it is open.",
		p.Bound.ThresholdHard, p.Bound.ThresholdAny)
	prose(b, "* After a recovery requests grow from one at a time: one more in flight with each success, up to the endpoint's limit.")
	if p.Contract.Order == schemas.OrderParallel {
		prose(b, "* A timeout, a 429 or a 503 halves the requests in flight to its endpoint; each full round that is answered allows one more.")
	}
	prose(b, "* Faults of our own (resolver, network, egress proxy, descriptors, ports, memory, shutdown) charge nobody and spend no attempt.")
}

func (p Plan) limits(b *strings.Builder) {
	c, l := p.Contract, p.Load
	b.WriteString("\n## Timeouts and limits\n\n")
	table{
		{"limit", "setting", "value"},
		{"resolving the name", "`timeouts.dns`", span(c.DNSSeconds)},
		{"connecting", "`timeouts.connect`", span(c.ConnectSeconds)},
		{"TLS handshake", "`timeouts.tls`", span(c.TLSSeconds)},
		{"response headers", "`timeouts.headers`", span(c.HeaderSeconds)},
		{"the whole attempt", "`timeouts.total`", span(c.AttemptSeconds)},
		{"... where an endpoint sets its own", "`timeouts.max_total`", "up to " + span(c.MaxAttemptSeconds)},
		{"in flight, an endpoint", "`order`, `max_in_flight`", count(p.Bound.MaxInFlight)},
		{"in flight, a process", "`limits.in_flight`", count(l.SlotsPerProcess)},
		{"records in memory, a process", "`limits.memory`", iec(p.Memory.RecordsLimit)},
	}.write(b)
	b.WriteString("\n")
	prose(b, "By Little's law %s requests are in flight on average ((1 - failing) * rate * latency), and %s more while all that fail begin to "+
		"hang at once (failing endpoints * in flight of each, or what arrives for them within timeouts.total, with headroom). The busiest endpoint gets %s and bears %s (in flight / latency).",
		decimal(l.InFlight), count(l.HungInFlight), rate(l.BusiestRate), rate(l.BusiestCan))
}

func (l Load) markdown(b *strings.Builder, v Volume) {
	b.WriteString("\n## Partitions and processes\n\n")
	prose(b, "* The fullest of %s gets %s of the events (murmur2 of %s ids, the busiest among them): %s.",
		counted(l.Partitions, "partition"), percent(l.PartitionShare), count(v.Endpoints), rate(l.PartitionRate))
	prose(b, "* It bears %s: a record stays unsettled for %s at most (lanes.max_age + timeouts.max_total + processor.beat), and the "+
		"tracker's window of %s, less its headroom, must hold all that is read meanwhile.", rate(l.PartitionCan), span(l.ResidenceSeconds),
		counted(l.Window, "offset"))
	if l.PartitionsNeeded == 0 {
		prose(b, "* No number of partitions will do: one endpoint alone gets more than a partition bears.")
	} else {
		prose(b, "* So %s would do: the least power of two, at least one for each process. The number is pinned once there are events.",
			counted(l.PartitionsNeeded, "partition"))
	}
	prose(b, "* %s; needed are %d (slots needed / limits.in_flight, and one to spare).", counted(l.Processes, "process"), l.ProcessesNeeded)
}

func (m Memory) markdown(b *strings.Builder, p Plan) {
	b.WriteString("\n## Memory and descriptors\n\nOf one process, while one is down:\n\n")
	keys := fmt.Sprintf("%d * rate * keyed * 2 * window / (processes - 1): %s keys", keyBytes, count(m.Keys))
	if m.KeysOnDisk {
		keys = fmt.Sprintf("claims.cache; %s keys are on disk (rate * keyed * 2 * window / (processes - 1)) and need %s of it", count(m.Keys), iec(m.CacheNeeded))
	}
	table{
		{"what", "bytes", "formula"},
		{"records", iec(m.RecordsLimit), "limits.memory, where intake stops; a record of this size is charged " + count(int(m.RecordBytes))},
		{"idempotency keys", iec(m.KeysBytes), keys},
		{"endpoint table", iec(m.EndpointBytes), fmt.Sprintf("%s * endpoints, in every process", count(endpointBytes))},
		{"lanes and breakers", iec(m.LaneBytes), fmt.Sprintf("%d * endpoints / (processes - 1)", laneBytes)},
		{"**live**", "**" + iec(m.Live) + "**", "the sum"},
		{"soft limit of the runtime", iec(m.Heap), "limits.memory + 160 MiB, or 5/4 * live: what a process sets by itself, without GOMEMLIMIT"},
		{"**resident**", "**" + iec(m.Resident) + "**", "the soft limit + 96 MiB"},
		{"under way at this rate", iec(m.WorkingBytes), "part of records: (rate * (latency + beat + fetch) + burst) / (processes - 1)"},
	}.write(b)
	b.WriteString("\n")
	prose(b, "Keys are remembered for one window to two. The 160 MiB are for requests in flight, the Kafka client's buffers and garbage.")
	b.WriteString("\n")
	if m.KeysOnDisk {
		prose(b, "**Local disk**: %s in `claims.directory` (%d bytes a key, and as much again for compactions and units that moved).", iec(m.KeysDisk), keyDiskBytes)
	} else {
		prose(b, "With `claims.directory` the keys are on local disk, and take `claims.cache` of memory instead.")
	}
	b.WriteString("\n")
	prose(b, "Look-ahead: a process can keep %s until they are due (min(partitions owned * tiers * %s, limits.memory / 2 / bytes of a record)).",
		counted(m.LookAhead, "waiting delivery"), count(m.WaitingRecords))
	b.WriteString("\n")
	prose(b, "**Descriptors**: %s = 2 * limits.in_flight (connections at work, and idle ones) + api.max_concurrent (%s) + %s for Kafka and "+
		"files. A process that may open fewer (`ulimit -n`) refuses to start.", count(m.Descriptors), count(p.API.MaxConcurrent),
		count(m.Descriptors-2*p.Load.SlotsPerProcess-p.API.MaxConcurrent))
}

func (d Disk) markdown(b *strings.Builder, p Plan) {
	b.WriteString("\n## Kafka's disk\n\n")
	prose(b, "Before compression, %s of each record, each as if it were alone in its batch and its transaction: an upper bound.",
		counted(d.Copies, "copy"))
	b.WriteString("\n")
	t := table{{"topic", "partitions", "records/s", "bytes each", "kept", "disk"}}
	for _, r := range d.Topics {
		kept, per := span(r.RetentionSeconds), decimal(r.PerSecond)
		if r.RetentionSeconds == 0 {
			kept, per = "the last of each", ""
		}
		t = append(t, []string{r.Topic, count(r.Partitions), per, count(r.RecordBytes), kept, iec(r.Bytes)})
	}
	t = append(t, []string{"**all**", "", "", "", "", "**" + iec(d.Total) + "**"})
	t.write(b)
	o := p.Outage
	b.WriteString("\n")
	prose(b, "disk = records/s * bytes * kept * copies. One idempotency key takes %s a copy, once in %s.", iec(int64(d.KeyBytes)),
		span(p.Contract.WindowSeconds))
	b.WriteString("\n")
	prose(b, "The retry topics are those of %s down for longer than the lifetime: %s wait (failing * rate * lifetime), each written %s times "+
		"an hour, as drawn; as many as arrive die, %s.", counted(o.Failing, "endpoint"), counted(o.FailingWaiting, "delivery"),
		decimal(o.HoldsLater), rate(p.Volume.Rate*p.Volume.Failing))
}

func (p Plan) deadLetters(b *strings.Builder) {
	c, o := p.Contract, p.Outage
	perDay := p.Volume.Rate * p.Volume.Failing * 86400
	b.WriteString("\n## Dead letters and replay\n\n")
	prose(b, "A delivery dies of its %s failure, of its lifetime, of a 410, of a status that its endpoint calls permanent, or with its "+
		"endpoint; a record that cannot be read dies at once. It is one record in the dead-letter topic, with payload, reason and history, "+
		"for %s.", ordinal(c.Attempts), span(c.DeadLettersSeconds))
	b.WriteString("\n")
	prose(b, "1. `barnabas dlq stats` and `barnabas dlq list` say what died, of what.")
	prose(b, "2. The receiver is mended; `barnabas dlq replay --endpoint ID --dry-run` counts.")
	prose(b, "3. `barnabas dlq replay --endpoint ID --rate %d` feeds them in again: same id, %s fresh attempts, behind live work, within the "+
		"same breaker and limits. Killed, it goes on where it stopped. What dies again is one new dead letter.", p.ReplayRate, count(c.Attempts))
	b.WriteString("\n")
	prose(b, "If %s stay down for good, %s a day die (failing * rate), and to replay a day of them at %d/s takes %s.",
		counted(o.Failing, "endpoint"), count(int(perDay)), p.ReplayRate, span(perDay/float64(p.ReplayRate)))
}

func (p Plan) signing(b *strings.Builder) {
	c := p.Contract
	b.WriteString("\n## Signing and idempotency\n\n")
	prose(b, "* Standard Webhooks: `webhook-id` (never changes), `webhook-timestamp` (of this attempt), `webhook-signature` (HMAC-SHA256 over "+
		"`id.timestamp.body`, one for each active secret). A rotated-out secret signs for %s more, unless told otherwise.", span(c.OverlapSeconds))
	prose(b, "* Of all events with the same endpoint and key within %s, the one at the lowest offset is delivered, and no other.", span(c.WindowSeconds))
	prose(b, "* A receiver drops repeats by `webhook-id`; it should remember ids for %s, and as long as dead letters may be replayed (%s).",
		span(c.LifetimeSeconds), span(c.DeadLettersSeconds))
}

func (p Plan) backpressure(b *strings.Builder) {
	b.WriteString("\n## Backpressure\n\n")
	prose(b, "* **In**: a node serves %s at a time, of %s at most; more, and whatever Kafka does not acknowledge, is answered 503 with "+
		"`Retry-After`, and may be sent again with the same key. At this rate %s sends wait for their verdict at most (rate * api.verdict_wait).",
		counted(p.API.MaxConcurrent, "request"), iec(p.API.MaxBody), decimal(p.Load.APISlots))
	tenant := "has no limit of its own, but for its share of those"
	if p.API.TenantRate > 0 {
		tenant = "may send " + rate(p.API.TenantRate)
	}
	prose(b, "* **Per tenant** and node: one %s (`api.tenant_rate`, `api.tenant_concurrent`, `api.tenants`); more is answered 429 with "+
		"`Retry-After`.", tenant)
	lag := "No lag makes a node refuse sends (`api.max_lag` is 0)."
	if p.API.MaxLag > 0 {
		lag = fmt.Sprintf("When %s of a partition wait (`api.max_lag`), sends to it are answered 503: the fullest gets so many within %s.",
			counted(int(p.API.MaxLag), "event"), span(float64(p.API.MaxLag)/p.Load.PartitionRate))
	}
	prose(b, "* **Lag**: %s", lag)
	prose(b, "* **Middle**: Kafka is the queue. Intake stands still at `limits.memory`, and of a partition at its tracker's window.")
	prose(b, "* **Out**: lanes spill, breakers hold; what outlasts %s ends as a dead letter, one for each.", span(p.Contract.LifetimeSeconds))
}

func unknown(b *strings.Builder) {
	b.WriteString("\n## What this page does not know\n\n")
	prose(b, "* How much CPU a delivery takes on your machines, and how fast your Kafka settles a transaction: measure both.")
	prose(b, "* How uneven your endpoints are, beyond the busiest one, and how your receivers' times vary around their mean.")
	prose(b, "* How often processes die and units move: each time, the endpoints concerned may get their first requests once more.")
}
