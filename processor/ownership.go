package processor

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/barnabas-webhooks/barnabas/internal/obs"
	"github.com/barnabas-webhooks/barnabas/processor/claim"
	"github.com/barnabas-webhooks/barnabas/processor/facts"
	"github.com/barnabas-webhooks/barnabas/processor/lease"
	"github.com/barnabas-webhooks/barnabas/processor/settle"
	"github.com/barnabas-webhooks/barnabas/processor/unit"
)

// ErrNotInGroup says that the process is not a member of the group now.
var ErrNotInGroup = errors.New("not in the consumer group yet")

// ownership is which units are at this process. The group's callbacks change it,
// the poller and the settler ask it.
type ownership struct {
	shared *unit.Shared
	group  string
	drain  time.Duration
	client atomic.Pointer[kgo.Client] // the group's; nil before it is made
	lease  *lease.Lease

	life     context.Context //nolint:containedctx // units and restores live as long as the processor
	names    map[[16]byte]string
	restorer *facts.Restorer

	mu          sync.Mutex // guards what follows
	units       map[int32]*unit.Unit
	member      string // id under which the units were assigned
	assignments uint64

	stand // partitions that are not fetched

	joined   atomic.Bool // between an assignment and a loss: the client keeps its member id when it is cut off
	expelled atomic.Bool // units were taken away unsaid, or dropped; the group must be joined anew
	spoiled  atomic.Bool // the claims must be renewed before that
	wake     func()      // ends the poll under way
}

func newOwnership(shared *unit.Shared, cfg Config, wake func()) *ownership {
	o := &ownership{
		shared: shared, group: cfg.Group, drain: cfg.DrainTimeout, wake: wake, units: map[int32]*unit.Unit{},
	}
	o.lease = lease.New(cfg.SessionTimeout, o.confirm, shared.Log)
	shared.Lease = o.lease
	return o
}

// begin sets what units need while the processor runs.
func (o *ownership) begin(life context.Context, ids map[string][16]byte, s unit.Settler, j unit.Journal, r *facts.Restorer) {
	o.life, o.restorer = life, r
	o.names = map[[16]byte]string{}
	for name, id := range ids {
		o.names[id] = name
	}
	o.shared.Settler, o.shared.Journal, o.shared.Intake, o.shared.Claims = s, j, o, o
}

// Membership implements settle.Group.
func (o *ownership) Membership() (string, int32) {
	if cl := o.client.Load(); cl != nil {
		return cl.GroupMetadata()
	}
	return "", -1
}

// Owns implements settle.Group. A unit belongs to the member that it was assigned
// to. A member that the group gave up gets another id when it joins again, and from
// then on a valid generation, before franz-go says that anything was lost: in between,
// what the units of the old id settle would be taken, beside their new owner's.
func (o *ownership) Owns(owner settle.Owner) bool {
	member, _ := o.Membership()
	o.mu.Lock()
	defer o.mu.Unlock()
	u := o.units[owner.Unit]
	return u != nil && u.Owner() == owner && o.member == member
}

// forgotten says whether there are units that were assigned to this process as
// another member than it is now: others may have had them meanwhile.
func (o *ownership) forgotten() bool {
	member, _ := o.Membership()
	o.mu.Lock()
	defer o.mu.Unlock()
	return len(o.units) > 0 && o.member != member
}

// confirm asks the group, by a heartbeat, whether this process is the member that its
// units were assigned to. While a rebalance is under way it still is.
func (o *ownership) confirm(ctx context.Context) error {
	member, generation := o.Membership()
	if member == "" {
		return ErrNotInGroup
	}
	req := kmsg.NewPtrHeartbeatRequest()
	req.Group, req.MemberID, req.Generation = o.group, member, generation
	resp, err := req.RequestWith(ctx, o.client.Load())
	if err == nil {
		err = kerr.ErrorForCode(resp.ErrorCode)
	}
	if err != nil && !errors.Is(err, kerr.RebalanceInProgress) {
		return fmt.Errorf("heartbeat: %w", err)
	}
	if now, _ := o.Membership(); now != member || o.forgotten() {
		return ErrNotInGroup // as another one than the units' member
	}
	return nil
}

// Pause implements unit.Intake.
func (o *ownership) Pause(topic string, partition int32) {
	o.still(o.client.Load(), place{topic, partition}, unitFull, true)
}

// Resume implements unit.Intake.
func (o *ownership) Resume(topic string, partition int32) {
	o.still(o.client.Load(), place{topic, partition}, unitFull, false)
}

func (o *ownership) unit(partition int32) *unit.Unit {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.units[partition]
}

func (o *ownership) all() []*unit.Unit {
	o.mu.Lock()
	defer o.mu.Unlock()
	return slices.Collect(maps.Values(o.units))
}

// counted tells how many units there are now. Called with o.mu held.
func (o *ownership) counted() {
	o.shared.Metrics.Units.Set(float64(len(o.units)))
	o.shared.Memory.Divide(len(o.units))
}

// has says whether a unit is here and has not ended.
func (o *ownership) has(partition int32) bool {
	u := o.unit(partition)
	if u == nil {
		return false
	}
	select {
	case <-u.Done():
		return false
	default:
		return true
	}
}

// ready is nil when the process is in the group and all its units work.
func (o *ownership) ready() error {
	if member, _ := o.Membership(); member == "" || !o.joined.Load() {
		return ErrNotInGroup
	}
	waiting := 0
	for _, u := range o.all() {
		select {
		case <-u.Started():
		default:
			waiting++
		}
	}
	if waiting > 0 {
		return fmt.Errorf("%d units are being restored", waiting)
	}
	return nil
}

// assigned makes the units that were given to this process. They fetch nothing
// until they are restored.
func (o *ownership) assigned(_ context.Context, cl *kgo.Client, given map[string][]int32) {
	o.client.Store(cl)
	o.joined.Store(true)
	if o.forgotten() {
		o.expel()
		return
	}
	if len(given) == 0 {
		return
	}
	member, _ := cl.GroupMetadata()
	// Topics may come one after another, while the group's leader learns of them: the
	// unit that is there goes on with all of them.
	numbers := slices.DeleteFunc(numbersOf(given), o.has)
	o.begun(cl, given) // a new unit stands still until it says otherwise
	if len(numbers) == 0 {
		return
	}
	added := make(map[int32]*unit.Unit, len(numbers))
	o.mu.Lock()
	o.member = member
	for _, n := range numbers {
		o.assignments++
		u := unit.New(o.life, //nolint:contextcheck // the callback's context ends with the session, the unit does not
			settle.Owner{Unit: n, Assignment: o.assignments}, o.shared)
		o.units[n], added[n] = u, u
		go u.Run() //nolint:contextcheck // reading an event waits for nothing
	}
	o.counted()
	o.mu.Unlock()
	o.shared.Log.Info("units assigned", obs.KeyUnits, numbers)
	go o.restore(added)
}

// expel drops all units of a member that the group had given up and that joined
// again under another id (franz-go 1.22.3 calls that no loss when the join itself
// finds it out). Those that it was given again it would go on with as if nobody had
// had them in between, and fetch from where it was: so the group is joined anew.
func (o *ownership) expel() {
	numbers := o.dropAll(unit.ErrLost)
	o.shared.Log.Warn("units lost: the group had given this member up; it is joined anew", obs.KeyUnits, numbers)
}

// dropAll drops all units and has the group joined anew.
func (o *ownership) dropAll(cause error) []int32 {
	units := o.all()
	numbers := make([]int32, 0, len(units))
	for _, u := range units {
		u.Drop(cause)
		numbers = append(numbers, u.Owner().Unit)
	}
	o.remove(numbers)
	slices.Sort(numbers)
	o.expelled.Store(true)
	o.wake()
	return numbers
}

// restore reads the facts of new units and hands them over, trying until it has
// or they are gone, which may be before it begins.
func (o *ownership) restore(left map[int32]*unit.Unit) {
	for wait := time.Second; len(left) > 0; wait = min(2*wait, 30*time.Second) {
		begun := time.Now()
		logs, err := o.logs(o.life)
		if err == nil {
			err = o.restorer.Restore(o.life, slices.Sorted(maps.Keys(left)), func(n int32, f *facts.Facts) {
				o.shared.Metrics.Restored(time.Since(begun), f.Records)
				left[n].Restore(unit.Restored{Arbiter: f.Arbiter, Breakers: f.Breakers, Lines: f.Lines, Logs: logs[n]})
				delete(left, n)
			})
		}
		if err == nil || o.life.Err() != nil {
			return
		}
		for n, u := range left {
			if o.unit(n) != u {
				delete(left, n)
				continue
			}
			if !errors.Is(err, claim.ErrClosed) && errors.Is(err, claim.ErrFailed) {
				o.Failed(u.Owner(), err)
				return
			}
		}
		o.shared.Log.Warn("units are not restored yet", obs.KeyUnits, slices.Sorted(maps.Keys(left)), obs.KeyWait, wait, obs.KeyError, err)
		select {
		case <-o.life.Done():
		case <-time.After(wait):
		}
	}
}

// fetched tells new units where the group stands, with the maps of completed
// offsets that travel in the metadata.
func (o *ownership) fetched(_ context.Context, _ *kgo.Client, resp *kmsg.OffsetFetchResponse) error {
	for _, g := range resp.Groups {
		for _, t := range g.Topics {
			name := t.Topic
			if name == "" {
				name = o.names[t.TopicID]
			}
			for _, p := range t.Partitions {
				u := o.unit(p.Partition)
				if p.ErrorCode != 0 || u == nil {
					continue // an error is asked again by the client
				}
				at := unit.Position{Offset: p.Offset}
				if p.Metadata != nil {
					at.Metadata = *p.Metadata
				}
				u.Begin(name, at)
			}
		}
	}
	return nil
}

// revoked lets units go in order: they drain, settle, and are not ours any more.
func (o *ownership) revoked(ctx context.Context, cl *kgo.Client, gone map[string][]int32) {
	if o.forgotten() {
		o.lost(ctx, cl, gone)
		return
	}
	numbers := numbersOf(gone)
	var leaving []*unit.Unit
	for _, n := range numbers {
		if u := o.unit(n); u != nil {
			leaving = append(leaving, u)
		}
	}
	o.drainUnits(leaving)
	o.remove(numbers)
	o.ended(cl, gone)
	if len(numbers) > 0 { // every rebalance calls this, also where nothing is to be given up
		o.shared.Log.Info("units given up", obs.KeyUnits, numbers)
	}
}

// lost drops units that are somebody else's already: nothing of them is settled.
func (o *ownership) lost(_ context.Context, cl *kgo.Client, gone map[string][]int32) {
	o.joined.Store(false)
	numbers := numbersOf(gone)
	for _, n := range numbers {
		if u := o.unit(n); u != nil {
			u.Drop(unit.ErrLost)
		}
	}
	o.remove(numbers)
	o.ended(cl, gone)
	if len(numbers) > 0 { // without the broker it is called again and again
		o.shared.Quiet.Warn("units lost", obs.KeyUnits, numbers)
	}
}

// drainAll lets every unit drain.
func (o *ownership) drainAll() { o.drainUnits(o.all()) }

// drainUnits waits until the units have drained, or have run out of time.
func (o *ownership) drainUnits(units []*unit.Unit) {
	deadline := time.Now().Add(o.drain)
	for _, u := range units {
		u.Drain(deadline)
	}
	for _, u := range units {
		<-u.Done() // by itself at the deadline, at the latest
	}
}

func (o *ownership) remove(numbers []int32) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, n := range numbers {
		delete(o.units, n)
	}
	o.counted()
}

// numbersOf lists the partition numbers of an assignment. All topics of a unit
// come and go together, so any of them speaks for it.
func numbersOf(assignment map[string][]int32) []int32 {
	seen := map[int32]struct{}{}
	for _, partitions := range assignment {
		for _, p := range partitions {
			seen[p] = struct{}{}
		}
	}
	return slices.Sorted(maps.Keys(seen))
}
