package api

import "github.com/prometheus/client_golang/prometheus"

// metrics are the API's. All series are there from the start, at zero (C-211).
type metrics struct {
	accepted        prometheus.Counter
	pending         prometheus.Counter
	replayed        prometheus.Counter
	conflicts       prometheus.Counter
	rejected        *prometheus.CounterVec // by code of problem.go
	inFlight        prometheus.Gauge
	verdictWait     prometheus.Histogram
	tailUndecodable prometheus.Counter
	backlogged      prometheus.Gauge
	lagFailures     prometheus.Counter
	searches        *prometheus.CounterVec // by result: the searches* constants
	searchSeconds   prometheus.Histogram
}

// Results of searches for a delivery: the label "result".
const (
	searchFound   = "found"   // something of it
	searchNone    = "none"    // it is not there
	searchBounded = "bounded" // the search's bounds ended it before it knew
	searchFailed  = "failed"
)

// newMetrics registers with reg; nil: nowhere.
func newMetrics(reg prometheus.Registerer) *metrics {
	counter := func(name, help string) prometheus.Counter {
		return prometheus.NewCounter(prometheus.CounterOpts{Namespace: "barnabas", Subsystem: "api", Name: name, Help: help})
	}
	m := &metrics{
		accepted:  counter("accepted_total", "Events answered with 202 and known to own their key."),
		pending:   counter("pending_total", "Events answered with 202 whose verdict was late or not waited for."),
		replayed:  counter("replayed_total", "Events answered with 200: repeats of a key, not delivered again."),
		conflicts: counter("conflicts_total", "Events answered with 422: a key with other content, not delivered."),
		rejected: prometheus.NewCounterVec(prometheus.CounterOpts{
			Namespace: "barnabas", Subsystem: "api", Name: "problems_total", Help: "Requests answered with a problem, by its code.",
		}, []string{"reason"}),
		inFlight: prometheus.NewGauge(prometheus.GaugeOpts{
			Namespace: "barnabas", Subsystem: "api", Name: "requests_in_flight", Help: "Requests being handled.",
		}),
		verdictWait: prometheus.NewHistogram(prometheus.HistogramOpts{
			Namespace: "barnabas", Subsystem: "api", Name: "verdict_wait_seconds", Help: "From an event's being durable to its verdict.",
			Buckets: []float64{.001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5},
		}),
		tailUndecodable: counter("tail_undecodable_total", "Records of the idempotency and attempts topics that could not be read."),
		backlogged: prometheus.NewGauge(prometheus.GaugeOpts{
			Namespace: "barnabas", Subsystem: "api", Name: "backlogged_partitions",
			Help: "Partitions of the events topic whose lag is over api.max_lag as last read: sends to them are refused.",
		}),
		lagFailures: counter("lag_failures_total", "Times the lag could not be read; what is not known refuses nobody."),
		searches: prometheus.NewCounterVec(prometheus.CounterOpts{
			Namespace: "barnabas", Subsystem: "api", Name: "searches_total",
			Help: "Searches of the topics for a delivery that this process does not remember, by what they came to.",
		}, []string{"result"}),
		searchSeconds: prometheus.NewHistogram(prometheus.HistogramOpts{
			Namespace: "barnabas", Subsystem: "api", Name: "search_seconds", Help: "How long such a search took.",
			Buckets: []float64{.01, .025, .05, .1, .25, .5, 1, 2.5, 5},
		}),
	}
	for _, result := range []string{searchFound, searchNone, searchBounded, searchFailed} {
		m.searches.WithLabelValues(result)
	}
	for _, code := range Codes() {
		m.rejected.WithLabelValues(code)
	}
	if reg != nil {
		reg.MustRegister(m.accepted, m.pending, m.replayed, m.conflicts, m.rejected, m.inFlight, m.verdictWait, m.tailUndecodable,
			m.backlogged, m.lagFailures, m.searches, m.searchSeconds)
	}
	return m
}
