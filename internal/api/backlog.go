package api

import (
	"context"
	"net/http"
	"sync"
	"time"

	"github.com/barnabas-webhooks/barnabas/internal/obs"
	"github.com/barnabas-webhooks/barnabas/topics"
)

const (
	// lagEvery is how often the lag is read, and lagStale how old a reading may be that a send is refused by: after a
	// few failed readings nothing is known, and what is not known refuses nobody.
	lagEvery = 5 * time.Second
	lagStale = 30 * time.Second
)

// backlog is what was last read of how far the processors are behind, per partition of the events topic. It is read in
// the background, so that a send costs no request. Safe for concurrent use.
type backlog struct {
	most       int64 // records of one partition; 0: any number
	partitions int   // of the events topic

	mu  sync.Mutex // guards what follows
	lag map[int32]int64
	at  time.Time
}

// set takes a reading.
func (b *backlog) set(lag map[int32]int64, at time.Time) (over int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.lag, b.at = lag, at
	for _, n := range lag {
		if b.most > 0 && n > b.most {
			over++
		}
	}
	return over
}

// refuses says whether a send to an endpoint is refused. Only the endpoint's own partition counts: that others are
// behind is none of its business.
func (b *backlog) refuses(endpointID string, now time.Time) error {
	if b.most <= 0 {
		return nil
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if now.Sub(b.at) > lagStale || b.lag[topics.Partition(endpointID, b.partitions)] <= b.most {
		return nil
	}
	return retryLater(http.StatusServiceUnavailable, CodeBacklog, "Too far behind",
		"So many events wait for this endpoint's partition that no more are taken. Send again later with the same "+
			"Idempotency-Key.", backlogRetryAfter)
}

// watchBacklog reads the lag until ctx ends.
func (a *API) watchBacklog(ctx context.Context) {
	if a.opts.Lag == nil || a.backlog.most <= 0 {
		return
	}
	tick := time.NewTicker(lagEvery)
	defer tick.Stop()
	for lastLog := (time.Time{}); ; {
		limited, cancel := context.WithTimeout(ctx, lagEvery)
		lag, err := a.opts.Lag(limited)
		cancel()
		switch {
		case err == nil:
			a.metrics.backlogged.Set(float64(a.backlog.set(lag, time.Now())))
		case ctx.Err() == nil:
			a.metrics.lagFailures.Inc()
			if time.Since(lastLog) > time.Minute {
				lastLog = time.Now()
				a.log.Warn("api_lag_read_failed", obs.KeyError, err)
			}
		}
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}
