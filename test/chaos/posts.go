package chaos

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/barnabas-webhooks/barnabas/retry"
	"github.com/barnabas-webhooks/barnabas/schemas"
	"github.com/barnabas-webhooks/barnabas/topics"
)

// CutKind says how outcomes of a worker were hidden.
type CutKind string

// Kinds of cuts.
const (
	CutKill   CutKind = "kill"   // kill -9
	CutFreeze CutKind = "freeze" // SIGSTOP for longer than the session timeout
	CutLost   CutKind = "lost"   // the broker had given its units to others when it looked again, or was away
	// CutUndrained is a unit that could not settle before it was given up: only where Kafka was away.
	CutUndrained CutKind = "undrained"
)

// Cut is a moment from which what a worker had not settled is not settled by it any more.
type Cut struct {
	Kind  CutKind
	PID   int
	From  time.Time
	To    time.Time // of a freeze: when it went on; else From
	Units []int32   // of a loss; nil: all
}

// Outage is when the broker was down or frozen.
type Outage struct{ From, To time.Time }

// CutFinding is what cuts of one kind came to.
type CutFinding struct {
	Cuts int `json:"cuts"`
	Busy int `json:"busy"` // of them, with requests in flight
	// Hidden are POSTs whose outcome was hidden, and which therefore were or may be made again.
	Hidden int `json:"hidden"`
	// Median and Most90 are of Hidden by cut: half of the cuts hid no more than Median, nine in ten no more than Most90.
	Median int `json:"median_hidden"`
	Most90 int `json:"most_hidden_by_90_percent"`
	// The worst single cut: how many POSTs it hid, and its bound: in flight at that moment, and completed since the
	// newest outcome that its unit had settled.
	MostHidden   int `json:"most_hidden"`
	BoundOfMost  int `json:"bound_of_most"`
	MostInFlight int `json:"most_in_flight"`
	// Oldest is the longest time that a POST which was hidden had been completed at its cut.
	OldestMillis int64 `json:"oldest_ms"`
	// After are those of Hidden that the worker began only after the cut: it did not know of it yet.
	After int `json:"after"`
	// Overtaken are those of Hidden that a newer one of their unit was settled before: by less than slack.
	Overtaken int `json:"overtaken"`
}

// PostFinding is what the receivers' side came to.
type PostFinding struct {
	Posts      int                     `json:"posts"`
	Settled    int                     `json:"settled"`    // POSTs that an attempt record tells of
	Hidden     int                     `json:"hidden"`     // POSTs whose outcome a fault hid
	Unasked    int                     `json:"unasked"`    // violations: POSTs whose outcome was not settled although no fault hid it
	Duplicates int                     `json:"duplicates"` // POSTs of a delivery that had landed
	Cuts       map[CutKind]*CutFinding `json:"cuts"`
}

const (
	// skew is how much later than the worker sent it a receiver may see a POST, on a machine whose cores are taken:
	// what is on the way when a worker ends, or learns that it has lost a unit, arrives.
	skew = 500 * time.Millisecond
	// slack is how much longer than one beat an outcome may have taken to get from the wire into the beat, on a
	// machine that does other things too.
	slack = 300 * time.Millisecond
	// recovery is how long after an outage of the broker its clients may take to find it again and to end what was open.
	recovery = 20 * time.Second
)

// judgePosts holds the POSTs against the events and against the attempts that were settled.
func (j *judge) judgePosts() {
	j.Posts = len(j.ev.Posts)
	for i := range j.ev.Posts {
		p := &j.ev.Posts[i]
		o, ok := j.owed[p.Delivery]
		if !ok {
			j.violated(forked, "%s was sent delivery %q, which is not owed: its key belongs to another", p.Endpoint, p.Delivery)
			continue
		}
		o.posts = append(o.posts, p)
		switch {
		case p.Partial: // the sender was killed while it wrote
		case !p.Verified:
			j.violated(wrong, "a POST of delivery %s has a signature that does not verify", p.Delivery)
		case p.Endpoint != o.event.Endpoint:
			j.violated(wrong, "delivery %s of %s was sent to %s", p.Delivery, o.event.Endpoint, p.Endpoint)
		case p.Body != o.event.Body:
			j.violated(wrong, "delivery %s was sent with another payload than that of the event at %v", p.Delivery, o.event.At)
		}
	}
	for id, o := range j.owed {
		j.land(id, o)
	}
	hidden, ends := j.match()
	j.explain(hidden, ends)
}

// land counts what a receiver took, and what it was sent again after that.
func (j *judge) land(id string, o *owed) {
	slices.SortFunc(o.posts, func(a, b *Post) int { return a.Start.Compare(b.Start) })
	first := slices.IndexFunc(o.posts, (*Post).landed)
	if first >= 0 {
		j.Landed++
		j.Duplicates += len(o.posts) - first - 1
		return
	}
	for n, r := range o.runs {
		if r.delivered > 0 {
			j.violated(lost, "delivery %s, run %d: settled as delivered, and no receiver took it", id, n)
		}
	}
}

// match pairs attempt records with POSTs. It returns the POSTs without a record, and for each unit when those with a
// record had ended, in order: settled outcomes reach up to there.
func (j *judge) match() (hidden []*Post, ends map[int32][]time.Time) {
	ends = map[int32][]time.Time{}
	attempts := map[string][]*Attempt{}
	for i := range j.ev.History.Attempts {
		if a := &j.ev.History.Attempts[i]; a.Kind == schemas.AttemptPost {
			attempts[a.DeliveryID] = append(attempts[a.DeliveryID], a)
		}
	}
	for id, o := range j.owed {
		matched := make([]bool, len(o.posts))
		slices.SortFunc(attempts[id], func(a, b *Attempt) int { return a.At.Compare(b.At) })
		for _, a := range attempts[id] {
			i := -1
			for n, p := range o.posts {
				if !matched[n] && p.Attempt == a.Number && !p.Start.Before(a.At) && p.Start.Before(a.At.Add(j.ev.Longest+skew)) {
					i = n
					break
				}
			}
			if i < 0 {
				if a.Class == string(retry.OK) {
					j.violated(wrong, "delivery %s: attempt %d at %s is settled as %s, and no receiver saw it", id, a.Number, a.At, a.Class)
				}
				continue
			}
			matched[i] = true
			j.Settled++
			ends[a.Source.Partition] = append(ends[a.Source.Partition], o.posts[i].End)
		}
		for i, p := range o.posts {
			if !matched[i] {
				hidden = append(hidden, p)
			}
		}
	}
	for _, of := range ends {
		slices.SortFunc(of, time.Time.Compare)
	}
	return hidden, ends
}

// lastSettled is the end of the newest POST before t that was settled; zero: none. What ended later at the same unit
// was in no beat yet that was committed. A batch that fails is tried again by itself, so one unit says nothing of another.
func lastSettled(ends []time.Time, t time.Time) time.Time {
	i, _ := slices.BinarySearchFunc(ends, t, time.Time.Compare)
	if i == 0 {
		return time.Time{}
	}
	return ends[i-1]
}

// explain finds the cut that hid each POST: of the worker that owned the unit, or believed to, when the POST was
// made. One that no cut explains was made again without need, or will be.
func (j *judge) explain(hidden []*Post, ends map[int32][]time.Time) {
	j.Hidden = len(hidden)
	j.Cuts = map[CutKind]*CutFinding{CutKill: {}, CutFreeze: {}, CutLost: {}, CutUndrained: {}}
	cuts := slices.Clone(j.ev.Cuts)
	slices.SortFunc(cuts, func(a, b Cut) int { return a.From.Compare(b.From) })
	tenures := map[int32][]Tenure{}
	for _, t := range j.ev.Tenures {
		tenures[t.Unit] = append(tenures[t.Unit], t)
	}
	slices.SortFunc(hidden, func(a, b *Post) int { return cmp.Or(a.Start.Compare(b.Start), cmp.Compare(a.Delivery, b.Delivery)) })
	by := make([][]*Post, len(cuts))
	for _, p := range hidden {
		unit := topics.Partition(p.Endpoint, j.ev.Partitions)
		owners := slices.DeleteFunc(slices.Clone(tenures[unit]), func(t Tenure) bool { return !t.covers(p.Start) })
		i := slices.IndexFunc(cuts, func(c Cut) bool {
			return (c.Units == nil || slices.Contains(c.Units, unit)) && p.Start.Before(c.To.Add(skew)) && p.End.After(lastSettled(ends[unit], c.From).Add(-slack)) &&
				slices.ContainsFunc(owners, func(t Tenure) bool { return t.PID == c.PID && t.covers(c.From) })
		})
		if i < 0 {
			j.violated(unasked, "delivery %s, attempt %d at %s (%s, unit %d, answered %d after %s): its outcome was never settled, and no fault hid it; owners %v",
				p.Delivery, p.Attempt, p.Start.Format("15:04:05.000"), p.Endpoint, unit, p.Status, p.End.Sub(p.Start).Round(time.Millisecond), owners)
			continue
		}
		by[i] = append(by[i], p)
	}
	counts := map[CutKind][]int{}
	for i, c := range cuts {
		j.cut(&c, by[i], tenures, ends)
		counts[c.Kind] = append(counts[c.Kind], len(by[i]))
	}
	for kind, of := range counts {
		slices.Sort(of)
		j.Cuts[kind].Median, j.Cuts[kind].Most90 = of[(len(of)-1)/2], of[(len(of)-1)*9/10]
	}
}

// covers says whether the stint was under way.
func (t Tenure) covers(at time.Time) bool {
	return !at.Before(t.From.Add(-skew)) && at.Before(t.To.Add(skew))
}

// String is the stint in short.
func (t Tenure) String() string {
	const short = "15:04:05.000"
	return fmt.Sprintf("pid %d %s to %s", t.PID, t.From.Format(short), t.To.Format(short))
}

// cut adds one cut to its kind's numbers.
func (j *judge) cut(c *Cut, hidden []*Post, tenures map[int32][]Tenure, ends map[int32][]time.Time) {
	f := j.Cuts[c.Kind]
	f.Cuts++
	if c.Kind == CutUndrained && !slices.ContainsFunc(j.ev.Outages, func(o Outage) bool { return o.From.Before(c.From) && c.From.Before(o.To.Add(recovery)) }) {
		j.violated(wrong, "unit %v was given up at %s by worker %d before it was settled, and Kafka was not away", c.Units, c.From.Format("15:04:05.000"), c.PID)
	}
	owned := map[int32]bool{}
	for unit, of := range tenures {
		owned[unit] = slices.ContainsFunc(of, func(t Tenure) bool { return t.PID == c.PID && t.covers(c.From) })
	}
	inFlight, since := 0, 0
	for i := range j.ev.Posts {
		p := &j.ev.Posts[i]
		unit := topics.Partition(p.Endpoint, j.ev.Partitions)
		switch {
		case !owned[unit] || p.Start.After(c.From):
		case p.End.After(c.From):
			inFlight++
		case p.End.After(lastSettled(ends[unit], c.From)):
			since++
		}
	}
	if inFlight > 0 {
		f.Busy++
	}
	f.MostInFlight = max(f.MostInFlight, inFlight)
	f.Hidden += len(hidden)
	if len(hidden) > f.MostHidden {
		f.MostHidden, f.BoundOfMost = len(hidden), inFlight+since
	}
	for _, p := range hidden {
		f.OldestMillis = max(f.OldestMillis, c.From.Sub(p.End).Milliseconds())
		switch {
		case p.Start.After(c.From):
			f.After++
		case !p.End.After(lastSettled(ends[topics.Partition(p.Endpoint, j.ev.Partitions)], c.From)):
			f.Overtaken++
		}
	}
}
