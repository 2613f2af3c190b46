package unit

import (
	"log/slog"
	"time"

	"github.com/barnabas-webhooks/barnabas/internal/obs"
	"github.com/barnabas-webhooks/barnabas/processor/breaker"
	"github.com/barnabas-webhooks/barnabas/processor/deliver"
	"github.com/barnabas-webhooks/barnabas/processor/endpoint"
	"github.com/barnabas-webhooks/barnabas/processor/metrics"
	"github.com/barnabas-webhooks/barnabas/retry"
	"github.com/barnabas-webhooks/barnabas/schemas"
)

// finished takes what an attempt came to: it is charged to the breaker, the
// policy decides what follows, and the outcome waits to be settled.
func (u *Unit) finished(l *endpointLane, it *item, ep *endpoint.Endpoint, ticket breaker.Ticket, res deliver.Result) {
	l.inFlight--
	u.inFlight--
	if u.phase == ended {
		return
	}
	now := time.Now()
	if !res.Local && res.Class != retry.Cancelled {
		l.slots = paceOf(res.Duration)
	}
	u.lineUp(l)
	if res.Stale || res.Local { // says nothing of the endpoint's health
		l.breaker.Forget(ticket)
	} else {
		l.note(res.Class, it.delivery.EventType)
		u.charge(l, ticket, res.Class, now)
		u.adapt(l, ep, &res, now)
	}
	if res.Local && u.phase == running { // our own trouble: no POST was made, no attempt is spent
		u.Quiet.Error("attempt not made", obs.KeyDeliveryID, it.delivery.ID, obs.KeyEndpointID, it.delivery.EndpointID, obs.KeyError, res.Error)
		// Spread over as much again as it has lasted: what waits goes round a few times, however long it takes.
		u.hold(it, now, min(max(u.Breaker.OpenFor, res.LocalFor), u.Breaker.OpenMax), metrics.HoldLocal, now)
		return
	}
	u.Metrics.Attempts.WithLabelValues(string(res.Class)).Inc()
	if res.Local || res.Class == retry.Cancelled {
		// Cut off by our own end; whether it was seen is not known. While the unit
		// ends it stays unsettled, and whoever owns the unit next attempts it again.
		if u.phase == running {
			u.hold(it, now, time.Second, metrics.HoldCancelled, now)
		}
		return
	}
	l.completed(now, res.Duration)
	u.Metrics.AttemptSeconds.Observe(res.Duration.Seconds())

	d := it.delivery
	d.Attempts = schemas.OneMore(d.Attempts)
	d.History.TotalAttempts = schemas.OneMore(d.History.TotalAttempts)
	if d.History.FirstAttemptAt.IsZero() {
		d.History.FirstAttemptAt = res.StartedAt
	}
	d.History.LastAttemptAt, d.History.LastClass, d.History.LastStatus = res.StartedAt, string(res.Class), res.Status
	d.History.LastError, d.History.LastExcerpt = res.Error, res.Excerpt

	decision := u.Policy.Decide(now, spentBy(d), res.Outcome, ep.PermanentStatuses, ep.RetryCaps, u.Rand())
	if decision.DisableEndpoint {
		u.disable(l, ep, now)
	}
	if until := now.Add(decision.PauseEndpoint); until.After(l.pausedUntil) { // of several that asked, the longest
		l.pausedUntil = until
	}
	if u.Policy.MaxRetryAfter > 0 && res.RetryAfter >= u.Policy.MaxRetryAfter { // cut where it was read, too
		u.Metrics.RetryAfterCut.Inc()
	}
	u.report(it, &res, &decision, now)
	report := u.attemptRecord(it, &res, &decision)
	switch decision.Kind {
	case retry.Delivered:
		if d.Attempts == 1 && d.Replays == 0 {
			u.Metrics.EndToEndSeconds.Observe(now.Sub(d.AcceptedAt).Seconds())
		}
		u.Metrics.Decisions.WithLabelValues(string(retry.Delivered)).Inc()
		u.outcome(it, report)
	case retry.Dead:
		u.bury(it, decision.Reason, res.Error, now, report)
	default:
		u.postpone(it, decision, now, report)
	}
}

// goneAgain is after how long an endpoint that should be off by now is asked to be
// switched off once more: the first time may have met with trouble of our own.
const goneAgain = time.Minute

// answeredGone is the reason that an endpoint is disabled for then. What still waits for it ends as gone too, so that one
// replay by reason finds all of it.
const answeredGone = "answered 410 Gone"

// disable has an endpoint switched off that answered 410 under the given configuration.
func (u *Unit) disable(l *endpointLane, ep *endpoint.Endpoint, now time.Time) {
	l.goneBy, l.goneAt = ep, now
	u.Disable(ep, answeredGone)
}

// charge tells the breaker and publishes the transition it makes of it.
func (u *Unit) charge(l *endpointLane, ticket breaker.Ticket, c retry.Class, now time.Time) {
	t, changed := l.breaker.Record(now, ticket, c, u.Rand())
	if changed {
		u.transition(l, t, now)
	}
}

// transition publishes a change of a breaker's state.
func (u *Unit) transition(l *endpointLane, t breaker.Transition, now time.Time) {
	switch {
	case t.From == breaker.Closed:
		u.open++
		u.Metrics.BreakersOpen.Inc()
	case t.To == breaker.Closed:
		u.open--
		u.Metrics.BreakersOpen.Dec()
	}
	u.Metrics.BreakerChanges.WithLabelValues(string(t.To)).Inc()
	u.Log.Info("breaker", obs.KeyEndpointID, l.id, obs.KeyFrom, string(t.From), obs.KeyTo, string(t.To),
		obs.KeyTrips, t.Trips, obs.KeyOpenUntil, t.OpenUntil, obs.KeyReason, string(t.Reason))
	u.Journal.AppendBreaker(u.owner.Unit, &schemas.BreakerTransition{
		EndpointID: l.id, State: string(t.To), Trips: t.Trips, OpenUntil: t.OpenUntil, At: now, Reason: string(t.Reason),
	})
}

// reset closes the breaker when an operator said so since it was last changed. One that is closed goes on counting, so that
// saying so again and again hides no outage, unless the endpoint was off in between.
func (u *Unit) reset(l *endpointLane, ep *endpoint.Endpoint, now time.Time) {
	if l.epoch != ep.Epoch {
		l.epoch = ep.Epoch
		l.breaker.CountAnew()
	}
	if !ep.BreakerResetAt.After(l.resetAt) {
		return
	}
	l.resetAt = ep.BreakerResetAt
	if t, changed := l.breaker.Reset(now); changed {
		u.transition(l, t, now)
	}
}

// holdFor keeps a delivery waiting until the endpoint may next be tried, plus a
// drawn spread of the same length, so that what waits does not come back at once.
func (u *Unit) holdFor(it *item, until time.Time, reason string, now time.Time) {
	u.hold(it, until, max(u.Breaker.OpenFor, until.Sub(now)), reason, now)
}

// holdAll holds everything that is queued in a lane.
func (u *Unit) holdAll(l *endpointLane, until time.Time, reason string, now time.Time) {
	for _, it := range l.queue.Drain() {
		u.holdFor(it, until, reason, now)
	}
	u.relieve(l, now)
}

// holdRefused holds what is queued in a lane whose breaker is open, but for what may knock; true if some of that is left.
func (u *Unit) holdRefused(l *endpointLane, until, now time.Time) bool {
	for _, it := range l.queue.Drain() {
		if l.door(it.delivery) {
			l.queue.Push(it.class, it, len(it.delivery.Payload), now)
			continue
		}
		u.holdFor(it, until, metrics.HoldBreaker, now)
	}
	u.relieve(l, now)
	return l.queue.Len() > 0
}

// hold is a wait that spends no attempt.
func (u *Unit) hold(it *item, until time.Time, spread time.Duration, reason string, now time.Time) {
	d := it.delivery
	decision := u.Policy.HoldUntil(now, spentBy(d), until, spread, reason, u.Rand())
	if decision.Kind == retry.Dead {
		u.bury(it, decision.Reason, "held until its lifetime ended, last by "+reason, now)
		return
	}
	d.Holds = schemas.OneMore(d.Holds)
	d.History.LastClass = lastClass(d, reason)
	u.postpone(it, decision, now)
}

// lastClass keeps the class of the last attempt readable behind any number of
// holds, but lets a spill be recognised when it comes back.
func lastClass(d *schemas.Delivery, reason string) string {
	if isSpill(reason) || d.Attempts == 0 {
		return reason
	}
	return d.History.LastClass
}

func spentBy(d *schemas.Delivery) retry.Spent {
	return retry.Spent{Attempts: d.Attempts, RunStartedAt: d.RunStartedAt}
}

// report writes the one canonical log line of an attempt.
func (u *Unit) report(it *item, res *deliver.Result, decision *retry.Decision, now time.Time) {
	d := it.delivery
	level := slog.LevelInfo
	if decision.Kind != retry.Delivered {
		level = slog.LevelWarn
	}
	if !u.Log.Enabled(u.attempts, level) {
		return
	}
	// Past the logger, which would look up the caller for each line: nobody asks for it.
	line := slog.NewRecord(now, level, "attempt", 0)
	line.AddAttrs(
		slog.String(obs.KeyDeliveryID, d.ID), slog.String(obs.KeyEndpointID, d.EndpointID), slog.String(obs.KeyTenant, d.Tenant),
		slog.String(obs.KeyEventType, d.EventType), slog.Int(obs.KeyAttempt, d.Attempts), slog.Int(obs.KeyReplay, d.Replays),
		slog.String(obs.KeyClass, string(res.Class)), slog.Int(obs.KeyStatus, res.Status), slog.Duration(obs.KeyDuration, res.Duration),
		slog.String(obs.KeyDecision, string(decision.Kind)))
	if !decision.Due.IsZero() {
		line.AddAttrs(slog.Time(obs.KeyDueAt, decision.Due))
	}
	if res.RetryAfter > 0 {
		line.AddAttrs(slog.Duration(obs.KeyRetryAfter, res.RetryAfter))
	}
	if res.Error != "" {
		line.AddAttrs(slog.String(obs.KeyError, res.Error))
	}
	_ = u.Log.Handler().Handle(u.attempts, line)
}
