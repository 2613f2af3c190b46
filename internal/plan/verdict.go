package plan

import (
	"fmt"
	"math"

	"github.com/barnabas-webhooks/barnabas/schemas"
)

// Status is what a check came to.
type Status string

// The three of them. A note is what works, and has a price that is worth knowing.
const (
	Fits    Status = "fits"
	Note    Status = "note"
	DoesNot Status = "does not fit"
)

// Verdict says whether the installation carries the volume.
type Verdict struct {
	Fits   bool    `json:"fits"`
	Checks []Check `json:"checks"`
}

// Check holds one need against one limit.
type Check struct {
	Name    string `json:"name"`
	Formula string `json:"formula"`
	Needed  string `json:"needed"`
	Has     string `json:"has"`
	Status  Status `json:"status"`
	// Change is the setting to change, and to what; empty where all is well.
	Change string `json:"change,omitempty"`
	// Why says what happens otherwise.
	Why string `json:"why,omitempty"`
}

// judge goes through everything that may not suffice.
func judge(in Input, p Plan) Verdict {
	v := Verdict{Fits: true}
	add := func(c Check, holds bool, otherwise Status) {
		c.Status = Fits
		if !holds {
			c.Status = otherwise
		} else {
			c.Change, c.Why = "", ""
		}
		v.Fits = v.Fits && c.Status != DoesNot
		v.Checks = append(v.Checks, c)
	}
	l := p.Load
	slots := l.Carrying * l.SlotsPerProcess
	add(Check{
		Name: "requests in flight", Formula: "(1 - failing) * rate * latency / 0.7 + min(failing endpoints * in flight of each, failing * rate * timeouts.total / 0.7) <= (processes - 1) * limits.in_flight",
		Needed: count(l.SlotsNeeded), Has: count(slots),
		Change: fmt.Sprintf("`limits.in_flight: %d`, or `--processes %d`", ceilTo(float64(l.SlotsNeeded)/float64(l.Carrying), 64), l.ProcessesNeeded),
		Why:    "healthy endpoints wait for slots that hanging ones hold",
	}, l.SlotsNeeded <= slots, DoesNot)
	width := int(math.Ceil(l.BusiestRate * in.Latency.Seconds() / headroom))
	formula, enough := "busiest * rate <= 0.7 * in flight of an endpoint / latency", headroom*float64(in.width())/l.BusiestRate
	answers := fmt.Sprintf(", or a receiver that answers within %s", span(enough))
	if in.Order == schemas.OrderStrict {
		formula, answers = "busiest * rate <= 0.7 / (latency + processor.beat)", ""
		if rest := enough - in.Settle.Beat.Seconds(); rest > 0 {
			answers = fmt.Sprintf(", or a receiver that answers within %s, or a shorter `processor.beat`", span(rest))
		}
	}
	add(Check{
		Name: "the busiest endpoint", Formula: formula,
		Needed: rate(l.BusiestRate), Has: rate(headroom * l.BusiestCan),
		Change: fmt.Sprintf("`order: parallel` and `max_in_flight: %d` for that endpoint%s", width, answers),
		Why:    "its lane spills into the tiers, and what does not get through within the lifetime becomes dead letters",
	}, l.BusiestRate <= headroom*l.BusiestCan*(1+1e-9), DoesNot) // what it is told to be must do
	if in.Memory > 0 {
		// The keys are what more processes share, or the disk takes.
		change := "no number of processes will do: less `limits.memory`"
		if rest := (in.Memory-outsideHeap)*4/5 - p.Memory.RecordsLimit - p.Memory.EndpointBytes; rest > 0 {
			shared := (p.Memory.KeysBytes + p.Memory.LaneBytes) * int64(l.Carrying)
			change = fmt.Sprintf("`--processes %d`", 1+(shared+rest-1)/rest)
			if !in.Claims.OnDisk {
				change = "`claims.directory`, which puts the keys on disk, or " + change
			}
		}
		add(Check{
			Name: "memory of a process", Formula: "max(limits.memory + 160 MiB, 5/4 * live) + 96 MiB <= memory, where live = limits.memory + (keys + lanes) / (processes - 1) + endpoint table",
			Needed: iec(p.Memory.Resident), Has: iec(in.Memory), Change: change, Why: "it is killed for want of memory",
		}, p.Memory.Resident <= in.Memory, DoesNot)
	}
	limit := in.Group.Rate * float64(l.Carrying)
	if limit > 0 {
		add(Check{
			Name: "the rate of all", Formula: "rate / 0.7 <= (processes - 1) * limits.rate",
			Needed: rate(in.Rate / headroom), Has: rate(limit),
			Change: fmt.Sprintf("`limits.rate: %d`", ceilTo(in.Rate/headroom/float64(l.Carrying), 1)), Why: "the backlog grows without end",
		}, in.Rate/headroom <= limit, DoesNot)
	}
	needed, change := "no number will do", "spread the busiest endpoint over several, or lower `lanes.max_age` and `timeouts.max_total`"
	if l.PartitionsNeeded > 0 {
		needed, change = count(l.PartitionsNeeded), fmt.Sprintf("`topics.partitions: %d`, before the first event: it is pinned", l.PartitionsNeeded)
	}
	add(Check{
		Name: "partitions", Formula: "rate in the fullest partition <= min(tracker's window / (lanes.max_age + timeouts.max_total + processor.beat), outcomes of a batch / processor.beat)",
		Needed: needed, Has: count(l.Partitions), Change: change, Why: "behind one that hangs, intake of its partition stands still",
	}, l.PartitionRate <= l.PartitionCan, DoesNot)
	add(Check{
		Name: "processes", Formula: "slots needed / limits.in_flight, and one to spare",
		Needed: count(l.ProcessesNeeded), Has: count(l.Processes), Change: fmt.Sprintf("`--processes %d`", l.ProcessesNeeded),
		Why: "while one is down, the others do not carry its load",
	}, l.ProcessesNeeded <= l.Processes, DoesNot)
	add(Check{
		Name: "processes that work", Formula: "processes <= topics.partitions",
		Needed: count(l.Processes), Has: count(l.Partitions), Change: fmt.Sprintf("`topics.partitions: %d`, before the first event", ceilPower(l.Processes)),
		Why: "a process without a partition has nothing to do",
	}, l.Processes <= l.Partitions, DoesNot)
	add(Check{
		Name: "the schedule", Formula: "sum of retry.caps <= retry.lifetime",
		Needed: span(p.Schedule.MaxSeconds), Has: span(p.Schedule.LifetimeSeconds),
		Change: fmt.Sprintf("`retry.lifetime: %s`", in.Policy.TotalMax()), Why: "late waits are cut, so that the last attempts come sooner than the caps say",
	}, p.Schedule.MaxSeconds <= p.Schedule.LifetimeSeconds, Note)
	judgePrices(in, p, add)
	return v
}

// judgePrices goes through what works, at a price.
func judgePrices(in Input, p Plan, add func(Check, bool, Status)) {
	l, m, o := p.Load, p.Memory, p.Outage
	memory := int64(l.Carrying) * m.RecordsLimit
	add(Check{
		Name: "memory for records", Formula: "(rate * (latency + beat + fetch) + burst) * bytes of a record <= (processes - 1) * limits.memory",
		Needed: iec(int64(l.Carrying) * m.WorkingBytes), Has: iec(memory), Change: fmt.Sprintf("`limits.memory: %s`", mebibytes(m.WorkingBytes)),
		Why: "intake stands still during the burst, which waits in Kafka meanwhile",
	}, m.WorkingBytes <= m.RecordsLimit, Note)
	if m.KeysOnDisk {
		add(Check{
			Name: "cache of the keys", Formula: "1.25 * keys + 32 MiB <= claims.cache",
			Needed: iec(m.CacheNeeded), Has: iec(in.Claims.Cache), Change: fmt.Sprintf("`claims.cache: %s`", mebibytes(m.CacheNeeded)),
			Why: "new keys read the disk",
		}, m.CacheNeeded <= in.Claims.Cache, Note)
	}
	overtaken := ", and may be overtaken"
	if in.Order == schemas.OrderStrict {
		overtaken = ""
	}
	add(Check{
		Name: "a burst in the busiest lane", Formula: "burst * busiest <= entries of a lane, and what is done within lanes.max_age",
		Needed: counted(p.Lane.BurstEntries, "event"), Has: count(p.Lane.BurstEntries - p.Lane.Spilled),
		Change: fmt.Sprintf("`lanes.max_entries: %d`, and an endpoint that is fast enough", ceilPower(p.Lane.BurstEntries)),
		Why:    counted(p.Lane.Spilled, "event") + " of it go round through a tier" + overtaken,
	}, p.Lane.Spilled == 0, Note)
	ahead := l.Carrying * m.LookAhead
	add(Check{
		Name: "look-ahead of the tiers", Formula: "failing * rate * lifetime <= (processes - 1) * min(partitions owned * tiers * 8,192, limits.memory / 2 / bytes of a record)",
		Needed: count(o.FailingWaiting), Has: count(ahead),
		Change: fmt.Sprintf("`limits.memory: %s`, if that is worth it", mebibytes(2*m.RecordBytes*int64(o.FailingWaiting/l.Carrying))),
		Why:    fmt.Sprintf("what is due last is written round again: up to %d times an hour, in place of %d", p.Bound.Windows[1].RewritesFull, p.Bound.Windows[1].Rewrites),
	}, o.FailingWaiting <= ahead, Note)
	add(Check{
		Name: "sends by HTTP", Formula: "(rate * api.verdict_wait + burst) <= processes * api.max_concurrent",
		Needed: count(int(math.Ceil(l.APISlots)) + in.Burst), Has: count(l.Processes * in.API.MaxConcurrent),
		Change: fmt.Sprintf("`api.max_concurrent: %d`, or more API nodes, if the burst comes by HTTP", ceilTo((l.APISlots+float64(in.Burst))/float64(l.Processes), 64)),
		Why:    "some of a burst by HTTP are answered 503 with Retry-After, and come again",
	}, int(math.Ceil(l.APISlots))+in.Burst <= l.Processes*in.API.MaxConcurrent, Note)
	slots, all := l.Processes*l.SlotsPerProcess, hung(in, in.Endpoints, in.Rate)
	add(Check{
		Name: "slots when every endpoint hangs", Formula: "min(endpoints * in flight of each, rate * timeouts.total / 0.7) <= processes * limits.in_flight",
		Needed: count(all), Has: count(slots),
		Change: fmt.Sprintf("`limits.in_flight: %d`, if that is worth it", ceilTo(float64(all)/float64(l.Processes), 64)),
		Why:    "until their breakers open, the first to hang hold all slots that slow endpoints may have; others of their like wait, up to an attempt's timeout",
	}, all <= slots, Note)
}
