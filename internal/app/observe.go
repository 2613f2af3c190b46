package app

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/barnabas-webhooks/barnabas/internal/obs"
	"github.com/barnabas-webhooks/barnabas/topics"
)

const (
	readyEvery = 500 * time.Millisecond
	lagEvery   = 10 * time.Second
)

// Errors of readiness.
var errTable = errors.New("the endpoint table is being read")

// observe starts the operators' listener, if one is configured, and returns what stops it.
func (a *App) observe(ctx context.Context) (stop func(), err error) {
	a.ready.Announce("topics", "endpoints")
	if a.processor != nil {
		a.ready.Announce("processor")
	}
	if a.cfg.Metrics.Listen == "" {
		return func() {}, nil
	}
	server, err := obs.Serve(ctx, obs.ServerOptions{
		Listen: a.cfg.Metrics.Listen, Registry: a.registry, Readiness: a.ready, Pprof: a.cfg.Metrics.Pprof, Log: a.log,
	})
	if err != nil {
		return nil, err
	}
	a.log.Info("metrics listen", obs.KeyAddr, server.Addr())
	return func() { //nolint:contextcheck // closing bounds itself
		if err := server.Close(); err != nil {
			a.log.Warn("stopping: the metrics listener was cut off", obs.KeyError, err)
		}
	}, nil
}

// watchReadiness reports what the parts say of themselves until ctx ends; then
// the process is not ready any more.
func (a *App) watchReadiness(ctx context.Context) error {
	tick := time.NewTicker(readyEvery)
	defer tick.Stop()
	for {
		if a.table.Ready() {
			a.ready.Report("endpoints", nil)
		} else {
			a.ready.Report("endpoints", errTable)
		}
		if a.processor != nil {
			a.ready.Report("processor", a.processor.Ready())
		}
		select {
		case <-ctx.Done():
			a.ready.Report("process", context.Cause(ctx))
			return nil
		case <-tick.C:
		}
	}
}

// watchLag asks Kafka for the group's lag now and then and leaves it where a
// scrape finds it: a scrape itself calls no broker.
func (a *App) watchLag(ctx context.Context) error {
	lag := prometheus.NewGaugeVec(prometheus.GaugeOpts{
		Namespace: "barnabas", Name: "group_lag",
		Help: "Records of a consumed topic that are not settled: of a tier, those that wait.",
	}, []string{"topic"})
	failed := prometheus.NewCounter(prometheus.CounterOpts{
		Namespace: "barnabas", Name: "group_lag_failures_total", Help: "Times the group's lag could not be read.",
	})
	catalogue := Catalogue(a.cfg)
	for _, t := range catalogue.Consumed() {
		lag.WithLabelValues(t)
	}
	a.registry.MustRegister(lag, failed)
	told := map[string]int{} // of topics with another number of partitions
	tick := time.NewTicker(lagEvery)
	defer tick.Stop()
	for {
		limited, cancel := context.WithTimeout(ctx, lagEvery)
		partitions, err := topics.Lag(limited, a.admin(), a.cfg.Processor.Group, catalogue)
		cancel()
		if err != nil && ctx.Err() == nil {
			failed.Inc()
		}
		if err == nil {
			sums, counts := map[string]int64{}, map[string]int{}
			for _, p := range partitions {
				sums[p.Topic] += p.Lag
				counts[p.Topic]++
			}
			for _, t := range catalogue.Consumed() {
				lag.WithLabelValues(t).Set(float64(sums[t]))
				if n := counts[t]; n != catalogue.Partitions && n != told[t] { // a start refuses that; nobody could say no to it now
					told[t] = n
					a.log.Error("topic has other partitions than topics.partitions: what is written to those that no unit has is not read",
						obs.KeyTopic, t, obs.KeyCount, n, obs.KeyDetail, fmt.Sprintf("%d are configured", catalogue.Partitions))
				}
			}
		}
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
	}
}

// verifyTopics refuses a cluster whose topics cannot hold the promises. A cluster
// that cannot be asked is waited for: the process is not ready, and says why.
func (a *App) verifyTopics(ctx context.Context) error {
	catalogue := Catalogue(a.cfg)
	for wait := time.Second; ; wait = min(2*wait, 30*time.Second) {
		err := a.checkTopics(ctx, catalogue)
		if err != nil && ctx.Err() != nil {
			return nil // told to stop while it was asking: that is no failure
		}
		a.ready.Report("topics", err)
		var refused *topics.VerifyError
		if err == nil || errors.As(err, &refused) {
			return err
		}
		a.log.Warn("topics cannot be verified yet", obs.KeyWait, wait, obs.KeyError, err)
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(wait):
		}
	}
}

func (a *App) checkTopics(ctx context.Context, catalogue topics.Catalogue) error {
	o := TopicOptions(a.cfg)
	if a.cfg.Topics.Create {
		if err := topics.CreateMissing(ctx, a.admin(), catalogue, o); err != nil {
			return err
		}
	}
	if err := topics.Verify(ctx, a.admin(), catalogue, o); err != nil {
		return err
	}
	if a.processor == nil {
		return nil
	}
	return a.checkStranded(ctx, catalogue)
}
