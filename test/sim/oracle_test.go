package sim_test

import (
	"fmt"
	"net/http"
	"slices"
	"sort"
	"time"

	"github.com/barnabas-webhooks/barnabas/internal/app"
	"github.com/barnabas-webhooks/barnabas/internal/plan"
	"github.com/barnabas-webhooks/barnabas/processor/breaker"
	"github.com/barnabas-webhooks/barnabas/retry"
	"github.com/barnabas-webhooks/barnabas/schemas"
	"github.com/barnabas-webhooks/barnabas/topics"
)

// Judge holds what the cluster has and what the receivers saw against the ledger,
// invariant by invariant.
type Judge struct {
	w      *World
	ledger *Ledger
	subs   []*Sub
	r      *Reading
	m      *Model
	posts  []seen
	byID   map[string][]*seen
}

// seen is a POST and who saw it.
type seen struct {
	Post
	sub  *Sub
	used bool // an attempt of the log answers for it
}

// Verdict reads everything and says what is wrong with it.
func (w *World) Verdict(l *Ledger, subs []*Sub) []string {
	w.t.Helper()
	j := &Judge{w: w, ledger: l, subs: subs, r: w.TakeReading(), byID: map[string][]*seen{}}
	j.m = NewModel(j.r, w.Catalogue(), w.cfg.Idempotency.Window)
	for _, s := range subs {
		for _, p := range s.receiver.Posts() {
			j.posts = append(j.posts, seen{Post: p, sub: s})
		}
	}
	sort.SliceStable(j.posts, func(a, b int) bool { return j.posts[a].Arrived.Before(j.posts[b].Arrived) })
	for i := range j.posts {
		p := &j.posts[i]
		j.byID[p.ID] = append(j.byID[p.ID], p)
	}
	j.accepted()
	j.copies()
	j.refusals()
	j.attempts()
	j.postsAnswered()
	j.early()
	j.bounded()
	j.letters()
	j.lanes()
	j.lines()
	return j.m.problems
}

func (j *Judge) bad(invariant int, format string, args ...any) { j.m.bad(invariant, format, args...) }

// accepted: everything that a producer was told is safe has an account, and the
// API's word is the log's.
func (j *Judge) accepted() {
	j.ledger.mu.Lock()
	sent := slices.Clone(j.ledger.sent)
	j.ledger.mu.Unlock()
	for _, s := range sent {
		if !s.Acked && s.Status != http.StatusUnprocessableEntity {
			continue
		}
		if s.Where != (schemas.Coordinates{}) {
			if a := j.m.byWhere[s.Where]; a == nil {
				j.bad(1, "event %s of %s was acknowledged and is not there", coordinates(s.Where), s.Endpoint)
			}
			continue
		}
		a := j.m.accounts[s.DeliveryID]
		switch {
		case s.Status == http.StatusUnprocessableEntity:
			if !j.conflicted(s) {
				j.bad(3, "the API called key %q of %s a conflict, the log does not", s.Key, s.Endpoint)
			}
		case a == nil:
			j.bad(1, "delivery %s (%s, key %q, %q) was accepted by the API and is not there", s.DeliveryID, s.Endpoint, s.Key, s.Word)
		case s.Word == "accepted" && a.Refused, s.Word == "duplicate" && a.Refused:
			j.bad(3, "delivery %s of key %q was called %q by the API, and refused by the log", s.DeliveryID, s.Key, s.Word)
		case s.Word == "duplicate" && (a.Key != s.Key || a.Endpoint != s.Endpoint):
			j.bad(3, "key %q of %s was answered with delivery %s of another key", s.Key, s.Endpoint, s.DeliveryID)
		}
	}
}

func (j *Judge) conflicted(s *Sent) bool {
	for _, a := range j.m.accounts {
		if a.Endpoint == s.Endpoint && a.Key == s.Key && a.Verdict == schemas.VerdictConflict {
			return true
		}
	}
	return false
}

// copies: each delivery lives in exactly one place, or is delivered once; none is lost, none is forked.
func (j *Judge) copies() {
	for _, a := range j.m.sorted() {
		if a.Refused {
			continue // see refusals
		}
		alive, delivered := len(a.Live), a.Delivered()
		switch {
		case alive+delivered == 0:
			j.bad(1, "%s is lost: %s", a.Name, j.story(a))
		case alive+delivered > 1:
			j.bad(2, "%s has %d lives %v and was delivered %d times: %s", a.Name, alive, a.Live, delivered, j.story(a))
		}
	}
}

// refusals: what repeats a key is answered once, and never delivered.
func (j *Judge) refusals() {
	for _, a := range j.m.sorted() {
		if !a.Refused {
			if len(a.Answers) > 0 {
				j.bad(3, "%s is the first of its key and was refused: %s", a.Name, j.story(a))
			}
			continue
		}
		if n := len(j.byID[a.ID]); n > 0 {
			j.bad(3, "%s is a %s and was posted %d times: %s", a.Name, a.Verdict, n, j.story(a))
		}
		if n := len(a.Live) + len(a.Answers); n != 1 {
			j.bad(2, "%s is a %s: it waits in %v and was answered %d times: %s", a.Name, a.Verdict, a.Live, len(a.Answers), j.story(a))
		}
		if len(a.Letters) > 0 || len(a.Posted) > 0 || len(a.Tiers) > 0 {
			j.bad(3, "%s is a %s and went on: %s", a.Name, a.Verdict, j.story(a))
		}
		for _, at := range a.Answers {
			if string(at.Kind) != string(a.Verdict) {
				j.bad(3, "%s is a %s and was recorded as %s", a.Name, a.Verdict, at.Kind)
			}
		}
	}
}

// attempts: those of one run are numbered without gap or repeat, within the schedule.
func (j *Judge) attempts() {
	most := app.Policy(&j.w.cfg).MaxAttempts()
	for _, a := range j.m.sorted() {
		numbers := map[int][]int{}
		for _, p := range a.Posted {
			numbers[p.Replay] = append(numbers[p.Replay], p.Number)
		}
		for run, ns := range numbers {
			slices.Sort(ns)
			for i, n := range ns {
				if n != i+1 {
					j.bad(6, "%s: the attempts of run %d are numbered %v: %s", a.Name, run, ns, j.story(a))
					break
				}
			}
			if len(ns) > most {
				j.bad(6, "%s was attempted %d times in run %d, more than %d", a.Name, len(ns), run, most)
			}
		}
	}
}

// postsAnswered: every POST is of a delivery that may be made, to the right place,
// byte for byte, and is in the log as an attempt; and no attempt is in the log that
// was answered and not made. A POST more than the log knows of needs an excuse.
func (j *Judge) postsAnswered() {
	patience := j.w.cfg.Timeouts.MaxTotal
	for i := range j.posts {
		p := &j.posts[i]
		a := j.m.accounts[p.ID]
		switch {
		case a == nil:
			j.bad(4, "%s got POST %s, which nothing in the log asks for", p.sub.id, p.ID)
		case a.Endpoint != p.sub.id:
			j.bad(4, "%s got POST %s, which is for %s", p.sub.id, p.ID, a.Endpoint)
		case p.Body != string(a.Payload):
			j.bad(4, "POST %s has another body than its event", p.ID)
		}
	}
	for _, a := range j.m.sorted() {
		posts := j.byID[a.ID]
		for _, at := range a.Posted {
			if !reached(at.Class) {
				continue
			}
			found := false
			for _, p := range posts {
				if !p.used && p.Attempt == at.Number && (at.Status == 0 || p.Answer == at.Status) &&
					!p.Arrived.Before(at.At.Add(-time.Millisecond)) && p.Arrived.Before(at.At.Add(patience)) {
					p.used, found = true, true
					break
				}
			}
			if !found && at.Status != 0 {
				j.bad(6, "%s: attempt %d of run %d is recorded with status %d, and no receiver saw it: %s",
					a.Name, at.Number, at.Replay, at.Status, j.story(a))
			}
		}
		for _, p := range posts {
			if !p.used && !j.ledger.Disturbed(p.Process, p.Arrived.Add(-j.grace()), p.Arrived.Add(j.grace())) {
				j.bad(4, "%s: the POST of attempt %d by %s at %s is not in the log, and nothing had happened to it: %s",
					a.Name, p.Attempt, p.Process, p.Arrived.Sub(j.w.start), j.story(a))
			}
		}
	}
}

// grace is how long before and after a disturbance a process may do what the log
// does not know: an attempt takes its time, settling is tried again for a while,
// and a session takes its time to end.
func (j *Judge) grace() time.Duration {
	c := &j.w.cfg
	return c.Timeouts.MaxTotal + c.Processor.SessionTimeout + c.Processor.RebalanceTimeout + 10*time.Second
}

// reached says that an attempt of this class may have been seen by the endpoint.
func reached(class string) bool {
	switch retry.Class(class) {
	case retry.DNS, retry.Connect, retry.TLS, retry.Blocked, retry.Build, retry.Cancelled:
		return false
	default:
		return true
	}
}

// lanes: an endpoint never gets more requests at a time than it takes, but while
// it may have two owners.
func (j *Judge) lanes() {
	for i := range j.posts {
		p := &j.posts[i]
		if p.Beside >= p.sub.width && !j.ledger.Disturbed(p.Process, p.Arrived.Add(-j.grace()), p.Arrived.Add(j.grace())) && j.overlaps(p) >= p.sub.width {
			j.bad(8, "%s takes %d requests at a time and got attempt %d of %s by %s at %s beside %d others", p.sub.id, p.sub.width,
				p.Attempt, p.ID, p.Process, p.Arrived.Sub(j.w.start), p.Beside)
		}
	}
}

// overlaps counts the requests that were being served when one arrived, and for a while
// after it. A sender that has given up may start the next before the receiver learns of it.
func (j *Judge) overlaps(p *seen) int {
	const learns = 50 * time.Millisecond
	n := 0
	for i := range j.posts {
		q := &j.posts[i]
		if q != p && q.sub == p.sub && !q.Arrived.After(p.Arrived) && (q.Ended.IsZero() || q.Ended.After(p.Arrived.Add(learns))) {
			n++
		}
	}
	return n
}

// bounded: a failing endpoint gets no more requests than the plan allows, in any
// window; each time its unit may have gone to another owner allows a new start.
func (j *Judge) bounded() {
	cfg := app.Breaker(&j.w.cfg)
	for _, s := range j.subs {
		for _, span := range s.failing() {
			var at []time.Time
			for i := range j.posts {
				if p := &j.posts[i]; p.sub == s && !p.Arrived.Before(span.from) && p.Arrived.Before(span.to) {
					at = append(at, p.Arrived)
				}
			}
			for _, window := range []time.Duration{cfg.OpenFor, 4 * cfg.OpenFor, cfg.OpenMax, 4 * cfg.OpenMax, 96 * cfg.OpenMax} {
				j.boundedWithin(s, at, window, cfg, span)
			}
		}
	}
}

func (j *Judge) boundedWithin(s *Sub, at []time.Time, window time.Duration, cfg breaker.Config, span span) {
	threshold := cfg.ConsecutiveAny
	if span.hard {
		threshold = cfg.ConsecutiveHard
	}
	for i := range at {
		n := sort.Search(len(at), func(k int) bool { return at[k].After(at[i].Add(window)) }) - i
		owners := 1 + j.ledger.Changes(at[i].Add(-j.grace()), at[i].Add(window))
		if bound := owners * plan.Requests(threshold, s.width, plan.Probes(cfg, window)); n > bound {
			j.bad(8, "%s, failing since %s, got %d requests within %s of %s; the bound is %d", s.id, span.from.Sub(j.w.start),
				n, window, at[i].Sub(j.w.start), bound)
			return
		}
	}
}

// Changes counts what may have moved units between two times.
func (l *Ledger) Changes(from, to time.Time) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	n := 0
	for _, list := range [][]*Disturbance{l.disturbances, l.moves} {
		for _, d := range list {
			if !d.From.After(to) && (d.To.IsZero() || !d.To.Before(from)) {
				n++
			}
		}
	}
	return n
}

// letters: each says truly why, with its record byte for byte.
func (j *Judge) letters() {
	policy := app.Policy(&j.w.cfg)
	known := map[string]bool{}
	for _, c := range retry.Classes() {
		known[string(c)] = true
	}
	for _, a := range j.m.sorted() {
		for _, l := range a.Letters {
			switch {
			case a.Raw:
				if l.Reason != schemas.ReasonUndecodable || string(l.Raw) != string(a.Payload) {
					j.bad(12, "%s cannot be read; its dead letter says %q and has %d of its %d bytes", a.Name, l.Reason, len(l.Raw), len(a.Payload))
				}
				continue
			case string(l.Delivery.Payload) != string(a.Payload):
				j.bad(1, "the dead letter of %s has another payload", a.Name)
			case l.Delivery.ID != a.ID:
				j.bad(4, "the dead letter of %s calls it %s", a.Name, l.Delivery.ID)
			}
			switch l.Reason {
			case schemas.ReasonExpired:
				// At once where it may not be tried again before its end: the endpoint asked for it, or the breaker is open.
				ahead := max(policy.MaxRetryAfter, app.Breaker(&j.w.cfg).OpenTime(1000, 1))
				if end := l.Delivery.RunStartedAt.Add(policy.Lifetime); l.DeadAt.Before(end.Add(-ahead - time.Millisecond)) {
					j.bad(6, "%s is dead as expired %s before its time: %s", a.Name, end.Sub(l.DeadAt), j.story(a))
				}
			case schemas.ReasonUnknownEndpoint, schemas.ReasonEndpointDeleted, schemas.ReasonDisabled, schemas.ReasonTooLarge:
			case string(retry.Gone):
			default:
				if !known[l.Reason] {
					j.bad(12, "%s is dead of %q, which is no reason", a.Name, l.Reason)
				}
				if l.Delivery.Attempts < policy.MaxAttempts() && !j.permanent(a, l.Delivery.History.LastStatus) {
					j.bad(6, "%s is dead of %s after %d attempts of %d: %s", a.Name, l.Reason, l.Delivery.Attempts, policy.MaxAttempts(), j.story(a))
				}
			}
		}
	}
}

func (j *Judge) permanent(a *Account, status int) bool {
	for _, s := range j.subs {
		if s.id == a.Endpoint {
			return slices.Contains(s.permanent, status)
		}
	}
	return false
}

// sorted lists the accounts in the order of their events.
func (m *Model) sorted() []*Account {
	all := make([]*Account, 0, len(m.accounts))
	for _, a := range m.accounts {
		all = append(all, a)
	}
	sort.Slice(all, func(i, k int) bool {
		x, y := all[i].Origin, all[k].Origin
		if x.Topic != y.Topic {
			return x.Topic < y.Topic
		}
		if x.Partition != y.Partition {
			return x.Partition < y.Partition
		}
		return x.Offset < y.Offset
	})
	return all
}

// story tells everything known of a delivery, in the order in which it happened.
func (j *Judge) story(a *Account) string {
	type line struct {
		at   time.Time
		text string
	}
	var lines []line
	add := func(at time.Time, format string, args ...any) {
		lines = append(lines, line{at, fmt.Sprintf(format, args...)})
	}
	for _, s := range j.r.Events {
		if j.m.byWhere[s.At] == a {
			add(s.Timestamp, "event %s settled=%t", coordinates(s.At), s.Settled)
		}
	}
	for _, t := range a.Tiers {
		add(t.Timestamp, "waits in %s until %s (attempts %d, holds %d, %s) settled=%t", coordinates(t.At),
			t.Delivery.DueAt.Sub(j.w.start), t.Delivery.Attempts, t.Delivery.Holds, header(t, topics.HeaderReason), t.Settled)
	}
	for _, s := range j.r.Replays {
		if j.m.byWhere[s.At] == a {
			add(s.Timestamp, "replay %s settled=%t", coordinates(s.At), s.Settled)
		}
	}
	for _, l := range a.Letters {
		add(l.Written, "dead letter %s of %s: %s, %s; replayed %d times", coordinates(l.At), coordinates(l.Source), l.Reason, l.Detail, j.r.Marks[l.At])
	}
	for _, p := range append(slices.Clone(a.Posted), a.Answers...) {
		add(p.Written, "attempt record: %s number %d run %d from %s started %s: %s %d, %s", p.Kind, p.Number, p.Replay,
			coordinates(p.Source), p.At.Sub(j.w.start), p.Class, p.Status, p.Decision)
	}
	for _, p := range j.byID[a.ID] {
		add(p.Arrived, "POST of attempt %d by %s, signed %s, answered %d", p.Attempt, p.Process, p.Timestamp.Sub(j.w.start), p.Answer)
	}
	if a.Key != "" {
		for _, s := range j.r.Events {
			if o := j.m.byWhere[s.At]; o != a && o.Key == a.Key && o.Endpoint == a.Endpoint {
				add(s.Timestamp, "(the same key: event %s, %s, %s, settled=%t)", coordinates(s.At), o.Name, o.Verdict, s.Settled)
			}
		}
		for _, c := range j.r.Claims {
			if c.Key == a.Key && c.EndpointID == a.Endpoint {
				add(c.Written, "claim: %d is %s, owned by %s since %d at %s", c.AnsweredOffset, c.Verdict, c.DeliveryID, c.ClaimedOffset,
					c.ClaimedAt.Sub(j.w.start))
			}
		}
	}
	sort.SliceStable(lines, func(i, k int) bool { return lines[i].at.Before(lines[k].at) })
	text := fmt.Sprintf("%s for %s, key %q, %s", a.Name, a.Endpoint, a.Key, a.Verdict)
	for _, l := range lines {
		text += fmt.Sprintf("\n      %12s  %s", l.at.Sub(j.w.start).Round(time.Millisecond), l.text)
	}
	return text
}

func header(s Source, name string) string {
	for _, h := range s.Headers {
		if h.Key == name {
			return string(h.Value)
		}
	}
	return ""
}
