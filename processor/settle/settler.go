package settle

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/google/uuid"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/barnabas-webhooks/barnabas/internal/obs"
)

// ErrNotOwner tells a unit that its batch was dropped unwritten: the unit is not
// at this process any more, and its present owner does the work.
var ErrNotOwner = errors.New("settle: the unit is not ours any more")

// ErrStopped tells a unit that the settler ended before the batch was written.
var ErrStopped = errors.New("settle: stopped")

// Group is the consumer group whose offsets are settled.
type Group interface {
	// Membership is the member id and generation to commit with; an empty member
	// id says that the process is not in the group now.
	Membership() (member string, generation int32)
	// Owns says whether the assignment is still this process's.
	Owns(Owner) bool
}

// Observer is told how beats went. Nil functions are allowed.
type Observer struct {
	Settled func(took time.Duration, outcomes int)
	Failed  func(error)
}

// Options of a settler.
type Options struct {
	Config
	Group     string // consumer group id
	Members   Group
	NewClient func(transactionalID string) (*kgo.Client, error)
	TopicIDs  map[string][16]byte // of every topic whose offsets are committed
	Log       *slog.Logger
	Observer  Observer
}

// Settler writes batches, one transaction per beat. One per process.
type Settler struct {
	cfg             Config
	group           string
	members         Group
	newClient       func(string) (*kgo.Client, error)
	topicIDs        map[string][16]byte
	log             *slog.Logger
	observer        Observer
	boot            string // tells this process's beats from every other's
	transactionalID string

	client *kgo.Client // owned by Run
	beats  uint64      // owned by Run
	// produced are the topics that client has produced to; owned by Run.
	produced map[string]struct{}
	stuck    []*stuckBatch

	mu    sync.Mutex // guards dirty
	dirty []Source
	wake  chan struct{}
	hurry chan struct{}
}

// stuckBatch is a batch that could not be written and waits for its next try.
type stuckBatch struct {
	*Batch
	tries     int
	notBefore time.Time
}

// New makes a settler; Run starts it.
func New(o Options) *Settler {
	boot := uuid.NewString()[:8]
	return &Settler{
		cfg: o.Config, group: o.Group, members: o.Members, newClient: o.NewClient, topicIDs: o.TopicIDs,
		observer: o.Observer, boot: boot,
		log: slog.New(obs.NewQuiet(o.Log.Handler(), obs.QuietOptions{})), // every unit may fail several times a second (C-236)
		// New with each boot: see DESIGN section 16 for what the embedded broker makes of an old one.
		transactionalID: o.Group + "." + boot,
		wake:            make(chan struct{}, 1),
		hurry:           make(chan struct{}, 1),
	}
}

// Want says that src has outcomes to settle; it will be asked for them at the next beat.
func (s *Settler) Want(src Source) {
	s.mu.Lock()
	s.dirty = append(s.dirty, src)
	s.mu.Unlock()
	tell(s.wake)
}

// Hurry says that one who wanted gains nothing by waiting longer: the next beat begins at once, but for a tenth of a beat after
// the one before.
func (s *Settler) Hurry() { tell(s.hurry) }

// tell leaves word for whoever receives from c next.
func tell(c chan<- struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// Run settles until ctx ends. Batches that are not written by then are answered
// with ErrStopped.
func (s *Settler) Run(ctx context.Context) error {
	if err := s.connect(); err != nil {
		return err
	}
	defer func() { s.client.Close() }()
	for {
		if !s.await(ctx) {
			s.stop()
			return nil
		}
		s.beats++
		batches := s.gather()
		if ctx.Err() != nil { // nothing more is begun, and whoever has sealed a batch is answered
			s.stuck = append(s.stuck, batches...)
			continue
		}
		if len(batches) > 0 {
			s.beat(ctx, batches)
		}
	}
}

// await sleeps until there is something to settle and a beat has passed, or a tenth of one where that is enough.
func (s *Settler) await(ctx context.Context) bool {
	if len(s.stuck) == 0 {
		select {
		case <-ctx.Done():
			return false
		case <-s.wake:
		}
	}
	// As long as units take to hear of the last beat and to ask for the next.
	least := s.cfg.Beat / 10
	select {
	case <-ctx.Done():
		return false
	case <-time.After(least):
	}
	select {
	case <-ctx.Done():
		return false
	case <-s.hurry:
	case <-time.After(s.cfg.Beat - least):
	}
	return true
}

// gather asks every unit that wanted for its batch, and adds those whose next try is due.
func (s *Settler) gather() []*stuckBatch {
	s.mu.Lock()
	sources := s.dirty
	s.dirty = nil
	s.mu.Unlock()

	tag := fmt.Sprintf("%s-%x", s.boot, s.beats)
	replies := make(chan *Batch, len(sources))
	asked := 0
	wants := make([]int64, len(sources))
	for i, src := range sources {
		wants[i] = src.Gathered()
	}
	share := shareOf(s.cfg.MaxBytes, wants)
	for _, src := range sources {
		if src.Seal(tag, share, replies) {
			asked++
		}
	}
	var batches []*stuckBatch
	for range asked {
		if b := <-replies; b != nil { // a unit that said it would answers, also when it ends
			batches = append(batches, &stuckBatch{Batch: b})
		}
	}
	now := time.Now()
	var waiting []*stuckBatch
	for _, b := range s.stuck {
		if b.notBefore.After(now) {
			waiting = append(waiting, b)
		} else {
			batches = append(batches, b)
		}
	}
	s.stuck = waiting
	return batches
}

// beat writes the batches together; when one topic's trouble fails them all,
// each by itself, so that the trouble stays with the units that have it.
func (s *Settler) beat(ctx context.Context, batches []*stuckBatch) {
	err := s.try(ctx, batches)
	if err == nil {
		return
	}
	if len(batches) > 1 && topicTrouble(err) {
		for _, b := range batches {
			if err := s.try(ctx, []*stuckBatch{b}); err != nil {
				s.postpone(b, err)
			}
		}
		return
	}
	for _, b := range batches {
		s.postpone(b, err)
	}
}

// try makes one attempt at settling the batches and answers those it is done with.
func (s *Settler) try(ctx context.Context, batches []*stuckBatch) error {
	started := time.Now()
	member, id := s.members.Membership() // read first, see the package doc
	mine := make([]*Batch, 0, len(batches))
	for _, b := range batches {
		if b.answered() {
			continue
		}
		if !s.members.Owns(b.Owner) {
			b.answer(ErrNotOwner)
			continue
		}
		mine = append(mine, b.Batch)
	}
	if len(mine) == 0 {
		return nil
	}
	if member == "" {
		return fmt.Errorf("commit offsets: %w", kerr.UnknownMemberID)
	}
	err := s.transact(ctx, generation{member, id}, mine)

	var unknown *unknownError
	var unwritable *unwritableError
	var broken *brokenError
	if errors.As(err, &unknown) {
		var committed bool
		if committed, err = s.resolve(ctx, mine); err == nil && !committed {
			err = unknown
		}
	}
	if errors.As(err, &unwritable) {
		s.trim(unwritable.outcome, unwritable.err)
	}
	if errors.As(err, &broken) {
		err = errors.Join(err, s.reconnect())
	}
	if err != nil {
		if s.observer.Failed != nil {
			s.observer.Failed(err)
		}
		return err
	}
	outcomes := 0
	for _, b := range batches {
		outcomes += len(b.Outcomes)
		if !b.answered() {
			b.answer(nil)
		}
	}
	if s.observer.Settled != nil {
		s.observer.Settled(time.Since(started), outcomes)
	}
	return nil
}

// trim puts what will fit in place of records that the broker will never take. With
// nothing to put there, or where that does not fit either, the source stays stuck,
// loudly: to settle it with nothing would lose it.
func (s *Settler) trim(o *Outcome, reason error) {
	if o.Trim != nil {
		trimmed := o.Trim()
		o.Trim = nil
		if len(trimmed) > 0 {
			o.Records = trimmed
			s.log.Error("record refused for good, its trimmed form is written instead", obs.KeyError, reason)
			return
		}
	}
	s.log.Error("record refused for good, and there is nothing smaller to write: its source stays unsettled", obs.KeyError, reason)
}

func (b *stuckBatch) answered() bool { return b.Settled == nil }

func (b *stuckBatch) answer(err error) {
	b.Settled(err)
	b.Settled = nil
}

// postpone keeps a batch for a later beat, after a wait with full jitter.
func (s *Settler) postpone(b *stuckBatch, err error) {
	if b.answered() {
		return
	}
	b.tries++
	ceiling := min(s.cfg.MaxBackoff, s.cfg.Beat<<min(b.tries, 16))
	wait := time.Duration(rand.Int64N(int64(ceiling))) + 1 //nolint:gosec // jitter, no secret
	b.notBefore = time.Now().Add(wait)
	s.stuck = append(s.stuck, b)
	s.log.Warn("settling failed, will be tried again",
		obs.KeyUnit, b.Owner.Unit, obs.KeyOutcomes, len(b.Outcomes), obs.KeyTries, b.tries, obs.KeyWait, wait, obs.KeyError, err)
}

// stop answers what is left, so that no unit waits for a settler that has ended.
func (s *Settler) stop() {
	for _, b := range s.stuck {
		if !b.answered() {
			b.answer(ErrStopped)
		}
	}
	s.stuck = nil
}

// topicTrouble says that an error belongs to a topic that some outcomes go to and not to all of Kafka.
func topicTrouble(err error) bool {
	for _, e := range []error{
		kerr.UnknownTopicOrPartition, kerr.TopicAuthorizationFailed, kerr.LeaderNotAvailable, kerr.UnknownTopicID,
		kerr.NotEnoughReplicas, kerr.NotEnoughReplicasAfterAppend, kerr.InvalidTopicException, kgo.ErrRecordTimeout,
	} {
		if errors.Is(err, e) {
			return true
		}
	}
	var unwritable *unwritableError
	return errors.As(err, &unwritable)
}
