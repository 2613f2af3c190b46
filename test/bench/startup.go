package bench

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"runtime"
	"strconv"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"golang.org/x/sync/errgroup"

	"github.com/barnabas-webhooks/barnabas/schemas"
	"github.com/barnabas-webhooks/barnabas/test/process"
	"github.com/barnabas-webhooks/barnabas/topics"
)

const (
	startEndpoints = 100
	// startEvents is how many events wait at each start, for the first delivery to be one of them.
	startEvents = 100
	// settling is how long after the first delivery the memory is read.
	settling = 15 * time.Second
)

// startUp is a scenario about what a process has to read back, or has waiting, when it starts.
type startUp struct {
	// remember makes the nth record of the endpoint; its topic and value.
	remember func(s *site, n int, endpoint string, payload []byte, now time.Time) (*kgo.Record, error)
	number   int  // for the full scale
	disk     bool // the claims are kept on disk
}

// claimsOnDisk is a metric of the process's own.
const claimsOnDisk Figure = "barnabas_claims_disk_bytes"

func (u startUp) measure(ctx context.Context, m *run, round int) (Round, error) {
	r := Round{}
	err := inTurn(round,
		func() (err error) {
			r[Empty], err = u.empty(ctx, m)
			return err
		},
		func() error { return u.full(ctx, m, r) },
	)
	if err != nil {
		return r, err
	}
	for _, variant := range []string{First, Again} {
		f := r[variant]
		f[BytesPerKey] = (f[Resident] - r[Empty][Resident]) * mb / f[Remembered]
		if disk, ok := f[claimsOnDisk]; ok && u.disk {
			f[DiskPerKey] = disk / f[Remembered]
		}
	}
	return r, nil
}

// empty starts a process that has nothing to read back.
func (u startUp) empty(ctx context.Context, m *run) (f Figures, err error) {
	s, err := m.newSite(ctx, m.endpoints(startEndpoints, 0, 0)...)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, s.close(context.WithoutCancel(ctx))) }()
	s.set = u.set()
	return s.startOnce(ctx, 0)
}

// set are the settings besides the defaults.
func (u startUp) set() []string {
	if u.disk {
		return []string{"claims.directory={dir}/claims"}
	}
	return nil
}

// full fills a site and starts a process twice: the second one may find what the first has put by.
func (u startUp) full(ctx context.Context, m *run, r Round) (err error) {
	s, err := m.newSite(ctx, m.endpoints(startEndpoints, 0, 0)...)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.close(context.WithoutCancel(ctx))) }()
	s.set = u.set()
	number := m.events(u.number, startEndpoints)
	m.say("  writing %d records", number)
	if err := u.fill(ctx, s, number); err != nil {
		return err
	}
	for i, variant := range []string{First, Again} {
		if r[variant], err = s.startOnce(ctx, i); err != nil {
			return err
		}
		r[variant][Remembered] = float64(number)
	}
	return nil
}

// fill writes the records, with as many hands as there are cores: encoding them is what takes long.
func (u startUp) fill(ctx context.Context, s *site, number int) error {
	p, err := s.run.newProducer(s.catalogue, 20*time.Millisecond)
	if err != nil {
		return err
	}
	writing, group := errgroup.WithContext(ctx)
	hands := runtime.NumCPU()
	for hand := range hands {
		writing.Go(func() error {
			payload := s.run.payloads.Make(Warming, 0, time.Now())
			for n := hand; n < number && group.Err() == nil; n += hands {
				endpoint := endpointID(n % startEndpoints)
				record, err := u.remember(s, n, endpoint, payload, time.Now())
				if err != nil {
					return err
				}
				record.Partition = topics.Partition(endpoint, s.catalogue.Partitions)
				p.produce(ctx, record) // not the group's, which ends before everything is written
			}
			return ctx.Err()
		})
	}
	return errors.Join(writing.Wait(), p.finish(ctx))
}

// startOnce starts a process, the nth of its site, with a few events waiting, and stops it in order.
func (s *site) startOnce(ctx context.Context, nth int) (Figures, error) {
	m := s.run
	if err := s.preload(ctx, startEvents, startEndpoints, false); err != nil {
		return nil, err
	}
	if err := m.receiver.reset(ctx); err != nil {
		return nil, err
	}
	// The name is that of the folder, where a process may have put by what the next one of the site finds.
	n, err := s.start("processor", "processor")
	if err != nil {
		return nil, err
	}
	if err := s.awaitReady(ctx, n); err != nil {
		return nil, err
	}
	f := Figures{Ready: milliseconds(time.Since(n.started))}
	w := watch{at: m.receiver, want: startEvents, by: n.Process}
	if _, err := w.until(ctx, startEvents); err != nil {
		return nil, err
	}
	count, err := m.receiver.count(ctx)
	if err != nil {
		return nil, err
	}
	f[FirstCame] = milliseconds(time.Unix(0, count.First).Sub(n.started))
	if !process.Pause(ctx, m.lasting(settling, time.Second)) {
		return nil, ctx.Err()
	}
	u, err := process.ReadUsage(n.PID)
	if err != nil {
		return nil, err
	}
	f[Resident], f[Peak] = float64(u.RSS)/mb, float64(u.Peak)/mb
	values, err := process.Scrape(ctx, n.metrics)
	if err != nil {
		return nil, err
	}
	for name, v := range values { // what the process itself says of the keys, if it says anything
		if strings.HasPrefix(name, "barnabas_claims_") && !strings.Contains(name, "{") {
			f[Figure(name)] = v
		}
	}
	n.Wanted.Store(true)
	if code, err := n.Terminate(); err != nil || code != 0 {
		return nil, errors.Join(fmt.Errorf("start %d: the process ended with exit code %d", nth+1, code), err)
	}
	return f, nil
}

// waitingDeliveries are spread over the tiers that hold more than a minute: in the first, all would come due during the
// measurement.
func waitingDeliveries(s *site, n int, endpoint string, payload []byte, now time.Time) (*kgo.Record, error) {
	tiers := s.catalogue.Tiers[1:]
	tier := n % len(tiers)
	d := schemas.Delivery{
		ID: schemas.MintDeliveryID(), EndpointID: endpoint, EventType: eventType, ContentType: contentType, Payload: payload,
		AcceptedAt: now, RunStartedAt: now, Attempts: tier + 2, DueAt: now.Add(tiers[tier] * 9 / 10).Truncate(time.Millisecond),
		Origin: schemas.Coordinates{Topic: s.catalogue.Events(), Partition: topics.Partition(endpoint, s.catalogue.Partitions)},
		History: schemas.History{
			TotalAttempts: tier + 2, FirstAttemptAt: now, LastAttemptAt: now, LastClass: "http_5xx", LastStatus: 503, LastError: "status 503",
		},
	}
	value, err := schemas.EncodeDelivery(&d)
	if err != nil {
		return nil, fmt.Errorf("a waiting delivery: %w", err)
	}
	return &kgo.Record{
		Topic: s.catalogue.Tier(tier + 1), Key: []byte(endpoint), Value: value,
		Headers: []kgo.RecordHeader{
			{Key: topics.HeaderDeliveryID, Value: []byte(d.ID)},
			{Key: topics.HeaderDueAt, Value: strconv.AppendInt(nil, d.DueAt.UnixMilli(), 10)},
			{Key: topics.HeaderReason, Value: []byte(d.History.LastClass)},
		},
	}, nil
}

// rememberedKeys are claims of the last hours, as the processor writes them.
func rememberedKeys(s *site, n int, endpoint string, _ []byte, now time.Time) (*kgo.Record, error) {
	key := "key-" + strconv.Itoa(n)
	hash := sha256.Sum256([]byte(key))
	at := now.Add(-time.Duration(n%20) * time.Hour).Truncate(time.Millisecond)
	c := schemas.Claim{
		EndpointID: endpoint, Key: key, DeliveryID: schemas.MintDeliveryID(), PayloadHash: hash[:],
		ClaimedOffset: int64(n), AnsweredOffset: int64(n), ClaimedAt: at, Verdict: schemas.VerdictFirst,
	}
	value, err := schemas.EncodeClaim(&c)
	if err != nil {
		return nil, fmt.Errorf("a claim: %w", err)
	}
	// The key of the record is what compaction goes by: endpoint, key and time.
	id := strconv.AppendInt([]byte(endpoint+"\x00"+key+"\x00"), at.UnixMilli(), 10)
	return &kgo.Record{Topic: s.catalogue.Idempotency(), Key: id, Value: value}, nil
}
