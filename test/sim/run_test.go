package sim_test

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/barnabas-webhooks/barnabas/dlq"
	"github.com/barnabas-webhooks/barnabas/schemas"
)

// Run is one seed's world under its schedule.
type Run struct {
	*World
	profile Profile
	ledger  *Ledger
	subs    []*Sub
	modes   []mode
	manual  *kgo.Client // produces to partitions of its own choice
	tasks   sync.WaitGroup

	mu       sync.Mutex // guards what follows
	slots    []*Process
	busy     []bool    // a process is being started or stopped there
	undo     []func()  // ends faults that are still on
	healed   time.Time // when everything had come to rest
	furthest map[string]map[int32]int64
}

// step is one action of a schedule, at a time since its beginning.
type step struct {
	at   time.Duration
	what string
	do   func(r *Run)
}

// NewRun makes the world of a seed, with its endpoints and its processes.
func NewRun(t *testing.T, p Profile, rnd *rand.Rand) *Run {
	t.Helper()
	r := &Run{
		World: NewWorldOf(t, p.Setting()), profile: p, ledger: &Ledger{},
		slots: make([]*Process, p.Processes), busy: make([]bool, p.Processes), furthest: map[string]map[int32]int64{},
	}
	r.modes = modes(r.cfg.Timeouts.Total)
	r.manual = r.newClient(kgo.RecordPartitioner(kgo.ManualPartitioner()))
	r.silent = func(who string) { r.ledger.Over(r.ledger.Disturb(who, "not heard of by its group")) }
	for i := range p.Processes {
		r.startAt(i)
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for {
			select {
			case <-time.After(r.cfg.Processor.SessionTimeout):
				r.buryMembers()
			case <-r.ctx.Done():
				return
			}
		}
	}()
	t.Cleanup(func() { <-ended })
	for i := range p.Endpoints {
		s := &Sub{id: fmt.Sprintf("ep%d", i)}
		s.receiver = r.Receiver(Answers(http.StatusNoContent))
		s.settings(rnd, s.receiver.URL)
		s.behave(r.modes[0], 0)
		r.subs = append(r.subs, s)
		r.PutEndpoint(s.id, s.spec)
	}
	return r
}

// Play goes through the schedule and then lets everything come to rest.
func (r *Run) Play(steps []step) {
	began := time.Now()
	for _, s := range steps {
		time.Sleep(s.at - time.Since(began))
		r.ledger.Note(r.now(), "%s", s.what)
		s.do(r)
		r.watch()
	}
	r.heal()
}

// heal ends every fault, lets every receiver work, and waits until nothing waits.
func (r *Run) heal() {
	r.calm()
	r.tasks.Wait()
	r.calm() // what the last tasks began
	for _, s := range r.subs {
		s.behave(r.modes[0], 0)
	}
	for i := range r.slots {
		r.startAt(i)
	}
	for _, s := range r.subs {
		spec := map[string]any{}
		require.NoError(r.t, json.Unmarshal([]byte(s.spec), &spec))
		spec["state"] = schemas.EndpointEnabled
		delete(spec, "rate_per_second") // hundreds of replays would not be through within a lifetime of a minute
		healed, err := json.Marshal(spec)
		require.NoError(r.t, err)
		r.PutEndpoint(s.id, string(healed))
	}
	r.ledger.Note(r.now(), "all is well from here on")
	r.rest()
	r.watchOwners()
	r.healed = time.Now()
	r.resurrect()
}

// rest waits until everything is settled.
func (r *Run) rest() {
	wait, limit := 2*time.Second, r.cfg.Retry.Lifetime+5*time.Minute
	if r.profile.Long {
		wait = 20 * time.Minute
	}
	for began := time.Now(); ; {
		time.Sleep(wait)
		r.watch()
		reading := r.TakeReading()
		if reading.Unsettled() == 0 {
			break
		}
		if time.Since(began) > limit {
			r.ledger.Violated(1, "%d records are not settled %s after all is well: stuck: %v", reading.Unsettled(), limit, reading.unsettled())
			break
		}
	}
}

// stopAll stops every process, in order, and waits until what the dead left open is aborted.
func (r *Run) stopAll() {
	for i := range r.slots {
		r.stopAt(i)
	}
	r.tasks.Wait()
	time.Sleep(2 * r.cfg.Processor.TransactionTimeout)
}

// audit judges the world in the middle of things.
func (r *Run) audit() {
	r.calm()
	r.tasks.Wait()
	r.stopAll()
	for _, problem := range r.Verdict(r.ledger, r.subs) {
		r.ledger.Broken("(audit) " + problem)
	}
	for i := range r.slots {
		r.startAt(i)
	}
}

// resurrect replays every dead letter, now that all is well: whatever can be read
// must arrive.
func (r *Run) resurrect() {
	for i := range r.slots {
		r.startAt(i)
	}
	r.replay(dlq.Filter{All: true})
	r.rest()
	r.stopAll()
	for _, l := range r.TakeReading().Letters {
		if l.Raw == nil && l.Delivery.Replays > 0 && l.DeadAt.After(r.healed) {
			r.ledger.Violated(1, "delivery %s was replayed when all was well and died again, of %s: %s", l.Delivery.ID, l.Reason, l.Detail)
		}
	}
}

// calm ends what faults are on.
func (r *Run) calm() {
	r.mu.Lock()
	undo := r.undo
	r.undo = nil
	r.mu.Unlock()
	for _, f := range undo {
		f()
	}
}

// until notes what ends a fault; it runs once, after d or when all must be well.
func (r *Run) until(d time.Duration, end func()) {
	once := sync.OnceFunc(end)
	r.mu.Lock()
	r.undo = append(r.undo, once)
	r.mu.Unlock()
	r.tasks.Go(func() {
		time.Sleep(d)
		once()
	})
}

// startAt starts a process in a slot that is free.
func (r *Run) startAt(slot int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.slots[slot] != nil || r.busy[slot] {
		return
	}
	p := r.Start()
	r.slots[slot] = p
	r.ledger.Note(r.now(), "%s starts", p.Name)
	r.ledger.Over(r.ledger.Moves())
}

// take empties a slot; nil when nobody is there.
func (r *Run) take(slot int) *Process {
	r.mu.Lock()
	defer r.mu.Unlock()
	p := r.slots[slot]
	if p != nil {
		r.slots[slot] = nil
	}
	return p
}

// at is who is in a slot.
func (r *Run) at(slot int) *Process {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.slots[slot]
}

// stopAt stops a process in order, beside what else happens.
func (r *Run) stopAt(slot int) {
	p := r.take(slot)
	if p == nil {
		return
	}
	r.mu.Lock()
	r.busy[slot] = true
	r.mu.Unlock()
	moves := r.ledger.Moves()
	r.tasks.Go(func() {
		err := p.Stop()
		r.ledger.Over(moves)
		r.ledger.Note(r.now(), "%s has stopped: %v", p.Name, err)
		if err != nil {
			r.ledger.Violated(0, "process %s ended with an error: %v", p.Name, err)
		}
		r.mu.Lock()
		r.busy[slot] = false
		r.mu.Unlock()
	})
}

func (r *Run) crashAt(slot int) {
	p := r.take(slot)
	if p == nil {
		return
	}
	r.ledger.Note(r.now(), "%s is dead", p.Name)
	r.ledger.Over(r.ledger.Disturb(p.Name, "crash"))
	r.ledger.Over(r.ledger.Moves())
	p.Crash()
}

func (r *Run) freezeAt(slot int, d time.Duration) {
	p := r.at(slot)
	if p == nil {
		return
	}
	disturbed, moves := r.ledger.Disturb(p.Name, "freeze"), r.ledger.Moves()
	p.Freeze()
	r.until(d, func() {
		p.Thaw()
		r.ledger.Over(disturbed)
		r.ledger.Over(moves)
		r.ledger.Note(r.now(), "%s goes on", p.Name)
	})
}

// send produces an event directly.
func (r *Run) send(client *kgo.Client, endpoint, key string, record *kgo.Record) {
	s := r.ledger.Sends(&Sent{At: r.now(), Endpoint: endpoint, Key: key, Payload: string(record.Value)})
	client.Produce(context.WithoutCancel(r.ctx), record, func(rec *kgo.Record, err error) {
		r.ledger.Answered(func() {
			if s.Acked = err == nil; s.Acked {
				s.Where = schemas.Coordinates{Topic: rec.Topic, Partition: rec.Partition, Offset: rec.Offset}
			}
		})
	})
}

// post sends an event through the API until it is taken, a few times at most,
// each time at another process.
func (r *Run) post(endpoint, key, payload string, async bool) {
	r.tasks.Go(func() {
		body := fmt.Sprintf(`{"endpoint_id":%q,"event_type":"test.event","payload":%s}`, endpoint, payload)
		header := http.Header{"Idempotency-Key": {key}}
		if async {
			header.Set("Prefer", "respond-async")
		}
		for range 4 {
			r.mu.Lock()
			alive := r.slots[rand.IntN(len(r.slots))]
			r.mu.Unlock()
			if alive == nil {
				time.Sleep(time.Second)
				continue
			}
			status, answer := r.callAt(alive, http.MethodPost, "/v1/deliveries", body, header)
			s := &Sent{At: r.now(), Endpoint: endpoint, Key: key, Payload: payload, Status: status, Acked: status/100 == 2}
			if s.Acked {
				var accepted struct {
					DeliveryID string `json:"delivery_id"`
					Status     string `json:"status"`
				}
				if err := json.Unmarshal([]byte(answer), &accepted); err != nil {
					r.ledger.Violated(0, "the API answered %d with %q", status, answer)
				}
				s.DeliveryID, s.Word = accepted.DeliveryID, accepted.Status
			}
			r.ledger.Sends(s)
			if status != 0 && status < 500 && status != http.StatusTooManyRequests {
				return
			}
			time.Sleep(500 * time.Millisecond)
		}
	})
}

// report prints everything that helps to understand a failing seed.
func (r *Run) report(problems []string) {
	r.t.Helper()
	if len(problems) == 0 {
		return
	}
	const most = 12
	more := ""
	if len(problems) > most {
		problems, more = problems[:most], fmt.Sprintf("\n  ... and %d more", len(problems)-most)
	}
	require.Failf(r.t, "the promises were broken", "%s\n\n  %s%s\n\nThe schedule:\n%s\n\nAgain: go test ./test/sim -run 'TestSeeds' -seed=%d",
		r.profile, strings.Join(problems, "\n  "), more, strings.Join(r.ledger.trace, "\n"), r.profile.Seed)
}
