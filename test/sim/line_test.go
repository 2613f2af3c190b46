package sim_test

import (
	"slices"
	"time"

	"github.com/barnabas-webhooks/barnabas/topics"
)

// lines: at a strict endpoint nothing is attempted before all that lie before it in the log have ended, by the attempts
// that were settled, and deliveries land in the order of the log, by what the receiver saw. Replays are not in the line.
func (j *Judge) lines() {
	c := j.w.Catalogue()
	for _, s := range j.subs {
		if !s.strict {
			continue
		}
		var ended, landed time.Time
		var before, landedBefore *Account
		var members []*Account
		for _, e := range j.r.Events {
			a := j.m.byWhere[e.At]
			if a == nil || a.Raw || a.Refused || a.Endpoint != s.id || topics.Partition(s.id, c.Partitions) != e.Partition {
				continue
			}
			members = append(members, a)
			first, last := a.firstRun()
			if !first.IsZero() {
				if first.Before(ended) {
					j.badOrder("%s was attempted at %s, before %s at %s was over:\n  %s\n  %s", a.Name, first.Sub(j.w.start), before.Name,
						ended.Sub(j.w.start), j.story(a), j.story(before))
				}
				ended, before = last, a
			}
			if at, ok := j.landing(a); ok {
				if at.Before(landed) {
					j.badOrder("%s landed at %s, before %s at %s:\n  %s\n  %s", a.Name, at.Sub(j.w.start), landedBefore.Name,
						landed.Sub(j.w.start), j.story(a), j.story(landedBefore))
				}
				landed, landedBefore = at, a
			}
		}
		j.repeats(members)
	}
}

// repeats: nor is anything attempted again once something behind it was posted, whoever died in between. What was under
// way in a process that was frozen may arrive late, but what counts is then another attempt. The members are those of one
// endpoint, in the order of the log.
func (j *Judge) repeats(members []*Account) {
	var next *seen // the first POST of all behind
	for _, a := range slices.Backward(members) {
		if _, last := a.firstRun(); next != nil && last.After(next.Arrived) {
			j.badOrder("%s was attempted at %s, behind %s at %s:\n  %s\n  %s", a.Name, last.Sub(j.w.start), next.ID,
				next.Arrived.Sub(j.w.start), j.story(a), j.story(j.m.accounts[next.ID]))
		}
		if posts := j.byID[a.ID]; len(posts) > 0 && (next == nil || posts[0].Arrived.Before(next.Arrived)) { // by their arrival
			next = posts[0]
		}
	}
}

func (j *Judge) badOrder(format string, args ...any) { j.m.badly("strict order", format, args...) }

// firstRun is when the first and the last attempt were made before any replay; zero: none was.
func (a *Account) firstRun() (first, last time.Time) {
	for _, p := range a.Posted { // by their times
		if p.Replay > 0 {
			continue
		}
		if last = p.At; first.IsZero() {
			first = p.At
		}
	}
	return first, last
}

// landing is when a delivery was first taken by its receiver, if it was delivered before any replay.
func (j *Judge) landing(a *Account) (at time.Time, ok bool) {
	for _, p := range a.Posted {
		ok = ok || p.Replay == 0 && p.Decision == "delivered"
	}
	if !ok {
		return at, false
	}
	for _, p := range j.byID[a.ID] { // by their arrival
		if p.Answer/100 == 2 {
			return p.Arrived, true
		}
	}
	return at, false // see postsAnswered
}
