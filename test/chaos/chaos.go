package chaos

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/barnabas-webhooks/barnabas/dlq"
	"github.com/barnabas-webhooks/barnabas/internal/api"
	"github.com/barnabas-webhooks/barnabas/internal/testkit/realkafka"
	"github.com/barnabas-webhooks/barnabas/processor/sign"
	"github.com/barnabas-webhooks/barnabas/test/process"
)

const (
	workers = 3
	apis    = 2
	// startPatience bounds the start of everything, a first fetch of Kafka's jars included.
	startPatience = 5 * time.Minute
	// quietPatience bounds the wait, after the faults, until everything has landed or is dead.
	quietPatience = 5 * time.Minute
)

// chaos is one run.
type chaos struct {
	Options
	site      *site
	broker    *realkafka.Broker
	fleet     *fleet
	receivers *receivers
	load      *load
	auditor   *auditor
	mayhem    *mayhem
	client    *kgo.Client
	began     time.Time
	endpoints []string
}

// Run does all of it. The result is nil when the run could not be done; what was violated is in the result.
func Run(ctx context.Context, o Options) (result *Result, err error) {
	if err := o.Validate(); err != nil {
		return nil, err
	}
	dir := o.Dir
	if dir == "" {
		if dir, err = os.MkdirTemp("", "barnabas-chaos-"); err != nil {
			return nil, fmt.Errorf("chaos: %w", err)
		}
	}
	if err := os.MkdirAll(filepath.Join(dir, "kafka"), 0o700); err != nil {
		return nil, fmt.Errorf("chaos: %w", err)
	}
	c := &chaos{Options: o, began: time.Now()}
	defer func() {
		err = errors.Join(err, c.close())
		if o.Dir != "" || o.Keep || err != nil || result == nil || !result.Held() {
			c.say("the logs and the data are in %s", dir)
			return
		}
		_ = os.RemoveAll(dir)
	}()
	if err := c.setUp(ctx, dir); err != nil {
		return nil, err
	}
	return c.run(ctx)
}

// draw makes a source of chance of its own for each part, so that none depends on how far another has come.
func (c *chaos) draw(part uint64) *rand.Rand { return rand.New(rand.NewPCG(c.Seed, part)) }

// setUp starts the broker, the receivers and the processes, and saves the endpoints.
func (c *chaos) setUp(ctx context.Context, dir string) (err error) {
	starting, cancel := context.WithTimeout(ctx, startPatience)
	defer cancel()
	c.say("seed %d: starting Apache Kafka, %d workers and %d API processes", c.Seed, workers, apis)
	if c.broker, err = realkafka.StartBroker(starting, realkafka.BrokerConfig{
		Dir: filepath.Join(dir, "kafka"),
		// How often the broker looks for transactions to abort is added to what every killed worker leaves open.
		Settings: map[string]string{"transaction.abort.timed.out.transaction.cleanup.interval.ms": "1000"},
	}); err != nil {
		return err
	}
	if c.site, err = newSite(dir, c.broker.Addr(), &c.Options); err != nil {
		return err
	}
	if c.client, err = kgo.NewClient(kgo.SeedBrokers(c.broker.Addr())); err != nil {
		return fmt.Errorf("chaos: %w", err)
	}
	if c.fleet, err = newFleet(c.site, c.Binary, workers, apis); err != nil {
		return err
	}
	for i := range c.Endpoints {
		c.endpoints = append(c.endpoints, fmt.Sprintf("ep-%03d", i))
	}
	key, err := sign.ParseSecret(c.site.secret)
	if err != nil {
		return err
	}
	if c.receivers, err = openReceivers(key, c.endpoints, c.draw(1)); err != nil {
		return err
	}
	// The first creates the topics.
	if err := c.fleet.start(c.fleet.apis[0]); err != nil {
		return err
	}
	if err := c.fleet.awaitReady(starting, c.fleet.apis[0]); err != nil {
		return err
	}
	for _, m := range c.fleet.all()[1:] {
		if err := c.fleet.start(m); err != nil {
			return err
		}
	}
	if err := c.fleet.awaitReady(starting, c.fleet.all()...); err != nil {
		return err
	}
	var urls []string
	for _, m := range c.fleet.apis {
		urls = append(urls, "http://"+m.api)
	}
	if c.load, err = newLoad(c.site, &c.Options, c.endpoints, urls, c.draw(2)); err != nil {
		return err
	}
	for i, id := range c.endpoints {
		spec := api.EndpointSpec{ID: id, URL: c.receivers.url + id, Secret: c.site.secret}
		if i%2 == 1 {
			spec.Order, spec.MaxInFlight = "parallel", 4
		}
		if _, err := c.load.apis[0].PutEndpoint(starting, spec); err != nil {
			return fmt.Errorf("save endpoint %s: %w", id, err)
		}
	}
	if c.auditor, err = newAuditor(c.site); err != nil {
		return err
	}
	c.mayhem = &mayhem{
		fleet: c.fleet, site: c.site, broker: c.broker, admin: kadm.NewClient(c.client), session: c.Session,
		rnd: c.draw(3), done: map[faultKind]int{},
	}
	return nil
}

// run does the run proper: load and faults, quiet, replay, judgement.
func (c *chaos) run(ctx context.Context) (*Result, error) {
	auditing, stopAuditing := context.WithCancel(ctx)
	var background sync.WaitGroup
	defer background.Wait()
	defer stopAuditing()
	background.Go(func() { c.auditor.run(auditing) })
	background.Go(func() { c.report(auditing) })

	faults := plan(c.Kills, c.draw(4))
	c.say("%d faults, %d of them kill -9 of a worker", len(faults), c.Kills)
	c.receivers.die(10*time.Second, 10*time.Second+time.Duration(len(faults))*1500*time.Millisecond)

	loading, stopLoading := context.WithCancel(ctx)
	defer stopLoading()
	loaded := make(chan error, 1)
	go func() { loaded <- c.load.run(loading) }()
	limited, cancel := context.WithTimeout(ctx, c.Limit)
	err := c.mayhem.run(limited, faults)
	cancel()
	under := time.Since(c.began)
	stopLoading()
	c.say("healing everything and waiting for what is under way")
	c.receivers.heal()
	if err := errors.Join(err, <-loaded, ctx.Err()); err != nil {
		return nil, err
	}
	quieting, cancelQuiet := context.WithTimeout(ctx, quietPatience)
	defer cancelQuiet()
	if err := c.fleet.awaitReady(quieting, c.fleet.all()...); err != nil {
		return nil, err
	}
	if err := c.quiet(quieting); err != nil {
		return nil, err
	}
	c.fleet.terminateAll()
	if err := c.auditor.catchUp(quieting); err != nil {
		return nil, err
	}
	stopAuditing()
	background.Wait()
	return c.judge(len(faults), under)
}

// quiet waits until nothing waits any more, replays what is dead, and so on until nothing is dead either. Out of
// patience is not out of order: what still waits then is for the judgement to say.
func (c *chaos) quiet(ctx context.Context) error {
	for round := 1; ; round++ {
		if !c.settled(ctx) {
			return nil
		}
		c.say("nothing waits; replaying the dead letters (round %d)", round)
		cmd := exec.CommandContext(ctx, c.Binary, "dlq", "replay", "--config", c.site.config, "--all", "--rate", "1000", "--json")
		out, err := cmd.Output()
		var done struct {
			Replayed int `json:"replayed"`
		}
		switch code := cmd.ProcessState.ExitCode(); {
		case code == dlq.ExitNoMatch:
			return nil
		case err != nil && round >= replayRounds:
			return fmt.Errorf("replay: %w", err)
		case err != nil:
			c.say("the replay ended with exit code %d", code)
			continue
		}
		if err := json.Unmarshal(out, &done); err != nil {
			return fmt.Errorf("replay: %w in %q", err, out)
		}
		if done.Replayed == 0 {
			return nil
		}
	}
}

// replayRounds is how often a replay may be tried: what is replayed may die again while breakers are still open.
const replayRounds = 10

// settled waits until nothing waits; false: it gave up.
func (c *chaos) settled(ctx context.Context) bool {
	for {
		live, err := c.auditor.live(ctx)
		if err == nil {
			c.auditor.setLive(live)
			if len(live) == 0 {
				return true
			}
		}
		if !process.Pause(ctx, 500*time.Millisecond) {
			c.say("gave up waiting: %d records are not settled (%v)", len(live), err)
			return false
		}
	}
}

// say prints one line of progress.
func (c *chaos) say(format string, args ...any) {
	fmt.Fprintf(c.Progress, "[%4.0f s] %s\n", time.Since(c.began).Seconds(), fmt.Sprintf(format, args...))
}

// report prints how far the run is, every five seconds.
func (c *chaos) report(ctx context.Context) {
	for process.Pause(ctx, 5*time.Second) {
		landed, open := c.receivers.progress()
		running := 0
		for _, w := range c.fleet.workers {
			if w.running() {
				running++
			}
		}
		c.mayhem.mu.Lock()
		kills, all, last := c.mayhem.done[killWorker], 0, c.mayhem.last
		for _, n := range c.mayhem.done {
			all += n
		}
		c.mayhem.mu.Unlock()
		c.say("kill %d of %d, fault %d; accepted %d, landed %d, in flight %d, workers %d; last: %s",
			kills, c.Kills, all, c.load.accepted(), landed, open, running, last)
	}
}

// judge collects what was left behind and holds it against the rules.
func (c *chaos) judge(faults int, under time.Duration) (*Result, error) {
	c.say("judging")
	tenures, losses, err := c.fleet.tenures()
	if err != nil {
		return nil, err
	}
	evidence := &Evidence{
		Summary: c.summary(faults, under),
		History: c.auditor.result(), Posts: c.receivers.log(), Sent: c.load.sent,
		Cuts: append(c.mayhem.cuts, losses...), Tenures: tenures, Outages: c.mayhem.outages, Partitions: c.Partitions, Longest: c.site.timing.attempt,
	}
	if err := evidence.Save(filepath.Join(c.site.dir, evidenceFile)); err != nil {
		return nil, err
	}
	return NewResult(evidence), nil
}

// close ends everything that still runs.
func (c *chaos) close() error {
	var errs []error
	if c.fleet != nil {
		errs = append(errs, c.fleet.killAll())
	}
	if c.receivers != nil {
		c.receivers.close()
	}
	if c.auditor != nil {
		c.auditor.client.Close()
	}
	if c.client != nil {
		c.client.Close()
	}
	if c.broker != nil {
		errs = append(errs, c.broker.Close())
	}
	return errors.Join(errs...)
}
