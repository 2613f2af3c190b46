package api_test

import (
	"bytes"
	"context"
	"errors"
	"net"
	"net/http"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/barnabas-webhooks/barnabas/internal/api"
	"github.com/barnabas-webhooks/barnabas/topics"
)

// idle is a Kafka client that reaches nothing, for an API whose tail does not matter.
func idle(more ...kgo.Opt) (*kgo.Client, error) {
	return kgo.NewClient(append(more, kgo.Dialer(func(context.Context, string, string) (net.Conn, error) {
		return nil, errors.New("nobody is there")
	}))...)
}

// Sends to a partition that is too far behind are refused until it has caught up; others are not, and neither is
// anybody by a reading that is old. No send asks Kafka.
func TestBacklog_RefusesByPartition(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		mine := topics.Partition("e1", partitions)
		require.NotEqual(t, mine, topics.Partition("g2", partitions))
		table := two()
		table.endpoints["g2"] = table.endpoints["g1"]
		log, reg := &fakeLog{}, prometheus.NewRegistry()
		var lag, reads atomic.Int64
		var down atomic.Bool
		var logged bytes.Buffer
		o := fakes(log, table)
		o.MaxLag, o.Metrics, o.Client, o.Logger = 1000, reg, idle, textLogger(&logged)
		o.Lag = func(context.Context) (map[int32]int64, error) {
			reads.Add(1)
			if down.Load() {
				return nil, errors.New("nobody is there")
			}
			return map[int32]int64{mine: lag.Load()}, nil
		}
		a, err := api.New(o)
		require.NoError(t, err)
		send := func(token, id string) answer { return direct(t, a, token, "K", event(id, `1`)) }
		require.Equal(t, http.StatusAccepted, send(acmeProducer, "e1").status, "nothing is known yet")

		ctx, stop := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- a.Run(ctx) }()
		lag.Store(1000)
		time.Sleep(6 * time.Second)
		require.Equal(t, http.StatusAccepted, send(acmeProducer, "e1").status, "at the threshold")
		lag.Store(1001)
		time.Sleep(6 * time.Second)
		before := reads.Load()
		for range 50 {
			got := send(acmeProducer, "e1")
			require.Equal(t, http.StatusServiceUnavailable, got.status)
			require.Equal(t, api.CodeBacklog, got.problem)
			require.Equal(t, "10", got.header.Get("Retry-After"))
		}
		require.Equal(t, before, reads.Load(), "a send asks nobody")
		require.Equal(t, http.StatusAccepted, send(globexOperator, "g2").status, "another partition is well")
		require.InDelta(t, 1, gather(t, reg)["barnabas_api_backlogged_partitions"], 0)
		require.InDelta(t, 50, gather(t, reg)[`barnabas_api_problems_total{reason="backlog"}`], 0)

		// What was known lasts through a few failures, and then refuses nobody any more.
		down.Store(true)
		time.Sleep(15 * time.Second)
		require.Equal(t, http.StatusServiceUnavailable, send(acmeProducer, "e1").status)
		time.Sleep(30 * time.Second)
		require.Equal(t, http.StatusAccepted, send(acmeProducer, "e1").status)
		require.Positive(t, gather(t, reg)["barnabas_api_lag_failures_total"])
		require.Contains(t, logged.String(), "api_lag_read_failed")

		down.Store(false)
		time.Sleep(6 * time.Second)
		require.Equal(t, http.StatusServiceUnavailable, send(acmeProducer, "e1").status)
		lag.Store(3)
		time.Sleep(6 * time.Second)
		require.Equal(t, http.StatusAccepted, send(acmeProducer, "e1").status, "it has caught up")
		require.InDelta(t, 0, gather(t, reg)["barnabas_api_backlogged_partitions"], 0)
		stop()
		require.NoError(t, <-ended)
	})
}
