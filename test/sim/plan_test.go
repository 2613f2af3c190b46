package sim_test

import (
	"encoding/binary"
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/barnabas-webhooks/barnabas/dlq"
	"github.com/barnabas-webhooks/barnabas/processor/endpoint"
	"github.com/barnabas-webhooks/barnabas/schemas"
	"github.com/barnabas-webhooks/barnabas/topics"
)

// planner draws a schedule: everything in it comes from the seed, before the
// world begins to move.
type planner struct {
	p    Profile
	rnd  *rand.Rand
	subs []string
	keys []usedKey
	n    int // events so far
	all  []mode
}

type usedKey struct{ endpoint, key, payload string }

// kind is one kind of action and how often it is drawn.
type kind struct {
	weight int
	rough  bool // not when it is to be calm
	draw   func() (string, func(*Run))
}

// Plan draws the schedule of a profile.
func Plan(p Profile, rnd *rand.Rand, all []mode) []step {
	d := &planner{p: p, rnd: rnd, all: all}
	for i := range p.Endpoints {
		d.subs = append(d.subs, fmt.Sprintf("ep%d", i))
	}
	kinds := []kind{
		{weight: 30, draw: d.events},
		{weight: 15, draw: d.api},
		{weight: 4, draw: d.misrouted},
		{weight: 4, draw: d.garbage},
		{weight: 20, draw: d.behaviour},
		{weight: 5, draw: d.configuration},
		{weight: 4, draw: d.replay},
		{weight: 2, draw: d.compact},
		{weight: 5, draw: d.stop},
		{weight: 10, draw: d.start},
		{weight: 8, rough: true, draw: d.crash},
		{weight: 4, rough: true, draw: d.crashAtWork},
		{weight: 5, rough: true, draw: d.freeze},
		{weight: 12, rough: true, draw: d.brokerError},
		{weight: 10, rough: true, draw: d.lostRequests},
		{weight: 3, rough: true, draw: d.outage},
		{weight: 4, rough: true, draw: d.partition},
		{weight: 2, draw: d.audit},
		{weight: 3, rough: true, draw: d.moveBrokers},
	}
	if p.Seed%4 == 0 { // in some, because it takes long
		kinds = append(kinds, kind{weight: 4, draw: d.flood})
	}
	if p.Calm {
		kinds = slices.DeleteFunc(kinds, func(k kind) bool { return k.rough })
	}
	sum := 0
	for _, k := range kinds {
		sum += k.weight
	}
	at := make([]time.Duration, p.Steps)
	for i := range at {
		at[i] = time.Duration(rnd.Int64N(int64(p.Length)))
	}
	slices.Sort(at)
	var steps []step
	for _, t := range at {
		n := rnd.IntN(sum)
		for _, k := range kinds {
			if n -= k.weight; n < 0 {
				what, do := k.draw()
				steps = append(steps, step{t, what, do})
				break
			}
		}
	}
	return steps
}

func (d *planner) slot() int { return d.rnd.IntN(d.p.Processes) }

func (d *planner) someone() string {
	// The first endpoints get most.
	return d.subs[min(d.rnd.IntN(len(d.subs)), d.rnd.IntN(len(d.subs)))]
}

// scale is a time of the schedule's own size: of seconds in short ones, of hours in long ones.
func (d *planner) scale(least, most time.Duration) time.Duration {
	t := least + time.Duration(d.rnd.Int64N(int64(most-least)))
	if d.p.Long {
		t *= 5
	}
	return t
}

// event draws an event: without a key, with a new one, with a used one and the
// same payload, or another payload.
func (d *planner) event(keyed bool) usedKey {
	d.n++
	e := usedKey{d.someone(), "", fmt.Sprintf(`{"n":%d}`, d.n)}
	if d.rnd.IntN(20) == 0 {
		e.payload = fmt.Sprintf(`{"n":%d,"pad":%q}`, d.n, strings.Repeat("x", 1+d.rnd.IntN(200_000)))
	}
	draw := d.rnd.IntN(10)
	if draw < 4 && !keyed {
		return e
	}
	if draw >= 7 && len(d.keys) > 0 {
		used := d.keys[d.rnd.IntN(len(d.keys))]
		if draw == 9 {
			used.payload = e.payload
		}
		return used
	}
	e.key = fmt.Sprintf("key-%d", d.n)
	d.keys = append(d.keys, e)
	return e
}

func (d *planner) events() (string, func(*Run)) {
	n := 1 + d.rnd.IntN(10)
	if d.rnd.IntN(10) == 0 {
		n = 20 + d.rnd.IntN(100)
	}
	batch := make([]usedKey, n)
	for i := range batch {
		batch[i] = d.event(false)
	}
	return fmt.Sprintf("a service produces %d events", n), func(r *Run) {
		for _, e := range batch {
			r.send(r.client, e.endpoint, e.key, r.plain(e.endpoint, e.key, e.payload))
		}
	}
}

func (d *planner) api() (string, func(*Run)) {
	batch := make([]usedKey, 1+d.rnd.IntN(4))
	for i := range batch {
		batch[i] = d.event(true)
	}
	twice, async := d.rnd.IntN(3) == 0, d.rnd.IntN(5) == 0
	return fmt.Sprintf("a service posts %d events, each twice: %t", len(batch), twice), func(r *Run) {
		for _, e := range batch {
			r.post(e.endpoint, e.key, e.payload, async)
			if twice {
				r.post(e.endpoint, e.key, e.payload, async)
			}
		}
	}
}

// flood is more for one endpoint than a small budget of memory holds.
func (d *planner) flood() (string, func(*Run)) {
	endpoint, n, size := d.someone(), 15+d.rnd.IntN(20), 50_000+d.rnd.IntN(150_000)
	first := d.n
	d.n += n
	return fmt.Sprintf("a service produces %d events of %d bytes for %s", n, size, endpoint), func(r *Run) {
		pad := strings.Repeat("x", size)
		for i := range n {
			r.send(r.client, endpoint, "", r.plain(endpoint, "", fmt.Sprintf(`{"n":%d,"pad":%q}`, first+i, pad)))
		}
	}
}

// crashAtWork kills a process while a line of deliveries for one endpoint is being worked off.
func (d *planner) crashAtWork() (string, func(*Run)) {
	endpoint, n, slot, after := d.someone(), 10+d.rnd.IntN(20), d.slot(), time.Duration(d.rnd.IntN(300))*time.Millisecond
	first := d.n
	d.n += n
	what := fmt.Sprintf("a service produces %d events for %s, and %s later the process in slot %d is killed", n, endpoint, after, slot)
	return what, func(r *Run) {
		for i := range n {
			r.send(r.client, endpoint, "", r.plain(endpoint, "", fmt.Sprintf(`{"n":%d}`, first+i)))
		}
		r.tasks.Go(func() {
			time.Sleep(after)
			r.crashAt(slot)
		})
	}
}

func (d *planner) misrouted() (string, func(*Run)) {
	e, skip := d.event(false), 1+d.rnd.Int32N(3)
	return "a service with another partitioner produces for " + e.endpoint, func(r *Run) {
		record := r.plain(e.endpoint, e.key, e.payload)
		n := int32(r.cfg.Topics.Partitions)
		record.Partition = (topics.Partition(e.endpoint, int(n)) + skip) % n
		r.send(r.manual, e.endpoint, e.key, record)
	}
}

func (d *planner) garbage() (string, func(*Run)) {
	draw, partition := d.rnd.IntN(6), d.rnd.Int32N(4)
	d.n++
	value := fmt.Appendf(nil, "garbage %d", d.n)
	return fmt.Sprintf("somebody writes garbage of kind %d", draw), func(r *Run) {
		c := r.Catalogue()
		record := &kgo.Record{Topic: c.Events(), Partition: partition, Key: []byte("ep0"), Value: value}
		switch draw {
		case 0: // as it is: no known form
		case 1:
			record.Value = nil
		case 2:
			record.Value = append([]byte{0xC3, 0x01}, value...)
		case 3:
			record.Key = nil
			record.Headers = []kgo.RecordHeader{{Key: topics.HeaderEventType, Value: []byte("x")}}
		case 4:
			record.Topic = c.Tier(int(partition) % len(c.Tiers))
		case 5:
			record.Topic = c.Replay()
		}
		r.send(r.manual, "", "", record)
	}
}

func (d *planner) behaviour() (string, func(*Run)) {
	which, m, seed := d.rnd.IntN(len(d.subs)), d.all[d.rnd.IntN(len(d.all))], d.rnd.Uint64()
	if d.rnd.IntN(3) == 0 {
		m = d.all[0]
	}
	return fmt.Sprintf("%s: the receiver %s", d.subs[which], m.name), func(r *Run) { r.subs[which].behave(m, seed) }
}

func (d *planner) configuration() (string, func(*Run)) {
	which := d.rnd.IntN(len(d.subs))
	id := d.subs[which]
	change := func(method, path string) func(*Run) {
		return func(r *Run) { r.tasks.Go(func() { r.call(method, "/v1/endpoints/"+id+path, "", nil) }) }
	}
	switch d.rnd.IntN(6) {
	case 0:
		return id + " is disabled", change(http.MethodPost, "/disable")
	case 1:
		return id + " is deleted", change(http.MethodDelete, "")
	case 2:
		return id + " is enabled", change(http.MethodPost, "/enable")
	default:
		return id + " is saved anew", func(r *Run) {
			spec := strings.Replace(r.subs[which].spec, "{", `{"state":"enabled",`, 1)
			r.tasks.Go(func() { r.call(http.MethodPut, "/v1/endpoints/"+id, spec, nil) })
		}
	}
}

func (d *planner) replay() (string, func(*Run)) {
	filter, of := dlq.Filter{All: true}, "all dead letters"
	if d.rnd.IntN(2) == 0 {
		of = d.someone()
		filter = dlq.Filter{Endpoints: []string{of}}
	}
	return "an operator replays the dead letters of " + of, func(r *Run) {
		r.tasks.Go(func() { r.replay(filter) })
	}
}

// replay feeds dead letters in again. Its failures are its own: it can be run again.
func (r *Run) replay(f dlq.Filter) {
	q := dlq.New(r.Catalogue(), r.kafka(r.outside, r.log("operator"))...)
	res, err := q.Replay(r.ctx, dlq.ReplayOptions{Filter: f, Rate: 1000, Endpoints: everybody{}, Operator: "sim"})
	if res != nil {
		r.ledger.Note(r.now(), "replayed %d of %d dead letters: %v", res.Replayed, res.Matched, err)
		if n := res.RefusedBy[dlq.RefusedTenantMismatch]; n > 0 {
			r.ledger.Violated(0, "%d dead letters are said to be another tenant's, and there is one tenant", n)
		}
	}
}

// everybody has an endpoint, and it is on: a replay to one that is not shows what
// the processor makes of it.
type everybody struct{}

func (everybody) Get(string) (*endpoint.Endpoint, bool) {
	ep := &endpoint.Endpoint{}
	ep.State, ep.Tenant = schemas.EndpointEnabled, endpoint.DefaultTenant // as letters have it: of another, they are refused
	return ep, true
}
func (everybody) Deleted(string) bool { return false }

func (d *planner) compact() (string, func(*Run)) {
	return "the broker compacts and drops what is old", func(r *Run) {
		if r.linesCompact() {
			r.cluster.Compact()
		}
		r.cluster.ApplyRetention()
	}
}

// linesCompact waits for a moment in which no transaction is open in the topic of lines, and says whether none was ever aborted there, as far as the brokers tell.
// kfake's compaction takes what is in an open one for written (limit 4 of package devbroker): were it aborted, nothing would
// be left of the line. And it drops the marker of one that was aborted, and not the note of it (limit 12): nothing would be seen
// any more of what the same producer commits later. To read the topic takes time: what was written meanwhile has been seen by nobody.
func (r *Run) linesCompact() bool {
	lines := r.Catalogue().Lines()
	for range 1000 {
		if before, open := r.ends(lines); !open {
			records, err := r.readAll(lines)
			if after, open := r.ends(lines); !open && maps.Equal(before, after) {
				return err == nil && !slices.ContainsFunc(records[lines], func(record *kgo.Record) bool {
					return record.Attrs.IsControl() && binary.BigEndian.Uint16(record.Key[2:]) == 0 // version, and then 0: abort
				})
			}
		}
		time.Sleep(7 * time.Millisecond)
	}
	return false
}

// ends are where the partitions of a topic end, and whether a transaction is open in one of them.
func (r *Run) ends(topic string) (ends map[int32]int64, open bool) {
	ends = map[int32]int64{}
	for _, p := range r.cluster.PartitionInfos(topic) {
		ends[p.Partition] = p.HighWatermark
		open = open || p.LastStableOffset < p.HighWatermark
	}
	return ends, open
}

func (d *planner) stop() (string, func(*Run)) {
	slot := d.slot()
	return fmt.Sprintf("the process in slot %d is stopped", slot), func(r *Run) { r.stopAt(slot) }
}

func (d *planner) start() (string, func(*Run)) {
	slot := d.slot()
	return fmt.Sprintf("a process is started in slot %d", slot), func(r *Run) { r.startAt(slot) }
}

func (d *planner) crash() (string, func(*Run)) {
	slot := d.slot()
	return fmt.Sprintf("the process in slot %d is killed", slot), func(r *Run) { r.crashAt(slot) }
}

func (d *planner) freeze() (string, func(*Run)) {
	slot, t := d.slot(), d.scale(100*time.Millisecond, 15*time.Second)
	return fmt.Sprintf("the process in slot %d freezes for %s", slot, t.Round(time.Millisecond)), func(r *Run) { r.freezeAt(slot, t) }
}

// faults are what brokers may answer, and when.
var faults = []struct {
	key  kmsg.Key
	errs []*kerr.Error
}{
	{kmsg.Produce, []*kerr.Error{
		kerr.NotLeaderForPartition, kerr.NotEnoughReplicas, kerr.NotEnoughReplicasAfterAppend, kerr.RequestTimedOut, kerr.KafkaStorageError,
		kerr.UnknownServerError, kerr.UnknownTopicOrPartition,
	}},
	{kmsg.TxnOffsetCommit, []*kerr.Error{
		kerr.CoordinatorLoadInProgress, kerr.NotCoordinator, kerr.CoordinatorNotAvailable, kerr.RequestTimedOut, kerr.UnknownServerError,
		kerr.IllegalGeneration, kerr.UnknownMemberID, kerr.UnknownTopicOrPartition,
	}},
	{kmsg.AddOffsetsToTxn, []*kerr.Error{kerr.CoordinatorLoadInProgress, kerr.NotCoordinator, kerr.ConcurrentTransactions, kerr.UnknownServerError}},
	{kmsg.AddPartitionsToTxn, []*kerr.Error{kerr.CoordinatorLoadInProgress, kerr.NotCoordinator, kerr.ConcurrentTransactions, kerr.UnknownServerError}},
	{kmsg.EndTxn, []*kerr.Error{
		kerr.CoordinatorLoadInProgress, kerr.NotCoordinator, kerr.CoordinatorNotAvailable, kerr.ConcurrentTransactions, kerr.UnknownServerError,
		kerr.InvalidProducerEpoch, kerr.ProducerFenced,
	}},
	{kmsg.InitProducerID, []*kerr.Error{kerr.CoordinatorLoadInProgress, kerr.NotCoordinator, kerr.ConcurrentTransactions, kerr.UnknownServerError}},
	{kmsg.OffsetFetch, []*kerr.Error{kerr.CoordinatorLoadInProgress, kerr.NotCoordinator, kerr.UnstableOffsetCommit, kerr.UnknownServerError}},
	{kmsg.JoinGroup, []*kerr.Error{kerr.CoordinatorLoadInProgress, kerr.NotCoordinator, kerr.CoordinatorNotAvailable, kerr.UnknownMemberID}},
	{kmsg.SyncGroup, []*kerr.Error{kerr.RebalanceInProgress, kerr.NotCoordinator, kerr.UnknownMemberID}},
	{kmsg.Heartbeat, []*kerr.Error{kerr.RebalanceInProgress, kerr.NotCoordinator, kerr.UnknownMemberID, kerr.IllegalGeneration}},
	{kmsg.Fetch, []*kerr.Error{kerr.NotLeaderForPartition, kerr.UnknownServerError, kerr.KafkaStorageError}},
	{kmsg.ListOffsets, []*kerr.Error{kerr.NotLeaderForPartition, kerr.UnknownServerError}},
	{kmsg.FindCoordinator, []*kerr.Error{kerr.CoordinatorNotAvailable}},
	{kmsg.Metadata, []*kerr.Error{kerr.LeaderNotAvailable}},
}

func (d *planner) brokerError() (string, func(*Run)) {
	f := faults[d.rnd.IntN(len(faults))]
	e, count := f.errs[d.rnd.IntN(len(f.errs))], 1+d.rnd.IntN(6)
	t := d.scale(time.Second, 20*time.Second)
	return fmt.Sprintf("the next %d %s requests are answered %s", count, f.key.Name(), e.Message), func(r *Run) {
		h := r.cluster.Fault(kfake.Fault{Keys: []kmsg.Key{f.key}, Err: e, Count: count})
		over := r.ledger.Disturb("", f.key.Name()+" "+e.Message)
		r.until(t, func() {
			h.Remove()
			r.ledger.Over(over)
		})
	}
}

// lostRequests lets requests or answers of one process be lost or late.
func (d *planner) lostRequests() (string, func(*Run)) {
	slot, count := d.slot(), 1+d.rnd.IntN(4)
	f := &wireFault{count: count}
	name := "any"
	if d.rnd.IntN(4) > 0 {
		likely := []kmsg.Key{
			kmsg.EndTxn, kmsg.EndTxn, kmsg.TxnOffsetCommit, kmsg.TxnOffsetCommit, kmsg.Produce, kmsg.Produce, kmsg.AddOffsetsToTxn,
			kmsg.InitProducerID, kmsg.Heartbeat, kmsg.JoinGroup, kmsg.SyncGroup, kmsg.OffsetFetch, kmsg.Fetch, kmsg.LeaveGroup,
		}
		f.keys = []kmsg.Key{likely[d.rnd.IntN(len(likely))]}
		name = f.keys[0].Name()
	}
	what := ""
	switch d.rnd.IntN(3) {
	case 0:
		f.fate.Lose, what = true, "lost"
	case 1:
		f.fate.Mute, what = true, "done, and their answers lost"
	case 2:
		f.fate.Late = d.scale(50*time.Millisecond, 5*time.Second)
		what = "answered " + f.fate.Late.Round(time.Millisecond).String() + " late"
	}
	if f.fate.Silent = f.fate.Late == 0 && d.rnd.IntN(2) == 0; f.fate.Silent {
		what += ", in silence"
	}
	t := d.scale(time.Second, 20*time.Second)
	return fmt.Sprintf("the next %d %s requests of slot %d are %s", count, name, slot, what), func(r *Run) {
		p := r.at(slot)
		if p == nil {
			return
		}
		p.wire.add(f)
		over := r.ledger.Disturb(p.Name, what)
		r.until(t, func() {
			p.wire.clear()
			r.ledger.Over(over)
		})
	}
}

func (d *planner) outage() (string, func(*Run)) {
	t := d.scale(500*time.Millisecond, 20*time.Second)
	return fmt.Sprintf("all brokers are unreachable for %s", t.Round(time.Millisecond)), func(r *Run) {
		r.brokers.Down()
		over := r.ledger.Disturb("", "outage")
		r.until(t, func() {
			r.brokers.Up()
			r.ledger.Over(over)
			r.ledger.Note(r.now(), "the brokers are back")
		})
	}
}

// partition keeps one process from the brokers; receivers it still reaches.
func (d *planner) partition() (string, func(*Run)) {
	slot, t, silent := d.slot(), d.scale(500*time.Millisecond, 20*time.Second), d.rnd.IntN(2) == 0
	return fmt.Sprintf("slot %d does not reach the brokers for %s, in silence: %t", slot, t.Round(time.Millisecond), silent), func(r *Run) {
		p := r.at(slot)
		if p == nil {
			return
		}
		p.wire.add(&wireFault{fate: Fate{Lose: true, Silent: silent}, count: math.MaxInt})
		over := r.ledger.Disturb(p.Name, "partition")
		r.until(t, func() {
			p.wire.clear()
			r.ledger.Over(over)
		})
	}
}

// audit stops everybody, judges what is there, and starts again.
func (d *planner) audit() (string, func(*Run)) {
	return "everybody stops, and what is there is judged", func(r *Run) { r.audit() }
}

func (d *planner) moveBrokers() (string, func(*Run)) {
	t := d.scale(time.Second, 5*time.Second)
	if d.rnd.IntN(2) == 0 {
		return "all coordinators move", func(r *Run) {
			r.cluster.RehashCoordinators()
			r.until(t, func() {})
			r.ledger.Over(r.ledger.Disturb("", "coordinators"))
		}
	}
	// Not kfake's ShufflePartitionLeaders: it answers OffsetForLeaderEpoch for the old epoch with -1 until somebody has
	// written in the new one, where Kafka answers with the end of the log, and clients take that for data loss.
	return "all connections to brokers break", func(r *Run) {
		r.brokers.Reset()
		r.ledger.Over(r.ledger.Disturb("", "connections"))
	}
}
