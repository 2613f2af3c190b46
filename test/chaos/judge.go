package chaos

import (
	"crypto/sha256"
	"fmt"
	"slices"
	"strings"

	"github.com/barnabas-webhooks/barnabas/retry"
	"github.com/barnabas-webhooks/barnabas/schemas"
)

// Finding is the judgement's numbers, and what was broken.
type Finding struct {
	Events     int `json:"events"`     // records in events, re-routed ones not counted twice
	Deliveries int `json:"deliveries"` // owed: one for each key, and for each event without one
	Repeats    int `json:"repeats"`    // events whose key was taken, with the same content
	Conflicts  int `json:"conflicts"`  // ... with other content
	Strays     int `json:"strays"`     // events in a wrong partition
	Landed     int `json:"landed"`     // deliveries that a receiver took
	Dead       int `json:"dead"`       // dead letters, those that were replayed included
	Replayed   int `json:"replayed"`
	LeftDead   int `json:"left_dead"` // deliveries that are dead letters at the end
	Live       int `json:"live"`      // deliveries that still wait at the end
	Lost       int `json:"lost"`      // violations of the kind lost
	Forked     int `json:"forked"`    // violations of the kind forked

	PostFinding

	Violations []string `json:"violations"`
}

// kinds of violations.
const (
	lost    = "LOST"    // accepted, and neither landed nor a dead letter nor waiting
	forked  = "FORKED"  // twice where it may be once
	wrong   = "WRONG"   // answered or sent what it should not
	early   = "EARLY"   // before its time
	unasked = "UNASKED" // a POST made again although nothing hid its outcome
	harness = "HARNESS" // the run does not show what it should
)

func (f *Finding) violated(kind, format string, args ...any) {
	switch kind {
	case lost:
		f.Lost++
	case forked:
		f.Forked++
	case unasked:
		f.Unasked++
	}
	f.Violations = append(f.Violations, kind+" "+fmt.Sprintf(format, args...))
}

// slot is one idempotency key of one endpoint.
type slot struct{ endpoint, key string }

// owed is one delivery that must land.
type owed struct {
	event *Event
	runs  map[int]*run
	posts []*Post
}

// run is one life of a delivery: from acceptance, or from a replay, to its end.
type run struct {
	starts    int // replay records; of run 0 none: its start is the event
	steps     []int
	numbers   []int // of attempts
	delivered int
	letters   int
	live      int
}

func (o *owed) run(n int) *run {
	r, ok := o.runs[n]
	if !ok {
		r = &run{}
		o.runs[n] = r
	}
	return r
}

// judge holds the evidence against the rules.
type judge struct {
	ev *Evidence
	Finding
	owed  map[string]*owed // by delivery id
	slots map[slot]*Event  // the owner of each key
	at    map[schemas.Coordinates]*Event
}

// Judge finds out what was broken. The rules:
//
//	lost    every acknowledged send is in events; every event is moved, refused or owed; every run of a delivery ends
//	        as delivered, as a dead letter or waits; what was settled as delivered was taken by a receiver
//	forked  of one endpoint and key only the delivery of the lowest offset is ever attempted, waits or dies; each
//	        event is refused or moved once; within a run every step, every attempt's number and the end are there
//	        once; a dead letter is replayed once; no source is settled twice
//	wrong   the API named the owner of the key; signature, payload and endpoint are those of the event
//	early   no attempt before its due time
//	unasked every POST is settled, or a fault hid its outcome: see posts.go
func Judge(e *Evidence) *Finding {
	j := &judge{ev: e, owed: map[string]*owed{}, slots: map[slot]*Event{}, at: map[schemas.Coordinates]*Event{}}
	j.events()
	j.sends()
	j.places()
	j.chains()
	j.judgePosts()
	j.Violations = shorten(j.Violations)
	return &j.Finding
}

// events finds what is owed: the first of each key, in the order of the log.
func (j *judge) events() {
	h := j.ev.History
	slices.SortStableFunc(h.Events, func(a, b Event) int { return int(a.At.Offset - b.At.Offset) })
	live := map[schemas.Coordinates]bool{}
	for _, c := range h.Live {
		live[c] = true
	}
	refused := map[schemas.Coordinates][]schemas.AttemptKind{}
	for i := range h.Attempts {
		if a := &h.Attempts[i]; a.Kind != schemas.AttemptPost {
			refused[a.Source] = append(refused[a.Source], a.Kind)
		}
	}
	moved := map[schemas.Coordinates]int{}
	for i := range h.Events {
		e := &h.Events[i]
		j.at[e.At] = e
		if e.Origin != (schemas.Coordinates{}) {
			moved[e.Origin]++
		} else {
			j.Events++
		}
	}
	for i := range h.Events {
		e := &h.Events[i]
		if e.Strayed {
			j.Strays++
			if n := moved[e.At]; n > 1 {
				j.violated(forked, "the event at %v was moved to its partition %d times", e.At, n)
			} else if n == 0 && !live[e.At] {
				j.violated(lost, "the event at %v was settled and not moved to its partition", e.At)
			}
			continue
		}
		var answers []schemas.AttemptKind
		if e.Origin != (schemas.Coordinates{}) {
			answers = refused[e.Origin]
		} else {
			answers = refused[e.At]
		}
		owner := e
		if e.Key != "" {
			if first, ok := j.slots[slot{e.Endpoint, e.Key}]; ok {
				owner = first
			} else {
				j.slots[slot{e.Endpoint, e.Key}] = e
			}
		}
		if owner == e {
			j.own(e, answers)
			continue
		}
		want := schemas.AttemptDuplicate
		if owner.Content != e.Content {
			want = schemas.AttemptConflict
			j.Conflicts++
		} else {
			j.Repeats++
		}
		switch {
		case len(answers) == 0 && !live[e.At]:
			j.violated(lost, "the event at %v, whose key %s is taken, was settled without a verdict", e.At, e.Key)
		case len(answers) > 1:
			j.violated(forked, "the event at %v was refused %d times", e.At, len(answers))
		case len(answers) == 1 && answers[0] != want:
			j.violated(wrong, "the event at %v was refused as %s and is a %s of %v", e.At, answers[0], want, owner.At)
		}
	}
}

// own notes a delivery that is owed.
func (j *judge) own(e *Event, answers []schemas.AttemptKind) {
	j.Deliveries++
	if len(answers) > 0 {
		j.violated(wrong, "the event at %v is the first of its key %q and was refused as %s", e.At, e.Key, answers[0])
	}
	if other, ok := j.owed[e.ID]; ok {
		j.violated(wrong, "delivery %s is that of the events at %v and %v", e.ID, other.event.At, e.At)
		return
	}
	j.owed[e.ID] = &owed{event: e, runs: map[int]*run{}}
}

// sends holds what producers were told against the log.
func (j *judge) sends() {
	ids, contents := map[string]bool{}, map[slot]map[[sha256.Size]byte]bool{}
	for i := range j.ev.History.Events {
		e := &j.ev.History.Events[i]
		ids[e.ID] = true
		s := slot{e.Endpoint, e.Key}
		if contents[s] == nil {
			contents[s] = map[[sha256.Size]byte]bool{}
		}
		contents[s][e.Content] = true
	}
	for _, s := range j.ev.Sent {
		owner := j.slots[slot{s.Endpoint, s.Key}]
		switch {
		case s.ID == "" && !s.Conflict:
			if _, ok := j.at[s.At]; !ok {
				j.violated(lost, "Kafka acknowledged an event at %v that is not there", s.At)
			}
		case owner == nil:
			j.violated(lost, "the API answered for key %s of %s, which is not in events", s.Key, s.Endpoint)
		case s.Conflict:
			if len(contents[slot{s.Endpoint, s.Key}]) < 2 {
				j.violated(wrong, "the API answered 422 for key %s of %s, which was only ever sent with one content", s.Key, s.Endpoint)
			}
		case s.Pending:
			if !ids[s.ID] {
				j.violated(lost, "the API answered pending with delivery %s, which is not in events", s.ID)
			}
		case s.ID != owner.ID:
			j.violated(wrong, "the API answered for key %s of %s with delivery %s, its owner is %s at %v", s.Key, s.Endpoint, s.ID, owner.ID, owner.At)
		}
	}
}

// places sorts what stands in the topics by delivery and run.
func (j *judge) places() {
	h := j.ev.History
	find := func(id string, what string, at schemas.Coordinates) *owed {
		o, ok := j.owed[id]
		if !ok {
			j.violated(forked, "%s at %v is of delivery %q, which is not owed: its key belongs to another, or it is none of ours", what, at, id)
		}
		return o
	}
	live := map[schemas.Coordinates]bool{}
	for _, c := range h.Live {
		live[c] = true
	}
	for _, o := range j.owed {
		if o.run(0); live[o.event.At] {
			o.run(0).live++
		}
	}
	due := map[schemas.Coordinates]*Step{}
	for i := range h.Steps {
		s := &h.Steps[i]
		due[s.At] = s
		o := find(s.ID, "a record", s.At)
		if o == nil {
			continue
		}
		r := o.run(s.Run)
		if s.Replay {
			r.starts++
			j.Replayed++
		} else {
			r.steps = append(r.steps, s.Attempts+s.Holds)
		}
		if live[s.At] {
			r.live++
		}
	}
	for i := range h.Letters {
		l := &h.Letters[i]
		j.Dead++
		if o := find(l.ID, "a dead letter ("+l.Reason+")", l.At); o != nil {
			o.run(l.Run).letters++
		}
	}
	sources := map[schemas.Coordinates]int{}
	for i := range h.Attempts {
		a := &h.Attempts[i]
		if sources[a.Source]++; sources[a.Source] == 2 {
			j.violated(forked, "the record at %v was settled twice", a.Source)
		}
		if a.Kind != schemas.AttemptPost {
			continue
		}
		o := find(a.DeliveryID, "an attempt on the record", a.Source)
		if o == nil {
			continue
		}
		r := o.run(a.Replay)
		r.numbers = append(r.numbers, a.Number)
		if a.Decision == string(retry.Delivered) {
			r.delivered++
		}
		if s := due[a.Source]; s != nil && a.At.Before(s.Due) {
			j.violated(early, "delivery %s was attempted %s before it was due", a.DeliveryID, s.Due.Sub(a.At))
		}
	}
}

// chains follows each delivery from place to place.
func (j *judge) chains() {
	for id, o := range j.owed {
		last := 0
		for n := range o.runs {
			last = max(last, n)
		}
		for n := 0; n <= last; n++ {
			j.chain(id, n, o.run(n), n == last)
		}
		end := o.run(last)
		switch {
		case end.live > 0:
			j.Live++
		case end.letters > 0:
			j.LeftDead++
		}
	}
}

func (j *judge) chain(id string, n int, r *run, last bool) {
	if n > 0 && r.starts != 1 {
		j.violated(forked, "delivery %s was replayed %d times from its dead letter %d", id, r.starts, n-1)
	}
	for what, numbers := range map[string][]int{"step": r.steps, "attempt": r.numbers} {
		slices.Sort(numbers)
		for i, got := range numbers {
			if want := i + 1; got != want {
				kind := lost
				if i > 0 && numbers[i-1] == got {
					kind = forked
				}
				j.violated(kind, "delivery %s, run %d: %ss %v, each should be there once and none be missing", id, n, what, numbers)
				break
			}
		}
	}
	switch ends := r.delivered + r.letters + r.live; {
	case ends == 0:
		j.violated(lost, "delivery %s, run %d: neither delivered nor dead nor waiting", id, n)
	case ends > 1:
		j.violated(forked, "delivery %s, run %d: delivered %d times, %d dead letters, waiting in %d places", id, n, r.delivered, r.letters, r.live)
	case !last && r.letters == 0:
		j.violated(forked, "delivery %s was replayed after run %d, which has no dead letter", id, n)
	}
}

// shorten keeps the violations readable: the first of each kind, and how many more there are.
func shorten(all []string) []string {
	const each = 20
	slices.Sort(all)
	out, counts := []string{}, map[string]int{}
	for _, v := range all {
		kind, _, _ := strings.Cut(v, " ")
		if counts[kind]++; counts[kind] <= each {
			out = append(out, v)
		}
	}
	for kind, n := range counts {
		if n > each {
			out = append(out, fmt.Sprintf("%s ... and %d more", kind, n-each))
		}
	}
	slices.Sort(out)
	return out
}
