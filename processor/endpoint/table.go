package endpoint

import (
	"bytes"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"unique"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/barnabas-webhooks/barnabas/internal/obs"
	"github.com/barnabas-webhooks/barnabas/schemas"
)

// deletedKept is how many deleted ids the table remembers at least; with this many more, the oldest are forgotten.
// A forgotten one is merely "unknown" instead of "deleted". The topic forgets its tombstones too.
const deletedKept = 50_000

// ErrKeyMismatch is a record of the endpoints topic whose key is not the id of its value, or is empty.
var ErrKeyMismatch = errors.New("the record's key is not its endpoint's id")

// TableOptions is what a table needs. All fields but Logger are required.
type TableOptions struct {
	// Topic is the name of the endpoints topic.
	Topic string
	// Client makes a Kafka client of the table's own, with the deployment's connection options and, after them,
	// the given ones. Run closes it.
	Client func(more ...kgo.Opt) (*kgo.Client, error)
	// Sealer opens the signing secrets.
	Sealer *Sealer
	// Logger takes what was passed over. Nil: nothing is logged.
	Logger *slog.Logger
}

// Table is the whole endpoints topic in memory, kept current by a tail. Safe for concurrent use.
// About 1 kB for each endpoint.
type Table struct {
	opts    TableOptions
	log     *slog.Logger
	limiter logLimiter // guarded by the Run goroutine: only it applies records
	ready   chan struct{}

	mu sync.RWMutex // guards what follows
	// byID holds the live endpoints.
	byID map[string]entry
	// deleted and deletedOld hold tombstones in two generations: the older is dropped when the younger is full.
	deleted, deletedOld map[string]version
	// applied is the next offset to come, by partition.
	applied map[int32]int64
	// changed is closed and replaced when applied moves.
	changed chan struct{}
	watches map[*watch]struct{}
	// perTenant counts live endpoints; stats the rest.
	perTenant map[string]int
	stats     Stats
	running   bool
}

// version is where in the log an entry comes from.
type version struct {
	partition int32
	offset    int64
	millis    int64 // the record's timestamp
}

type entry struct {
	ep *Endpoint
	version
}

// Stats counts what a table holds and what it passed over.
type Stats struct {
	Endpoints   int
	Disabled    int
	Locked      int   // of Endpoints: cannot be used by this process
	Undecodable int64 // records passed over since the start
}

// NewTable makes an empty table; Run fills it.
func NewTable(opts TableOptions) *Table {
	log := opts.Logger
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	return &Table{
		opts: opts, log: log,
		ready: make(chan struct{}), changed: make(chan struct{}),
		byID: map[string]entry{}, deleted: map[string]version{}, deletedOld: map[string]version{},
		applied: map[int32]int64{}, watches: map[*watch]struct{}{}, perTenant: map[string]int{},
	}
}

// Get returns the endpoint's current configuration; false when there is none (unknown or deleted).
// Look at Locked before using it for an attempt.
func (t *Table) Get(id string) (*Endpoint, bool) {
	t.mu.RLock()
	e, ok := t.byID[id]
	t.mu.RUnlock()
	return e.ep, ok
}

// Deleted says whether the id was known once and then deleted. It remembers the last 50,000 deletions at least.
func (t *Table) Deleted(id string) bool {
	t.mu.RLock()
	defer t.mu.RUnlock()
	_, young := t.deleted[id]
	_, old := t.deletedOld[id]
	return young || old
}

// List returns at most limit endpoints of a tenant (empty: of all) with an id above after, in the order of ids.
// It goes through the whole table: for people, not for the path of a delivery.
func (t *Table) List(tenant, after string, limit int) []*Endpoint {
	t.mu.RLock()
	var found []*Endpoint
	for id, e := range t.byID {
		if id > after && (tenant == "" || e.ep.Tenant == tenant) {
			found = append(found, e.ep)
		}
	}
	t.mu.RUnlock()
	slices.SortFunc(found, func(a, b *Endpoint) int { return strings.Compare(a.ID, b.ID) })
	if len(found) > limit {
		found = found[:limit:limit]
	}
	return found
}

// Count says how many endpoints a tenant has.
func (t *Table) Count(tenant string) int {
	t.mu.RLock()
	defer t.mu.RUnlock()
	return t.perTenant[tenant]
}

// Stats returns the current counts, without going through the table.
func (t *Table) Stats() Stats {
	t.mu.RLock()
	defer t.mu.RUnlock()
	s := t.stats
	s.Endpoints = len(t.byID)
	return s
}

// read makes an endpoint of a record: with Locked set where that is as far as it goes.
func (t *Table) read(r *kgo.Record) *Endpoint {
	id := string(r.Key)
	// A copy, because the result points into it, and r.Value into the whole batch that was fetched.
	rec, err := schemas.DecodeEndpoint(bytes.Clone(r.Value))
	if err == nil && (rec.ID != id || id == "") {
		err = &schemas.DecodeError{Record: "Endpoint", Err: ErrKeyMismatch}
	}
	if err != nil {
		return &Endpoint{Endpoint: schemas.Endpoint{ID: id, State: schemas.EndpointEnabled}, Locked: err}
	}
	return t.unseal(rec)
}

// unseal makes of a record what is used: header values and keys are opened. What cannot be opened locks the endpoint.
func (t *Table) unseal(rec schemas.Endpoint) *Endpoint {
	headers, err := t.openHeaders(&rec)
	rec.Headers = headers
	ep := t.withKeys(rec)
	if err != nil {
		ep.Locked = err
	}
	return ep
}

// sealHeaders is the record as it rests in the topic: custom headers carry credentials, so their values are sealed
// like signing secrets.
func (t *Table) sealHeaders(rec *schemas.Endpoint) *schemas.Endpoint {
	if len(rec.Headers) == 0 {
		return rec
	}
	sealed := *rec
	sealed.Headers = make([]schemas.Header, len(rec.Headers))
	for i, h := range rec.Headers {
		sealed.Headers[i] = schemas.Header{Key: h.Key, Value: t.opts.Sealer.Seal(rec.ID, h.Value)}
	}
	return &sealed
}

func (t *Table) openHeaders(rec *schemas.Endpoint) ([]schemas.Header, error) {
	if len(rec.Headers) == 0 {
		return nil, nil
	}
	opened := make([]schemas.Header, len(rec.Headers))
	for i, h := range rec.Headers {
		value, err := t.opts.Sealer.Open(rec.ID, h.Value)
		if err != nil {
			return nil, err
		}
		opened[i] = schemas.Header{Key: h.Key, Value: value}
	}
	return opened, nil
}

// withKeys adds the unsealed signing keys to a record whose headers are open.
func (t *Table) withKeys(rec schemas.Endpoint) *Endpoint {
	// A handful of values repeat over all endpoints: keep one copy of each.
	rec.Tenant = unique.Make(rec.Tenant).Value()
	rec.DisabledReason = unique.Make(rec.DisabledReason).Value()
	rec.State = unique.Make(rec.State).Value()
	rec.Order = unique.Make(rec.Order).Value()
	ep := &Endpoint{Endpoint: rec}
	if len(rec.Secrets) > 0 {
		ep.Keys = make([]Key, 0, len(rec.Secrets))
	}
	for _, s := range rec.Secrets {
		key, err := t.opts.Sealer.Open(rec.ID, s.Ciphertext)
		if err != nil {
			ep.Locked = err
			continue
		}
		ep.Keys = append(ep.Keys, Key{Secret: key, ExpiresAt: s.ExpiresAt})
	}
	return ep
}

// apply takes one record of the topic. It is called by one goroutine, in the order of each partition.
func (t *Table) apply(r *kgo.Record) {
	v := version{partition: r.Partition, offset: r.Offset, millis: r.Timestamp.UnixMilli()}
	id := string(r.Key)
	var ep *Endpoint // nil: a tombstone
	if r.Value != nil {
		ep = t.read(r)
	}
	undecodable := false
	if ep != nil && ep.Locked != nil {
		undecodable = !errors.Is(ep.Locked, ErrUnseal)
		if n, ok := t.limiter.allow(); ok {
			t.log.Error("endpoint_record_unusable", obs.KeyTopic, r.Topic, obs.KeyPartition, r.Partition, obs.KeyOffset, r.Offset,
				obs.KeyError, ep.Locked, obs.KeySuppressed, n)
		}
	}

	t.mu.Lock()
	defer t.mu.Unlock()
	if undecodable {
		t.stats.Undecodable++
		if _, known := t.byID[id]; known || id == "" {
			return // the previous version stays
		}
	}
	if t.outdated(id, v) {
		return
	}
	if ep != nil {
		ep.Epoch = t.epoch(id, v, ep)
	}
	for w := range t.watches {
		w.saw(id, v, ep)
	}
	t.put(id, v, ep)
}

// epoch is that of the version before, unless this one makes the endpoint or switches it on. Offsets tell epochs apart.
func (t *Table) epoch(id string, v version, ep *Endpoint) int64 {
	if old, ok := t.byID[id]; ok && (old.ep.Enabled() || !ep.Enabled()) {
		return old.ep.Epoch
	}
	return v.offset
}

// outdated says whether the table has a later version from another partition. Within one partition the log's order
// counts; an id is in two only after the topic was given more partitions, and then timestamps are all there is.
func (t *Table) outdated(id string, v version) bool {
	have, ok := t.versionOf(id)
	return ok && have.partition != v.partition && have.millis > v.millis
}

func (t *Table) versionOf(id string) (version, bool) {
	if e, ok := t.byID[id]; ok {
		return e.version, true
	}
	if v, ok := t.deleted[id]; ok {
		return v, true
	}
	v, ok := t.deletedOld[id]
	return v, ok
}

func (t *Table) put(id string, v version, ep *Endpoint) {
	if old, ok := t.byID[id]; ok {
		t.count(old.ep, -1)
	}
	if ep == nil {
		delete(t.byID, id)
		if len(t.deleted) >= deletedKept {
			t.deleted, t.deletedOld = map[string]version{}, t.deleted
		}
		t.deleted[id] = v
		return
	}
	delete(t.deleted, id)
	delete(t.deletedOld, id)
	t.byID[id] = entry{ep: ep, version: v}
	t.count(ep, +1)
}

// count adds n endpoints like ep to the counts.
func (t *Table) count(ep *Endpoint, n int) {
	if t.perTenant[ep.Tenant] += n; t.perTenant[ep.Tenant] == 0 {
		delete(t.perTenant, ep.Tenant)
	}
	if !ep.Enabled() {
		t.stats.Disabled += n
	}
	if ep.Locked != nil {
		t.stats.Locked += n
	}
}
