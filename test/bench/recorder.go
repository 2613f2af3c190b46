package bench

import (
	"slices"
	"sync"
	"time"
)

// Recorder notes arrivals. Safe for concurrent use; its zero value is ready.
type Recorder struct {
	mu       sync.Mutex // guards what follows
	arrivals []arrival
	hung     int
	strange  int
}

// arrival is one event that came, in 32 bytes: a million of them are no burden.
type arrival struct {
	number     uint64
	sent, came int64 // Unix nanoseconds
	class      Class
}

// Count is what is asked for often.
type Count struct {
	Events int   `json:"events"` // of all classes, repeats too
	First  int64 `json:"first"`  // Unix nanoseconds
	Last   int64 `json:"last"`
}

// Stats is what became of the events of one class. Times to arrival are in milliseconds from the moment in the payload,
// of first arrivals only.
type Stats struct {
	Events  int     `json:"events"` // different ones
	Repeats int     `json:"repeats"`
	First   int64   `json:"first"` // Unix nanoseconds
	Last    int64   `json:"last"`
	P50     float64 `json:"p50_ms"`
	P99     float64 `json:"p99_ms"`
	Max     float64 `json:"max_ms"`
}

// Report is everything that a recorder knows.
type Report struct {
	Classes map[string]Stats `json:"classes"` // by class
	Hung    int              `json:"hung"`    // requests that are never answered
	Strange int              `json:"strange"` // requests whose body is none of ours
}

// Of is the report on one class.
func (r *Report) Of(c Class) Stats { return r.Classes[string(c)] }

// Note takes the body of one arrival.
func (r *Recorder) Note(body []byte, came time.Time) {
	class, number, sent, err := ReadPayload(body)
	r.mu.Lock()
	defer r.mu.Unlock()
	if err != nil {
		r.strange++
		return
	}
	r.arrivals = append(r.arrivals, arrival{number: number, sent: sent.UnixNano(), came: came.UnixNano(), class: class})
}

// NoteHung counts a request that will not be answered.
func (r *Recorder) NoteHung() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.hung++
}

// Reset forgets everything.
func (r *Recorder) Reset() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.arrivals, r.hung, r.strange = r.arrivals[:0], 0, 0
}

// Count is cheap.
func (r *Recorder) Count() Count {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.arrivals) == 0 {
		return Count{}
	}
	// Notes are taken in nearly the order of their times; the first and the last are exact enough to say when to ask.
	return Count{Events: len(r.arrivals), First: r.arrivals[0].came, Last: r.arrivals[len(r.arrivals)-1].came}
}

// Report sorts everything.
func (r *Recorder) Report() *Report {
	r.mu.Lock()
	all := slices.Clone(r.arrivals)
	report := &Report{Classes: map[string]Stats{}, Hung: r.hung, Strange: r.strange}
	r.mu.Unlock()
	byClass := map[Class][]arrival{}
	for _, a := range all {
		byClass[a.class] = append(byClass[a.class], a)
	}
	for class, of := range byClass {
		report.Classes[string(class)] = statsOf(of)
	}
	return report
}

func statsOf(all []arrival) Stats {
	slices.SortFunc(all, func(a, b arrival) int {
		switch {
		case a.number < b.number || a.number == b.number && a.came < b.came:
			return -1
		case a == b:
			return 0
		}
		return 1
	})
	var s Stats
	took := make([]time.Duration, 0, len(all))
	for i, a := range all {
		if s.First == 0 || a.came < s.First {
			s.First = a.came
		}
		s.Last = max(s.Last, a.came)
		if i > 0 && all[i-1].number == a.number {
			s.Repeats++
			continue
		}
		s.Events++
		took = append(took, time.Duration(a.came-a.sent))
	}
	q := QuantilesOf(took)
	s.P50, s.P99, s.Max = q.P50, q.P99, q.Max
	return s
}

// Quantiles of durations, in milliseconds.
type Quantiles struct{ P50, P99, Max float64 }

// QuantilesOf sorts what it is given. A quantile q of n values is the smallest that at least q·n of them do not exceed:
// always one that was measured.
func QuantilesOf(d []time.Duration) Quantiles {
	if len(d) == 0 {
		return Quantiles{}
	}
	slices.Sort(d)
	at := func(percent int) float64 {
		return milliseconds(d[(len(d)*percent+99)/100-1])
	}
	return Quantiles{P50: at(50), P99: at(99), Max: at(100)}
}

func milliseconds(d time.Duration) float64 { return float64(d.Nanoseconds()) / 1e6 }
