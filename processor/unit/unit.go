package unit

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/barnabas-webhooks/barnabas/internal/obs"
	"github.com/barnabas-webhooks/barnabas/processor/caps"
	"github.com/barnabas-webhooks/barnabas/processor/claim"
	"github.com/barnabas-webhooks/barnabas/processor/lane"
	"github.com/barnabas-webhooks/barnabas/processor/settle"
	"github.com/barnabas-webhooks/barnabas/schemas"
)

// Causes with which attempts are cut off.
var (
	ErrRevoked = errors.New("unit: revoked, and the time to drain is over")
	ErrLost    = errors.New("unit: lost to another process")
)

// Restored is what a new owner knows of its unit before it starts.
type Restored struct {
	Arbiter  *claim.Arbiter
	Breakers map[string]*schemas.BreakerTransition // the last of each endpoint
	Lines    map[string]*schemas.Line              // of strict endpoints
	Logs     map[string]Log                        // by topic, of those that the unit consumes
}

// Position is where the group stands in one topic of the unit.
type Position struct {
	Offset   int64 // -1: nothing was committed yet
	Metadata string
}

type phase int

const (
	restoring phase = iota
	running
	draining
	ended
)

// Unit is one unit during one assignment. Its methods may be called from any
// goroutine; all of them return at once.
type Unit struct {
	*Shared
	owner settle.Owner
	inbox *inbox
	done  chan struct{}
	// started is closed when the unit knows where it stands and begins to work.
	started chan struct{}

	// What follows belongs to the goroutine in Run.

	phase    phase
	streams  []*stream // events first
	lanes    map[string]*endpointLane
	ready    [caps.Paces]lane.Ring[*endpointLane] // by pace
	alarms   alarms
	arbiter  *claim.Arbiter
	filling  bool                                  // a gap in the log of claims is being read
	facts    map[string]*schemas.BreakerTransition // restored and not yet asked for
	restored *Restored
	begun    int   // streams whose position is known
	held     int64 // bytes charged to the memory budget
	inFlight int
	flight   sync.WaitGroup
	unsure   bool             // of owning the unit: registered with the lease
	capWait  [caps.Paces]bool // registered for a free slot, by pace
	granted  [caps.Paces]int  // slots that the unit was given and has not used, by pace
	deadline time.Time
	settling settling
	open     int // breakers that are not closed
	lines    lines

	begunAt   time.Time // when it started to work
	sweptAt   time.Time // when the lanes were last looked through for idle ones
	mostLanes int       // that the map of lanes has held since it was made

	attempts context.Context //nolint:containedctx // the unit's own life: ends when attempts must be cut off
	cutOff   context.CancelCauseFunc
}

// New makes a unit that waits to be begun and restored. ctx ends with the process.
func New(ctx context.Context, owner settle.Owner, shared *Shared) *Unit {
	u := &Unit{
		Shared: shared, owner: owner, inbox: newInbox(), done: make(chan struct{}), started: make(chan struct{}),
		streams: newStreams(shared.Catalogue, shared.Policy), lanes: map[string]*endpointLane{},
	}
	u.attempts, u.cutOff = context.WithCancelCause(ctx)
	return u
}

// Owner names the unit and its assignment.
func (u *Unit) Owner() settle.Owner { return u.owner }

// Started is closed when the unit is restored and works.
func (u *Unit) Started() <-chan struct{} { return u.started }

// Done is closed when the unit has ended.
func (u *Unit) Done() <-chan struct{} { return u.done }

// Begin tells where the group stands in one topic; once it knows all of them and
// is restored the unit starts. A second position of a topic is ignored.
func (u *Unit) Begin(topic string, at Position) {
	u.inbox.put(func() {
		if s := u.stream(topic); s != nil && s.begin(at) {
			u.begun++
			u.start()
		}
	})
}

// Restore hands over what was read from the compacted topics.
func (u *Unit) Restore(r Restored) {
	taken := u.inbox.put(func() {
		u.restored = &r
		u.start()
	})
	if !taken {
		_ = r.Arbiter.Close() // the next owner reads on from where it stood
	}
}

// Take hands over records that were fetched, in log order, and charged to the memory budget with Cost.
// log is what there was of it when they were fetched.
func (u *Unit) Take(topic string, log Log, records []*kgo.Record) {
	taken := u.inbox.put(func() { u.take(u.stream(topic), log, records) })
	if !taken {
		for _, r := range records {
			u.Memory.Release(Cost(r))
		}
	}
}

// TakeDamaged hands over a batch of which nothing can be read, as one record that has its bytes, stands at the first of
// its offsets that was not handed over and is charged like any other. last is the last of them.
func (u *Unit) TakeDamaged(topic string, batch *kgo.Record, last int64, reason error) {
	taken := u.inbox.put(func() {
		s := u.stream(topic)
		if s.damaged == nil {
			s.damaged = map[*kgo.Record]damage{}
		}
		s.damaged[batch] = damage{last, reason}
		u.take(s, Log{Start: -1, End: last + 1}, []*kgo.Record{batch})
		s.expected = max(s.expected, last+1)
	})
	if !taken {
		u.Memory.Release(Cost(batch))
	}
}

// Expected is the offset above all that was committed or handed over of a topic; -1: there was none. False when
// the unit has ended.
func (u *Unit) Expected(topic string) (offset int64, ok bool) {
	reply := make(chan int64, 1)
	if !u.inbox.put(func() { reply <- u.stream(topic).expected }) {
		return 0, false
	}
	return <-reply, true
}

// MakeRoom tells the unit that the memory budget is used up: what only waits is to make room.
func (u *Unit) MakeRoom() { u.inbox.put(func() {}) } // each turn looks for itself

// Drain stops starting work, lets what is in flight finish and be settled, and
// ends the unit at the deadline whatever is left.
func (u *Unit) Drain(deadline time.Time) {
	u.inbox.put(func() {
		if u.phase < draining {
			u.phase, u.deadline = draining, deadline
		}
	})
}

// Drop ends the unit at once: nothing more is settled.
func (u *Unit) Drop(cause error) {
	u.inbox.put(func() {
		u.cutOff(cause)
		u.phase = ended
	})
}

// Run is the unit's life. It returns when the unit has ended.
func (u *Unit) Run() {
	defer close(u.done)
	timer := time.NewTimer(0)
	defer timer.Stop()
	for u.phase != ended {
		for _, f := range u.inbox.take() {
			f()
		}
		if u.phase == ended { // dropped, or told so by the settler: nobody will wake it again
			break
		}
		now := time.Now()
		switch u.phase {
		case running:
			u.wake(now)
			u.readOn(now)
			if u.phase == ended { // its claims cannot be read
				continue
			}
			u.dispatch(now)
			u.makeRoom(now)
			u.moveOn(now)
			u.regulate(now)
			u.sweep(now)
			u.want()
		case draining:
			u.want()
			if u.drained() {
				u.phase = ended
				continue
			}
			if !now.Before(u.deadline) {
				u.Log.Warn("unit ran out of time to drain: its next owner repeats what is not settled",
					obs.KeyUnit, u.owner.Unit, obs.KeyInFlight, u.inFlight, obs.KeyOutcomes, u.settling.len())
				u.phase = ended
				continue
			}
		case restoring, ended:
		}
		u.releaseGranted()
		timer.Reset(u.untilNext(now))
		select {
		case <-u.inbox.arrived:
		case <-timer.C:
		}
	}
	u.end()
}

// start begins the work once the unit knows where it stands and what was claimed.
func (u *Unit) start() {
	if u.phase != restoring || u.restored == nil || u.begun < len(u.streams) {
		return
	}
	u.arbiter, u.facts = u.restored.Arbiter, u.restored.Breakers
	for id := range u.facts {
		if u.facts[id].State == "closed" {
			delete(u.facts, id) // as good as unknown
		}
	}
	u.restoreLines(u.restored.Lines)
	now := time.Now()
	for topic, log := range u.restored.Logs {
		s := u.stream(topic)
		s.end = max(s.end, log.End)
		u.compare(s, log, now)
	}
	u.restored = nil
	u.phase, u.begunAt = running, now
	close(u.started)
	u.Log.Info("unit started", obs.KeyUnit, u.owner.Unit, obs.KeyClaims, u.arbiter.Len(), obs.KeyBreakers, len(u.facts))
	for _, s := range u.streams {
		s.seenAll = now
		s.rouse(now)
		u.Intake.Resume(s.topic, u.owner.Unit)
	}
}

// drained says that nothing is in flight and everything that came out is settled.
func (u *Unit) drained() bool { return u.inFlight == 0 && u.settling.len() == 0 }

// end gives back what the unit held and waits for the attempts it cut off.
func (u *Unit) end() {
	u.cutOff(ErrRevoked) // the first cause given is the one that counts
	for _, f := range u.inbox.close() {
		f() // in this phase: records are released, questions are answered with nothing
	}
	if u.restored != nil {
		u.arbiter = u.restored.Arbiter
	}
	if u.arbiter != nil {
		if err := u.arbiter.Close(); err != nil && !errors.Is(err, claim.ErrClosed) {
			u.Log.Warn("claims: the position is not saved, more of them is read by the next owner", obs.KeyUnit, u.owner.Unit, obs.KeyError, err)
		}
	}
	u.releaseGranted()
	u.Memory.Release(u.held)
	u.Metrics.BreakersOpen.Sub(float64(u.open))
	u.waitsMore(-u.lines.behind)
	u.flight.Wait()
}

// untilNext is how long the unit may sleep.
func (u *Unit) untilNext(now time.Time) time.Duration {
	const idle = time.Hour
	next := now.Add(idle)
	by := func(t time.Time) { next = earlier(next, t) }
	switch u.phase {
	case draining:
		by(u.deadline)
	case running:
		for _, s := range u.streams {
			by(u.next(s, now))
		}
		by(u.alarms.next())
		if len(u.lanes) > 0 {
			by(u.sweptAt.Add(sweepEvery))
		}
	case restoring, ended:
	}
	return max(next.Sub(now), 0)
}

// wake lets what has become due join its lane, and looks at the lanes whose alarm rang.
func (u *Unit) wake(now time.Time) {
	for _, s := range u.streams {
		for it := s.waiting.due(now); it != nil; it = s.waiting.due(now) {
			u.Metrics.LateSeconds.Observe(now.Sub(it.delivery.DueAt).Seconds())
			u.join(it, now)
		}
	}
	for l := u.alarms.ring(now); l != nil; l = u.alarms.ring(now) {
		u.spillAged(l, now)
		u.ageRoom(l, now)
		u.lineUp(l)
	}
}
