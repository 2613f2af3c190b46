// Package metrics holds the processor's Prometheus metrics. Label values come
// from closed sets only, and every series is there at zero from the start, so
// that an alert can fire on the first failure.
package metrics

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/barnabas-webhooks/barnabas/processor/claim"
	"github.com/barnabas-webhooks/barnabas/retry"
	"github.com/barnabas-webhooks/barnabas/schemas"
)

// Metrics are those of one process.
type Metrics struct {
	Events          *prometheus.CounterVec // by verdict
	JudgeSeconds    prometheus.Histogram   // until the arbiter had its verdict
	Attempts        *prometheus.CounterVec // by class
	AttemptSeconds  prometheus.Histogram
	EndToEndSeconds prometheus.Histogram // accepted until delivered at the first attempt
	LateSeconds     prometheus.Histogram // after the due time
	Decisions       *prometheus.CounterVec
	Holds           *prometheus.CounterVec // by reason
	DeadLetters     *prometheus.CounterVec // by reason
	Rerouted        prometheus.Counter
	RetryAfterCut   prometheus.Counter
	LogGapRecords   *prometheus.CounterVec // by topic and kind of gap
	LineWaiting     prometheus.Gauge
	LineSkipped     prometheus.Counter
	BreakersOpen    prometheus.Gauge
	BreakerChanges  *prometheus.CounterVec // by new state
	InFlight        prometheus.GaugeFunc
	MemoryBytes     prometheus.GaugeFunc
	WidthCuts       prometheus.Counter // of parallel endpoints
	Units           prometheus.Gauge
	SettleSeconds   prometheus.Histogram
	SettleFailures  prometheus.Counter
	Progress        prometheus.Gauge // Unix time of the last settled beat
	RestoreSeconds  prometheus.Histogram
	RestoreRecords  prometheus.Counter
}

// Unkeyed is the verdict label of events without an idempotency key; the others
// are those of package schemas, and Undecodable.
const (
	Unkeyed     = "unkeyed"
	Undecodable = "undecodable"
)

// Kinds of gaps between the committed position and the log.
const (
	GapRemoved = "removed"  // the log begins behind the position: what lay between is lost
	GapSetBack = "set_back" // the log ends before the position: it was made anew, or cut
)

// HoldReasons is the closed set of why a delivery waits without spending an attempt.
func HoldReasons() []string {
	return []string{HoldBreaker, HoldPaused, HoldLaneFull, HoldLaneAge, HoldUnknown, HoldLocked, HoldLocal, HoldOverflow, HoldCancelled, HoldLine}
}

// Reasons of holds.
const (
	HoldBreaker   = "breaker_open"
	HoldPaused    = "endpoint_paused"  // the endpoint asked to be left alone (Retry-After)
	HoldLaneFull  = "lane_full"        // spilled
	HoldLaneAge   = "lane_age"         // spilled
	HoldUnknown   = "unknown_endpoint" // not yet in the table; given up on after a grace
	HoldLocked    = "endpoint_locked"  // its record can't be read or its secrets can't be opened here
	HoldLocal     = "local_fault"      // out of descriptors, ports or memory, or egress is unhealthy
	HoldOverflow  = "waiting_overflow" // the look-ahead heap was full
	HoldCancelled = "cancelled"
	HoldLine      = "line" // of a strict endpoint: it is not next
)

// Gauges are read at scrape time.
type Gauges struct {
	InFlight    func() float64
	MemoryBytes func() float64
	Claims      func() claim.Stats
	// Facts is how many claims and breaker transitions Kafka has not acknowledged, and the age of the oldest. Nil: none.
	Facts func() (unwritten int, oldest time.Duration)
}

// New registers the metrics. consumed are the topics that units read: the closed set of the label topic.
func New(reg prometheus.Registerer, g Gauges, consumed ...string) *Metrics {
	counter := func(name, help string, labels ...string) *prometheus.CounterVec {
		return prometheus.NewCounterVec(prometheus.CounterOpts{Namespace: "barnabas", Name: name, Help: help}, labels)
	}
	gauge := func(name, help string) prometheus.Gauge {
		return prometheus.NewGauge(prometheus.GaugeOpts{Namespace: "barnabas", Name: name, Help: help})
	}
	histogram := func(name, help string, first float64, count int) prometheus.Histogram {
		return prometheus.NewHistogram(prometheus.HistogramOpts{
			Namespace: "barnabas", Name: name, Help: help, Buckets: prometheus.ExponentialBuckets(first, 2, count),
		})
	}
	m := &Metrics{
		Events:          counter("events_total", "Events read, by the arbiter's verdict.", "verdict"),
		JudgeSeconds:    histogram("judge_seconds", "Until the arbiter had its verdict on one keyed event. Where claims are on disk it may have to read there.", 0.0001, 15),
		Attempts:        counter("attempts_total", "HTTP POSTs made, by what they came to.", "class"),
		AttemptSeconds:  histogram("attempt_seconds", "Duration of one POST.", 0.001, 15),
		EndToEndSeconds: histogram("first_attempt_delivery_seconds", "From acceptance to delivery, of deliveries that took one attempt.", 0.001, 20),
		LateSeconds:     histogram("late_seconds", "How long after its due time a waiting delivery joined its lane.", 0.001, 20),
		Decisions:       counter("decisions_total", "What followed attempts and refused admissions.", "decision"),
		Holds:           counter("holds_total", "Waits that spent no attempt, by reason.", "reason"),
		DeadLetters:     counter("dead_letters_total", "Deliveries given up on, by reason.", "reason"),
		Rerouted: prometheus.NewCounter(prometheus.CounterOpts{
			Namespace: "barnabas", Name: "rerouted_total", Help: "Records moved to the partition that their key belongs to.",
		}),
		RetryAfterCut: prometheus.NewCounter(prometheus.CounterOpts{
			Namespace: "barnabas", Name: "retry_after_cut_total", Help: "Answers whose Retry-After was cut to retry.max_retry_after.",
		}),
		LogGapRecords: counter("log_gap_records_total",
			"Records by which the log and the committed position miss each other: removed before they were read, or beyond the log's end.",
			"topic", "kind"),
		LineWaiting: gauge("line_waiting", "Deliveries of strict endpoints that wait behind another one, in the units of this process."),
		LineSkipped: prometheus.NewCounter(prometheus.CounterOpts{
			Namespace: "barnabas", Name: "line_skipped_total",
			Help: "Numbers in lines of strict endpoints that were passed over because their deliveries never came: lost records.",
		}),
		BreakersOpen:   gauge("breakers_open", "Endpoints whose breaker is not closed, in the units of this process."),
		BreakerChanges: counter("breaker_transitions_total", "Breaker transitions, by the new state.", "state"),
		InFlight: prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Namespace: "barnabas", Name: "in_flight", Help: "HTTP POSTs under way.",
		}, g.InFlight),
		MemoryBytes: prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Namespace: "barnabas", Name: "held_bytes", Help: "Bytes of records in memory, as charged to the budget.",
		}, g.MemoryBytes),
		WidthCuts: prometheus.NewCounter(prometheus.CounterOpts{
			Namespace: "barnabas", Name: "width_cuts_total",
			Help: "Times that the requests in flight to a parallel endpoint were halved because it timed out or answered 429 or 503.",
		}),
		Units:         gauge("units_owned", "Units owned by this process."),
		SettleSeconds: histogram("settle_seconds", "Duration of one settling transaction.", 0.001, 15),
		SettleFailures: prometheus.NewCounter(prometheus.CounterOpts{
			Namespace: "barnabas", Name: "settle_failures_total", Help: "Settling transactions that were aborted and tried again.",
		}),
		Progress:       gauge("last_settled_timestamp_seconds", "Unix time of the last beat that was settled."),
		RestoreSeconds: histogram("restore_seconds", "From the assignment of a unit until its claims, breakers and lines were read.", 0.01, 16),
		RestoreRecords: prometheus.NewCounter(prometheus.CounterOpts{
			Namespace: "barnabas", Name: "restored_records_total", Help: "Claims, breaker transitions and lines read when units were assigned.",
		}),
	}
	claims(reg, g.Claims)
	facts(reg, g.Facts)
	m.atZero(consumed)
	reg.MustRegister(m.Events, m.JudgeSeconds, m.Attempts, m.AttemptSeconds, m.EndToEndSeconds, m.LateSeconds, m.Decisions, m.Holds, m.DeadLetters,
		m.Rerouted, m.RetryAfterCut, m.LogGapRecords, m.LineWaiting, m.LineSkipped, m.BreakersOpen, m.BreakerChanges, m.InFlight, m.MemoryBytes, m.WidthCuts,
		m.Units, m.SettleSeconds,
		m.SettleFailures, m.Progress, m.RestoreSeconds, m.RestoreRecords)
	return m
}

// claims registers what is known of the arbiters' memory.
func claims(reg prometheus.Registerer, stats func() claim.Stats) {
	of := func(read func(claim.Stats) int64) func() float64 {
		return func() float64 { return float64(read(stats())) }
	}
	gauge := func(name, help string, read func(claim.Stats) int64) prometheus.Collector {
		return prometheus.NewGaugeFunc(prometheus.GaugeOpts{Namespace: "barnabas", Name: name, Help: help}, of(read))
	}
	lookups := func(result string, read func(claim.Stats) int64) prometheus.Collector {
		return prometheus.NewCounterFunc(prometheus.CounterOpts{
			Namespace: "barnabas", Name: "claims_cache_lookups_total", ConstLabels: prometheus.Labels{"result": result},
			Help: "Blocks of the claims on disk that were looked for in memory. A miss is a read of the disk.",
		}, of(read))
	}
	reg.MustRegister(
		gauge("claims_held", "Idempotency keys remembered, about, of units owned now and earlier.", func(s claim.Stats) int64 { return s.Held }),
		gauge("claims_disk_bytes", "Bytes of the claims on disk. 0: they are kept in memory.", func(s claim.Stats) int64 { return s.DiskBytes }),
		lookups("hit", func(s claim.Stats) int64 { return s.CacheHits }),
		lookups("miss", func(s claim.Stats) int64 { return s.CacheMisses }),
	)
}

// facts registers what is known of the claims and breaker transitions on their way.
func facts(reg prometheus.Registerer, stats func() (int, time.Duration)) {
	if stats == nil {
		stats = func() (int, time.Duration) { return 0, 0 }
	}
	reg.MustRegister(
		prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Namespace: "barnabas", Name: "facts_unwritten",
			Help: "Claims and breaker transitions that Kafka has not acknowledged. What is keyed is not settled before its claim is.",
		}, func() float64 { n, _ := stats(); return float64(n) }),
		prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Namespace: "barnabas", Name: "facts_oldest_seconds",
			Help: "For how long the oldest of them has waited. Above a second, the topic idempotency or breakers is slow or refuses.",
		}, func() float64 { _, oldest := stats(); return oldest.Seconds() }),
	)
}

// Restored notes a unit that was restored.
func (m *Metrics) Restored(took time.Duration, records int) {
	m.RestoreSeconds.Observe(took.Seconds())
	m.RestoreRecords.Add(float64(records))
}

// DeadReasons is the closed set of dead-letter reasons: the classes an attempt can end with, and the others.
func DeadReasons() []string {
	reasons := []string{
		schemas.ReasonUndecodable, schemas.ReasonUnknownEndpoint, schemas.ReasonEndpointDeleted,
		schemas.ReasonDisabled, schemas.ReasonExpired, schemas.ReasonTooLarge, schemas.ReasonRemoved,
	}
	for _, c := range retry.Classes() {
		if c != retry.OK && c != retry.Cancelled {
			reasons = append(reasons, string(c))
		}
	}
	return reasons
}

// atZero makes every series exist before the first event.
func (m *Metrics) atZero(consumed []string) {
	for _, t := range consumed {
		m.LogGapRecords.WithLabelValues(t, GapRemoved)
		m.LogGapRecords.WithLabelValues(t, GapSetBack)
	}
	for _, v := range []string{string(schemas.VerdictFirst), string(schemas.VerdictDuplicate), string(schemas.VerdictConflict), Unkeyed, Undecodable} {
		m.Events.WithLabelValues(v)
	}
	for _, c := range retry.Classes() {
		m.Attempts.WithLabelValues(string(c))
	}
	for _, d := range []retry.Kind{retry.Delivered, retry.Retry, retry.Hold, retry.Dead} {
		m.Decisions.WithLabelValues(string(d))
	}
	for _, r := range HoldReasons() {
		m.Holds.WithLabelValues(r)
	}
	for _, r := range DeadReasons() {
		m.DeadLetters.WithLabelValues(r)
	}
	for _, s := range []string{"closed", "open", "half_open"} {
		m.BreakerChanges.WithLabelValues(s)
	}
}

// SettledBeat notes a beat that was written.
func (m *Metrics) SettledBeat(took time.Duration, _ int) {
	m.SettleSeconds.Observe(took.Seconds())
	m.Progress.SetToCurrentTime()
}
