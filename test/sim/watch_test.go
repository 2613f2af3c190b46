package sim_test

import (
	"fmt"
	"time"

	"github.com/stretchr/testify/require"
)

// What a process may hold above its budget: what one poll brings (the processor's fetch limit), with payloads counted
// twice, as they are charged.
const pollBrings = 2 * (16<<20 + 5000*700)

// watch looks at what must hold at any moment.
func (r *Run) watch() {
	r.watchOffsets()
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, p := range r.slots {
		if p != nil {
			r.watchBounds(p)
		}
	}
}

// watchOffsets sees that no committed offset goes back.
func (r *Run) watchOffsets() {
	for topic, partitions := range r.positions() {
		if r.furthest[topic] == nil {
			r.furthest[topic] = map[int32]int64{}
		}
		for p, at := range partitions {
			if before := r.furthest[topic][p]; at.offset < before {
				r.ledger.Violated(10, "the committed offset of %s[%d] went back from %d to %d", topic, p, before, at.offset)
			}
			r.furthest[topic][p] = at.offset
		}
	}
}

// watchBounds sees that a process keeps to its budgets, however much is waiting.
func (r *Run) watchBounds(p *Process) {
	if held, limit := p.gauge("barnabas_held_bytes"), float64(r.cfg.Limits.Memory); held > limit+pollBrings {
		r.ledger.Violated(9, "%s holds %.0f bytes, and its budget is %.0f", p.Name, held, limit)
	}
	if n := p.gauge("barnabas_in_flight"); n > float64(r.cfg.Limits.InFlight) {
		r.ledger.Violated(8, "%s has %.0f requests in flight, and its limit is %d", p.Name, n, r.cfg.Limits.InFlight)
	}
}

// watchOwners sees that each unit finds one owner, and one only, once all is well.
func (r *Run) watchOwners() {
	limit := 2 * (r.cfg.Processor.SessionTimeout + r.cfg.Processor.RebalanceTimeout)
	for began := time.Now(); ; time.Sleep(time.Second) {
		sum, each := 0.0, ""
		for _, p := range r.slots {
			n := p.gauge("barnabas_units_owned")
			sum += n
			each += fmt.Sprintf(" %s has %.0f", p.Name, n)
		}
		if sum == float64(r.cfg.Topics.Partitions) {
			return
		}
		if time.Since(began) > limit {
			r.ledger.Violated(11, "of %d units%s, %s after all is well", r.cfg.Topics.Partitions, each, limit)
			return
		}
	}
}

// gauge reads one of a process's metrics, of the series with the given label value where one is given; 0 while it has none.
func (p *Process) gauge(name string, label ...string) float64 {
	families, err := p.metrics.Gather()
	require.NoError(p.w.t, err)
	for _, f := range families {
		for _, m := range f.GetMetric() {
			if f.GetName() == name && (len(label) == 0 || m.GetLabel()[0].GetValue() == label[0]) {
				return m.GetGauge().GetValue()
			}
		}
	}
	return 0
}
