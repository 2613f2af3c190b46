package bench

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/barnabas-webhooks/barnabas/test/process"
	"github.com/barnabas-webhooks/barnabas/topics"
)

// latency is a scenario with a steady rate: how long it takes from produce to arrival.
type latency struct {
	rate int // per second
}

const (
	latencyEndpoints = 100
	latencyWarming   = 5 * time.Second
	latencyLasting   = 20 * time.Second
)

func (l latency) measure(ctx context.Context, m *run, round int) (Round, error) {
	r := Round{}
	return r, inTurn(round,
		func() (err error) {
			r[KafkaOnly], err = l.plain(ctx, m)
			return err
		},
		func() error { return l.systems(ctx, m, round, r) },
	)
}

// lasting is how long the rate is measured.
func (l latency) lasting(m *run) time.Duration { return m.lasting(latencyLasting, time.Second) }

// plain is Kafka alone: the same producer, a plain topic, a plain consumer.
func (l latency) plain(ctx context.Context, m *run) (f Figures, err error) {
	m.sites++
	catalogue := plainCatalogue(m.sites, m.Partitions)
	topic := catalogue.Events()
	if _, err := m.admin.CreateTopic(ctx, int32(m.Partitions), 1, nil, topic); err != nil {
		return nil, fmt.Errorf("plain topic: %w", err)
	}
	defer func() {
		if _, failed := m.admin.DeleteTopic(context.WithoutCancel(ctx), topic); failed != nil {
			m.say("topic %s is not deleted: %v", topic, failed)
		}
	}()
	if err := m.awaitTopic(ctx, topic); err != nil {
		return nil, err
	}
	consumer, err := m.startChild(ctx, "plain", "-broker", m.broker.Addr(), "-topic", topic)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, consumer.Kill()) }()
	p, err := m.newProducer(catalogue, 0)
	if err != nil {
		return nil, err
	}
	return l.send(ctx, m, consumer, func(n int, payload []byte, _ Class) {
		p.event(ctx, endpointID(n%latencyEndpoints), "", payload)
	}, p.broken, func() error { return p.finish(ctx) })
}

// systems measures a whole installation: events by Kafka, and events by the API.
func (l latency) systems(ctx context.Context, m *run, round int, r Round) (err error) {
	s, err := m.newSite(ctx, m.endpoints(latencyEndpoints, 0, 0)...)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.close(context.WithoutCancel(ctx))) }()
	processor, err := s.start("processor", "processor")
	if err != nil {
		return err
	}
	front, err := s.start("api", "api")
	if err != nil {
		return err
	}
	if err := s.awaitReady(ctx, processor, front); err != nil {
		return err
	}
	return inTurn(round,
		func() error {
			p, err := m.newProducer(s.catalogue, 0)
			if err != nil {
				return err
			}
			r[System], err = l.send(ctx, m, m.receiver, func(n int, payload []byte, _ Class) {
				p.event(ctx, endpointID(n%latencyEndpoints), "", payload)
			}, p.broken, func() error { return p.finish(ctx) })
			return err
		},
		func() (err error) {
			c := s.newCallers(latencyCallers, front)
			calls := c.begin()
			r[ByAPI], err = l.send(ctx, m, m.receiver, func(n int, payload []byte, class Class) {
				e := call{endpoint: endpointID(n % latencyEndpoints), key: "key-" + strconv.Itoa(n), payload: payload}
				calls.call(ctx, e, class == Measured)
			}, calls.broken, calls.finish)
			if err == nil {
				r[Answers] = calls.answers.figures()
			}
			return err
		},
	)
}

// latencyCallers is how many calls may be under way; with more, a send waits, and that counts as its time.
const latencyCallers = 256

// send paces events and gathers when those that count arrived. One goes ahead: the way must be open before its time is
// taken.
func (l latency) send(
	ctx context.Context, m *run, at *child, send func(n int, payload []byte, class Class), broken, finish func() error,
) (Figures, error) {
	if err := at.reset(ctx); err != nil {
		return nil, err
	}
	send(0, m.payloads.Make(Warming, 0, time.Now()), Warming)
	w := watch{at: at, want: 1, by: at.Process, broken: broken}
	if _, err := w.until(ctx, 1); err != nil {
		return nil, err
	}
	total, measured := 1, 0
	pace(ctx, l.rate, latencyWarming, l.lasting(m), func(n int, class Class) {
		send(n+1, m.payloads.Make(class, uint64(n+1), time.Now()), class)
		total++
		if class == Measured {
			measured++
		}
	})
	if err := errors.Join(ctx.Err(), finish()); err != nil {
		return nil, err
	}
	w.want = total
	if _, err := w.until(ctx, total); err != nil {
		return nil, err
	}
	report, err := at.report(ctx)
	if err != nil {
		return nil, err
	}
	return arrived(report, measured), nil
}

// awaitTopic waits until every partition of a topic has a leader: a consumer that sees it earlier looks again much later.
func (m *run) awaitTopic(ctx context.Context, topic string) error {
	ctx, cancel := context.WithTimeout(ctx, stalled)
	defer cancel()
	for {
		all, err := m.admin.ListEndOffsets(ctx, topic)
		if err == nil {
			err = all.Error()
		}
		if err == nil && len(all[topic]) == m.Partitions {
			return nil
		}
		if !process.Pause(ctx, pollEvery) {
			return fmt.Errorf("wait for topic %s: %w", topic, errors.Join(ctx.Err(), err))
		}
	}
}

// plainCatalogue names the topic of Kafka alone; its events are partitioned as a site's are.
func plainCatalogue(number, partitions int) topics.Catalogue {
	return topics.Catalogue{Prefix: fmt.Sprintf("plain-%03d.", number), Partitions: partitions}
}
