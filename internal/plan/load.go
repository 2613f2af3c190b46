package plan

import (
	"fmt"
	"math"
	"time"

	"github.com/barnabas-webhooks/barnabas/processor/tracker"
	"github.com/barnabas-webhooks/barnabas/schemas"
	"github.com/barnabas-webhooks/barnabas/topics"
)

// headroom is up to which share a mean may fill a limit. A choice, no measurement: Little's law speaks of means, and
// what fills a limit on average overruns it half of the time.
const headroom = 0.7

// Load is what the volume asks of slots, partitions and processes.
type Load struct {
	// InFlight is the mean of requests under way by Little's law, (1 - failing) * rate * latency.
	InFlight float64 `json:"in_flight_mean"`
	// HungInFlight is how many more there are when all failing endpoints begin to hang at once: as many as they take, or
	// as arrive for them, with headroom, until the first are given up.
	HungInFlight int `json:"in_flight_hung"`
	// SlotsNeeded is InFlight with headroom, and HungInFlight; SlotsPerProcess is limits.in_flight.
	SlotsNeeded     int `json:"slots_needed"`
	SlotsPerProcess int `json:"slots_per_process"`

	// BusiestRate is what the busiest endpoint gets, BusiestCan what it bears at this latency.
	BusiestRate float64 `json:"busiest_rate"`
	BusiestCan  float64 `json:"busiest_can"`

	// PartitionShare is the share of the events in the fullest partition, by murmur2 of example ids; PartitionRate
	// the events per second there, PartitionCan what the tracker's window bears.
	PartitionShare   float64 `json:"partition_share"`
	PartitionRate    float64 `json:"partition_rate"`
	PartitionCan     float64 `json:"partition_can"`
	ResidenceSeconds float64 `json:"residence_seconds"` // the longest that a record stays unsettled
	Window           int     `json:"tracker_window"`
	Partitions       int     `json:"partitions"`
	PartitionsNeeded int     `json:"partitions_needed"` // 0: no number of them will do

	Processes       int `json:"processes"`
	ProcessesNeeded int `json:"processes_needed"` // with one to spare
	// Carrying is how many processes carry the load while one is down.
	Carrying int `json:"carrying"`

	// APISlots is how many sends are answered at a time if all come over HTTP and each waits for its verdict.
	APISlots float64 `json:"api_in_flight_at_most"`
}

func load(in Input) Load {
	healthy := in.Rate * (1 - in.Failing)
	l := Load{
		InFlight:        healthy * in.Latency.Seconds(),
		HungInFlight:    hung(in, in.failing(), in.Rate*in.Failing),
		SlotsPerProcess: in.Group.MaxInFlight,
		BusiestRate:     in.Rate * in.busiest(),
		BusiestCan:      in.bears(),
		Window:          tracker.Window,
		Partitions:      in.Topics.Partitions,
		APISlots:        in.Rate * in.API.VerdictWait.Seconds(),
	}
	l.SlotsNeeded = int(math.Ceil(l.InFlight/headroom)) + l.HungInFlight

	residence := in.Unit.LaneAge + in.Deliver.MaxTimeout + in.Settle.Beat
	l.ResidenceSeconds = residence.Seconds()
	l.PartitionCan = float64(tracker.Window-tracker.Headroom) / l.ResidenceSeconds
	// A beat settles so many outcomes of a unit at most.
	l.PartitionCan = min(l.PartitionCan, float64(in.Unit.BatchOutcomes)/in.Settle.Beat.Seconds())
	ids := exampleIDs(in.Endpoints)
	l.PartitionShare = fullest(in, ids, in.Topics.Partitions)
	l.PartitionRate = in.Rate * l.PartitionShare
	for n := 1; n <= maxProcesses; n *= 2 { // powers of two: the number is pinned, so it is chosen with room
		if in.Rate*fullest(in, ids, n) <= l.PartitionCan {
			l.PartitionsNeeded = n
			break
		}
	}
	l.ProcessesNeeded = 1 + int(math.Ceil(float64(l.SlotsNeeded)/float64(in.Group.MaxInFlight)))
	if r := in.Group.Rate; r > 0 {
		l.ProcessesNeeded = max(l.ProcessesNeeded, 1+int(math.Ceil(in.Rate/headroom/r)))
	}
	l.Processes = in.Processes
	if l.Processes == 0 {
		l.Processes = min(l.ProcessesNeeded, in.Topics.Partitions)
	}
	l.Carrying = max(1, l.Processes-1)
	if l.PartitionsNeeded > 0 {
		l.PartitionsNeeded = max(l.PartitionsNeeded, ceilPower(l.Processes))
	}
	return l
}

// hung is how many requests are under way when so many endpoints, with such a rate together, begin to hang at once.
func hung(in Input, endpoints int, rate float64) int {
	return min(endpoints*in.width(), int(math.Ceil(rate*in.Deliver.Timeout.Seconds()/headroom)))
}

// exampleIDs are the hashes of so many endpoint ids, as Kafka's partitioner makes them.
func exampleIDs(n int) []int32 {
	const all = 1 << 31 // every hash is below it
	hashes := make([]int32, n)
	for i := range hashes {
		hashes[i] = topics.Partition(fmt.Sprintf("ep_%026d", i), all)
	}
	return hashes
}

// fullest is the share of the events in the fullest of n partitions: endpoints are spread by the hashes of their ids,
// and the busiest one is among those of the fullest.
func fullest(in Input, ids []int32, n int) float64 {
	counts := make([]int, n)
	most := 0
	for _, hash := range ids {
		p := int(hash) % n
		counts[p]++
		most = max(most, counts[p])
	}
	busiest := in.busiest()
	rest := float64(most-1) / float64(max(1, len(ids)-1)) // of what the others get
	return busiest + (1-busiest)*rest
}

// Lane is how the busiest endpoint's lane takes a burst.
type Lane struct {
	Entries int `json:"entries"` // that fit, by number and bytes
	// BurstEntries is the share of the burst that goes to the busiest endpoint, Spilled what of it goes round through a
	// tier, and DrainSeconds how long the whole takes beside what else comes; 0: it never does.
	BurstEntries int     `json:"burst_entries"`
	Spilled      int     `json:"spilled"`
	DrainSeconds float64 `json:"drain_seconds"`
}

func laneOf(in Input) Lane {
	l := Lane{Entries: in.Unit.LaneEntries, BurstEntries: int(math.Ceil(float64(in.Burst) * in.busiest()))}
	if in.Payload > 0 {
		l.Entries = min(l.Entries, 1+int(in.Unit.LaneBytes/int64(in.Payload)))
	}
	can, rate := in.bears(), in.Rate*in.busiest()
	// What is done within the age at which a lane spills never leaves memory.
	l.Spilled = max(0, l.BurstEntries-min(l.Entries, int(can*in.Unit.LaneAge.Seconds())))
	if can > rate {
		l.DrainSeconds = float64(l.BurstEntries) / (can - rate)
	}
	return l
}

// Memory is what one process needs of heap, in bytes.
type Memory struct {
	RecordsLimit int64 `json:"records_limit"` // limits.memory: intake stands still beyond it
	RecordBytes  int64 `json:"record_bytes"`  // what one record is charged
	// WorkingBytes is what is under way at this rate, events from their poll to their settling, and a burst.
	WorkingBytes int64 `json:"working_bytes"`
	// LookAhead is how many waiting deliveries one process can keep at hand until they are due.
	// WaitingRecords is how many of one tier and partition.
	LookAhead      int   `json:"look_ahead_records"`
	WaitingRecords int   `json:"look_ahead_of_a_tier"`
	Keys           int   `json:"keys"` // remembered at most, in one process
	KeysBytes      int64 `json:"keys_bytes"`
	// KeysOnDisk says that they are in claims.directory, where they take KeysDisk; CacheNeeded is how much of claims.cache
	// they ask for.
	KeysOnDisk    bool  `json:"keys_on_disk"`
	KeysDisk      int64 `json:"keys_disk_bytes,omitempty"`
	CacheNeeded   int64 `json:"keys_cache_needed_bytes,omitempty"`
	EndpointBytes int64 `json:"endpoints_bytes"`
	LaneBytes     int64 `json:"lanes_bytes"`
	// Live is all of it, Heap the soft limit that the Go runtime gets for it, Resident what the process needs.
	Live     int64 `json:"live_bytes"`
	Heap     int64 `json:"heap_bytes"`
	Resident int64 `json:"resident_bytes"`

	Descriptors int `json:"descriptors"`
}

func memory(in Input, l Load) Memory {
	s := sample{in.Topics, make([]byte, in.Payload)}
	m := Memory{
		RecordsLimit: in.Group.MaxMemory,
		RecordBytes:  cost(s),
		Keys:         int(in.Rate * in.Keyed * 2 * in.Group.Window.Seconds() / float64(l.Carrying)),
		Descriptors:  in.Descriptors, WaitingRecords: in.Unit.WaitingRecords,
	}
	under := in.Rate / float64(l.Carrying) * (in.Latency + in.Settle.Beat + in.Group.FetchWait).Seconds()
	m.WorkingBytes = int64(under+float64(in.Burst)/float64(l.Carrying)) * m.RecordBytes
	units := (in.Topics.Partitions + l.Carrying - 1) / l.Carrying
	m.LookAhead = min(units*len(in.Topics.Tiers)*in.Unit.WaitingRecords, int(m.RecordsLimit/2/m.RecordBytes))
	m.KeysBytes = int64(m.Keys) * keyBytes
	if in.Claims.OnDisk {
		m.KeysOnDisk, m.KeysBytes = true, in.Claims.Cache
		m.KeysDisk = 2 * int64(m.Keys) * keyDiskBytes
		m.CacheNeeded = int64(float64(m.Keys)*keyCacheBytes) + cacheBase
	}
	m.EndpointBytes = int64(in.Endpoints) * endpointBytes
	m.LaneBytes = int64(in.Endpoints/l.Carrying) * laneBytes
	m.Live = m.RecordsLimit + m.KeysBytes + m.EndpointBytes + m.LaneBytes
	m.Heap = in.SoftMemory(m.RecordsLimit, m.Live)
	m.Resident = m.Heap + outsideHeap
	return m
}

// Disk is what the topics take, before compression.
type Disk struct {
	Copies int         `json:"copies"`
	Topics []TopicLoad `json:"topics"`
	Total  int64       `json:"total_bytes"`
	// KeyBytes is what one idempotency key takes in its topic, one copy.
	KeyBytes int `json:"key_bytes"`
}

// TopicLoad is what one topic takes.
type TopicLoad struct {
	Topic            string  `json:"topic"`
	Window           int     `json:"tracker_window"`
	Partitions       int     `json:"partitions"`
	PerSecond        float64 `json:"records_per_second"` // of a compacted topic: 0
	RecordBytes      int     `json:"record_bytes"`       // with its batch, and its transaction's marker
	RetentionSeconds float64 `json:"retention_seconds"`  // 0: compacted, one record of each endpoint
	Bytes            int64   `json:"bytes"`              // all copies
}

// mostBytes keeps absurd volumes from overflowing: 32 PiB, ten times in each of a dozen topics, are below the largest number.
const mostBytes = 1 << 55

func disk(in Input, o Outage) Disk {
	s := sample{in.Topics, make([]byte, in.Payload)}
	d := Disk{Copies: in.copies(), KeyBytes: batchBytes + size(s.claim())}
	settled := batchBytes + markerBytes // each record as if it were alone in its transaction
	dead := in.Rate * in.Failing
	tiers := map[string]float64{}
	for i, share := range o.TierShares {
		tiers[in.Topics.Tier(i)] = share * o.FailingWrites
	}
	c := in.Topics
	for _, w := range c.Wanted(in.TopicOptions) {
		t := TopicLoad{Topic: w.Topic, Partitions: w.Partitions, RetentionSeconds: w.Retention.Seconds()}
		kept := float64(in.Endpoints)
		switch w.Topic {
		case c.Events():
			t.PerSecond, t.RecordBytes = in.Rate, batchBytes+recordBytes(s.event())
		case c.Idempotency():
			t.PerSecond, t.RecordBytes = in.Rate*in.Keyed, d.KeyBytes
		case c.Attempts():
			t.PerSecond, t.RecordBytes = in.Rate-dead+o.FailingRequests, settled+size(s.attempt())
		case c.DLQ():
			t.PerSecond, t.RecordBytes = dead, settled+size(s.letter())
		case c.Breakers():
			t.RecordBytes = batchBytes + size(s.breaker())
		case c.Lines():
			if in.Order != schemas.OrderStrict {
				kept = 0
			}
			t.RecordBytes = settled + size(s.line())
		case c.Endpoints():
			t.RecordBytes = batchBytes + size(s.settings())
		case c.Replay(), c.DLQState():
			// Written while an operator replays, and by nobody else.
		default:
			t.PerSecond, t.RecordBytes = tiers[w.Topic], settled+size(s.waiting())
		}
		if t.RetentionSeconds > 0 {
			kept = t.PerSecond * t.RetentionSeconds
		}
		t.Bytes = int64(min(kept*float64(t.RecordBytes), mostBytes)) * int64(d.Copies)
		d.Total += t.Bytes
		d.Topics = append(d.Topics, t)
	}
	return d
}

// Contract is what receivers and producers are promised, in numbers.
type Contract struct {
	Attempts           int           `json:"attempts"`
	LifetimeSeconds    float64       `json:"lifetime_seconds"`
	WindowSeconds      float64       `json:"idempotency_window_seconds"`
	OverlapSeconds     float64       `json:"rotation_overlap_seconds"`
	Order              schemas.Order `json:"order"`
	MaxPayload         int           `json:"max_payload_bytes"`
	DNSSeconds         float64       `json:"dns_seconds"`
	ConnectSeconds     float64       `json:"connect_seconds"`
	TLSSeconds         float64       `json:"tls_seconds"`
	HeaderSeconds      float64       `json:"headers_seconds"`
	AttemptSeconds     float64       `json:"attempt_seconds"`
	MaxAttemptSeconds  float64       `json:"max_attempt_seconds"`
	TakeoverSeconds    float64       `json:"takeover_seconds"` // at most, until another process owns a unit
	DeadLettersSeconds float64       `json:"dead_letters_kept_seconds"`
	EventsSeconds      float64       `json:"events_kept_seconds"`
}

func contract(in Input) Contract {
	c := Contract{
		Attempts: in.Policy.MaxAttempts(), LifetimeSeconds: in.Policy.Lifetime.Seconds(), WindowSeconds: in.Group.Window.Seconds(),
		OverlapSeconds: in.API.RotationOverlap.Seconds(), Order: in.Order, MaxPayload: schemas.MaxPayloadBytes,
		DNSSeconds: in.Egress.ResolveTimeout.Seconds(), ConnectSeconds: in.Egress.ConnectTimeout.Seconds(), TLSSeconds: in.Deliver.TLSTimeout.Seconds(),
		HeaderSeconds: in.Deliver.HeaderTimeout.Seconds(), AttemptSeconds: in.Deliver.Timeout.Seconds(), MaxAttemptSeconds: in.Deliver.MaxTimeout.Seconds(),
		TakeoverSeconds: (in.Group.SessionTimeout + in.Settle.TransactionTimeout).Seconds(),
	}
	for _, w := range in.Topics.Wanted(in.TopicOptions) {
		switch w.Topic {
		case in.Topics.DLQ():
			c.DeadLettersSeconds = w.Retention.Seconds()
		case in.Topics.Events():
			c.EventsSeconds = w.Retention.Seconds()
		}
	}
	return c
}

// perHour is a number of times an hour, as one a second.
func perHour(n float64) float64 { return n / time.Hour.Seconds() }
