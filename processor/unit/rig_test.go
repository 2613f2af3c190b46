package unit_test

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/barnabas-webhooks/barnabas/processor/breaker"
	"github.com/barnabas-webhooks/barnabas/processor/caps"
	"github.com/barnabas-webhooks/barnabas/processor/claim"
	"github.com/barnabas-webhooks/barnabas/processor/deliver"
	"github.com/barnabas-webhooks/barnabas/processor/endpoint"
	"github.com/barnabas-webhooks/barnabas/processor/metrics"
	"github.com/barnabas-webhooks/barnabas/processor/settle"
	"github.com/barnabas-webhooks/barnabas/processor/unit"
	"github.com/barnabas-webhooks/barnabas/retry"
	"github.com/barnabas-webhooks/barnabas/schemas"
	"github.com/barnabas-webhooks/barnabas/topics"
)

// rig is one unit between fakes, over an in-memory log whose records come back to
// it: what it writes to a tier it reads again. It lives in a synctest bubble.
type rig struct {
	*unit.Shared
	t         *testing.T
	unit      *unit.Unit
	number    int32
	sender    *sender
	endpoints *endpoints
	journal   *journal
	claims    *claims
	settler   *settler
	log       *memlog
	lease     membership
	disabled  chan *endpoint.Endpoint
	registry  *prometheus.Registry
}

// newRig makes a rig whose unit is number 0 of one, unless options say otherwise, and does not start it.
func newRig(t *testing.T, options ...func(*rig)) *rig {
	t.Helper()
	catalogue := topics.DefaultCatalogue()
	catalogue.Partitions = 1
	r := &rig{t: t, disabled: make(chan *endpoint.Endpoint, 1000), registry: prometheus.NewRegistry()}
	r.sender = &sender{at: map[string]int{}, script: func(deliver.Request) (deliver.Result, time.Duration) { return status(204), 0 }}
	r.endpoints = &endpoints{byID: map[string]*endpoint.Endpoint{}, deleted: map[string]bool{}}
	r.journal, r.claims = &journal{}, &claims{}
	r.settler = &settler{rig: r, beat: 100 * time.Millisecond, hurry: make(chan struct{}, 1), commits: map[string]settle.Commit{}}
	r.log = &memlog{rig: r, records: map[string][]*kgo.Record{}, next: map[string]int{}, paused: map[string]bool{}, base: map[string]int64{}}
	r.Shared = &unit.Shared{
		Config: unit.DefaultConfig(), Catalogue: catalogue, Policy: retry.DefaultPolicy(), Breaker: breaker.DefaultConfig(),
		Sender: r.sender, Endpoints: r.endpoints, Disable: func(seen *endpoint.Endpoint, _ string) { r.disabled <- seen },
		Journal: r.journal, Claims: r.claims, Settler: r.settler, Intake: r.log, Lease: &r.lease,
		FetchWait: time.Minute, InFlight: caps.NewInFlight(64), Workers: caps.NewWorkers(), Memory: caps.NewMemory(64 << 20), Rand: func() float64 { return 0.5 },
		Log: slog.New(slog.DiscardHandler), Quiet: slog.New(slog.DiscardHandler),
	}
	t.Cleanup(r.Workers.Close)
	for _, o := range options {
		o(r)
	}
	r.Metrics = metrics.New(r.registry, metrics.Gauges{
		InFlight: func() float64 { return 0 }, MemoryBytes: func() float64 { return 0 }, Claims: new(claim.Memory).Stats,
	}, r.Catalogue.Consumed()...)
	return r
}

// start runs the unit from where the log's commits say.
func (r *rig) start() *rig {
	r.t.Helper()
	r.startWith(unit.Restored{
		Arbiter: claim.NewArbiter(24*time.Hour, claim.NewMemory()), Breakers: map[string]*schemas.BreakerTransition{}, Lines: r.lines(),
	})
	return r
}

// lines are what the log says of lines.
func (r *rig) lines() map[string]*schemas.Line {
	r.t.Helper()
	all := map[string]*schemas.Line{}
	for _, rec := range r.log.all(r.Catalogue.Lines()) {
		if rec.Value == nil {
			delete(all, string(rec.Key))
			continue
		}
		l, err := schemas.DecodeLine(rec.Value)
		require.NoError(r.t, err)
		all[l.EndpointID] = &l
	}
	return all
}

func (r *rig) startWith(restored unit.Restored) {
	r.t.Helper()
	r.unit = unit.New(r.t.Context(), settle.Owner{Unit: r.number, Assignment: 1}, r.Shared)
	go r.unit.Run()
	r.t.Cleanup(func() { // of a test that has failed
		r.unit.Drop(unit.ErrLost)
		<-r.unit.Done()
	})
	r.unit.Restore(restored)
	for _, topic := range r.Catalogue.Consumed() {
		at := unit.Position{Offset: -1}
		if c, ok := r.settler.commits[topic]; ok {
			at = unit.Position{Offset: c.Offset, Metadata: c.Metadata}
		}
		r.unit.Begin(topic, at)
	}
	synctest.Wait()
	select {
	case <-r.unit.Started():
	default:
		require.Fail(r.t, "the unit has not started")
	}
}

// restart makes the next owner's unit, which reads from where the commits say.
func (r *rig) restart() {
	r.t.Helper()
	r.log.mu.Lock()
	clear(r.log.paused)
	for _, topic := range r.Catalogue.Consumed() {
		r.log.next[topic] = int(r.committed(topic) - r.log.base[topic])
	}
	r.log.mu.Unlock()
	r.start()
}

// idle checks that nothing is left: everything that came in is settled, no byte and no slot is held.
func (r *rig) idle() {
	r.t.Helper()
	synctest.Wait()
	require.Zero(r.t, r.Memory.Used(), "bytes held")
	require.Zero(r.t, r.InFlight.Used(), "slots held")
	require.Zero(r.t, r.sender.underWay(), "attempts under way")
}

// end drains the unit and checks that it leaves nothing behind.
func (r *rig) end() {
	r.t.Helper()
	r.unit.Drain(time.Now().Add(20 * time.Second))
	<-r.unit.Done()
	time.Sleep(time.Second) // a beat that was wanted finds nobody
	r.idle()
	require.Zero(r.t, r.metric("barnabas_breakers_open", ""), "breakers of an ended unit")
	r.closedLabels()
}

// closedLabels checks that no series was made beyond those that were there from the start.
func (r *rig) closedLabels() {
	r.t.Helper()
	fresh := prometheus.NewRegistry()
	metrics.New(fresh, metrics.Gauges{InFlight: func() float64 { return 0 }, MemoryBytes: func() float64 { return 0 }, Claims: new(claim.Memory).Stats},
		r.Catalogue.Consumed()...)
	count := func(reg *prometheus.Registry) map[string]int {
		families, err := reg.Gather()
		require.NoError(r.t, err)
		n := map[string]int{}
		for _, f := range families {
			n[f.GetName()] = len(f.GetMetric())
		}
		return n
	}
	require.Equal(r.t, count(fresh), count(r.registry), "a label value outside its closed set")
}

// metric is the value of a counter or gauge, of the series with the given label value where there are several.
func (r *rig) metric(name, label string) float64 {
	r.t.Helper()
	families, err := r.registry.Gather()
	require.NoError(r.t, err)
	for _, f := range families {
		for _, m := range f.GetMetric() {
			if f.GetName() == name && (label == "" || m.GetLabel()[0].GetValue() == label) {
				return m.GetCounter().GetValue() + m.GetGauge().GetValue()
			}
		}
	}
	require.Fail(r.t, "no such series", "%s %s", name, label)
	return 0
}

// endpoint registers one.
func (r *rig) endpoint(id string, change ...func(*schemas.Endpoint)) *endpoint.Endpoint {
	ep := &endpoint.Endpoint{Endpoint: schemas.Endpoint{
		ID: id, Tenant: "tenant", URL: "https://example.com/", State: schemas.EndpointEnabled, Order: schemas.OrderOrdered,
	}}
	for _, c := range change {
		c(&ep.Endpoint)
	}
	r.endpoints.put(ep)
	return ep
}

func parallel(width int) func(*schemas.Endpoint) {
	return func(e *schemas.Endpoint) { e.Order, e.MaxInFlight = schemas.OrderParallel, width }
}

// event appends a plain event to the log; key may be empty.
func (r *rig) event(endpointID, key, payload string) {
	rec := &kgo.Record{
		Topic: r.Catalogue.Events(), Key: []byte(endpointID), Value: []byte(payload),
		Headers: []kgo.RecordHeader{{Key: topics.HeaderEventType, Value: []byte("test.event")}},
	}
	if key != "" {
		rec.Headers = append(rec.Headers, kgo.RecordHeader{Key: topics.HeaderIdempotencyKey, Value: []byte(key)})
	}
	r.log.append(rec)
}

// waiting appends a delivery to a tier, as if it had been settled there before.
func (r *rig) waiting(tier int, d schemas.Delivery) {
	r.t.Helper()
	value, err := schemas.EncodeDelivery(&d)
	require.NoError(r.t, err)
	r.log.append(&kgo.Record{Topic: r.Catalogue.Tier(tier), Key: []byte(d.EndpointID), Value: value})
}

// delivery makes one that is due after wait.
func delivery(id, endpointID string, wait time.Duration) schemas.Delivery {
	now := time.Now()
	return schemas.Delivery{
		ID: id, EndpointID: endpointID, EventType: "test.event", ContentType: "application/json", Payload: []byte(`{}`),
		AcceptedAt: now, RunStartedAt: now, DueAt: now.Add(wait), Attempts: 1,
		Origin: schemas.Coordinates{Topic: "barnabas.events", Offset: 1},
	}
}

// letters are the dead letters written so far.
func (r *rig) letters() []schemas.DeadLetter {
	r.t.Helper()
	var letters []schemas.DeadLetter
	for _, rec := range r.log.all(r.Catalogue.DLQ()) {
		l, err := schemas.DecodeDeadLetter(rec.Value)
		require.NoError(r.t, err)
		letters = append(letters, l)
	}
	return letters
}

// attempts are the records of the attempts topic.
func (r *rig) attempts() []schemas.Attempt {
	r.t.Helper()
	var attempts []schemas.Attempt
	for _, rec := range r.log.all(r.Catalogue.Attempts()) {
		a, err := schemas.DecodeAttempt(rec.Value)
		require.NoError(r.t, err)
		attempts = append(attempts, a)
	}
	return attempts
}

// committed is the position of a topic.
func (r *rig) committed(topic string) int64 {
	r.settler.mu.Lock()
	defer r.settler.mu.Unlock()
	return r.settler.commits[topic].Offset
}

// status is the result of an attempt that was answered so.
func status(code int) deliver.Result {
	res := deliver.Result{StartedAt: time.Now(), Outcome: retry.Outcome{Class: retry.ClassOfStatus(code), Status: code}, Sent: true}
	if res.Class != retry.OK {
		res.Error = fmt.Sprintf("the receiver answered with status %d", code)
	}
	return res
}

// failed is the result of an attempt that got no answer.
func failed(class retry.Class) deliver.Result {
	return deliver.Result{StartedAt: time.Now(), Outcome: retry.Outcome{Class: class}, Error: string(class)}
}

// post is one attempt as the sender saw it.
type post struct {
	ID, EndpointID, Payload string
	Number                  int
	At                      time.Time
}

// sender is a scripted unit.Sender: an attempt takes as long as the script says and
// honours its context. Scripts run one at a time.
type sender struct {
	script func(deliver.Request) (deliver.Result, time.Duration)

	mu    sync.Mutex // guards what follows
	posts []post
	at    map[string]int // under way, by endpoint
	most  map[string]int // at once, ever
	total int
	peak  int
}

func (s *sender) Attempt(ctx context.Context, req deliver.Request) deliver.Result {
	started := time.Now()
	s.mu.Lock()
	s.posts = append(s.posts, post{
		ID: req.Delivery.ID, EndpointID: req.Endpoint.ID, Payload: string(req.Delivery.Payload), Number: req.Number, At: started,
	})
	if s.most == nil {
		s.most = map[string]int{}
	}
	s.at[req.Endpoint.ID]++
	s.total++
	s.most[req.Endpoint.ID] = max(s.most[req.Endpoint.ID], s.at[req.Endpoint.ID])
	s.peak = max(s.peak, s.total)
	res, takes := s.script(req)
	s.mu.Unlock()
	defer func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.at[req.Endpoint.ID]--
		s.total--
	}()

	if takes > 0 {
		select {
		case <-time.After(takes):
		case <-ctx.Done():
			return deliver.Result{StartedAt: started, Outcome: retry.Outcome{Class: retry.Cancelled}, Error: context.Cause(ctx).Error()}
		}
	}
	res.StartedAt, res.Duration = started, time.Since(started)
	return res
}

func (s *sender) answer(script func(deliver.Request) (deliver.Result, time.Duration)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.script = script
}

func (s *sender) always(code int) {
	s.answer(func(deliver.Request) (deliver.Result, time.Duration) { return status(code), 0 })
}

func (s *sender) underWay() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.total
}

// seen lists the posts, of one endpoint where one is named.
func (s *sender) seen(endpointID ...string) []post {
	s.mu.Lock()
	defer s.mu.Unlock()
	var posts []post
	for _, p := range s.posts {
		if len(endpointID) == 0 || slices.Contains(endpointID, p.EndpointID) {
			posts = append(posts, p)
		}
	}
	return posts
}

// endpoints is a unit.Endpoints.
type endpoints struct {
	mu      sync.Mutex // guards what follows
	byID    map[string]*endpoint.Endpoint
	deleted map[string]bool
}

func (e *endpoints) put(ep *endpoint.Endpoint) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.byID[ep.ID] = ep
	delete(e.deleted, ep.ID)
}

func (e *endpoints) remove(id string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	delete(e.byID, id)
	e.deleted[id] = true
}

func (e *endpoints) Get(id string) (*endpoint.Endpoint, bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	ep, ok := e.byID[id]
	return ep, ok
}

func (e *endpoints) Deleted(id string) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.deleted[id]
}

// journal is a unit.Journal: claims are durable at once, or when the test says so.
type journal struct {
	mu       sync.Mutex // guards what follows
	hold     bool
	next     int64 // offset of the next claim
	held     []func()
	durable  []func() // to be called in their order, as a Kafka client does
	acking   bool     // a goroutine calls them
	claims   []schemas.Claim
	breakers []schemas.BreakerTransition
}

func (j *journal) AppendClaim(_ int32, c *schemas.Claim, done func(int64)) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.claims = append(j.claims, *c)
	at := j.next
	j.next++
	durable := func() { done(at) }
	if j.hold {
		j.held = append(j.held, durable)
		return
	}
	j.acknowledge(durable)
}

// acknowledge is called with j.mu held.
func (j *journal) acknowledge(durable ...func()) {
	j.durable = append(j.durable, durable...)
	if j.acking {
		return
	}
	j.acking = true
	go func() {
		j.mu.Lock()
		defer j.mu.Unlock()
		for len(j.durable) > 0 {
			first := j.durable[0]
			j.durable = j.durable[1:]
			j.mu.Unlock()
			first()
			j.mu.Lock()
		}
		j.acking = false
	}()
}

func (j *journal) AppendBreaker(_ int32, b *schemas.BreakerTransition) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.breakers = append(j.breakers, *b)
}

// skip leaves offsets to somebody else.
func (j *journal) skip(n int64) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.next += n
}

func (j *journal) release() {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.hold = false
	j.acknowledge(j.held...)
	j.held = nil
}

func (j *journal) transitions() []string {
	j.mu.Lock()
	defer j.mu.Unlock()
	var states []string
	for _, b := range j.breakers {
		states = append(states, b.State)
	}
	return states
}

// settler is a unit.Settler that settles every beat, as the real one does, and sooner in a hurry, into the rig's log.
type settler struct {
	rig   *rig
	beat  time.Duration
	hurry chan struct{}

	mu       sync.Mutex // guards what follows
	stopped  bool       // takes what is wanted and never asks
	anew     bool       // the log was: commits may go back
	answer   error      // instead of writing
	refuse   bool       // as too large: what is trimmed is written
	late     time.Duration
	batches  int
	largest  int
	outcomes int
	commits  map[string]settle.Commit
	asked    []settle.Source
}

func (s *settler) Want(src settle.Source) {
	s.mu.Lock()
	s.asked = append(s.asked, src)
	s.mu.Unlock()
	go func() {
		time.Sleep(s.beat / 10)
		select {
		case <-s.hurry:
		case <-time.After(s.beat - s.beat/10):
		}
		s.mu.Lock()
		stopped, late := s.stopped, s.late
		s.batches++
		tag := fmt.Sprintf("tag-%d", s.batches)
		s.mu.Unlock()
		if stopped {
			return
		}
		reply := make(chan *settle.Batch, 1)
		if !src.Seal(tag, 16<<20, reply) {
			return
		}
		b := <-reply
		if b == nil {
			return
		}
		time.Sleep(late)
		s.write(b)
	}()
}

func (s *settler) Hurry() {
	select {
	case s.hurry <- struct{}{}:
	default:
	}
}

// hurried says whether the unit has hurried since the last beat, or since it was asked.
func (s *settler) hurried() bool {
	select {
	case <-s.hurry:
		return true
	default:
		return false
	}
}

func (s *settler) write(b *settle.Batch) {
	s.mu.Lock()
	if err := s.answer; err != nil {
		s.mu.Unlock()
		b.Settled(err)
		return
	}
	s.largest, s.outcomes = max(s.largest, len(b.Outcomes)), s.outcomes+len(b.Outcomes)
	for _, c := range b.Commits {
		if !s.anew {
			require.GreaterOrEqual(s.rig.t, c.Offset, s.commits[c.Topic].Offset, "a commit went back")
		}
		s.commits[c.Topic] = c
	}
	refuse := s.refuse
	s.mu.Unlock()
	for _, o := range b.Outcomes {
		if refuse && o.Trim != nil {
			o.Records = o.Trim()
		}
		for _, rec := range o.Records {
			s.rig.log.append(&kgo.Record{Topic: rec.Topic, Partition: rec.Partition, Key: rec.Key, Value: rec.Value, Headers: rec.Headers})
		}
	}
	b.Settled(nil)
}

func (s *settler) set(change func(*settler)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	change(s)
}

// memlog is the log of the unit's topics, and a unit.Intake: it hands records over
// as they are appended, unless their topic is paused.
type memlog struct {
	rig *rig

	mu      sync.Mutex // guards what follows
	records map[string][]*kgo.Record
	next    map[string]int   // to be handed over
	base    map[string]int64 // offset of the first record
	paused  map[string]bool
	pauses  int
}

// append adds a record and hands it over when it belongs to the unit.
func (l *memlog) append(r *kgo.Record) {
	l.mu.Lock()
	l.add(r)
	l.mu.Unlock()
	l.deliver(r.Topic)
}

func (l *memlog) add(r *kgo.Record) {
	r.Offset, r.Timestamp = l.base[r.Topic]+int64(len(l.records[r.Topic])), time.Now().Truncate(time.Millisecond)
	l.records[r.Topic] = append(l.records[r.Topic], r)
}

// fetchMost is how many records one fetch brings at most.
const fetchMost = 1000

// deliver hands over what may be handed over of one topic.
func (l *memlog) deliver(topic string) {
	u := l.rig.unit
	if u == nil || !slices.Contains(l.rig.Catalogue.Consumed(), topic) {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.paused[topic] {
		return
	}
	var batch []*kgo.Record
	for ; l.next[topic] < len(l.records[topic]); l.next[topic]++ {
		if len(batch) == fetchMost {
			time.AfterFunc(time.Millisecond, func() { l.deliver(topic) })
			break
		}
		if r := l.records[topic][l.next[topic]]; r.Partition == l.rig.number {
			batch = append(batch, r)
		}
	}
	if len(batch) == 0 {
		return
	}
	for _, r := range batch {
		l.rig.Memory.Charge(unit.Cost(r))
	}
	u.Take(topic, unit.Log{Start: l.base[topic], End: l.base[topic] + int64(len(l.records[topic]))}, batch)
}

func (l *memlog) Pause(topic string, _ int32) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.paused[topic] = true
	l.pauses++
}

func (l *memlog) Resume(topic string, _ int32) {
	l.mu.Lock()
	l.paused[topic] = false
	l.mu.Unlock()
	go l.deliver(topic)
}

// isPaused says whether a topic stands still.
func (l *memlog) isPaused(topic string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.paused[topic]
}

// all are the records of a topic.
func (l *memlog) all(topic string) []*kgo.Record {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Clone(l.records[topic])
}

// inTiers counts the records of all tiers that were ever written.
func (l *memlog) inTiers() (n int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for topic := range maps.Keys(l.records) {
		if strings.Contains(topic, ".retry.") {
			n += len(l.records[topic])
		}
	}
	return n
}

func commitAt(topic string, offset int64) settle.Commit {
	return settle.Commit{Topic: topic, Offset: offset}
}

func record(topic, key string, value []byte) *kgo.Record {
	return &kgo.Record{Topic: topic, Key: []byte(key), Value: value}
}

func header2(key, value string) kgo.RecordHeader {
	return kgo.RecordHeader{Key: key, Value: []byte(value)}
}

func setInFlight(r *rig, limit int) { r.InFlight = caps.NewInFlight(limit) }

// width is how many attempts of an endpoint were under way at once, at most.
func (s *sender) width(endpointID string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.most[endpointID]
}

// atOnce is how many attempts were under way at once, at most.
func (s *sender) atOnce() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.peak
}
