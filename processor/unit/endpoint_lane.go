package unit

import (
	"hash/fnv"
	"net/http"
	"time"

	"golang.org/x/time/rate"

	"github.com/barnabas-webhooks/barnabas/processor/aimd"
	"github.com/barnabas-webhooks/barnabas/processor/breaker"
	"github.com/barnabas-webhooks/barnabas/processor/caps"
	"github.com/barnabas-webhooks/barnabas/processor/deliver"
	"github.com/barnabas-webhooks/barnabas/processor/endpoint"
	"github.com/barnabas-webhooks/barnabas/processor/lane"
	"github.com/barnabas-webhooks/barnabas/processor/metrics"
	"github.com/barnabas-webhooks/barnabas/retry"
	"github.com/barnabas-webhooks/barnabas/schemas"
)

// endpointLane is everything the unit keeps for one endpoint: the queue, the
// breaker, and what limits it.
type endpointLane struct {
	id       string
	queue    lane.Lane[*item]
	breaker  *breaker.Breaker
	inFlight int
	bears    aimd.Limit
	slots    caps.Pace // which slots its requests are for; slow until it has shown otherwise
	alarm    time.Time // set in the unit's alarms; zero: none

	limiter     *rate.Limiter // nil: no rate limit
	pausedUntil time.Time     // the endpoint asked to be left alone
	// goneBy is the configuration with which the endpoint answered 410: until it
	// is changed, nothing is sent.
	goneBy *endpoint.Endpoint
	goneAt time.Time // when it was last asked to be switched off
	// resetAt is up to when operators' resets of the breaker have been heeded.
	resetAt time.Time
	epoch   int64 // of the endpoint when it was last looked at
	refused refusals

	// pace is a moving average of the time between completions; backlog counts
	// what was spilled and has not come back, by the class it will have then.
	// Together they say when it is worth coming back.
	pace    time.Duration
	lastEnd time.Time
	backlog [lane.Retry + 1]int

	arrived   time.Time // when a delivery last joined
	flooded   time.Time // when the lane was last full
	presses   *stream   // intake of which stands still for this lane; nil: none
	pressed   time.Time // since when
	pressedAt int       // how many it had queued then
}

// refusals is what the failures since the last success were about: one event type, of which it is a hash, with an answer of
// 4xx each; noRefusal; or several things. Two types of one hash shut a door that might be open, and no more.
type refusals uint32

const (
	noRefusal refusals = iota
	severalThings
)

func refusalsOf(eventType string) refusals {
	h := fnv.New32a()
	_, _ = h.Write([]byte(eventType))
	return max(refusals(h.Sum32()), severalThings+1)
}

// note remembers what a failure was about.
func (l *endpointLane) note(class retry.Class, eventType string) {
	switch class {
	case retry.Cancelled, retry.Blocked, retry.Build:
	case retry.OK:
		l.refused = noRefusal
	case retry.HTTP4xx:
		switch of := refusalsOf(eventType); l.refused {
		case noRefusal:
			l.refused = of
		case of:
		default:
			l.refused = severalThings
		}
	default:
		l.refused = severalThings
	}
}

// door says that a delivery may knock at an open breaker before the time is up: everything that failed was refused for what it
// is, an event of another type than this one, so that the endpoint may well be up (C-105). If it fails too, the door is shut.
func (l *endpointLane) door(d *schemas.Delivery) bool {
	return l.refused > severalThings && l.refused != refusalsOf(d.EventType)
}

// firstPace is assumed of an endpoint that has not answered yet: fast, so that
// its first burst waits in the log and not in a tier. One that does not keep it
// is found out by its first press.
const firstPace = time.Millisecond

// laneOf finds or makes the lane of an endpoint.
func (u *Unit) laneOf(id string) *endpointLane {
	if l, ok := u.lanes[id]; ok {
		return l
	}
	l := &endpointLane{id: id, breaker: breaker.New(u.Breaker), pace: firstPace, slots: caps.Slow}
	if f, ok := u.facts[id]; ok {
		l.breaker.Restore(breaker.State(f.State), f.Trips, f.OpenUntil)
		l.resetAt = f.At
		if now := time.Now(); f.At.After(now) { // by a clock that was wrong: an operator's reset is heeded all the same
			l.resetAt = now
		}
		delete(u.facts, id)
		u.open++
		u.Metrics.BreakersOpen.Inc()
	}
	u.lanes[id] = l
	u.mostLanes = max(u.mostLanes, len(u.lanes))
	return l
}

// width is how many requests the endpoint may have in flight now.
func (u *Unit) width(l *endpointLane, ep *endpoint.Endpoint) int {
	return l.breaker.Width(l.bears.Of(u.mostInFlight(ep)))
}

// mostInFlight is how many requests the endpoint's configuration allows at a time.
func (u *Unit) mostInFlight(ep *endpoint.Endpoint) int {
	switch {
	case ep.Order != schemas.OrderParallel:
		return 1
	case ep.MaxInFlight > 0:
		return ep.MaxInFlight
	}
	return u.MaxInFlight
}

// adapt has a parallel endpoint get fewer requests at a time when it times out or says that it is overloaded, and one
// more for each round that it answers otherwise: that it refuses a payload says nothing against its strength. Probes say
// nothing of it either way, and what follows them is the breaker's slow start.
func (u *Unit) adapt(l *endpointLane, ep *endpoint.Endpoint, res *deliver.Result, now time.Time) {
	most := u.mostInFlight(ep)
	state, _ := l.breaker.Peek(now)
	switch {
	case most <= 1 || state != breaker.Closed:
	case res.Class == retry.Timeout, res.Status == http.StatusTooManyRequests, res.Status == http.StatusServiceUnavailable:
		if l.bears.Overloaded(res.StartedAt, now, most) {
			u.Metrics.WidthCuts.Inc()
		}
	case res.Status != 0:
		l.bears.Bore(l.inFlight+1, most)
	}
}

// rateDelay takes a token of the process's rate and one of the endpoint's, or says
// how long until there are both.
func (u *Unit) rateDelay(l *endpointLane, ep *endpoint.Endpoint, now time.Time) time.Duration {
	giveBack, wait := u.Rate.Take(now)
	if wait > 0 {
		return wait
	}
	if wait = l.rateDelay(ep, u.begunAt, now); wait > 0 {
		giveBack()
	}
	return wait
}

// takeover bounds for how long an endpoint of a low rate gets nothing after its unit has moved.
const takeover = time.Minute

// rateDelay takes a token of the endpoint's rate, or says how long until there is one. The owner before may have
// posted just before the unit began here, which nobody knows any more: so the first token is there one interval after
// that, and the rate holds over restarts and moves (C-110); of less than one a minute, it may be one too many.
func (l *endpointLane) rateDelay(ep *endpoint.Endpoint, begunAt, now time.Time) time.Duration {
	if ep.RatePerSecond <= 0 {
		l.limiter = nil
		return 0
	}
	limit := rate.Limit(ep.RatePerSecond)
	if l.limiter == nil {
		first := time.Duration(min(float64(time.Second)/ep.RatePerSecond, float64(takeover)))
		if wait := begunAt.Add(first).Sub(now); wait > 0 {
			return wait
		}
		l.limiter = rate.NewLimiter(limit, 1)
	} else if l.limiter.Limit() != limit {
		l.limiter.SetLimitAt(now, limit)
	}
	r := l.limiter.ReserveN(now, 1)
	wait := r.DelayFrom(now)
	if wait > 0 {
		r.CancelAt(now)
	}
	return wait
}

// completed updates the pace.
func (l *endpointLane) completed(now time.Time, took time.Duration) {
	gap := took
	if since := now.Sub(l.lastEnd); since < gap {
		gap = since // others were in flight beside it
	}
	l.lastEnd = now
	l.pace += (gap - l.pace) / 8
}

// join puts a delivery into its endpoint's lane, or decides at once what can be
// decided without its turn: it is not next in a strict endpoint's line, there is no
// such endpoint, it is off, the breaker is open, the lane is full.
func (u *Unit) join(it *item, now time.Time) {
	if u.waitsInLine(it, now) {
		return
	}
	d := it.delivery
	l, ok := u.admissible(it, now)
	if !ok {
		return
	}
	if isSpill(d.History.LastClass) && l.backlog[it.class] > 0 {
		l.backlog[it.class]--
	}
	if state, until := l.breaker.Peek(now); state == breaker.Open && until.After(now) && !l.door(d) {
		u.holdFor(it, until, metrics.HoldBreaker, now)
		return
	}
	class := it.class
	if line := u.lineOfItem(it); line != nil {
		line.Come(now)
		class = lane.Live // all of the line waits for it
	}
	if u.crowded(l, class) {
		u.spill(l, it, l.queue.Len(), metrics.HoldLaneFull, now)
		return
	}
	l.arrived = now
	it.keep()
	l.queue.Push(class, it, len(d.Payload), now)
	u.lineUp(l)
	u.alarms.set(l, now.Add(u.LaneAge))
	u.press(it.stream, l, now)
}

// crowded says that a lane has no room for one more of a class. There is always
// room for a few, or for one where they are large: a lane that is flooded by one class must not keep the others from
// ever having their turn.
func (u *Unit) crowded(l *endpointLane, class lane.Class) bool {
	const few = 16 // of a full lane's entries one in so many
	full, heavy := l.queue.Len() >= u.LaneEntries, int64(l.queue.Bytes()) >= u.LaneBytes
	room := max(1, u.LaneEntries/few)
	if heavy {
		room = 1
	}
	return (full || heavy) && l.queue.LenOf(class) >= room
}

// admissible finds the lane of a delivery whose endpoint exists and is on, and
// ends or holds it otherwise.
func (u *Unit) admissible(it *item, now time.Time) (*endpointLane, bool) {
	d := it.delivery
	ep, known := u.Endpoints.Get(d.EndpointID)
	switch {
	case !known && u.Endpoints.Deleted(d.EndpointID):
		u.bury(it, schemas.ReasonEndpointDeleted, "the endpoint was deleted", now)
		return nil, false
	case !known && now.Sub(d.RunStartedAt) < u.UnknownGrace:
		u.holdFor(it, now, metrics.HoldUnknown, now)
		return nil, false
	case !known:
		u.bury(it, schemas.ReasonUnknownEndpoint, "no endpoint has this id", now)
		return nil, false
	}
	if ep.Locked != nil { // its secrets can't be opened with our key: our trouble, not the endpoint's
		u.holdFor(it, now, metrics.HoldLocked, now)
		return nil, false
	}
	d.Tenant = ep.Tenant
	if u.Policy.Expired(now, spentBy(d)) {
		u.bury(it, schemas.ReasonExpired, "the lifetime of the delivery has ended", now)
		return nil, false
	}
	if ep.State == schemas.EndpointDisabled {
		reason := schemas.ReasonDisabled
		if ep.DisabledReason == answeredGone {
			reason = string(retry.Gone)
		}
		u.bury(it, reason, "the endpoint is disabled: "+ep.DisabledReason, now)
		return nil, false
	}
	l := u.laneOf(d.EndpointID)
	u.reset(l, ep, now)
	if l.goneBy == ep {
		if now.Sub(l.goneAt) >= goneAgain {
			u.disable(l, ep, now)
		}
		u.bury(it, string(retry.Gone), "the endpoint answered 410 Gone and is being disabled", now)
		return nil, false
	}
	return l, true
}
